"""Variants by `Vary`, and answers that come encoded: each client gets its own, and no other's."""

import asyncio
import gzip

import pytest

from chunkside.core.cache_status import CacheStatus
from chunkside.core.entry import Absent, Variants, helds
from tests.gateway.test_adoption import Restarts, files
from tests.support.fake_upstream import Answer

KEY = b"/a/c/0"
GERMAN = (b"Accept-Language", b"de")
ENGLISH = (b"Accept-Language", b"en")
SMALL = {b"de": b"hallo", b"en": b"hello"}
LARGE = {b"de": b"hallo" * 100_000, b"en": b"hello" * 100_000}
BODIES = pytest.mark.parametrize("bodies", [SMALL, LARGE], ids=["small", "large"])


def speak(house, bodies=SMALL, target=KEY):
    house.origin.put_variants(target, b"accept-language", bodies)


def held(house, target=KEY):
    return helds(house.entry(target))


async def known(house, *fields, target=KEY):
    """Reads what is then held."""
    await house.get(target, *fields)
    await house.settled()


def forward_of(got) -> object:
    status = got.reply.cache_status
    assert isinstance(status, CacheStatus)
    return status.forward


@BODIES
async def test_each_variant_is_brought_once_and_answers_its_own_readers(house, bodies):
    speak(house, bodies)
    for result in ("miss", "hit"):
        for language in (GERMAN, ENGLISH):
            got = await house.get(KEY, language)
            assert (got.status, got.result, got.body) == (200, result, bodies[language[1]])
            await house.settled()
    assert house.origin.count() == 2
    assert isinstance(house.entry(KEY), Variants)


async def test_a_value_that_nobody_asked_with_is_a_vary_miss(house):
    speak(house)
    await known(house, GERMAN)
    got = await house.get(KEY, ENGLISH)
    assert (got.body, forward_of(got)) == (b"hello", "vary-miss")
    # Without the field, too.
    got = await house.get(KEY)
    assert (got.status, forward_of(got)) == (404, "vary-miss")


async def test_head_and_conditions_are_answered_from_the_variant_that_is_selected(house):
    speak(house)
    await known(house, GERMAN)
    assert (await house.send("HEAD", KEY, GERMAN)).result == "hit"
    assert (await house.send("HEAD", KEY, ENGLISH)).result == "miss"
    etag = (b"If-None-Match", b'"de-5"')
    assert (await house.get(KEY, GERMAN, etag)).status == 304
    assert (await house.get(KEY, ENGLISH, etag)).status == 200


async def test_ranges_of_one_variant_answer_no_other(house):
    speak(house, LARGE)
    part = (b"Range", b"bytes=0-99")
    for result in ("miss", "hit"):
        for language in (GERMAN, ENGLISH):
            got = await house.get(KEY, language, part)
            assert (got.status, got.result) == (206, result)
            assert got.body == LARGE[language[1]][:100]
            await house.settled()
    assert [len(each.bodies) for each in held(house)] == [1, 1]
    assert (await house.get(KEY, ENGLISH)).body == LARGE[b"en"]
    await house.settled()
    assert (await house.get(KEY, GERMAN, part)).result == "hit"


@pytest.mark.parametrize("fall", ["write", "purge", "absence"])
async def test_all_variants_fall_together(house, fall):
    speak(house)
    await known(house, GERMAN)
    await known(house, ENGLISH)
    assert len(held(house)) == 2
    match fall:
        case "write":
            await house.put(KEY, b"new")
        case "purge":
            await house.purging.object(house.key(KEY).object)
        case _:
            assert (await house.get(KEY)).status == 404
    assert held(house) == ()
    await house.settled()
    if fall == "absence":
        assert isinstance(house.entry(KEY), Absent)


async def test_a_stale_variant_is_validated_by_itself(house):
    speak(house)
    await known(house, GERMAN)
    await known(house, ENGLISH)
    house.now.advance(301)
    got = await house.get(KEY, GERMAN)
    assert (got.body, got.result) == (b"hallo", "revalidated")
    assert house.origin.exchanges[-1].fields.get(b"if-none-match") == b'"de-5"'
    assert (await house.get(KEY, GERMAN)).result == "hit"
    assert (await house.get(KEY, ENGLISH)).result == "revalidated"
    assert len(held(house)) == 2


async def test_a_stale_variant_stands_in_for_its_own_readers_alone(house):
    speak(house)
    await known(house, GERMAN)
    house.now.advance(301)
    house.origin.script(KEY, "refused")
    assert (await house.get(KEY, GERMAN)).result == "stale"
    assert (await house.get(KEY, ENGLISH)).status == 503


# Readers that wait for one fill.


@BODIES
@pytest.mark.parametrize("when", ["before", "after"])
async def test_who_waits_for_a_body_gets_it_only_if_it_is_his(house, bodies, when):
    speak(house, bodies)
    gate = house.origin.hold(KEY, at=None if when == "before" else 1)
    first = house.start("GET", KEY, GERMAN)
    await gate.reached()
    others = [house.start("GET", KEY, each) for each in (GERMAN, ENGLISH)]
    if when == "before":
        await house.until_waiting(3)
    else:
        await house.until(lambda: house.origin.count() == 2)
    gate.open()
    got = await asyncio.gather(first, *others)
    assert [each.body for each in got] == [bodies[name] for name in (b"de", b"de", b"en")]
    assert [each.result for each in got[:2]] == ["miss", "collapsed"]
    assert house.origin.count() == 2


async def test_who_waits_for_an_absence_gets_it_only_if_it_is_his(house):
    def answer(request):
        is_german = request.fields.combined(b"accept-language") == b"de"
        fields = ((b"Vary", b"Accept-Language"),)
        return Answer(404 if is_german else 200, fields, b"" if is_german else b"hello")

    house.origin.script(KEY, answer)
    gate = house.origin.hold(KEY)
    first = house.start("GET", KEY, GERMAN)
    await gate.reached()
    others = [house.start("GET", KEY, each) for each in (GERMAN, ENGLISH)]
    await house.until_waiting(3)
    gate.open()
    got = await asyncio.gather(first, *others)
    assert [each.status for each in got] == [404, 404, 200]
    assert not isinstance(house.entry(KEY), Absent)


async def test_who_waits_for_a_validation_gets_its_body_only_if_it_is_his(house):
    speak(house)
    await known(house, GERMAN)
    house.now.advance(301)
    gate = house.origin.hold(KEY)
    first = house.start("GET", KEY, GERMAN)
    await gate.reached()
    other = house.start("GET", KEY, ENGLISH)
    await house.until_waiting(2)
    gate.open()
    assert [(await each).body for each in (first, other)] == [b"hallo", b"hello"]


async def test_variants_that_arrive_at_once_are_all_kept(house):
    speak(house, LARGE)
    gates, readers = [], []
    for language in (GERMAN, ENGLISH):
        gates.append(house.origin.hold(KEY, at=0))
        readers.append(house.start("GET", KEY, language))
        await gates[-1].reached()
    for gate in reversed(gates):
        gate.open()
    assert [(await each).body for each in readers] == [LARGE[b"de"], LARGE[b"en"]]
    await house.settled()
    assert len(held(house)) == 2


async def test_another_variant_of_a_document_is_no_change_of_it(house):
    speak(house, target=b"/a/zarr.json")
    house.origin.put(KEY, b"chunk")
    # At first sight each counts as changed: what made it unknown was not seen.
    for language in (GERMAN, ENGLISH, GERMAN, ENGLISH):
        await known(house, language, target=b"/a/zarr.json")
        house.now.advance(1)
    await known(house, target=KEY)
    for language in (GERMAN, ENGLISH, GERMAN):
        assert (await house.get(b"/a/zarr.json", language)).result == "hit"
    house.now.advance(6)
    for language in (GERMAN, ENGLISH):
        assert (await house.get(b"/a/zarr.json", language)).result == "revalidated"
    assert (await house.get(KEY)).result == "hit"


# Encodings. Fills ask for none; what comes encoded all the same is the origin's choice.

PLAIN = b"0123456789" * 50_000
PACKED = gzip.compress(PLAIN, mtime=0)
ENCODED = ((b"Content-Encoding", b"gzip"),)


@pytest.mark.parametrize("accepts", [b"", b"identity", b"gzip, br", b"gzip;q=0"])
async def test_what_comes_encoded_is_kept_as_it_came(house, accepts):
    house.origin.put(KEY, PACKED, fields=ENCODED)
    asked = [(b"Accept-Encoding", accepts)] if accepts else []
    for result in ("miss", "hit"):
        got = await house.get(KEY, *asked)
        assert (got.result, got.body, got.field(b"content-encoding")) == (result, PACKED, b"gzip")
        await house.settled()
    [exchange] = house.origin.requests()
    assert exchange.fields.get(b"accept-encoding") == b"identity"
    got = await house.get(KEY, (b"Range", b"bytes=10-19"), *asked)
    assert (got.status, got.result, got.body) == (206, "hit", PACKED[10:20])
    assert got.field(b"content-encoding") == b"gzip"


async def test_no_client_is_given_another_client_s_encoding(house):
    """An origin that encodes for those who ask for it."""

    def answer(request):
        if b"gzip" in request.fields.combined(b"accept-encoding"):
            return Answer(200, (*ENCODED, (b"Vary", b"Accept-Encoding")), PACKED)
        return Answer(200, ((b"Vary", b"Accept-Encoding"), (b"ETag", b'"1"')), PLAIN)

    house.origin.script(KEY, answer)
    for accepts in (b"gzip", b"identity", b"gzip"):
        got = await house.get(KEY, (b"Accept-Encoding", accepts))
        assert (got.body, got.field(b"content-encoding")) == (PLAIN, None)
        await house.settled()
    assert house.origin.count() == 1


@pytest.mark.parametrize("first", [PACKED, PLAIN], ids=["packed", "plain"])
async def test_ranges_of_two_encodings_are_never_mixed(house, first):
    """Under one strong tag and of one length, as a careless origin has it."""
    both = {PACKED: ENCODED, PLAIN: ()}
    second = PLAIN if first is PACKED else PACKED
    size = min(len(PLAIN), len(PACKED))
    for body in (first, second):
        house.origin.put(KEY, body[:size], etag=b'"same"', fields=both[body])
        at = 0 if body is first else 100
        got = await house.get(KEY, (b"Range", b"bytes=%d-%d" % (at, at + 9)))
        assert got.body == body[at : at + 10]
        await house.settled()
    [entry] = held(house)
    assert [each.first for each in entry.bodies] == [100]


async def test_a_body_that_breaks_off_is_not_resumed_in_another_encoding(house):
    house.origin.put(KEY, PLAIN, etag=b'"same"')
    house.origin.script(
        KEY,
        Answer(200, ((b"ETag", b'"same"'), *ENCODED), PLAIN, ends_after=400_000),
        times=1,
    )
    assert (await house.get(KEY)).is_torn
    await house.settled()
    assert house.entry(KEY) is None


# After a restart.


@pytest.fixture
async def restarts(tmp_path):
    restarts = Restarts(tmp_path)
    yield restarts
    await restarts.stop()


async def test_variants_are_taken_in_by_the_scan(restarts):
    house = await restarts.start()
    speak(house, LARGE)
    await known(house, GERMAN)
    await house.get(KEY, ENGLISH, (b"Range", b"bytes=5-9"))
    await restarts.stop()
    names = sorted(path.name[64:] for path in files(restarts.root))
    assert sorted(name[:2] for name in names) == [".v", ".v"]
    assert sorted(name[10:] for name in names) == [".arrow", ".r5-9.arrow"]
    house = await restarts.start(look="scan")
    got = await house.get(KEY, GERMAN)
    assert (got.result, got.body) == ("hit", LARGE[b"de"])
    got = await house.get(KEY, ENGLISH, (b"Range", b"bytes=5-9"))
    assert (got.result, got.body) == ("hit", b"hello")
    assert house.origin.count() == 0


async def test_a_variant_s_file_in_another_one_s_place_is_of_no_use(restarts):
    house = await restarts.start()
    speak(house)
    await known(house, GERMAN)
    await known(house, ENGLISH)
    await restarts.stop()
    one, two = files(restarts.root)
    content = two.read_bytes()
    one.write_bytes(content)
    house = await restarts.start(look="scan")
    speak(house)
    assert len(held(house)) == 1
    for language in (GERMAN, ENGLISH):
        assert (await house.get(KEY, language)).body == SMALL[language[1]]
