"""Keys that are asked for once must not wash out those that are asked for again."""

from pathlib import Path

import pytest

from tests.e2e.conftest import StartSidecar
from tests.support.http_client import Connection
from tests.support.origin import Origin
from tests.support.soak import Plan, soak

USEFUL = [f"/useful/c/{number}" for number in range(40)]
RANDOM = [f"/random/c/{number}" for number in range(3000)]


def test_useful_markers_outlive_a_flood_of_absent_keys(
    own_origin: Origin, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar("--max-markers", "200")
    with Connection(sidecar.url) as client:

        def ask(targets: list[str]) -> None:
            for target in targets:
                client.send("GET", target)
                assert client.response().status == 404

        ask(USEFUL * 2)
        ask(RANDOM)
        before = own_origin.count()
        ask(USEFUL)
    assert own_origin.count() == before
    assert sidecar.metric('chunkside_index_entries{kind="marker"}') == 200
    made = len(USEFUL) + len(RANDOM)
    evicted = sidecar.metric('chunkside_evictions_total{kind="marker",reason="marker_cap"}')
    assert evicted == made - 200


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_memory_is_bounded_and_hot_markers_live_through_twenty_thousand_keys(
    cache_dir: Path,
) -> None:
    """`make soak` in short: what it checks on the way it raises."""
    plan = Plan(
        keys=20_000,
        hot=200,
        connections=16,
        index_memory=2 << 20,
        max_markers=40_000,
        allowance=80 << 20,
        looks=25,
    )
    report = await soak(plan, cache_dir, lambda _: None)
    assert len(report.readings) == plan.looks
    # Whatever keys are asked for, they make no series.
    assert len({reading.series for reading in report.readings}) == 1
    # The bound was reached before half of the keys had come.
    middle, last = report.readings[plan.looks // 2], report.readings[-1]
    assert middle.index_memory > 0.99 * plan.index_memory
    assert report.flood.hot > plan.hot
    assert report.purged["markers"] > 0.9 * last.markers
