"""Asking for many targets: counts, bounds, and when to give up. The server is a plain origin, or a
port where nobody is."""

from itertools import count

import pytest

from chunkside.settings.addresses import TcpAddress
from chunkside.tools.warm_walk import Tally, walk
from tests.support.origin import Origin, Script

STORED = "other; hit, chunkside; fwd=uri-miss; fwd-status=200; stored"


def address_of(origin: Origin) -> TcpAddress:
    return TcpAddress("127.0.0.1", origin.port)


@pytest.mark.parametrize(
    ("status", "cache_status", "counts"),
    [
        (200, STORED, (1, 0, 0, 0, 0)),
        (200, "chunkside; hit; ttl=299", (1, 0, 0, 1, 0)),
        (404, "chunkside; hit; ttl=299; detail=negative", (0, 1, 0, 1, 0)),
        (410, "chunkside; fwd=uri-miss; fwd-status=410; stored", (0, 1, 0, 0, 0)),
        (404, "chunkside; fwd=uri-miss; fwd-status=404", (0, 1, 0, 0, 1)),
        (200, "chunkside; fwd=uri-miss; detail=stored-not", (1, 0, 0, 0, 1)),
        (200, "chunkside-2; hit", (1, 0, 0, 0, 1)),
        (503, "chunkside; fwd=uri-miss", (0, 0, 1, 0, 0)),
        (403, "chunkside; fwd=uri-miss", (0, 0, 1, 0, 0)),
        (206, STORED, (0, 0, 1, 0, 0)),
        (301, "chunkside; fwd=uri-miss", (0, 0, 1, 0, 0)),
    ],
)
def test_an_answer_is_counted_as_what_it_is(status, cache_status, counts):
    tally = Tally()
    tally.answered("/a", status, cache_status, 7)
    told = (tally.present, tally.absent, tally.errors, tally.from_cache, tally.unkept)
    assert told == counts
    assert tally.size == (7 if tally.present else 0)


def test_only_errors_in_a_row_make_it_give_up():
    tally = Tally()
    for _ in range(49):
        tally.failed("/a", "503")
    tally.answered("/b", 404, STORED, 0)
    for _ in range(49):
        tally.failed("/c", "503")
    before = tally.has_given_up
    tally.failed("/c", "503")
    assert (before, tally.has_given_up) == (False, True)
    assert (tally.errors, len(tally.first_errors)) == (99, 10)


async def test_each_target_is_asked_for_once_as_it_is_spelled():
    targets = [f"/a%20b/c//{n}?x=%2F&y" for n in range(40)]
    with Origin() as origin:
        origin.put("/a b/c//7", b"seven")
        tally = Tally()
        shown = []
        await walk(
            address_of(origin),
            iter(targets),
            [("X-Name", "value")],
            8,
            tally,
            lambda: shown.append(1),
        )
        asked = origin.requests()
    assert sorted(each.target.decode() for each in asked) == sorted(targets)
    assert (tally.present, tally.absent, tally.errors, tally.size) == (1, 39, 0, 5)
    assert {(each.value("X-Name"), each.value("Accept-Encoding")) for each in asked} == {
        ("value", None)
    }
    assert len(shown) == 40
    assert len({each.connection for each in asked}) <= 8


async def test_no_more_is_under_way_than_was_allowed_and_the_rest_is_not_even_named():
    named = []

    def targets():
        for number in count():
            named.append(number)
            yield f"/a/{number}"

    with Origin() as origin:
        for number in range(200):
            origin.script(f"/a/{number}", Script(status=503))
        tally = Tally()
        await walk(address_of(origin), targets(), (), 3, tally, lambda: None)
    assert tally.has_given_up
    assert 50 <= len(named) <= 53


async def test_a_torn_body_is_an_error():
    with Origin() as origin:
        origin.put("/a", b"x" * 1000)
        origin.script("/a", Script(end_after_bytes=10))
        tally = Tally()
        await walk(address_of(origin), iter(["/a"]), (), 1, tally, lambda: None)
    assert (tally.present, tally.errors) == (0, 1)


async def test_a_redirect_is_not_followed():
    with Origin() as origin:
        origin.script("/a", Script(status=302, headers=(("Location", "/b"),)))
        tally = Tally()
        await walk(address_of(origin), iter(["/a"]), (), 1, tally, lambda: None)
        assert origin.count(path="/b") == 0
    assert tally.first_errors == ["/a: 302"]


async def test_where_nobody_is_it_gives_up_soon():
    with Origin() as origin:
        gone = address_of(origin)
    tally = Tally()
    await walk(gone, (f"/{n}" for n in count()), (), 4, tally, lambda: None)
    assert tally.has_given_up
