"""What outlives the process: bodies do, by SIGTERM or SIGKILL; markers don't."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.conftest import StartSidecar
from tests.support.arrays import read_all, sparse_array
from tests.support.deadline import wait_for
from tests.support.http_client import Connection, exchange
from tests.support.origin import Origin
from tests.support.sidecar import Sidecar

by_either_signal = pytest.mark.parametrize("end", ["stop", "kill"], ids=["SIGTERM", "SIGKILL"])


def end_sidecar(sidecar: Sidecar, end: str) -> None:
    code = sidecar.stop() if end == "stop" else sidecar.kill()
    assert code == (0 if end == "stop" else -9)


def stored_files(cache_dir: Path) -> list[Path]:
    return sorted(cache_dir.rglob("v1/*/*/*.arrow"))


def wait_stored(cache_dir: Path, count: int) -> list[Path]:
    """The committed files, once there are so many; an answer may precede its commit."""
    wait_for(lambda: len(stored_files(cache_dir)) >= count, f"{count} committed files")
    return stored_files(cache_dir)


@pytest.fixture
def origin_with_array(own_origin: Origin) -> Origin:
    for path, body in sparse_array().objects.items():
        own_origin.put(path, body)
    return own_origin


@pytest.mark.client("zarr")
@by_either_signal
def test_no_body_of_a_chunk_moves_again_after_a_restart(
    origin_with_array: Origin, start_sidecar: StartSidecar, cache_dir: Path, end: str
) -> None:
    array = sparse_array()
    first = start_sidecar()
    for _ in range(2):
        np.testing.assert_array_equal(read_all(first.url, "obstore"), array.values)
    wait_stored(cache_dir, len(array.present) + 1)
    end_sidecar(first, end)

    origin_with_array.forget_requests()
    second = start_sidecar()
    np.testing.assert_array_equal(read_all(second.url, "obstore"), array.values)
    moved = origin_with_array.bodies_by_path()
    assert {path: moved[path] for path in array.present if moved[path]} == {}


@by_either_signal
def test_a_write_before_the_restart_still_counts_after_it(
    own_origin: Origin, start_sidecar: StartSidecar, cache_dir: Path, end: str
) -> None:
    """The old file comes back as though its unlink had failed; its stamps tell that it is dead."""
    own_origin.put("/a/c/0", b"old")
    first = start_sidecar()
    assert exchange(first.url, "/a/c/0").body == b"old"
    (old_file,) = wait_stored(cache_dir, 1)
    kept = old_file.with_name("kept")
    os.link(old_file, kept)
    assert exchange(first.url, "/a/c/0", "PUT", body=b"new").status == 204
    end_sidecar(first, end)
    kept.replace(old_file)

    assert exchange(start_sidecar().url, "/a/c/0").body == b"new"


def test_a_file_that_could_not_be_unlinked_is_not_served(
    own_origin: Origin, own_sidecar: Sidecar, cache_dir: Path
) -> None:
    own_origin.put("/a/c/0", b"old")
    assert exchange(own_sidecar.url, "/a/c/0").body == b"old"
    (old_file,) = wait_stored(cache_dir, 1)
    kept = old_file.with_name("kept")
    os.link(old_file, kept)
    assert exchange(own_sidecar.url, "/a/c/0", "PUT", body=b"new").status == 204
    kept.replace(old_file)
    assert exchange(own_sidecar.url, "/a/c/0").body == b"new"
    assert exchange(own_sidecar.url, "/a/c/0").body == b"new"


def test_markers_do_not_outlive_the_process(
    own_origin: Origin, start_sidecar: StartSidecar
) -> None:
    first = start_sidecar()
    assert exchange(first.url, "/a/c/0").status == 404
    first.stop()
    own_origin.put("/a/c/0", b"appeared")
    assert exchange(start_sidecar().url, "/a/c/0").body == b"appeared"


def test_a_truncated_file_is_a_miss(
    own_origin: Origin, start_sidecar: StartSidecar, cache_dir: Path
) -> None:
    body = os.urandom(300_000)
    own_origin.put("/a/c/0", body)
    first = start_sidecar()
    assert exchange(first.url, "/a/c/0").body == body
    (file,) = wait_stored(cache_dir, 1)
    first.stop()
    os.truncate(file, 1000)
    second = start_sidecar()
    assert exchange(second.url, "/a/c/0").body == body
    assert exchange(second.url, "/a/c/0").body == body
    assert own_origin.count("GET", "/a/c/0") == 2


def test_sigterm_lets_a_running_answer_end(own_origin: Origin, own_sidecar: Sidecar) -> None:
    own_origin.put("/a/c/0", b"body")
    gate = own_origin.hold("/a/c/0")
    with Connection(own_sidecar.url) as connection:
        connection.send("GET", "/a/c/0")
        gate.wait_held()
        os.kill(own_sidecar.pid, signal.SIGTERM)
        wait_for(lambda: is_refused(own_sidecar.url), "the end of listening")
        gate.release()
        assert connection.response().body == b"body"
    assert own_sidecar.wait() == 0


def is_refused(url: str) -> bool:
    try:
        exchange(url, "/livez")
    except (ConnectionError, EOFError):
        return True
    return False


def test_what_an_older_version_left_is_removed_after_the_start(
    own_origin: Origin, start_sidecar: StartSidecar, cache_dir: Path
) -> None:
    own_origin.put("/a/c/0", b"body")
    first = start_sidecar()
    assert exchange(first.url, "/a/c/0").body == b"body"
    wait_stored(cache_dir, 1)
    first.stop()
    older, newer = cache_dir / "v0/0123456789abcdef/00", cache_dir / "v2/0123456789abcdef/00"
    for shard in (older, newer):
        shard.mkdir(parents=True)
        (shard / "file.arrow").write_bytes(b"of another version")
    second = start_sidecar()
    said = "files of an older version removed from the cache directory: 1"
    wait_for(lambda: said in second.stderr(), "word of the removal")
    assert not (cache_dir / "v0").exists()
    assert (newer / "file.arrow").exists()
    assert exchange(second.url, "/a/c/0").body == b"body"
    assert own_origin.count("GET", "/a/c/0") == 1
    assert second.stop() == 0
