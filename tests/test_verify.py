"""What `/verify` says of a target once the origin was asked: true, changed since, or wrong."""

from dataclasses import replace

import pytest

from chunkside.core.decision import Refuse
from chunkside.core.fields import Fields
from chunkside.routing import OpenRoute
from chunkside.server.why_page import WhyRequest
from chunkside.settings import ConfiguredRoute, Settings
from chunkside.verify import verify
from tests.gateway.conftest import close, disk_house
from tests.support.fake_upstream import Answer
from tests.support.house import House
from tests.test_console import ALICE, HOLE, KEY, ORIGIN

EVIDENCE = ((b"Server", b"S3"), (b"X-Amz-Request-Id", b"QX7"))
OLD = b"Fri, 01 Jan 2016 00:00:00 GMT"
AT = b"/data" + KEY


async def ask(house, target, *fields):
    configured = ConfiguredRoute("/", ORIGIN, Settings(upstream=ORIGIN))
    opened = OpenRoute(configured, house.route, house.edges, house.gateway, house.settled)
    told = await verify(opened, WhyRequest(target, Fields(fields)))
    assert isinstance(told, Refuse) or next(iter(told)) == "verdict"
    return told


@pytest.fixture
async def house():
    house = House()
    house.route = replace(house.route, prefix=b"/data")
    house.origin.put(AT, b"body", etag=b'"one"', fields=EVIDENCE)
    yield house
    await house.settled()


async def learn(house, *targets, fields=()):
    for target in targets:
        await house.get(target, *fields)
    await house.settled()
    house.origin.exchanges.clear()


async def test_a_true_absence_is_true(house):
    await learn(house, HOLE)
    house.now.advance(12)
    told = await ask(house, HOLE)
    assert told["verdict"] == "true"
    assert told["sentence"].startswith("What is remembered from ")
    assert "12 s ago, that it is absent, is so: the origin answers 404." in told["sentence"]
    assert (told["held"]["kind"], told["held"]["status"]) == ("marker", 404)
    assert told["origin"]["status"] == 404
    assert told["is_forgotten"] is False
    assert house.origin.count("GET") == 1
    assert house.entry(HOLE) is not None


async def test_a_true_body_is_true_and_shows_what_was_compared(house):
    await learn(house, KEY)
    told = await ask(house, KEY)
    assert told["verdict"] == "true"
    held, origin = told["held"], told["origin"]
    assert held["xxh3_64"] == origin["xxh3_64"] != None  # noqa: E711
    assert (held["length"], origin["length"], origin["etag"]) == (4, 4, '"one"')
    assert origin["evidence"]["x-amz-request-id"] == "QX7"
    assert origin["evidence"]["date"].endswith("GMT")
    assert told["asked_of_the_origin"] == house.route.location + AT.decode()


async def test_what_changed_is_changed_and_forgotten(house):
    await learn(house, KEY, HOLE)
    house.origin.put(AT, b"new")
    house.origin.put(b"/data" + HOLE, b"new")
    for target in (KEY, HOLE):
        told = await ask(house, target)
        assert told["verdict"] == "changed"
        assert told["sentence"].endswith("It is forgotten.")
        assert told["is_forgotten"] is True
        assert house.entry(target) is None
    assert house.edges.shared.fallen.last_of(house.key(HOLE).object).cause == "an audit"


async def test_what_was_never_so_is_wrong_and_forgotten(house, caplog):
    await learn(house, KEY, HOLE)
    house.origin.put(AT, b"evil", etag=b'"one"')
    house.origin.put(b"/data" + HOLE, b"old", last_modified=OLD, fields=EVIDENCE)
    for target in (KEY, HOLE):
        told = await ask(house, target)
        assert told["verdict"] == "wrong"
        assert "was never so" in told["sentence"]
        assert house.entry(target) is None
    assert len(caplog.records) == 2
    assert house.record.audits == [("body", "wrong"), ("marker", "wrong")]


async def test_of_what_is_not_held_the_origin_s_answer_is_told(house):
    told = await ask(house, KEY)
    assert told["verdict"] == "not_held"
    assert told["sentence"] == "Nothing is held of it. The origin answers 200 now."
    assert told["held"] is None
    assert (told["origin"]["status"], told["origin"]["length"]) == (200, 4)
    assert house.origin.open_answers == 0
    # Nor is it now.
    assert house.entry(KEY) is None


async def test_without_an_answer_nothing_can_be_said(house):
    await learn(house, HOLE)
    house.origin.script(b"/data" + HOLE, "refused")
    house.origin.script(AT, "refused")
    told = await ask(house, HOLE)
    assert told["verdict"] == "unknown"
    assert "can't be said: refused" in told["sentence"]
    assert told["origin"] == {"no_answer": "refused"}
    assert house.entry(HOLE) is not None
    told = await ask(house, KEY)
    assert told["verdict"] == "not_held"
    assert told["sentence"].endswith("the origin gave no answer: refused")


async def test_an_error_is_never_a_verdict(house):
    await learn(house, KEY)
    house.origin.script(AT, Answer(500))
    told = await ask(house, KEY)
    assert told["verdict"] == "unknown"
    assert told["origin"]["status"] == 500
    assert house.entry(KEY) is not None


async def test_while_a_write_runs_nothing_can_be_said(house):
    await learn(house, HOLE)
    gate = house.origin.hold(b"/data" + HOLE, method="PUT")
    writing = house.start("PUT", HOLE)
    await gate.reached()
    told = await ask(house, HOLE)
    assert told["verdict"] in ("not_held", "unknown")
    gate.open()
    await writing


async def test_it_asks_with_the_fields_of_who_asks_and_judges_what_those_learnt(house):
    await learn(house, KEY, fields=[ALICE])
    told = await ask(house, KEY)
    assert told["verdict"] == "not_held"
    told = await ask(house, KEY, ALICE)
    assert told["verdict"] == "true"
    sent = [each.fields.get(b"authorization") for each in house.origin.exchanges]
    assert sent == [None, ALICE[1]]
    assert b"alice" not in str(told).encode()


async def test_what_is_stale_is_held_all_the_same(house):
    await learn(house, KEY, HOLE)
    house.now.advance(1_000)
    assert (await ask(house, KEY))["verdict"] == "true"
    assert (await ask(house, HOLE))["verdict"] == "true"


async def test_a_range_is_named(house):
    await learn(house, KEY, fields=[(b"Range", b"bytes=1-2")])
    told = await ask(house, KEY)
    assert (told["verdict"], told["held"]["kind"]) == ("true", "range")
    assert told["held"]["compared_bytes"] == "1-2"
    assert told["sentence"].startswith("The range held from ")


async def test_a_listing_and_a_signed_request_hold_nothing(house):
    await learn(house, KEY)
    assert (await ask(house, b"/a/"))["verdict"] == "not_held"
    signed = (b"Authorization", b"AWS4-HMAC-SHA256 Credential=x, Signature=y")
    told = await ask(house, KEY, signed, (b"Range", b"bytes=0-0"))
    assert told["verdict"] == "not_held"
    # A signed request goes as it came.
    assert house.origin.exchanges[-1].fields.get(b"range") == b"bytes=0-0"


async def test_another_variant_is_not_held(house):
    house.origin.put_variants(AT, b"x-mode", {b"a": b"body a", b"b": b"body bb"})
    await learn(house, KEY, fields=[(b"X-Mode", b"a")])
    assert (await ask(house, KEY, (b"X-Mode", b"b")))["verdict"] == "not_held"
    assert (await ask(house, KEY, (b"X-Mode", b"a")))["verdict"] == "true"


async def test_what_a_restart_left_on_disk_is_judged(tmp_path):
    house, disk = await disk_house(tmp_path)
    house.origin.put(KEY, b"body", etag=b'"one"')
    await learn(house, KEY)
    await close(house, disk)
    house, disk = await disk_house(tmp_path, is_scanning=True)
    house.origin.put(KEY, b"other", etag=b'"two"')
    assert (await ask(house, KEY))["verdict"] == "changed"
    await close(house, disk)


async def test_a_target_that_can_not_be_asked_for_is_refused(house):
    refused = await ask(house, b"/a/../../../x")
    assert isinstance(refused, Refuse)
    assert house.origin.count() == 0


@pytest.mark.parametrize("target", [b"/a/c/9?x=1&y=%2F", b"/a/100%25?&&", b"/a//b?"])
async def test_any_target_is_asked_for_as_it_was_sent(house, target):
    await learn(house, target)
    told = await ask(house, target)
    assert (told["verdict"], told["target"]) == ("true", target.decode())
    assert house.origin.exchanges[-1].target == b"/data" + target
