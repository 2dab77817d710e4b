"""What a scrape reads of the state, and that it walks over nothing that is held."""

import base64
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

from chunkside.cache import Cache
from chunkside.core.index import Index
from chunkside.core.key import Namespace
from chunkside.gauges import Gauges
from chunkside.metrics import Metrics
from chunkside.routing import CurrentRoutes
from chunkside.store.memory import MemoryBodyStore
from chunkside.store.stamps import FileStampTable, MemoryStampTable
from tests.core.index_samples import HERE, PLENTY, STAMPS, key
from tests.core.index_samples import body as body_of
from tests.core.samples import NOW, absent
from tests.test_routing import configured, ground_of

ABSENT = absent(lifetime=300.0)


def hold(index, count, *, partitions=1):
    """So many markers in each of so many partitions, and as many bodies in one."""
    for number in range(count):
        target = b"/a/c/%d" % number
        for partition in range(partitions):
            lease = index.lease(key(target, Namespace(HERE, "", b"%d" % partition)), STAMPS, NOW)
            index.remember(lease, STAMPS, ABSENT, NOW)
            index.end(lease)
        held = body_of(b"/b/c/%d" % number, nonce=number)
        lease = index.lease(held.stored.key, STAMPS, NOW)
        index.store(lease, STAMPS, held, NOW)
        index.end(lease)


@asynccontextmanager
async def gauges_of(*routes):
    ground = replace(ground_of(), index=Index(PLENTY))
    assert isinstance(ground.store, MemoryBodyStore)
    current = CurrentRoutes(configured(*routes), ground)
    try:
        cache = Cache(None, 0, 0, MemoryStampTable(lambda: 0.0), b"", is_degraded=True)
        yield Gauges(ground.index, ground.store, current, cache)
    finally:
        await current.close()


def lines_run(call) -> int:
    """How many lines of Python a call takes."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


async def test_what_is_held_is_told_by_kind_and_partition():
    async with gauges_of({"prefix": "/", "upstream": HERE}) as gauges:
        assert gauges.read().partitions == 0
        hold(gauges.index, 3, partitions=2)
        reading = gauges.read()
    assert reading.index_entries == {"body": 3, "range": 0, "marker": 6}
    # Two of clients' with a credential, and that of those without one.
    assert reading.partitions == 3
    assert (reading.disk_free_bytes, reading.directory_bytes, reading.mapped_bytes) == (
        None,
        None,
        0,
    )
    assert reading.credentials == {}


async def test_memory_in_place_of_a_directory_is_told_and_so_are_stamps_that_it_does_not_take(
    tmp_path,
):
    async with gauges_of({"prefix": "/", "upstream": HERE}) as gauges:
        assert gauges.read().degraded == {"directory": True, "stamps": False}
        table = FileStampTable(str(tmp_path), lambda: 0.0)
        on_disk = replace(gauges, cache=Cache(None, 0, 0, table, b""))
        assert on_disk.read().degraded == {"directory": False, "stamps": False}
        table.release()
        assert on_disk.read().degraded == {"directory": False, "stamps": True}


async def test_a_credential_is_told_of_its_route(tmp_path):
    file = tmp_path / "token"
    claims = base64.urlsafe_b64encode(b'{"exp": 4102444800}').decode().rstrip("=")
    file.write_text(f"e30.{claims}.x")
    own = {"upstream_auth": "bearer", "upstream_auth_file": str(file)}
    a, b = ({"prefix": f"/{name}", "upstream": f"{HERE}/{name}"} for name in "ab")
    async with gauges_of({**a, **own}, b) as gauges:
        [(route, told)] = gauges.read().credentials.items()
        assert (route, told.expires_at) == ("/a", 4102444800)
        assert told.loaded_at > file.stat().st_mtime - 1
        # Settings that leave the way to the origin as it was leave it its credential.
        gauges.routes.change(configured({**a, **own, "ttl": 1}), {})
        assert gauges.read().credentials == {"/a": told}
        gauges.routes.change(configured(a), {})
        assert gauges.read().credentials == {}


async def test_a_scrape_does_no_work_in_proportion_to_what_is_held():
    metrics = Metrics("1")
    async with gauges_of({"prefix": "/", "upstream": HERE}) as gauges:
        metrics.watch(gauges.read)
        hold(gauges.index, 10)
        metrics.exposition("")
        few = lines_run(lambda: metrics.exposition(""))
        hold(gauges.index, 3000, partitions=3)
        many = lines_run(lambda: metrics.exposition(""))
        assert gauges.index.key_count == 12_000
        # Larger numbers are a few lines longer to write.
        assert few <= many < few + 200
