"""Hits are asked of the origin again, in the background, and what isn't so is forgotten."""

import logging
from dataclasses import replace

import pytest

from chunkside.gateway.audit import MOST_AT_ONCE, MOST_WAITING
from chunkside.gateway.findings import subject_of
from chunkside.gateway.sampling import Sampler
from tests.gateway.conftest import close, disk_house
from tests.support.fake_upstream import Answer
from tests.support.house import FailingStore, House
from tests.support.turns import turns

KEY, HOLE = b"/a/c/0", b"/a/c/1"
ALICE, BOB = (b"Authorization", b"Bearer alice"), (b"Authorization", b"Bearer bob")
STORE = ((b"X-Amz-Request-Id", b"QX7"),)
OLD = b"Fri, 01 Jan 2016 00:00:00 GMT"


@pytest.fixture(params=["memory", "disk"])
async def house(request, tmp_path):
    if request.param == "memory":
        house = House(audit_share=1.0)
        yield house
        await house.settled()
    else:
        house, disk = await disk_house(tmp_path, audit_share=1.0)
        yield house
        await close(house, disk)


async def held(house, *targets, fields=()):
    """Has them held, and forgets what that took."""
    for target in targets:
        await house.get(target, *fields)
    await house.settled()
    house.origin.exchanges.clear()


async def audited(house, target, *fields, method="GET"):
    """A hit, and whatever was found by its audit."""
    got = await house.send(method, target, *fields)
    await house.settled()
    return got


async def test_a_hit_is_asked_of_the_origin_again_and_agrees(house):
    house.origin.put(KEY, b"body" * 100)
    await held(house, KEY)
    got = await audited(house, KEY)
    assert (got.result, got.body) == ("hit", b"body" * 100)
    assert house.record.audits == [("body", "agree")]
    assert house.entry(KEY) is not None
    [asked] = house.origin.exchanges
    assert (asked.method, asked.target) == ("GET", KEY)
    assert b"if-none-match" not in asked.fields
    assert b"range" not in asked.fields


async def test_a_remembered_absence_is_asked_again_and_agrees(house):
    await held(house, HOLE)
    assert (await audited(house, HOLE)).result == "negative_hit"
    assert house.record.audits == [("marker", "agree")]
    assert house.entry(HOLE) is not None


async def test_nothing_is_asked_without_a_share():
    house = House()
    house.origin.put(KEY, b"body")
    await held(house, KEY, HOLE)
    await audited(house, KEY)
    await audited(house, HOLE)
    assert house.origin.exchanges == []
    assert house.gateway.audits.sampler is None


async def test_an_object_that_changed_at_the_origin_is_changed_and_forgotten(house):
    house.origin.put(KEY, b"old")
    await held(house, KEY)
    house.origin.put(KEY, b"new")
    assert (await audited(house, KEY)).body == b"old"
    assert house.record.audits == [("body", "changed")]
    assert house.entry(KEY) is None
    assert house.record.removals["body", "invalidated"] == 1
    assert "audit" in house.record.invalidations
    assert (await audited(house, KEY)).body == b"new"


async def test_what_is_gone_or_has_come_is_changed_and_forgotten(house):
    house.origin.put(KEY, b"old")
    await held(house, KEY, HOLE)
    del house.origin.objects[KEY]
    house.origin.put(HOLE, b"new")
    await audited(house, KEY)
    await audited(house, HOLE)
    assert house.record.audits == [("body", "changed"), ("marker", "changed")]
    assert house.entry(KEY) is None
    assert house.entry(HOLE) is None
    assert (await house.get(HOLE)).body == b"new"


async def test_a_planted_wrong_body_is_wrong_and_the_log_has_the_evidence(house, caplog):
    target = KEY + b"%3Fsig=secret?token=secret"
    path = KEY + b"?sig=secret"
    house.origin.put(path, b"one", etag=b'"v"', fields=STORE)
    await held(house, target)
    house.origin.put(path, b"two", etag=b'"v"', fields=STORE)
    with caplog.at_level(logging.ERROR):
        await audited(house, target)
    assert house.record.audits == [("body", "wrong")]
    assert house.entry(target) is None
    [line] = caplog.records
    assert "other bytes under the same validator" in line.getMessage()
    said = line.__dict__
    assert (said["target"], said["kind"]) == ("/a/c/0%3F***?token=***", "body")
    assert said["held_etag"] == said["origin_etag"] == '"v"'
    assert said["held_xxh3_64"] != said["origin_xxh3_64"]
    assert said["held_date"].endswith("GMT")
    assert said["origin_x_amz_request_id"] == "QX7"
    assert "secret" not in str(said)


async def test_a_planted_wrong_marker_is_wrong(house, caplog):
    await held(house, HOLE)
    house.origin.put(HOLE, b"was there", last_modified=OLD, fields=STORE)
    with caplog.at_level(logging.ERROR):
        await audited(house, HOLE)
    assert house.record.audits == [("marker", "wrong")]
    assert house.entry(HOLE) is None
    [line] = caplog.records
    assert line.__dict__["held_status"] == 404
    assert line.__dict__["origin_last_modified"] == OLD.decode()


async def test_a_date_of_a_plain_server_proves_nothing(house):
    """A copy that keeps its date is put there whenever it is put there."""
    await held(house, HOLE)
    house.origin.put(HOLE, b"copied", last_modified=OLD)
    await audited(house, HOLE)
    assert house.record.audits == [("marker", "changed")]


async def test_lines_of_the_log_are_bounded(house, caplog):
    with caplog.at_level(logging.ERROR):
        for number in range(40):
            target = b"/a/c/%d" % number
            house.origin.put(target, b"one", etag=b'"v"')
            await held(house, target)
            house.origin.put(target, b"two", etag=b'"v"')
            await audited(house, target)
    assert len(caplog.records) == 20
    assert len(house.record.audits) == 40


# Errors.


@pytest.mark.parametrize(
    "fault",
    [
        "refused",
        "silent",
        "garbage",
        "spared",
        Answer(503),
        Answer(429),
        Answer(200, ((b"ETag", b'"v"'),), b"two", ends_after=1),
        Answer(404, (), b"gone", ends_after=1),
    ],
    ids=["refused", "silent", "garbage", "spared", "503", "429", "torn body", "torn absence"],
)
async def test_an_error_is_never_a_verdict(house, fault):
    house.origin.put(KEY, b"one", etag=b'"v"')
    await held(house, KEY, HOLE)
    house.origin.script(KEY, fault)
    house.origin.script(HOLE, fault)
    entries = house.entry(KEY), house.entry(HOLE)
    await audited(house, KEY)
    await audited(house, HOLE)
    # That something is there its head says, even if the rest is lost.
    appeared = [("marker", "changed")] if isinstance(fault, Answer) and fault.status == 200 else []
    assert house.record.audits == appeared
    assert set(house.record.left_out) == {"error"}
    assert house.entry(KEY) == entries[0]
    assert appeared or house.entry(HOLE) == entries[1]


async def test_what_can_not_be_read_here_is_no_verdict():
    house = House(audit_share=1.0)
    house.edges.store = failing = FailingStore(house.store)
    house.origin.put(KEY, b"one")
    await held(house, KEY)
    gate = house.origin.hold(KEY)
    await house.get(KEY)
    await gate.reached()
    failing.fails_to_open = True
    gate.open()
    await house.settled()
    assert (house.record.audits, house.record.left_out) == ([], ["unreadable"])
    assert house.record.faults == [("checksum", "EIO")]


async def test_what_is_too_large_is_left_out(house):
    house.origin.put(KEY, b"x" * 5_000)
    await held(house, KEY)
    house.edges.policy = replace(house.edges.policy, max_body_bytes=4_000)
    await audited(house, KEY)
    assert house.origin.exchanges == []
    house.edges.policy = replace(house.edges.policy, max_body_bytes=6_000)
    house.origin.put(KEY, b"x" * 7_000)
    await audited(house, KEY)
    endless = Answer(200, (), b"y" * 7_000, framing="chunked")
    house.origin.script(KEY, endless)
    await audited(house, KEY)
    assert house.record.left_out == ["too_large"] * 3
    assert house.origin.open_answers == 0


# What comes meanwhile.


async def stopped_audit(house, target):
    """An audit that has been asked and not been answered."""
    gate = house.origin.hold(target)
    await house.get(target)
    await gate.reached()
    return gate


@pytest.mark.parametrize("target", [KEY, HOLE])
async def test_a_write_meanwhile_leaves_nothing_to_judge(house, target):
    house.origin.put(KEY, b"old", etag=b'"v"')
    await held(house, KEY, HOLE)
    house.origin.put(target, b"other", etag=b'"v"', last_modified=OLD, fields=STORE)
    gate = await stopped_audit(house, target)
    await house.put(target, b"new")
    await house.get(target)
    await house.settled_fills()
    gate.open()
    await house.settled()
    assert (house.record.audits, house.record.left_out) == ([], ["overtaken"])
    assert house.entry(target) is not None
    assert (await house.get(target)).body == b"new"


async def test_a_purge_meanwhile_leaves_nothing_to_judge(house):
    house.origin.put(KEY, b"old", etag=b'"v"')
    await held(house, KEY)
    house.origin.put(KEY, b"new", etag=b'"v"')
    gate = await stopped_audit(house, KEY)
    await house.purging.object(house.key(KEY).object)
    gate.open()
    await house.settled()
    assert (house.record.audits, house.record.left_out) == ([], ["overtaken"])


async def test_what_is_brought_anew_meanwhile_is_not_dropped(house):
    house.origin.put(KEY, b"old")
    await held(house, KEY)
    house.origin.put(KEY, b"newer")
    gate = await stopped_audit(house, KEY)
    house.origin.put(KEY, b"newest")
    await house.get(KEY, (b"Chunkside-Control", b"refresh"))
    await house.settled_fills()
    gate.open()
    await house.settled()
    assert (house.record.audits, house.record.left_out) == ([], ["overtaken"])
    got = await house.get(KEY)
    assert (got.result, got.body) == ("hit", b"newest")


async def test_nothing_is_asked_while_a_write_runs(house):
    await held(house, HOLE)
    [entry] = [house.entry(HOLE)]
    subject = subject_of(house.request("GET", HOLE), entry)
    house.edges.stamps.close(house.key(HOLE).object, 30.0)
    finding = await house.gateway.audits.ask(subject)
    assert finding.head is None
    assert house.origin.exchanges == []
    assert house.record.left_out == ["overtaken"]


# Whose.


async def test_an_audit_asks_with_the_credential_of_the_request_and_no_other(house):
    house.origin.put(KEY, b"body")
    await held(house, KEY, fields=[ALICE])
    await held(house, KEY, fields=[BOB])
    await held(house, KEY)
    for fields in ([ALICE], [BOB], []):
        await audited(house, KEY, *fields)
    sent = [each.fields.get(b"authorization") for each in house.origin.exchanges]
    assert sent == [ALICE[1], BOB[1], None]
    assert house.record.audits == [("body", "agree")] * 3


async def test_what_one_is_refused_is_forgotten_for_that_one(house):
    house.origin.put(KEY, b"body")
    await held(house, KEY, fields=[ALICE])
    await held(house, KEY, fields=[BOB])
    house.origin.script(
        KEY, lambda asked: Answer(403) if asked.fields.get(b"authorization") == ALICE[1] else None
    )
    await audited(house, KEY, ALICE)
    assert house.record.audits == [("body", "changed")]
    assert house.entry(KEY, [ALICE]) is None
    assert house.entry(KEY, [BOB]) is not None


async def test_an_absence_of_one_among_shared_bodies_is_audited_as_his():
    house = House(audit_share=1.0, credentials="share")
    await held(house, HOLE, fields=[ALICE])
    assert (await audited(house, HOLE, ALICE)).result == "negative_hit"
    [asked] = house.origin.exchanges
    assert asked.fields.get(b"authorization") == ALICE[1]
    assert house.record.audits == [("marker", "agree")]


async def test_a_variant_is_asked_for_by_the_fields_that_select_it(house):
    house.origin.put_variants(KEY, b"x-mode", {b"a": b"body a", b"b": b"body bb"})
    await held(house, KEY, fields=[(b"X-Mode", b"a")])
    await held(house, KEY, fields=[(b"X-Mode", b"b")])
    await audited(house, KEY, (b"X-Mode", b"b"))
    await audited(house, KEY, (b"X-Mode", b"a"))
    assert [each.fields.get(b"x-mode") for each in house.origin.exchanges] == [b"b", b"a"]
    assert house.record.audits == [("body", "agree")] * 2


# Kinds of hits.


async def test_a_range_is_compared_by_its_bytes_in_the_whole(house):
    house.origin.put(KEY, bytes(range(200)), etag=b'"v"')
    part = (b"Range", b"bytes=50-99")
    await held(house, KEY, fields=[part])
    assert (await audited(house, KEY, part)).status == 206
    assert house.record.audits == [("range", "agree")]
    [asked] = house.origin.exchanges
    assert b"range" not in asked.fields
    # Other bytes elsewhere are no matter of what is held, another length is.
    house.origin.put(KEY, bytes(50) + bytes(range(50, 200)), etag=b'"v"')
    await audited(house, KEY, part)
    assert house.record.audits[1:] == [("range", "agree")]
    house.origin.put(KEY, bytes(range(201)), etag=b'"v"')
    await audited(house, KEY, part)
    assert house.record.audits[2:] == [("range", "wrong")]
    assert house.entry(KEY) is None


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("HEAD", ()),
        ("GET", ((b"If-None-Match", b'"v"'),)),
        ("GET", ((b"Range", b"bytes=1-2"),)),
        ("GET", ((b"Accept-Encoding", b"gzip"),)),
    ],
    ids=["HEAD", "304", "206", "gzip"],
)
async def test_whatever_is_answered_from_a_body_is_audited_as_a_full_get(house, method, fields):
    house.origin.put(KEY, b"body", etag=b'"v"')
    await held(house, KEY)
    await audited(house, KEY, *fields, method=method)
    [asked] = house.origin.exchanges
    assert asked.method == "GET"
    assert asked.fields.names.isdisjoint({b"range", b"if-none-match"})
    assert house.record.audits == [("body", "agree")]


async def test_an_empty_body_is_audited_too(house):
    house.origin.put(KEY, b"", etag=b'"v"')
    await held(house, KEY)
    await audited(house, KEY)
    assert house.record.audits == [("body", "agree")]


async def test_a_document_that_changed_puts_its_array_in_doubt(house):
    house.origin.put(b"/a/zarr.json", b"{}")
    house.origin.put(KEY, b"body")
    await held(house, b"/a/zarr.json", KEY)
    house.origin.put(b"/a/zarr.json", b"{ }")
    await audited(house, b"/a/zarr.json")
    assert house.record.audits == [("body", "changed")]
    assert (await house.get(KEY)).result == "revalidated"


async def test_bytes_that_were_damaged_on_disk_are_wrong(tmp_path):
    house, disk = await disk_house(tmp_path, audit_share=1.0)
    house.origin.put(KEY, b"body" * 200_000, etag=b'"v"')
    await held(house, KEY)
    [path] = tmp_path.rglob("*.arrow")
    with path.open("r+b") as file:
        file.seek(400_000)
        file.write(b"x")
    await audited(house, KEY)
    assert house.record.audits == [("body", "wrong")]
    await close(house, disk)


# Bounds.


async def test_few_run_at_once_few_wait_and_no_client_does(house):
    count = MOST_AT_ONCE + MOST_WAITING + 10
    targets = [b"/a/c/%d" % number for number in range(count)]
    await held(house, *targets)
    gates = [house.origin.hold(target) for target in targets]
    for target in targets:
        assert (await house.get(target)).result == "negative_hit"
        # Whoever has room begins.
        await turns()
    assert house.origin.count() == MOST_AT_ONCE
    assert house.gateway.audits.under_way == MOST_AT_ONCE + MOST_WAITING
    assert house.record.left_out == ["busy"] * 10
    for gate in gates:
        gate.open()
    await house.settled()
    assert house.record.audits == [("marker", "agree")] * (MOST_AT_ONCE + MOST_WAITING)


async def test_what_is_audited_already_is_not_audited_beside(house):
    await held(house, HOLE)
    gate = await stopped_audit(house, HOLE)
    for _ in range(5):
        await house.get(HOLE)
    gate.open()
    await house.settled()
    assert house.record.audits == [("marker", "agree")]


async def test_those_that_run_and_wait_end_when_they_are_stopped(house):
    await held(house, *[b"/a/c/%d" % number for number in range(9)])
    gates = [house.origin.hold(b"/a/c/%d" % number) for number in range(9)]
    for number in range(9):
        await house.get(b"/a/c/%d" % number)
    await turns()
    house.gateway.audits.stop()
    await house.settled()
    assert house.gateway.audits.under_way == 0
    assert house.record.audits == []
    await house.get(b"/a/c/1")
    assert house.gateway.audits.under_way == 0
    assert len(gates) == 9


async def test_an_audit_is_no_use_of_what_it_audits(house):
    await held(house, HOLE, b"/a/c/2")
    gate = await stopped_audit(house, HOLE)
    await house.get(b"/a/c/2")
    before = house.edges.index._held._slots.markers()
    gate.open()
    await house.settled()
    assert house.edges.index._held._slots.markers() == before


async def test_so_many_hits_are_audited_as_the_share_says():
    sampler = Sampler(0.25, chance=lambda: 0.5)
    # 1 + floor(ln(0.5) / ln(0.75)) = 3.
    assert [sampler.is_due() for _ in range(9)] == [False, False, True] * 3


async def test_a_hit_that_is_answered_elsewhere_counts_once():
    sampler = Sampler(0.25, chance=lambda: 0.5)
    assert [sampler.passes() for _ in range(4)] == [True, True, False, False]
    assert sampler.is_due()
    assert sampler.passes()
