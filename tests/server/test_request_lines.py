"""Request lines: who gets one, what it says on either lane, and what it never says."""

import logging
import random
from contextlib import asynccontextmanager

import pytest

from chunkside.core.fields import Fields
from chunkside.metrics import Metrics
from chunkside.metrics.families import Series
from chunkside.server.request_lines import RequestLines, Told, request_id, trace_id
from tests.support.fake_upstream import Answer
from tests.support.house import House
from tests.support.wire import data_port, get, put

KEY, HOLE = b"/a/c/0", b"/a/c/1"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01".encode()
IDS = (b"traceparent: " + PARENT, b"tracestate: a=1", b"X-Request-Id: req-1")


def told(caplog):
    """What lines say, but for what differs each time."""
    own = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
    return [
        {name: value for name, value in vars(record).items() if name not in own}
        for record in caplog.records
        if record.name == "chunkside.requests"
    ]


def faults(caplog):
    return [record for record in caplog.records if hasattr(record, "fault")]


@asynccontextmanager
async def street(lines, **options):
    house = House()
    house.origin.put(KEY, b"0123456789", etag=b'"one"')
    async with data_port(house, lines=lines, **options) as port, await port.connect() as wire:
        yield house, port, wire


async def test_a_line_says_what_was_asked_and_what_became_of_it(caplog):
    async with street(RequestLines(1.0)) as (house, port, wire):
        await wire.ask(get(KEY, *IDS))
        await wire.ask(get(KEY + b"?sig=s3cret&prefix=a"))
        await house.settled()
        await port.until_ended(2)
    line, signed = told(caplog)
    assert (signed["target"], signed["result"]) == ("/a/c/0?sig=***&prefix=a", "bypass")
    assert line.pop("seconds") > 0
    assert isinstance(line.pop("upstream_requests"), int)
    assert line == {
        "request_id": "req-1",
        "trace_id": TRACE,
        "method": "GET",
        "target": "/a/c/0",
        "route": "/",
        "class": "chunk",
        "result": "miss",
        "status": 200,
        "bytes": 10,
        "upstream_status": 200,
    }


async def test_both_lanes_tell_the_same(caplog):
    lines = RequestLines(1.0)
    async with street(lines) as (house, port, wire):
        for _ in range(2):
            for target in (KEY, HOLE):
                await wire.ask(get(target))
                await house.settled()
        taken = port.fast_lane.answered
        for target in (KEY, HOLE, KEY, HOLE, KEY):
            await wire.ask(get(target))
        # The last ones are recalled as a whole.
        assert port.fast_lane.answered == taken + 5
        async with await port.connect() as slow:
            for target in (KEY, HOLE):
                # Pipelined heads are none of the lane's.
                await slow.send(get(target) * 2)
                await slow.answer()
                await slow.answer()
        await port.until_ended(13)
        assert port.fast_lane.answered == taken + 5
    shown = [
        {name: value for name, value in line.items() if name not in ("request_id", "seconds")}
        for line in told(caplog)
    ]
    assert len(shown) == len(port.ended) == 13
    quick, slow_lines = shown[4:9], shown[9:]
    common = ("method", "target", "route", "class", "result", "status", "bytes")
    for line in quick:
        twin = next(each for each in slow_lines if each["target"] == line["target"])
        assert {name: line[name] for name in common} == {name: twin[name] for name in common}


async def test_whoever_is_not_asked_for_lines_counts_on_the_counter_itself():
    metrics = Metrics("1")
    kept = []
    for share in (0.0, 1.0):
        house = House()
        house.origin.put(KEY, b"0123456789", etag=b'"one"')
        async with (
            data_port(house, lines=RequestLines(share)) as port,
            await port.connect() as wire,
        ):
            port.fast_lane._observer = metrics
            for _ in range(5):
                await wire.ask(get(KEY))
                await house.settled()
            [known] = port.fast_lane._answers.held.values()
            kept.append(type(known.series))
    assert kept[0] is Series
    assert kept[1] is not Series


async def test_no_share_makes_no_line(caplog):
    async with street(RequestLines()) as (house, port, wire):
        for target in (KEY, HOLE) * 3:
            await wire.ask(get(target))
            await house.settled()
        await port.until_ended(6)
        assert port.fast_lane.answered
    assert not told(caplog)
    assert not faults(caplog)


def test_a_share_is_a_share():
    random.seed(1)
    lines = RequestLines(0.25)
    assert 200 < sum(lines.wants_one() for _ in range(1000)) < 300
    assert all(RequestLines(1.0).wants_one() for _ in range(1000))
    assert not any(RequestLines(0.0).wants_one() for _ in range(1000))


async def test_malformed_requests_and_refusals_get_a_line_too(caplog):
    async with street(RequestLines(1.0)) as (_, port, wire):
        await wire.ask(get(KEY, b"Chunkside-Control: nonsense"))
        async with await port.connect() as rude:
            await rude.ask(b"GET /a b c HTTP/1.1\r\n\r\n")
        async with await port.connect() as rude:
            await rude.ask(b"CONNECT u:s3cret@h:1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await port.until_ended(3)
    lines = told(caplog)
    assert [(line["result"], line["status"], line["detail"]) for line in lines[:2]] == [
        ("error", 400, "bad-control"),
        ("error", 400, "bad-request"),
    ]
    assert len(lines) == 3
    assert "s3cret" not in str(lines)


@pytest.mark.parametrize(
    ("value", "known"),
    [
        (b"req-1", "req-1"),
        (b"a" * 128, "a" * 128),
        (b"a" * 129, None),
        (b"with a space", None),
        (b'a"b', None),
        (b"", None),
    ],
)
def test_a_request_id_is_the_clients_if_it_is_one(value, known):
    fields = Fields([(b"X-Request-Id", value)])
    if known is not None:
        assert request_id(fields) == known
    else:
        assert request_id(fields) != request_id(fields)
        assert len(request_id(fields)) == 16


@pytest.mark.parametrize(
    ("value", "known"),
    [
        (PARENT, TRACE),
        (PARENT.replace(b"00-", b"cc-", 1) + b"-later", TRACE),
        (PARENT.replace(b"00-", b"ff-", 1), None),
        (PARENT.upper(), None),
        (b"00-" + b"0" * 32 + b"-00f067aa0ba902b7-01", None),
        (b"00-" + TRACE.encode() + b"-" + b"0" * 16 + b"-01", None),
        (PARENT[:-3], None),
        (b"", None),
    ],
)
def test_a_trace_is_named_if_its_context_is_valid(value, known):
    assert trace_id(Fields([(b"Traceparent", value)])) == known
    assert trace_id(Fields()) is None


# What goes to the origin.


async def test_ids_go_to_the_origin_as_they_are_and_none_is_made_for_it(caplog):
    async with street(RequestLines(1.0)) as (house, port, wire):
        await wire.ask(get(KEY, *IDS))
        await house.settled()
        await wire.ask(get(HOLE))
        await house.settled()
        await wire.ask(put(KEY, b"new", *IDS))
        await port.until_ended(3)
        asked = house.origin.exchanges
    names = (b"traceparent", b"tracestate", b"x-request-id")
    sent = [[request.fields.combined(name) for name in names] for request in asked]
    assert sent == [[PARENT, b"a=1", b"req-1"], [b""] * 3, [PARENT, b"a=1", b"req-1"]]
    lines = told(caplog)
    assert [line.get("trace_id") for line in lines] == [TRACE, None, TRACE]


async def test_a_representation_that_varies_by_trace_answers_that_trace_alone():
    async with street(None) as (house, _, wire):
        vary = (b"Vary", b"traceparent")
        house.origin.put(KEY, b"traced", etag=b'"one"', fields=(vary,))
        results = []
        other = PARENT.replace(b"4bf", b"4bc")
        for parent in (PARENT, PARENT, other, PARENT, other):
            answer = await wire.ask(get(KEY, b"traceparent: " + parent))
            await house.settled()
            results.append((answer.body, answer.value(b"cache-status").split(b";")[1].strip()))
    assert [body for body, _ in results] == [b"traced"] * 5
    assert [what for _, what in results] == [
        b"fwd=uri-miss",
        b"hit",
        b"fwd=vary-miss",
        b"hit",
        b"hit",
    ]


# Failures.


def failed(route="/", status=503):
    return Told("GET", b"/a?sig=s3cret", Fields(), route, "chunk", "error", status, 0, 0.1)


def test_a_failure_is_told_at_once_and_then_once_a_minute_with_how_many_there_were(caplog):
    now = [100.0]
    lines = RequestLines(clock=lambda: now[0])
    for _ in range(5):
        lines.tell_fault(failed(), "origin-unreachable", "Is it up?")
    lines.tell_fault(failed("/b"), "origin-unreachable", None)
    lines.tell_fault(failed(), "origin-too-slow", None)
    now[0] += 60
    lines.tell_fault(failed(), "origin-unreachable", "Is it up?")
    lines.tell_fault(failed(), "origin-unreachable", "Is it up?")
    shown = [(line.route, line.fault, getattr(line, "unsaid", 0)) for line in faults(caplog)]
    assert shown == [
        ("/", "origin-unreachable", 0),
        ("/b", "origin-unreachable", 0),
        ("/", "origin-too-slow", 0),
        ("/", "origin-unreachable", 4),
    ]
    assert all(line.levelname == "WARNING" for line in faults(caplog))
    says = [getattr(line, "says", None) for line in faults(caplog)]
    assert says == ["Is it up?", None, None, "Is it up?"]
    assert "s3cret" not in str([vars(line) for line in faults(caplog)])


async def test_own_failures_are_told_unasked_and_those_of_the_origin_are_not(
    caplog,
):
    async with street(RequestLines()) as (house, port, wire):
        house.origin.script(KEY, Answer(503, body=b"the origin's own"))
        await wire.ask(get(KEY))
        await wire.ask(get(KEY, b"Chunkside-Control: nonsense"))
        await wire.ask(get(HOLE, b"Cache-Control: only-if-cached"))
        await port.until_ended(3)
        assert not faults(caplog)
        house.origin.script(HOLE, "refused")
        await wire.ask(get(HOLE, *IDS))
        await port.until_ended(4)
        await wire.ask(get(KEY).replace(b"localhost", b"evil.example"))
        await port.until_ended(5)
    line, misled = faults(caplog)
    assert (misled.fault, misled.status) == ("misdirected", 421)
    assert misled.says.startswith("evil.example may be a name that others can point")
    assert (line.fault, line.status, line.target) == ("origin-unreachable", 503, "/a/c/1")
    assert line.says == "refused"
    assert (line.request_id, line.trace_id) == ("req-1", TRACE)
