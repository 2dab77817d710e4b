"""A short run of `make pod-memory`: how it is done is the same, and so are its bounds."""

import asyncio
from pathlib import Path

from tests.support.pod_memory import MIB, Load, Stage, run


def test_bodies_read_twice_and_long_absent_keys_stay_within_a_small_pods_limit(
    cache_dir: Path,
) -> None:
    stages: list[Stage] = []
    asyncio.run(run(Load(bodies=64 * MIB, keys=2_000, bound=128 * MIB), cache_dir, stages.append))
    assert [stage.name for stage in stages][:2] == ["first reading", "second reading"]
    # So that it isn't some other process's.
    assert all(stage.anonymous > 10 * MIB for stage in stages)
