"""What the admin port tells of a sidecar, and has it do, in front of a gateway in one process."""

import json
import math
import re
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from chunkside.console import SidecarConsole
from chunkside.core.key import Object
from chunkside.metrics import Metrics
from chunkside.routing import OpenRoute
from chunkside.server.admin import BadCursor
from chunkside.server.admin_requests import (
    EntriesRequest,
    PurgeAll,
    PurgePrefix,
    PurgeRoute,
    PurgeTarget,
)
from chunkside.settings import ConfiguredRoute, RouteSettings, Settings, UpstreamAddress
from tests.support.house import LOCATION, House

KEY, HOLE = b"/a/c/0", b"/a/c/1"
ALICE = (b"Authorization", b"Bearer alice")
SEED_FIELDS = {
    "cache_store_type",
    "max_age_seconds",
    "max_size",
    "current_size",
    "cache_set_data",
    "cache_missing",
    "tracked_keys",
    "cached_keys",
    "missing_keys",
}


ORIGIN = UpstreamAddress("http", "origin", 80, "/data")


def console_of(
    house: House, cache_dir: Path | None = None, settings: Settings | None = None
) -> SidecarConsole:
    settings = settings or Settings(upstream=ORIGIN)
    configured = ConfiguredRoute("/", ORIGIN, settings)
    opened = OpenRoute(configured, house.route, house.edges, house.gateway, house.settled)
    return SidecarConsole(settings, cache_dir, [opened], Metrics("1"))


@pytest.fixture
async def house():
    house = House()
    house.route = replace(house.route, prefix=b"/data")
    house.origin.put(b"/data" + KEY, b"body", etag=b'"one"')
    yield house
    await house.settled()


@pytest.fixture
def console(house) -> SidecarConsole:
    return console_of(house)


@pytest.fixture
async def held(house) -> House:
    for target in (KEY, HOLE):
        await house.get(target)
    await house.settled()
    return house


# /info.


async def test_info_has_the_fields_of_cache_info_and_counts_each_key_once(console, held):
    info = console.info()
    assert info.keys() >= SEED_FIELDS
    assert (info["cached_keys"], info["missing_keys"], info["tracked_keys"]) == (1, 1, 2)
    assert info["current_size"] == held.edges.index.total_bytes
    assert info["max_size"] == held.edges.index.limits.budget_bytes
    assert info["cache_set_data"] is False
    assert info["cache_missing"] is True
    assert info["cache_store_type"] == "MemoryBodyStore"


async def test_a_key_that_comes_and_goes_is_never_counted_twice(console, held):
    held.origin.put(b"/data" + HOLE, b"filled")
    held.origin.objects.pop(b"/data" + KEY)
    held.now.advance(301)
    await held.get(HOLE)
    await held.get(KEY)
    await held.settled()
    info = console.info()
    assert (info["cached_keys"], info["missing_keys"], info["tracked_keys"]) == (1, 1, 2)
    await held.put(HOLE, b"written")
    info = console.info()
    assert (info["cached_keys"], info["missing_keys"], info["tracked_keys"]) == (0, 1, 1)


async def test_info_is_json_whatever_is_set(house, tmp_path):
    settings = Settings.model_validate({"upstream": ORIGIN, "upstream_ca_file": "/etc/ca.pem"})
    [route] = json.loads(json.dumps(console_of(house, tmp_path, settings).info()))["routes"]
    # Where such files lie is nobody's business who may look at a page.
    assert route["upstream_ca_file"] == "set"


async def test_info_tells_how_the_sidecar_is_set_up(house, tmp_path):
    console = console_of(house, tmp_path)
    house.now.advance(12.5)
    told: Any = console.info()
    [route] = told.pop("routes")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", told.pop("config_loaded_at"))
    assert {name: value for name, value in told.items() if name not in SEED_FIELDS} == {
        "ttl": 300.0,
        "negative_ttl": 300.0,
        "metadata_ttl": 5.0,
        "upstream": "http://origin/data",
        "cache_dir": str(tmp_path),
        "version": version("chunkside"),
        "config_last_reload_successful": True,
        "uptime_seconds": 12.5,
    }
    assert console_of(house).info()["cache_dir"] is None
    assert route.keys() == {"prefix", "upstream", *RouteSettings.model_fields}
    assert (route["prefix"], route["upstream"]) == ("/", "http://origin/data")
    assert (route["ttl"], route["absent_statuses"], route["negative_scope"]) == (
        300.0,
        [404, 410],
        "get",
    )
    assert (route["client_credentials"], route["upstream_auth"]) == ("partition", "none")


async def test_an_endless_lifetime_is_a_word_in_json(house):
    info: Any = console_of(house, settings=Settings(ttl=math.inf)).info()
    assert (info["max_age_seconds"], info["ttl"]) == ("infinity", "infinity")
    assert info["routes"][0]["ttl"] == "infinity"
    json.dumps(info, allow_nan=False)


# /entries.


async def listed(console, prefix=b"/", limit=100):
    request, found = EntriesRequest(prefix, limit), []
    while True:
        page = await console.entries(request)
        json.dumps(page, allow_nan=False)
        found += page["entries"]
        if page["next"] is None:
            return found
        request = replace(request, after=page["next"])


async def test_entries_are_shown_as_the_data_port_knows_them(console, held):
    held.now.advance(10)
    assert await listed(console, b"/a") == [
        {
            "route": "/",
            "target": "/a/c/0",
            "kind": "body",
            "status": 200,
            "bytes": 4,
            "age": 10.0,
            "ttl": 290.0,
            "must_validate": False,
            "partition": None,
            "variant": None,
        },
        {
            "route": "/",
            "target": "/a/c/1",
            "kind": "marker",
            "status": 404,
            "bytes": 0,
            "age": 10.0,
            "ttl": 290.0,
            "must_validate": False,
            "partition": None,
            "variant": None,
        },
    ]
    assert await listed(console, b"/a/c/0/") == []


async def test_variants_are_listed_one_by_one(console, house):
    bodies = {b"de": b"hallo", b"en": b"hello!"}
    house.origin.put_variants(b"/data" + KEY, b"accept-language", bodies)
    for language in (b"de", b"en"):
        await house.get(KEY, (b"Accept-Language", language))
    await house.settled()
    german, english = await listed(console)
    assert (german["bytes"], english["bytes"]) == (5, 6)
    assert len(german["variant"]) == len(english["variant"]) == 8
    assert german["variant"] != english["variant"]


async def test_a_partition_is_named_and_no_credential_is_shown(console, house):
    await house.get(KEY, ALICE)
    await house.settled()
    (entry,) = await listed(console)
    partition = house.key(KEY, (ALICE,)).namespace.partition.decode()
    assert len(entry["partition"]) == 8
    assert partition.startswith(entry["partition"])
    assert "alice" not in json.dumps(entry)


async def test_what_is_stale_says_so(console, held):
    held.now.advance(310)
    assert [entry["ttl"] for entry in await listed(console)] == [-10.0, -10.0]
    # A wall clock that was set back: nobody knows how old it is.
    held.now.wall -= 1000
    body, marker = await listed(console)
    assert (body["age"], body["ttl"]) == ("infinity", "-infinity")
    assert (marker["age"], marker["ttl"]) == ("infinity", "-infinity")


async def test_pages_follow_one_another(console, house):
    house.remember([b"/%d" % number for number in range(7)])
    first = await console.entries(EntriesRequest(limit=3))
    assert len(first["entries"]) == 3
    assert isinstance(first["next"], str)
    shown = [entry["target"] for entry in await listed(console, limit=3)]
    assert sorted(shown) == [f"/{number}" for number in range(7)]


async def test_what_the_data_port_has_no_target_for_is_not_shown(console, house):
    house.route = replace(house.route, prefix=b"")
    house.remember([b"/d%61ta/a/0", b"/database/0", b"/data/a/1"])
    assert [entry["target"] for entry in await listed(console)] == ["/a/1"]


@pytest.mark.parametrize("cursor", ["", "0", "zz", "00000000-0-1", "../x", "1" * 100])
async def test_a_cursor_that_is_none_is_refused(console, cursor):
    with pytest.raises(BadCursor):
        await console.entries(EntriesRequest(after=cursor))


async def test_a_cursor_of_another_run_is_refused(console, house):
    house.remember([b"/0", b"/1"])
    cursor = (await console.entries(EntriesRequest(limit=1)))["next"]
    assert (await console.entries(EntriesRequest(after=cursor)))["entries"]
    with pytest.raises(BadCursor):
        await console_of(house).entries(EntriesRequest(after=cursor))


# Purges.


@pytest.mark.parametrize(
    ("purge", "report"),
    [
        (PurgeTarget(KEY), {"objects": 1, "bodies": 1, "ranges": 0, "markers": 0}),
        (PurgePrefix(b"/a"), {"objects": 2, "bodies": 1, "ranges": 0, "markers": 1}),
        (PurgePrefix(b"/data"), {"objects": 0, "bodies": 0, "ranges": 0, "markers": 0}),
        (PurgeRoute("/"), {"objects": 2, "bodies": 1, "ranges": 0, "markers": 1}),
        (PurgeAll(), {"objects": 2, "bodies": 1, "ranges": 0, "markers": 1}),
    ],
)
async def test_a_purge_forgets_what_is_named_as_the_data_port_knows_it(
    console, held, purge, report
):
    assert await console.purge(purge) == report
    assert (held.entry(KEY) is None) == (report["bodies"] == 1)


@pytest.mark.parametrize(
    ("purge", "bodies", "markers"),
    [
        (PurgeTarget(KEY, is_soft=True), 1, 0),
        (PurgePrefix(b"/a", is_soft=True), 1, 1),
        (PurgePrefix(b"/data", is_soft=True), 0, 0),
        (PurgeRoute("/", is_soft=True), 1, 1),
        (PurgeAll(is_soft=True), 1, 1),
    ],
)
async def test_a_soft_purge_keeps_bodies_and_stamps_nothing(console, held, purge, bodies, markers):
    before = held.stamps.read(Object(LOCATION, b"/data" + KEY))
    report = await console.purge(purge)
    assert (report["bodies"], report["markers"]) == (bodies, markers)
    assert held.stamps.read(Object(LOCATION, b"/data" + KEY)) == before
    body = (await listed(console))[0]
    assert (body["target"], body["must_validate"]) == ("/a/c/0", bodies == 1)


# Readiness and totals.


async def test_a_console_starts_unready(console):
    assert console.why_not_ready() == "starting"
    console.obstacle = None
    assert console.why_not_ready() is None


async def test_stats_hold_the_totals_and_what_is_held_now(console, held):
    stats = console.stats()
    assert (stats["bodies"], stats["markers"], stats["fills_in_flight"]) == (1, 1, 0)
    assert stats["current_size"] == held.edges.index.total_bytes
    assert stats["hit_rate"] == 0.0
