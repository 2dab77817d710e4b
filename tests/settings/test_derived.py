"""What `auto` comes to."""

import pytest

from chunkside.settings import (
    Percent,
    memory_limit,
    resolve_cache_size,
    resolve_marker_reserve,
    resolve_max_body,
    resolve_memory_size,
    resolve_min_free,
    resolve_negative_scope,
)

MIB = 2**20
GIB = 2**30


@pytest.mark.parametrize(
    ("setting", "volume", "free", "budget"),
    [
        pytest.param("auto", 100 * GIB, 80 * GIB, 10 * GIB, id="a tenth"),
        pytest.param("auto", 2000 * GIB, 1000 * GIB, 50 * GIB, id="at most 50 GiB"),
        pytest.param("auto", 5 * GIB, 4 * GIB, GIB, id="at least 1 GiB"),
        pytest.param("auto", 100 * GIB, 4 * GIB, 2 * GIB, id="half of what is free"),
        pytest.param("auto", 5 * GIB, GIB, GIB // 2, id="half of what is free goes first"),
        pytest.param(3 * GIB, GIB, 0, 3 * GIB, id="a size as it is"),
        pytest.param(Percent(25.0), 100 * GIB, 0, 25 * GIB, id="a share"),
        pytest.param(0, GIB, GIB, 0, id="none"),
    ],
)
def test_the_byte_budget(setting, volume, free, budget):
    assert resolve_cache_size(setting, volume, free) == budget


@pytest.mark.parametrize(
    ("setting", "limit", "size"),
    [("auto", None, 256 * MIB), ("auto", GIB, 256 * MIB), ("auto", 8 * GIB, 2 * GIB), (7, GIB, 7)],
)
def test_the_budget_in_memory(setting, limit, size):
    assert resolve_memory_size(setting, limit) == size


@pytest.mark.parametrize(
    ("setting", "budget", "largest"),
    [("auto", 8 * GIB, GIB), ("auto", 100 * GIB, 2 * GIB), ("auto", 0, 0), (5, 8 * GIB, 5)],
)
def test_the_largest_body(setting, budget, largest):
    assert resolve_max_body(setting, budget) == largest


@pytest.mark.parametrize(
    ("setting", "budget", "reserve"),
    [
        ("auto", 100 * MIB, 5 * MIB),
        ("auto", 50 * GIB, 64 * MIB),
        (0, GIB, 0),
        (2 * GIB, GIB, GIB),
    ],
)
def test_the_markers_reserve(setting, budget, reserve):
    assert resolve_marker_reserve(setting, budget) == reserve


@pytest.mark.parametrize(
    ("setting", "volume", "floor"),
    [
        ("auto", 50 * GIB, 5 * GIB),
        ("auto", 500 * GIB, 10 * GIB),
        (0, GIB, 0),
        (20 * GIB, 50 * GIB, 20 * GIB),
        (Percent(1.0), 100 * GIB, GIB),
    ],
)
def test_the_free_space_floor(setting, volume, floor):
    assert resolve_min_free(setting, volume) == floor


def tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V1_UNLIMITED = "9223372036854771712\n"


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        pytest.param({}, None, id="no cgroups"),
        pytest.param(
            {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1073741824\n"},
            GIB,
            id="v2 in a container",
        ),
        pytest.param(
            {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"},
            None,
            id="v2 without a limit",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "0::/pod/box\n",
                "sys/fs/cgroup/pod/box/memory.max": "max\n",
                "sys/fs/cgroup/pod/memory.max": f"{GIB}\n",
            },
            GIB,
            id="v2, the limit is higher up",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "0::/pod/box\n",
                "sys/fs/cgroup/pod/box/memory.max": f"{2 * GIB}\n",
                "sys/fs/cgroup/pod/memory.max": f"{GIB}\n",
            },
            GIB,
            id="v2, the tightest counts",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/docker/ab\n",
                "sys/fs/cgroup/memory/docker/ab/memory.limit_in_bytes": f"{GIB}\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": V1_UNLIMITED,
            },
            GIB,
            id="v1",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "4:memory:/docker/ab\n0::/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{GIB}\n",
            },
            GIB,
            id="v1 in a container that sees the host's names",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "4:memory:/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": V1_UNLIMITED,
            },
            None,
            id="v1 without a limit",
        ),
        pytest.param(
            {"proc/self/cgroup": "0::/../../x\n", "sys/fs/cgroup/memory.max": "5\n"},
            5,
            id="a group outside the namespace",
        ),
        pytest.param({"proc/self/cgroup": "nonsense\n:\n"}, None, id="nonsense"),
    ],
)
def test_the_memory_limit_is_the_cgroup_s(tmp_path, files, limit):
    assert memory_limit(tree(tmp_path, files)) == limit


def test_the_memory_limit_of_this_machine_is_read_without_a_fault():
    limit = memory_limit()
    assert limit is None or limit > 0


@pytest.mark.parametrize(
    ("setting", "allow_writes", "scope"),
    [
        ("auto", True, "get"),
        ("auto", False, "all"),
        ("get", False, "get"),
        ("all", True, "all"),
    ],
)
def test_only_a_route_that_refuses_writes_answers_heads_from_a_marker_by_itself(
    setting, allow_writes, scope
):
    assert resolve_negative_scope(setting, allow_writes=allow_writes) == scope
