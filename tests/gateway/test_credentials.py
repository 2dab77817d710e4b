"""What clients' credentials are to the cache where they don't part all that is stored."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkside.core.decision import Refuse
from chunkside.core.entry import Absent, Partial, Present
from chunkside.core.fields import Fields
from chunkside.core.freshness import Policy
from chunkside.core.key import Object
from tests.gateway.conftest import close, disk_house
from tests.support.fake_upstream import Answer
from tests.support.house import LOCATION, FailingStore, House, Reading

KEY = b"/a/c/0"
ALICE = (b"Authorization", b"Bearer alice")
BOB = (b"Authorization", b"Bearer bob")
WHO = ((ALICE,), (BOB,), ())
RANGE = (b"Range", b"bytes=2-3")
SIGNED = (
    (b"Authorization", b"AWS4-HMAC-SHA256 Credential=AK/20270115/us-east-1/s3/aws4_request"),
    (b"X-Amz-Date", b"20270115T000000Z"),
    (b"X-Amz-Content-Sha256", b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
)
LARGE = b"0123456789abcdef" * (64 << 10)
DENIED = Answer(403, body=b"not for you")


async def houses(kind, root, mode, **more) -> AsyncIterator[House]:
    if kind == "memory":
        house = House(credentials=mode, **more)
        yield house
        await house.settled()
    else:
        house, disk = await disk_house(root, credentials=mode, **more)
        yield house
        await close(house, disk)


@pytest.fixture(params=["memory", "disk"])
async def sharing(request, tmp_path) -> AsyncIterator[House]:
    async for house in houses(request.param, tmp_path, "share"):
        yield house


@pytest.fixture(params=["memory", "disk"])
async def stripping(request, tmp_path) -> AsyncIterator[House]:
    async for house in houses(request.param, tmp_path, "strip"):
        yield house


def shared(house, target=KEY):
    return house.entry(target)


def marker(house, *who, target=KEY):
    """What is held in the partition of one credential."""
    request = house.route.request("GET", target, Fields(who), has_body=False)
    assert not isinstance(request, Refuse)
    return house.edges.index.look_up(request.absence_key)


async def marked(house, *who):
    """Each of these has seen that the key is absent."""
    for one in who:
        assert (await house.get(KEY, *one)).result == "miss"
        assert isinstance(marker(house, *one), Absent)


def only_for(*names):
    """An origin that shows the object to these credentials alone, and to others an absence."""

    def answer(request):
        return None if request.fields.get(b"authorization") in names else Answer(404)

    return answer


# share: bodies.


async def test_a_body_that_one_brought_answers_all(sharing):
    sharing.origin.put(KEY, b"body")
    assert (await sharing.get(KEY, ALICE)).result == "miss"
    await sharing.settled()
    for who in WHO:
        got = await sharing.get(KEY, *who)
        assert (got.body, got.result) == (b"body", "hit")
    assert (await sharing.send("HEAD", KEY, BOB)).result == "hit"
    assert sharing.origin.count() == 1
    assert sharing.origin.exchanges[0].fields.get(b"authorization") == ALICE[1]


async def test_ranges_are_shared_and_join(sharing):
    sharing.origin.put(KEY, b"0123456789")
    for who, range_ in ((ALICE, b"bytes=0-3"), (BOB, b"bytes=4-7")):
        await sharing.get(KEY, who, (b"Range", range_))
        await sharing.settled()
    held = shared(sharing)
    assert isinstance(held, Partial) and len(held.bodies) == 2
    got = await sharing.get(KEY, (b"Range", b"bytes=5-6"))
    assert (got.status, got.body, got.result) == (206, b"56", "hit")


async def test_a_body_that_is_arriving_is_followed_with_another_credential(sharing):
    sharing.origin.put(KEY, LARGE)
    gate = sharing.origin.hold(KEY, at=len(LARGE) // 2)
    first = Reading(await sharing.ask("GET", KEY, ALICE))
    await gate.reached()
    others = [Reading(await sharing.ask("GET", KEY, *who)) for who in WHO]
    part = sharing.start("GET", KEY, BOB, (b"Range", b"bytes=16-31"))
    assert (await part).body == LARGE[16:32]
    gate.open()
    for reading in (first, *others):
        assert await reading.rest() == LARGE
    assert sharing.origin.count() == 1


async def test_until_a_body_arrives_each_credential_asks_for_itself(sharing):
    sharing.origin.put(KEY, b"body")
    sharing.origin.script(KEY, only_for(ALICE[1]))
    gate = sharing.origin.hold(KEY, times=2)
    alice, again = (sharing.start("GET", KEY, ALICE) for _ in range(2))
    bob = sharing.start("GET", KEY, BOB)
    for _ in range(2):
        await gate.reached()
    await sharing.until_waiting(3)
    gate.open()
    assert [(await each).status for each in (alice, again, bob)] == [200, 200, 404]
    assert sharing.origin.count() == 2


async def test_who_is_left_behind_goes_on_with_his_own_credential(sharing):
    """A body that can't be written any more goes on in memory, and only for those near its end."""
    failing = FailingStore(sharing.store, append_limit=1 << 20)
    sharing.edges.store = failing
    body = LARGE * 8
    sharing.origin.put(KEY, body)
    gate = sharing.origin.hold(KEY, at=512 << 10)
    quick = Reading(await sharing.ask("GET", KEY, ALICE))
    slow = Reading(await sharing.ask("GET", KEY, BOB))
    await gate.reached()
    gate.open()
    assert await quick.rest() == body
    assert await slow.rest() == body
    sent = [each.fields.get(b"authorization") for each in sharing.origin.exchanges]
    assert sent == [ALICE[1], BOB[1]]


async def test_a_stale_body_is_validated_with_the_credential_of_who_asks(sharing):
    sharing.origin.put(KEY, b"body")
    await sharing.get(KEY, ALICE)
    await sharing.settled()
    sharing.now.advance(301)
    assert (await sharing.get(KEY, BOB)).result == "revalidated"
    assert (await sharing.get(KEY, ALICE)).result == "hit"
    sent = [each.fields.get(b"authorization") for each in sharing.origin.exchanges]
    assert sent == [ALICE[1], BOB[1]]


async def test_what_varies_by_the_credential_is_kept_for_each(sharing):
    def own(request):
        told = request.fields.get(b"authorization") or b"nobody"
        return Answer(200, ((b"Vary", b"Authorization"), (b"ETag", b'"%b"' % told)), told)

    sharing.origin.script(KEY, own)
    for _ in range(2):
        for who in WHO:
            got = await sharing.get(KEY, *who)
            await sharing.settled()
            assert got.body == (who[0][1] if who else b"nobody")
    assert sharing.origin.count() == 3


@pytest.mark.parametrize("obeys", [True, False], ids=["obey", "ignore"])
async def test_what_is_private_is_never_shared(tmp_path, obeys):
    async for house in houses("disk", tmp_path, "share", policy=Policy(obeys_origin=obeys)):
        house.origin.put(KEY, b"body", fields=((b"Cache-Control", b"private, max-age=60"),))
        for who in (*WHO, *WHO):
            got = await house.get(KEY, *who)
            assert (got.body, got.result) == (b"body", "miss")
            await house.settled()
        assert house.edges.index.bodies.count == 0


async def test_what_one_is_refused_another_may_have(sharing):
    sharing.origin.put(KEY, b"body")
    sharing.origin.script(
        KEY, lambda request: DENIED if request.fields.get(b"authorization") == BOB[1] else None
    )
    assert (await sharing.get(KEY, BOB)).status == 403
    assert (await sharing.get(KEY, ALICE)).body == b"body"


# share: absences.


async def test_an_absence_answers_only_who_saw_it(sharing):
    for who in WHO:
        assert (await sharing.get(KEY, *who)).result == "miss"
        assert (await sharing.get(KEY, *who)).result == "negative_hit"
    assert sharing.origin.count() == 3
    assert shared(sharing) is None


async def test_a_new_body_drops_the_markers_of_all(sharing):
    await marked(sharing, *WHO)
    await sharing.get(b"/a/c/1", ALICE)
    sharing.now.advance(301)
    sharing.origin.put(KEY, b"body")
    assert (await sharing.get(KEY, ALICE)).body == b"body"
    await sharing.settled()
    for who in WHO:
        assert marker(sharing, *who) is None
        assert (await sharing.get(KEY, *who)).result == "hit"
    assert isinstance(marker(sharing, ALICE, target=b"/a/c/1"), Absent)


async def test_a_new_range_drops_them_too(sharing):
    await marked(sharing, (ALICE,), (BOB,))
    sharing.origin.put(KEY, b"0123456789")
    await sharing.get(KEY, RANGE)
    await sharing.settled()
    assert (await sharing.get(KEY, ALICE, RANGE)).result == "hit"
    assert (await sharing.get(KEY, BOB)).body == b"0123456789"


async def test_a_body_drops_the_markers_of_every_spelling_of_its_object(sharing):
    await sharing.get(b"/a/%63/0", BOB)
    assert isinstance(marker(sharing, BOB, target=b"/a/%63/0"), Absent)
    sharing.origin.put(KEY, b"body")
    await sharing.get(KEY, ALICE)
    assert marker(sharing, BOB, target=b"/a/%63/0") is None


async def test_a_head_that_finds_it_drops_the_markers_of_all(sharing):
    await marked(sharing, *WHO)
    sharing.origin.put(KEY, b"body")
    assert (await sharing.send("HEAD", KEY, (b"X-Api-Key", b"carol"))).status == 200
    assert all(marker(sharing, *who) is None for who in WHO)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_an_absence_that_one_sees_drops_the_body_of_all(sharing, method):
    sharing.origin.put(KEY, b"body")
    await sharing.get(KEY, ALICE)
    await sharing.settled()
    sharing.now.advance(301)
    sharing.origin.script(KEY, only_for(ALICE[1]))
    assert (await sharing.send(method, KEY, BOB)).status == 404
    assert shared(sharing) is None
    assert (await sharing.get(KEY, ALICE)).result == "miss"
    await sharing.settled()
    assert isinstance(shared(sharing), Present)


async def test_a_body_that_is_arriving_is_not_stored_past_an_absence(sharing):
    sharing.origin.put(KEY, LARGE)
    sharing.origin.script(KEY, only_for(ALICE[1]))
    gate = sharing.origin.hold(KEY)
    reading = sharing.start("GET", KEY, ALICE)
    await gate.reached()
    assert (await sharing.get(KEY, BOB)).status == 404
    gate.open()
    assert (await reading).body == LARGE
    await sharing.settled()
    assert shared(sharing) is None
    # Bytes came after the absence: it is none of what is known now.
    assert marker(sharing, BOB) is None


async def test_an_absence_that_is_on_its_way_is_not_remembered_past_a_body(sharing):
    sharing.origin.put(KEY, b"body")
    sharing.origin.script(KEY, only_for(ALICE[1]))
    gate = sharing.origin.hold(KEY, times=1)
    late = sharing.start("GET", KEY, BOB)
    await gate.reached()
    assert (await sharing.get(KEY, ALICE)).status == 200
    gate.open()
    assert (await late).status == 404
    await sharing.settled()
    assert marker(sharing, BOB) is None


async def test_absences_that_several_see_at_once_are_all_remembered(sharing):
    gate = sharing.origin.hold(KEY, times=3)
    readers = [sharing.start("GET", KEY, *who) for who in WHO]
    for _ in readers:
        await gate.reached()
    gate.open()
    assert {got.status for got in await asyncio.gather(*readers)} == {404}
    assert all(isinstance(marker(sharing, *who), Absent) for who in WHO)


async def test_a_write_drops_bodies_and_the_markers_of_all(sharing):
    await marked(sharing, *WHO)
    await sharing.put(KEY, b"new")
    assert all(marker(sharing, *who) is None for who in WHO)
    await sharing.get(KEY, ALICE)
    await sharing.settled()
    await sharing.put(KEY, b"newer")
    for who in WHO:
        assert (await sharing.get(KEY, *who)).body == b"newer"


async def test_a_purge_drops_bodies_and_the_markers_of_all(sharing):
    await marked(sharing, *WHO)
    purged = await sharing.purging.object(Object(LOCATION, KEY))
    assert purged.markers == 3
    sharing.origin.put(KEY, b"body")
    await sharing.get(KEY, ALICE)
    await sharing.settled()
    assert (await sharing.purging.prefix(LOCATION, b"/a")).bodies == 1
    assert shared(sharing) is None


async def test_a_signature_still_proves_nothing(sharing):
    sharing.origin.put(KEY, b"body")
    await sharing.get(KEY, ALICE)
    await sharing.settled()
    assert (await sharing.get(KEY, *SIGNED)).result == "bypass"
    assert sharing.origin.exchanges[-1].fields.get(b"x-amz-date") == SIGNED[1][1]


@pytest.mark.parametrize("scope", ["get", "all"])
async def test_markers_of_the_scope_all_are_made_for_each(tmp_path, scope):
    policy = Policy(negative_scope=scope)
    async for house in houses("memory", tmp_path, "share", policy=policy):
        for who in WHO:
            assert (await house.send("HEAD", KEY, *who)).status == 404
            await house.settled()
            assert isinstance(marker(house, *who), Absent) is (scope == "all")


async def test_what_is_shared_is_found_again_after_a_restart(tmp_path):
    house, disk = await disk_house(tmp_path, credentials="share")
    house.origin.put(KEY, b"body")
    await house.get(KEY, ALICE)
    await house.get(b"/a/c/1", BOB, RANGE)
    await close(house, disk)
    again, disk = await disk_house(tmp_path, clock=house.now, is_scanning=True, credentials="share")
    assert (await again.get(KEY, BOB)).result == "hit"
    assert again.origin.count() == 0
    await close(again, disk)
    # And by nobody whose credentials part what is stored.
    apart, disk = await disk_house(tmp_path, clock=house.now, is_scanning=True)
    for who in WHO:
        assert (await apart.get(KEY, *who)).status == 404
    await close(apart, disk)


async def test_a_file_that_is_found_is_older_than_an_absence_that_one_saw(tmp_path):
    house, disk = await disk_house(tmp_path, credentials="share")
    house.origin.put(KEY, b"0123456789")
    await house.get(KEY, ALICE, RANGE)
    await house.settled()
    # As another process on the directory left it: this one knows nothing of the file.
    again, other = await disk_house(
        tmp_path, clock=house.now, is_scanning=True, credentials="share", table=house.stamps
    )
    assert (await again.get(KEY, BOB)).status == 404
    await again.gateway.adoption.scan()
    assert shared(again) is None
    assert isinstance(marker(again, BOB), Absent)
    await close(again, other)
    await close(house, disk)


# share, against a model.

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["GET", "GET", "GET", "HEAD", "hide", "show", "wait", "write"]),
        st.sampled_from(WHO),
    ),
    max_size=30,
)


class Shared:
    """What should be held of one key: a body for all, and who saw none; until when each is
    fresh.
    """

    def __init__(self):
        self.now = 0
        self.body: int | None = None
        self.absent = {}

    def answer(self, method, who, *, is_visible):
        """What a client should be told, and whether the origin is asked for it."""
        if self.absent.get(who, 0) > self.now and method == "GET":
            return 404, False
        if self.body is not None and self.body > self.now:
            return 200, False
        if is_visible:
            self.absent = {}
            if method == "GET":
                self.body = self.now + 300
            return 200, True
        # A HEAD's absence is no news to who has seen it.
        if method == "GET" or who not in self.absent:
            self.body = None
        if method == "GET":
            self.absent[who] = self.now + 300
        return 404, True


@given(STEPS)
@settings(max_examples=150, deadline=None)
def test_each_is_told_what_all_share_or_the_absence_that_he_saw(steps):
    async def scenario():
        house, model, hidden = House(credentials="share"), Shared(), set()
        house.origin.put(KEY, b"body")

        def visible(request):
            return Answer(404) if request.fields.get(b"authorization") in hidden else None

        for method in ("GET", "HEAD"):
            house.origin.script(KEY, visible, method=method)
        for step, who in steps:
            name = who[0][1] if who else None
            match step:
                case "hide":
                    hidden.add(name)
                case "show":
                    hidden.discard(name)
                case "wait":
                    house.now.advance(151)
                    model.now += 151
                case "write":
                    await house.put(KEY, b"body")
                    model.body, model.absent = None, {}
                case method:
                    before = house.origin.count()
                    got = await house.send(method, KEY, *who)
                    await house.settled()
                    told = got.status, house.origin.count() > before
                    assert told == model.answer(method, name, is_visible=name not in hidden)
            house.edges.index.check_invariants()

    asyncio.run(scenario())


# share in the profile strict: RFC 9111 §3.5.

STRICT = Policy(is_strict=True, ttl=0.0, obeys_clients=True)


@pytest.mark.parametrize(
    ("told", "is_shared"),
    [
        (b"max-age=60", False),
        (b"max-age=60, public", True),
        (b"max-age=60, must-revalidate", True),
        (b"s-maxage=60", True),
        (b"max-age=60, proxy-revalidate", False),
        (b"max-age=60, public, private", False),
    ],
)
async def test_strictly_only_what_the_origin_lets_be_shared_is(tmp_path, told, is_shared):
    async for house in houses("memory", tmp_path, "share", policy=STRICT):
        house.origin.put(KEY, b"body", fields=((b"Cache-Control", told),))
        await house.get(KEY, ALICE)
        await house.settled()
        assert ((await house.get(KEY)).result == "hit") is is_shared
        # What one without a credential brought all may have, but for what is private.
        await house.settled()
        assert ((await house.get(KEY, BOB)).result == "hit") is (b"private" not in told)


# strip.


async def test_what_clients_bring_is_removed_and_all_share_what_is_stored(stripping):
    stripping.origin.put(KEY, b"body")
    for who in (*WHO, ((b"X-Api-Key", b"k"), ALICE)):
        got = await stripping.get(KEY, *who, (b"X-Other", b"kept"))
        await stripping.settled()
        assert got.body == b"body"
    [exchange] = stripping.origin.exchanges
    assert b"authorization" not in exchange.fields
    assert exchange.fields.get(b"x-other") == b"kept"


async def test_absences_are_shared_too(stripping):
    assert (await stripping.get(KEY, ALICE)).result == "miss"
    for who in WHO:
        assert (await stripping.get(KEY, *who)).result == "negative_hit"


async def test_a_signed_header_is_removed_and_the_answer_stored(stripping):
    stripping.origin.put(KEY, b"body")
    assert (await stripping.get(KEY, *SIGNED)).result == "miss"
    await stripping.settled()
    assert (await stripping.get(KEY, *SIGNED)).result == "hit"
    [exchange] = stripping.origin.exchanges
    assert exchange.fields.names.isdisjoint({name.lower() for name, _ in SIGNED})


async def test_a_presigned_target_still_goes_verbatim(stripping):
    target = KEY + b"?X-Amz-Signature=abc&X-Amz-Date=20270115T000000Z"
    stripping.origin.put(KEY, b"body")
    for _ in range(2):
        assert (await stripping.get(target, ALICE)).result == "bypass"
    assert stripping.edges.index.bodies.count == 0
    assert [each.target for each in stripping.origin.exchanges] == [target] * 2
    assert {each.fields.get(b"authorization") for each in stripping.origin.exchanges} == {ALICE[1]}


async def test_writes_lose_their_credentials_too_and_say_how_their_body_is_framed(stripping):
    got = await stripping.send("PUT", KEY, *SIGNED, content=b"new")
    assert got.status < 300
    [exchange] = stripping.origin.exchanges
    assert b"authorization" not in exchange.fields


async def test_what_is_private_is_stored(stripping):
    fields = ((b"Cache-Control", b"private, max-age=60"),)
    stripping.origin.put(KEY, b"body", fields=fields)
    await stripping.get(KEY, ALICE)
    await stripping.settled()
    assert (await stripping.get(KEY)).result == "hit"
