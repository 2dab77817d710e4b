"""The data port before several routes: who gets a request, and what it counts under."""

import asyncio
import contextlib
import json
from dataclasses import replace

import pytest

from chunkside.core.routes import NO_ROUTE
from chunkside.server.peers import Peers
from tests.support.fake_upstream import Answer
from tests.support.house import House
from tests.support.turns import turns
from tests.support.wire import INSTANCE, data_port, get, put

ELSEWHERE = "http://elsewhere:80"


@contextlib.asynccontextmanager
async def street(*, has_rest=False):
    """A port before /a (to /data of one origin), /a/b (to another), and all the rest if wanted."""
    house = House()
    house.route = replace(house.route, name="/a", at=b"/a", prefix=b"/data")
    inner = house.beside("/a/b", location=ELSEWHERE)
    beside = [inner, house.beside("/", prefix=b"/rest")] if has_rest else [inner]
    async with data_port(house, beside=beside) as port, await port.connect() as wire:
        yield house, inner, port, wire


async def test_each_request_goes_to_its_route_and_counts_there():
    async with street() as (house, inner, port, wire):
        house.origin.put(b"/data/c/0", b"outer")
        inner.origin.put(b"/c/0", b"inner")
        assert (await wire.ask(get(b"/a/c/0"))).body == b"outer"
        assert (await wire.ask(get(b"/a/b/c/0?v=1"))).body == b"inner"
        assert (await wire.ask(put(b"/a/b/new", b"x"))).status == 201
        assert (await wire.ask(get(b"/a/absent"))).status == 404
        await port.until_ended(4)
        assert port.routes == ["/a", "/a/b", "/a/b", "/a"]
        assert [each.target for each in house.origin.exchanges] == [b"/data/c/0", b"/data/absent"]
        assert [each.target for each in inner.origin.exchanges] == [b"/c/0?v=1", b"/new"]


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"PUT", b"PURGE", b"OPTIONS", b"TRACE"])
async def test_a_path_of_no_route_is_421_that_names_the_routes(method):
    async with street() as (house, _, port, wire):
        answer = await wire.ask(get(b"/ab/c/0", method=method), method.decode())
        assert (answer.status, answer.value(b"content-type")) == (421, b"application/problem+json")
        assert answer.value(b"cache-status") == b"chunkside; detail=no-route"
        if method != b"HEAD":
            problem = json.loads(answer.body)
            assert problem["type"] == "urn:chunkside:problem:no-route"
            assert problem["detail"].endswith("/a, /a/b.")
        await port.until_ended(1)
        assert port.routes == [NO_ROUTE]
        assert house.origin.count() == 0
        assert (await wire.ask(get(b"/a/x"))).status == 404


@pytest.mark.parametrize(
    "target", [b"/a/../x", b"/a/%2e%2e/x", b"/a/b/../c/0", b"/a/%62/c/0", b"/a//b/c/0", b"/a\\b/c"]
)
async def test_a_spelling_that_leaves_a_route_or_hides_another_is_400(target):
    async with street(has_rest=True) as (house, inner, _, wire):
        house.origin.put(b"/data/b/c/0", b"hidden")
        for request in (get(target), put(target, b"x")):
            answer = await wire.ask(request)
            assert (answer.status, json.loads(answer.body)["status"]) == (400, 400)
        assert house.origin.count() == inner.origin.count() == 0


async def test_a_route_of_all_paths_takes_what_others_leave():
    async with street(has_rest=True) as (house, _, port, wire):
        house.origin.put(b"/rest/x", b"rest")
        assert (await wire.ask(get(b"/x"))).body == b"rest"
        # What can't be read at all counts there too.
        assert (await wire.ask(b"GET /x HTTP/1.1\r\nHost: localhost\r\nA b\r\n\r\n")).status == 400
        await port.until_ended(2)
        assert port.routes == ["/", "/"]


@pytest.mark.parametrize(
    ("request_", "status", "name"),
    [
        (get(b"/a/x").replace(b"localhost", b"evil.example"), 421, "/a"),
        (get(b"/x").replace(b"localhost", b"evil.example"), 421, NO_ROUTE),
        (get(b"/a/x", b"Via: 1.1 " + INSTANCE.encode()), 508, "/a"),
        (put(b"/a/b/x", b"x", b"Sec-Fetch-Site: cross-site"), 403, "/a/b"),
        (get(b"host:443", method=b"CONNECT"), 405, "/a"),
        (get(b"*"), 400, NO_ROUTE),
        (b"GET /a/x HTTP/1.1\r\nHost: localhost\r\nA b\r\n\r\n", 400, NO_ROUTE),
    ],
    ids=["host", "host and no route", "loop", "foreign page", "connect", "asterisk", "malformed"],
)
async def test_what_is_refused_counts_under_the_route_it_names(request_, status, name):
    async with street() as (house, _, port, wire):
        answer = await wire.ask(request_)
        assert answer.status == status
        # Who may not ask at all isn't told what routes there are.
        assert status != 421 or b"/a/b" not in answer.body
        await port.until_ended(1)
        assert port.routes == [name]
        assert house.origin.count() == 0


async def test_cookies_pass_on_the_route_that_forwards_them_alone():
    async with street() as (house, inner, _, _):
        inner.route = replace(inner.route, forwards_cookies=True)
        inner.edges.policy = replace(inner.edges.policy, forwards_cookies=True)
        async with data_port(house, beside=[inner]) as port, await port.connect() as wire:
            cookie = ((b"Set-Cookie", b"a=1"),)
            house.origin.script(b"/data/x", Answer(200, cookie, b"x"))
            inner.origin.script(b"/x", Answer(200, cookie, b"x"))
            asked = [await wire.ask(get(t, b"Cookie: b=2")) for t in (b"/a/x", b"/a/b/x")]
            assert [answer.value(b"set-cookie") for answer in asked] == [None, b"a=1"]
            [at_outer], [at_inner] = house.origin.exchanges, inner.origin.exchanges
            assert at_outer.fields.get(b"cookie") is None
            assert at_inner.fields.get(b"cookie") == b"b=2"


async def test_who_asks_for_what_cannot_be_looked_up_yet_waits_and_nobody_else():
    may_go_on, waited = asyncio.Event(), []

    async def wait():
        waited.append(1)
        await may_go_on.wait()

    async with street() as (house, inner, port, wire):
        house.origin.put(b"/data/c/0", b"outer")
        inner.origin.put(b"/c/0", b"inner")
        seats = [(each.route, each.gateway) for each in (house, inner)]
        port.handler.take(seats, frozenset(), Peers(), {"/a": wait})
        async with await port.connect() as other:
            asking = asyncio.create_task(other.ask(get(b"/a/c/0")))
            assert (await wire.ask(get(b"/a/b/c/0"))).body == b"inner"
            assert (await wire.ask(get(b"/a/../x"))).status == 400
            while not waited:
                await turns()
            assert not asking.done()
            # It is answered by what is there then.
            renamed = replace(house.route, prefix=b"/other")
            house.origin.put(b"/other/c/0", b"other")
            port.handler.take([(renamed, house.gateway), seats[1]], frozenset(), Peers(), {})
            may_go_on.set()
            assert (await asking).body == b"other"
        await port.until_ended(3)


async def test_a_route_that_preserves_hosts_is_asked_by_its_origins_name_and_no_other_is():
    house = House()
    house.route = replace(house.route, name="/a", at=b"/a", location="http://store.example:9000")
    house.route = replace(house.route, prefix=b"/a", preserves_host=True)
    other = house.beside("/b", location=ELSEWHERE)
    other.route = replace(other.route, preserves_host=False)
    async with data_port(house, beside=[other]) as port, await port.connect() as wire:
        for path, host, status in [
            (b"/a/x", b"Store.Example:9000", 404),
            (b"/b/x", b"store.example:9000", 421),
            (b"/a/x", b"bucket.store.example", 421),
        ]:
            message = b"GET %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (path, host)
            assert (await wire.ask(message)).status == status
