"""`cors_origins` on the data port: which pages may read, on every status; none may write."""

import contextlib
from dataclasses import replace

import pytest

from chunkside.core.cors import Pages
from tests.support.fake_upstream import Answer
from tests.support.house import House
from tests.support.wire import data_port, get, put

KEY = b"/a/c/0"
BODY = b"0123456789"
PAGE = b"http://localhost:3000"
LISTED = b"Origin: " + PAGE
OTHER = b"Origin: http://evil.example"


@contextlib.asynccontextmanager
async def port(pages=(PAGE,)):
    house = House()
    house.route = replace(house.route, pages=Pages(frozenset(pages)))
    house.origin.put(KEY, BODY, etag=b'"one"')
    async with data_port(house) as served, await served.connect() as wire:
        yield house, wire


def allowed(answer):
    return answer.value(b"access-control-allow-origin")


async def test_all_pages_share_what_is_stored_and_each_is_told_of_itself_alone():
    async with port() as (house, wire):
        theirs = (b"Access-Control-Allow-Origin", b"http://evil.example")
        house.origin.put(KEY, BODY, fields=(theirs,))
        for line, told in ((LISTED, PAGE), (OTHER, None), (b"X-A: 1", None), (LISTED, PAGE)):
            answer = await wire.ask(get(KEY, line))
            assert (answer.body, allowed(answer)) == (BODY, told)
            assert answer.value(b"vary") == b"Origin"
            await house.settled()
        [exchange] = house.origin.exchanges
        assert b"origin" not in exchange.fields


async def test_a_listed_page_reads_every_status():
    async with port() as (house, wire):
        asks = [
            (get(b"/no", LISTED), 404),
            (get(b"/no", LISTED), 404),
            (get(KEY, LISTED, b"Range: bytes=-4"), 206),
            (get(KEY, LISTED, b"Range: bytes=99-"), 416),
            (get(KEY, LISTED, b'If-None-Match: "one"'), 304),
            (get(b"/../x", LISTED), 400),
            (get(method=b"PURGE", target=KEY), 405),
            (put(KEY, b"x", LISTED), 403),
        ]
        house.origin.script(b"/503", Answer(503, body=b"no"))
        asks += [(get(b"/503", LISTED), 503)]
        for request, status in asks:
            answer = await wire.ask(request)
            assert answer.status == status
            assert allowed(answer) == (PAGE if b"Origin" in request else None)
        assert b"detail=negative" in (await wire.ask(get(b"/no", LISTED))).value(b"cache-status")


@pytest.mark.parametrize(("line", "told"), [(LISTED, PAGE), (OTHER, None)])
async def test_a_preflight_is_answered_here(line, told):
    async with port() as (house, wire):
        more = (b"Access-Control-Request-Method: GET", b"Access-Control-Request-Headers: range")
        answer = await wire.ask(get(KEY, line, *more, method=b"OPTIONS"))
        assert (answer.status, allowed(answer)) == (204, told)
        headers = answer.value(b"access-control-allow-headers")
        assert headers == (b"range" if told else None)
        assert answer.value(b"cache-status") == b"chunkside; detail=preflight"
        assert house.origin.count() == 0


async def test_a_question_that_is_no_preflight_is_the_origins():
    async with port() as (house, wire):
        answer = await wire.ask(get(KEY, LISTED, method=b"OPTIONS"))
        assert allowed(answer) == PAGE
        assert house.origin.count("OPTIONS") == 1


@pytest.mark.parametrize("method", [b"PUT", b"POST", b"DELETE", b"PATCH"])
@pytest.mark.parametrize("pages", [(PAGE,), (b"*",)])
async def test_no_page_writes(method, pages):
    async with port(pages) as (house, wire):
        answer = await wire.ask(get(KEY, LISTED, b"Content-Length: 0", method=method))
        assert answer.status == 403
        assert house.origin.count() == 0


async def test_all_pages_may_be_let_in():
    async with port((b"*",)) as (_, wire):
        answer = await wire.ask(get(KEY, OTHER))
        assert (allowed(answer), answer.value(b"vary")) == (b"*", None)


async def test_left_alone_the_origin_says_who_may_read():
    house = House()
    theirs = (b"Access-Control-Allow-Origin", PAGE)
    house.origin.put(KEY, BODY, fields=(theirs, (b"Vary", b"Origin")))
    async with data_port(house) as served, await served.connect() as wire:
        assert allowed(await wire.ask(get(KEY, LISTED))) == PAGE
        await house.settled()
        assert (await wire.ask(get(KEY, LISTED))).value(b"age") == b"0"
        # What it said to one page isn't told another.
        other = await wire.ask(get(KEY, OTHER))
        assert other.value(b"age") is None
        assert house.origin.exchanges[-1].fields.get(b"origin") == b"http://evil.example"
