"""Cache-Status on every answer, as a structured-fields library reads it (RFC 9211, RFC 9651)."""

import asyncio
import contextlib
from typing import Any

import http_sf
import pytest
from http_sf.types import Token

from chunkside.core.freshness import Policy
from chunkside.server.crowd import Crowd
from chunkside.server.front import Timers
from tests.support.fake_upstream import Answer
from tests.support.house import House
from tests.support.wire import INSTANCE, data_port, get, put

BODY = b"0123456789"
KEY = b"/a/c/0"
FORWARD = {"bypass", "method", "uri-miss", "vary-miss", "miss", "request", "stale", "partial"}
KINDS: dict[str, Any] = {
    "hit": bool,
    "fwd": Token,
    "fwd-status": int,
    "ttl": int,
    "stored": bool,
    "collapsed": bool,
    "key": str,
    "detail": Token | str,
}


def own(answer):
    """Our member's parameters; it is the last, whatever others said before."""
    value = answer.value(b"cache-status")
    assert value is not None, answer.head
    token, parameters = members(value)[-1]
    assert token == Token("chunkside")
    for name, given in parameters.items():
        assert isinstance(given, KINDS[name]), (name, given)
    assert not ("hit" in parameters and "fwd" in parameters), parameters
    assert parameters.get("hit", True) and parameters.get("stored", True)
    assert str(parameters.get("fwd", "miss")) in FORWARD
    assert "fwd" in parameters or not parameters.keys() & {"fwd-status", "stored", "collapsed"}
    return {name: _plain(given) for name, given in parameters.items()}


def members(value) -> list[Any]:
    parsed: Any = http_sf.parse(value, tltype="list")
    return parsed


def _plain(given):
    return str(given) if isinstance(given, Token) else given


@contextlib.asynccontextmanager
async def port_of(house, **more):
    house.origin.put(KEY, BODY, etag=b'"one"')
    async with data_port(house, **more) as port, await port.connect() as wire:
        yield port, wire


STORED = {"fwd": "uri-miss", "fwd-status": 200, "stored": True}
HIT = {"hit": True, "ttl": 300}
UNSTORED = "not-stored-no-store"


async def test_a_miss_a_hit_and_an_absence():
    house = House()
    async with port_of(house) as (_, wire):
        assert own(await wire.ask(get())) == STORED
        await house.settled()
        assert own(await wire.ask(get())) == HIT
        assert own(await wire.ask(get(method=b"HEAD"), "HEAD")) == HIT
        assert own(await wire.ask(get(KEY, b"Range: bytes=0-1"))) == HIT
        assert own(await wire.ask(get(KEY, b'If-None-Match: "one"'))) == HIT
        assert own(await wire.ask(get(KEY, b'If-Match: "x"'))) == HIT
        assert own(await wire.ask(get(KEY, b"Range: bytes=99-"))) == HIT
        assert own(await wire.ask(get(b"/no"))) == {**STORED, "fwd-status": 404}
        assert own(await wire.ask(get(b"/no"))) == {**HIT, "detail": "negative"}
        head = own(await wire.ask(get(b"/no", method=b"HEAD"), "HEAD"))
        assert head == {"fwd": "method", "fwd-status": 404, "detail": "negative"}


async def test_a_stale_body_validated_and_in_place_of_a_failing_origin():
    house = House()
    async with port_of(house) as (_, wire):
        await wire.ask(get())
        await house.settled()
        house.now.advance(301)
        validated = own(await wire.ask(get()))
        assert validated == {"fwd": "stale", "fwd-status": 304, "stored": True}
        house.now.advance(301)
        house.origin.script(KEY, Answer(503))
        instead = {"fwd": "stale", "fwd-status": 503, "ttl": -1, "detail": "stale-if-error"}
        assert own(await wire.ask(get())) == instead
        house.origin.script(KEY, "refused")
        del instead["fwd-status"]
        assert own(await wire.ask(get())) == instead


async def test_a_range_one_that_joins_and_one_apart():
    house = House()
    async with port_of(house) as (_, wire):
        part = own(await wire.ask(get(KEY, b"Range: bytes=0-1")))
        assert part == {"fwd": "uri-miss", "fwd-status": 206, "stored": True}
        await house.settled()
        other = own(await wire.ask(get(KEY, b"Range: bytes=4-5")))
        assert other == {"fwd": "partial", "fwd-status": 206, "stored": True}
        several = own(await wire.ask(get(KEY, b"Range: bytes=0-0,2-2")))
        assert (several["fwd"], several.get("stored")) == ("bypass", None)
        house.origin.script(b"/x", Answer(200, ((b"Cache-Control", b"no-store"),), BODY))
        apart = {"fwd": "uri-miss", "fwd-status": 200}
        assert own(await wire.ask(get(b"/x"))) == {**apart, "detail": UNSTORED}
        assert own(await wire.ask(get(b"/x"))) == apart


async def test_those_who_wait_for_one_fill():
    house = House()
    async with port_of(house) as (port, wire), await port.connect() as other:
        gate = house.origin.hold(KEY)
        await wire.send(get())
        await gate.reached()
        await other.send(get())
        await house.until_waiting(2)
        gate.open()
        assert own(await wire.answer()) == STORED
        assert own(await other.answer()) == {**STORED, "collapsed": True}


async def test_writes_and_what_is_only_passed_on():
    house = House()
    async with port_of(house) as (_, wire):
        assert own(await wire.ask(put(b"/b", b"x"))) == {"fwd": "method", "fwd-status": 201}
        options = own(await wire.ask(get(method=b"OPTIONS")))
        assert options["fwd"] == "method"
        bypass = own(await wire.ask(get(KEY, b"Cache-Control: no-store")))
        assert bypass == {"fwd": "bypass", "fwd-status": 200}
        assert own(await wire.ask(get(b"*", method=b"OPTIONS"))) == {"detail": "own-options"}


async def test_what_others_said_stays_before():
    house = House()
    async with port_of(house) as (_, wire):
        said = (b"Cache-Status", b'Origin; hit; ttl=5, "a CDN"; fwd=miss; detail="x, y"')
        house.origin.put(KEY, BODY, fields=(said,))
        answer = await wire.ask(get())
        assert own(answer) == STORED
        told = members(answer.value(b"cache-status"))
        assert [str(each[0]) for each in told] == ["Origin", "a CDN", "chunkside"]


@pytest.mark.parametrize(
    ("fault", "slug"),
    [
        ("refused", "origin-unreachable"),
        ("silent", "origin-too-slow"),
        ("garbage", "origin-nonsense"),
    ],
)
async def test_an_origin_that_fails(fault, slug):
    house = House()
    async with port_of(house) as (_, wire):
        house.origin.script(KEY, fault)
        assert own(await wire.ask(get())) == {"detail": slug}


REFUSED = {
    "bad-target": get(b"/../x"),
    "bad-host": get().replace(b"localhost", b"a b"),
    "bad-framing": put(KEY, b"").replace(b"HTTP/1.1", b"HTTP/1.0").replace(
        b"Content-Length: 0", b"Transfer-Encoding: chunked"
    ),
    "bad-coding": get(KEY, b"Transfer-Encoding: gzip, chunked"),
    "bad-version": get().replace(b"HTTP/1.1", b"HTTP/2.0"),
    "bad-expectation": get(KEY, b"Expect: x"),
    "bad-field": get(KEY, b"X: \xff"),
    "bad-request": b"\0",
    "long-target": get(b"/" + b"a" * 20_000),
    "large-fields": get(KEY, b"X: " + b"a" * 40_000),
    "misdirected": get().replace(b"localhost", b"evil.example"),
    "foreign-origin": put(KEY, b"x", b"Origin: http://evil.example"),
    "method-refused": get(method=b"TRACE"),
    "purge-elsewhere": get(method=b"PURGE"),
    "loop": get(KEY, b"Via: 1.1 " + INSTANCE.encode()),
}  # fmt: skip


@pytest.mark.parametrize("slug", REFUSED)
async def test_what_the_sidecar_refuses(slug):
    async with port_of(House()) as (_, wire):
        answer = await wire.ask(REFUSED[slug])
        assert own(answer) == {"detail": slug}
        assert answer.value(b"via") == b"1.1 " + INSTANCE.encode()


async def test_a_route_that_is_read_only():
    async with port_of(House(policy=Policy(allow_writes=False))) as (_, wire):
        assert own(await wire.ask(put(KEY, b"x"))) == {"detail": "writes-refused"}


async def test_a_malformed_body_a_late_head_one_too_many_and_a_fault_of_ours():
    house = House()
    async with port_of(house) as (_, wire):
        await wire.send(get(b"/b", b"Transfer-Encoding: chunked", method=b"PUT") + b"1\r\nx\r\n")
        await house.until(lambda: house.record.sent_bytes == 1)
        assert own(await wire.ask(b"zz\r\n")) == {"detail": "broken-body"}
    async with port_of(House(), timers=Timers(head=0.01, idle=60)) as (_, wire):
        assert own(await wire.ask(b"GET / HTT")) == {"detail": "head-timeout"}
    async with port_of(House(), crowd=Crowd(0)) as (_, wire):
        assert own(await wire.answer()) == {"detail": "crowded"}

    def broken(_):
        raise ZeroDivisionError

    house = House()
    async with port_of(house) as (_, wire):
        house.origin.script(KEY, broken, method="HEAD")
        assert own(await wire.ask(get(method=b"HEAD"), "HEAD")) == {"detail": "internal"}


@pytest.mark.parametrize("ttl", [float("inf"), 1e20, 0.5])
async def test_a_lifetime_of_any_size_is_an_integer_or_left_out(ttl):
    house = House(policy=Policy(ttl=ttl))
    async with port_of(house) as (_, wire):
        await wire.ask(get())
        await house.settled()
        told = own(await wire.ask(get()))
        assert told == {"hit": True, **({"ttl": 0} if ttl == 0.5 else {})}
    assert asyncio.all_tasks() == {asyncio.current_task()}
