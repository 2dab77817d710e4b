"""What SIGTERM does: readiness goes, what runs ends, and a further signal ends the waiting."""

import os
from pathlib import Path

from tests.e2e.conftest import StartSidecar
from tests.e2e.test_restart import is_refused, stored_files
from tests.support.deadline import wait_for
from tests.support.http_client import Connection, exchange
from tests.support.origin import Origin
from tests.support.sidecar import Sidecar, run_command


def wait_not_ready(sidecar: Sidecar) -> None:
    wait_for(lambda: exchange(sidecar.admin_url, "/readyz").status == 503, "readiness to go")


def left_behind(cache_dir: Path) -> list[Path]:
    return sorted(cache_dir.rglob("v1/*/*/.*"))


def test_while_it_drains_it_serves_whoever_comes_and_says_that_it_is_not_ready(
    own_origin: Origin, start_sidecar: StartSidecar
) -> None:
    own_origin.put("/a/c/0", b"body")
    sidecar = start_sidecar("--drain-time", "1h")
    with Connection(sidecar.url) as kept:
        kept.send("GET", "/a/c/0")
        assert kept.response().body == b"body"
        sidecar.terminate()
        wait_not_ready(sidecar)
        assert exchange(sidecar.admin_url, "/readyz").body == b"stopping\n"
        assert exchange(sidecar.admin_url, "/livez").status == 200
        assert exchange(sidecar.url, "/a/c/0").body == b"body"
        assert exchange(sidecar.url, "/a/c/1").status == 404
        kept.send("GET", "/a/c/0")
        assert kept.response().body == b"body"
        assert sidecar.metric("chunkside_requests_total") == 4
    sidecar.terminate()
    assert sidecar.wait() == 0


def test_a_drain_ends_in_its_time(start_sidecar: StartSidecar) -> None:
    sidecar = start_sidecar("--drain-time", "200ms")
    assert sidecar.stop() == 0
    assert "requests are taken for 0.2 s more" in sidecar.stderr()


def test_a_further_sigterm_cuts_what_runs_and_leaves_no_part_of_a_file(
    own_origin: Origin, start_sidecar: StartSidecar, cache_dir: Path
) -> None:
    own_origin.put("/a/c/0", os.urandom(1 << 20))
    sidecar = start_sidecar("--shutdown-timeout", "1h")
    gate = own_origin.hold("/a/c/0", 1 << 19)
    with Connection(sidecar.url) as connection:
        connection.send("GET", "/a/c/0")
        gate.wait_held()
        wait_for(lambda: left_behind(cache_dir), "the file of the fill")
        sidecar.terminate()
        wait_for(lambda: is_refused(sidecar.url), "the end of listening")
        assert exchange(sidecar.admin_url, "/readyz").status == 503
        sidecar.terminate()
        assert sidecar.wait() == 0
        gate.release()
        assert not connection.response().is_complete
    assert "are cut off" in sidecar.stderr()
    assert stored_files(cache_dir) == left_behind(cache_dir) == []


def test_what_does_not_end_in_time_is_cut_off(
    own_origin: Origin, start_sidecar: StartSidecar
) -> None:
    own_origin.put("/a/c/0", b"body")
    sidecar = start_sidecar("--shutdown-timeout", "0")
    gate = own_origin.hold("/a/c/0")
    with Connection(sidecar.url) as connection:
        connection.send("GET", "/a/c/0")
        gate.wait_held()
        assert sidecar.stop() == 0
        gate.release()


def test_a_fill_that_nobody_waits_for_is_finished_before_the_end(
    own_origin: Origin, own_sidecar: Sidecar, cache_dir: Path
) -> None:
    body = os.urandom(1 << 20)
    own_origin.put("/a/c/0", body)
    gate = own_origin.hold("/a/c/0", 1 << 19)
    with Connection(own_sidecar.url) as connection:
        connection.send("GET", "/a/c/0")
        gate.wait_held()
    wait_for(lambda: own_sidecar.metric("chunkside_fill_waiters") == 0, "the reader to be gone")
    own_sidecar.terminate()
    wait_for(lambda: is_refused(own_sidecar.url), "the end of listening")
    gate.release()
    assert own_sidecar.wait() == 0
    assert len(stored_files(cache_dir)) == 1
    assert left_behind(cache_dir) == []


def test_health_says_what_readyz_says(start_sidecar: StartSidecar) -> None:
    sidecar = start_sidecar("--drain-time", "1h")
    address = sidecar.admin_url.removeprefix("http://")
    ready = run_command("health", env={"CHUNKSIDE_ADMIN_LISTEN": address})
    assert (ready.returncode, ready.stdout) == (0, "ready\n")
    sidecar.terminate()
    wait_not_ready(sidecar)
    stopping = run_command("health", "--admin-listen", address)
    assert (stopping.returncode, stopping.stdout) == (1, "")
    assert stopping.stderr == "chunkside: not ready: stopping\n"
    sidecar.terminate()
    assert sidecar.wait() == 0
    gone = run_command("health", "--admin-listen", address)
    assert gone.returncode == 1
    assert "does not answer: Connection refused" in gone.stderr


def test_health_of_what_is_no_sidecar_says_so_in_one_line(own_origin: Origin) -> None:
    told = run_command("health", "--admin-listen", own_origin.url.removeprefix("http://"))
    assert (told.returncode, told.stderr.count("\n")) == (1, 1)
    assert "answered 404: is that the admin port of a sidecar?" in told.stderr
