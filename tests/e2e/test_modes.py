"""Nobody but the owner can enter the cache directory or read a file in it, whatever the umask."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import StartSidecar
from tests.support.deadline import wait_for
from tests.support.http_client import Connection, exchange
from tests.support.origin import Origin


@pytest.fixture(params=[0o000, 0o027, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(root: Path) -> dict[str, int]:
    return {
        str(path.relative_to(root)): stat.S_IMODE(path.lstat().st_mode)
        for path in [root, *root.rglob("*")]
    }


def expected(root: Path) -> dict[str, int]:
    return {name: 0o700 if (root / name).is_dir() else 0o600 for name in modes(root)}


def test_everything_is_owner_only_from_the_first_byte(
    umask: int, own_origin: Origin, start_sidecar: StartSidecar, cache_dir: Path
) -> None:
    sidecar = start_sidecar()
    own_origin.put("/a/c/0", os.urandom(2_000_000))
    gate = own_origin.hold("/a/c/0", 1_000_000)
    with Connection(sidecar.url) as connection:
        connection.send("GET", "/a/c/0")
        gate.wait_held()
        wait_for(lambda: list(cache_dir.rglob("*.tmp")), "the temp file")
        assert modes(cache_dir) == expected(cache_dir)
        gate.release()
        connection.response()
    exchange(sidecar.url, "/a/shard", headers=[("Range", "bytes=0-9")])
    sidecar.wait_idle()
    assert {"secret", "stamps", ".lock", ".chunkside"} <= modes(cache_dir).keys()
    assert modes(cache_dir) == expected(cache_dir)


def test_in_a_wide_root_a_private_child_is_used_and_the_log_says_so(
    own_origin: Origin, start_sidecar: StartSidecar, cache_dir: Path
) -> None:
    cache_dir.mkdir()
    cache_dir.chmod(0o777)
    (cache_dir / "others").write_text("not ours")
    own_origin.put("/a/c/0", b"body")
    sidecar = start_sidecar()
    exchange(sidecar.url, "/a/c/0")
    sidecar.wait_idle()
    child = cache_dir / f"chunkside-{os.geteuid()}"
    assert modes(child) == expected(child)
    assert len(list(child.rglob("*.arrow"))) == 1
    assert stat.S_IMODE(cache_dir.stat().st_mode) == 0o777
    sidecar.stop()
    assert f"others may enter {cache_dir}: using {child}" in sidecar.stderr()
