"""The admin port before several routes: one index, and each route's own view of it."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from chunkside.console import SidecarConsole
from chunkside.core.entry import Absent, Present
from chunkside.core.freshness import Policy
from chunkside.metrics import Metrics
from chunkside.routing import OpenRoute
from chunkside.server.admin import NoSuchRoute
from chunkside.server.admin_requests import (
    EntriesRequest,
    PurgeAll,
    PurgePrefix,
    PurgeRoute,
    PurgeTarget,
)
from chunkside.settings import ConfiguredRoute, RouteSettings, Settings, UpstreamAddress
from tests.support.house import House

KEY, HOLE = b"/c/0", b"/c/1"
ELSEWHERE = "http://elsewhere:80"


@dataclass
class Street:
    """Routes of one process: `near` and `next_door` lead to one origin, `inner` lies in `near` on
    the data port and leads elsewhere, as does `far`.
    """

    near: House
    next_door: House
    inner: House
    far: House

    @property
    def all(self):
        return [self.near, self.next_door, self.inner, self.far]

    async def fill(self):
        """A body and a marker on each route."""
        for house in self.all:
            house.origin.put(house.route.prefix + KEY, b"body", etag=b'"one"')
            for target in (KEY, HOLE):
                await house.get(house.route.at + target)
        await self.near.settled()

    def held(self):
        """By route's name: how many of its two entries are held and may be used as they are."""
        return {
            house.route.name: sum(
                entry is not None and not getattr(entry, "must_validate", False)
                for entry in (house.entry(house.route.at + target) for target in (KEY, HOLE))
            )
            for house in self.all
        }


@pytest.fixture
async def street():
    near = House()
    near.route = replace(near.route, name="/near", at=b"/near", prefix=b"/data/near")
    street = Street(
        near,
        near.beside("/next", prefix=b"/data/next"),
        near.beside("/near/inner", prefix=b"/data", location=ELSEWHERE),
        near.beside("/far", location="http://far:80"),
    )
    yield street
    await near.settled()


def console_of(*houses: House) -> SidecarConsole:
    settings = Settings()
    opened = []
    for house in houses:
        scheme, _, rest = house.route.location.partition("://")
        host, port = rest.split(":")
        upstream = UpstreamAddress(scheme, host, int(port), house.route.prefix.decode())
        configured = ConfiguredRoute(house.route.name, upstream, settings)
        opened.append(OpenRoute(configured, house.route, house.edges, house.gateway, house.settled))
    return SidecarConsole(settings, None, opened, Metrics("1", [h.route.name for h in houses]))


@pytest.fixture
async def console(street) -> SidecarConsole:
    await street.fill()
    return console_of(*street.all)


# Purges.

ALL = {"/near", "/next", "/near/inner", "/far"}


@pytest.mark.parametrize("is_soft", [False, True], ids=["hard", "soft"])
@pytest.mark.parametrize(
    ("purge", "fallen"),
    [
        pytest.param(PurgeRoute("/near"), {"/near"}, id="a-route-that-shares-its-origin"),
        pytest.param(PurgeRoute("/next/"), {"/next"}, id="a-slash-at-the-end"),
        pytest.param(PurgeRoute("/far"), {"/far"}, id="a-route-of-a-whole-origin"),
        pytest.param(PurgeRoute("/near/inner"), {"/near/inner"}, id="an-inner-route"),
        pytest.param(PurgePrefix(b"/near"), {"/near", "/near/inner"}, id="a-path-of-two-routes"),
        pytest.param(PurgePrefix(b"/near/"), {"/near", "/near/inner"}, id="with-a-slash"),
        pytest.param(PurgePrefix(b"/near/c"), {"/near"}, id="a-part-of-one"),
        pytest.param(PurgePrefix(b"/near/inner/c"), {"/near/inner"}, id="a-part-of-the-longest"),
        pytest.param(PurgePrefix(b"/near/x"), set(), id="what-holds-nothing"),
        pytest.param(PurgePrefix(b"/"), ALL, id="the-path-of-all"),
        pytest.param(PurgeAll(), ALL, id="all"),
    ],
)
async def test_a_purge_reaches_what_it_names_and_nothing_beside(
    console, street, purge, fallen, is_soft
):
    before = dict.fromkeys(ALL, 2)
    assert street.held() == before
    report = await console.purge(replace(purge, is_soft=is_soft))
    assert street.held() == before | dict.fromkeys(fallen, 0)
    assert (report["bodies"], report["markers"]) == (len(fallen), len(fallen))


@pytest.mark.parametrize("is_soft", [False, True], ids=["hard", "soft"])
async def test_a_purge_of_a_target_goes_to_its_route(console, street, is_soft):
    await console.purge(PurgeTarget(b"/near/inner/c/0", is_soft))
    assert street.held() == {"/near": 2, "/next": 2, "/near/inner": 1, "/far": 2}


async def test_a_route_that_is_all_of_its_location_falls_by_the_stamp_of_that(console, street):
    before = {house.route.name: stamps_of(house) for house in street.all}
    await console.purge(PurgeRoute("/far"))
    await console.purge(PurgeRoute("/next"))
    after = {house.route.name: stamps_of(house) for house in street.all}
    # Other processes' markers of /far fall with it; /near shares its location with /next.
    assert {name for name in after if after[name].location != before[name].location} == {"/far"}
    assert {name for name in after if after[name].object != before[name].object} == {"/next"}


def stamps_of(house):
    return house.stamps.read(house.key(house.route.at + KEY).object)


async def test_two_routes_to_the_same_place_are_purged_and_told_of_once(street):
    twin = street.near.beside("/twin", prefix=b"/data/near")
    await street.fill()
    console = console_of(street.near, twin)
    report = await console.purge(PurgePrefix(b"/"))
    assert report == {"objects": 2, "bodies": 1, "ranges": 0, "markers": 1}
    assert twin.entry(b"/twin" + KEY) is None


@pytest.mark.parametrize(
    "purge",
    [
        PurgeRoute("/nowhere"),
        PurgeRoute("/"),
        PurgeRoute("/near/c"),
        PurgePrefix(b"/nowhere"),
        PurgePrefix(b"/nea"),
        PurgePrefix(b"/%6eear"),
        PurgeTarget(b"/nowhere/c/0"),
        PurgeTarget(b"/"),
    ],
)
@pytest.mark.parametrize("is_soft", [False, True], ids=["hard", "soft"])
async def test_what_no_route_takes_is_told_what_routes_there_are(console, street, purge, is_soft):
    with pytest.raises(NoSuchRoute, match="/near, /next, /near/inner, /far"):
        await console.purge(replace(purge, is_soft=is_soft))
    assert set(street.held().values()) == {2}


# What is held.


async def pages(console, prefix=b"/", limit=100):
    request, found = EntriesRequest(prefix, limit), []
    while True:
        page = await console.entries(request)
        assert len(page["entries"]) <= limit
        found += [(entry["route"], entry["target"]) for entry in page["entries"]]
        if page["next"] is None:
            return found
        request = replace(request, after=page["next"])


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_entries_are_paged_across_routes_and_each_is_there_once(console, street, limit):
    expected = [
        (house.route.name, f"{house.route.name}/c/{number}")
        for house in street.all
        for number in range(2)
    ]
    assert sorted(await pages(console, limit=limit)) == sorted(expected)


@pytest.mark.parametrize(
    ("prefix", "routes"),
    [
        (b"/near", {"/near", "/near/inner"}),
        (b"/near/", {"/near", "/near/inner"}),
        (b"/near/inner", {"/near/inner"}),
        (b"/next/c", {"/next"}),
        (b"/far/nothing", set()),
    ],
)
async def test_entries_beneath_a_path_are_those_of_its_routes(console, prefix, routes):
    assert {route for route, _ in await pages(console, prefix)} == routes


async def test_entries_of_no_route_are_refused(console):
    with pytest.raises(NoSuchRoute, match="/near, /next"):
        await console.entries(EntriesRequest(b"/nowhere"))


async def test_what_two_routes_lead_to_is_told_by_each_under_its_own_target(street):
    twin = street.near.beside("/twin", prefix=b"/data")
    await street.fill()
    found = await pages(console_of(street.near, twin), limit=1)
    assert sorted(found) == [
        ("/near", "/near/c/0"),
        ("/near", "/near/c/1"),
        ("/twin", "/twin/near/c/0"),
        ("/twin", "/twin/near/c/1"),
        # Of a route that is none of this console's, but of the same origin.
        ("/twin", "/twin/next/c/0"),
        ("/twin", "/twin/next/c/1"),
    ]


async def test_a_target_that_another_route_takes_is_not_told(street):
    outer = street.near.beside("/near", prefix=b"/data")
    outer.origin.put(b"/data/inner/c/0", b"body")
    # As if it was stored before there was a route for it.
    await outer.get(b"/near/inner/c/0")
    await outer.settled()
    assert isinstance(outer.entry(b"/near/inner/c/0"), Present)
    assert await pages(console_of(outer, street.inner)) == []


async def test_a_marker_is_told_as_each_route_takes_it(street):
    short = street.near.beside("/short", prefix=b"/data/near", policy=Policy(negative_ttl=10.0))
    none = street.near.beside("/none", prefix=b"/data/near", policy=Policy(cache_missing=False))
    await street.near.get(b"/near" + HOLE)
    assert isinstance(street.near.entry(b"/near" + HOLE), Absent)
    page: Any = await console_of(street.near, short, none).entries(EntriesRequest())
    assert {entry["route"]: entry["ttl"] for entry in page["entries"]} == {
        "/near": 300.0,
        "/short": 10.0,
    }


# Totals.


async def test_info_shows_every_route_with_its_settings(console):
    info: Any = console.info()
    assert info["upstream"] is None
    assert info["cached_keys"] == info["missing_keys"] == 4
    assert [(route["prefix"], route["upstream"]) for route in info["routes"]] == [
        ("/near", "http://origin/data/near"),
        ("/next", "http://origin/data/next"),
        ("/near/inner", "http://elsewhere/data"),
        ("/far", "http://far"),
    ]
    assert all(
        route.keys() == {"prefix", "upstream", *RouteSettings.model_fields}
        for route in info["routes"]
    )


async def test_stats_sum_over_routes(street):
    await street.fill()
    console = console_of(*street.all)
    for house in street.all:
        console.metrics.request_ended(house.route.name, "chunk", "GET", "hit", 200, 4, 0.1)
    gates = [house.origin.hold(house.route.prefix + b"/slow") for house in street.all]
    waiting = [house.start("GET", house.route.at + b"/slow") for house in street.all]
    for gate in gates:
        await gate.reached()
    stats = console.stats()
    assert (stats["hits"], stats["bodies"], stats["markers"]) == (4, 4, 4)
    assert stats["fills_in_flight"] == 4
    for gate, reading in zip(gates, waiting, strict=True):
        gate.open()
        await reading
