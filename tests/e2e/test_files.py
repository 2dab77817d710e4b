"""A sidecar before a directory: readers, curl, and volumes that fail under it."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.e2e.conftest import ANY_DISK
from tests.support.arrays import (
    SHARDED,
    Client,
    opened,
    read_all_at_once,
    sharded_array,
    sparse_array,
)
from tests.support.deadline import wait_for
from tests.support.http_client import Response, exchange
from tests.support.network_mount import NetworkMount
from tests.support.sidecar import Sidecar, run_command
from tests.support.volume import mounted_over

CHUNKS_ASKED = 'chunkside_upstream_requests_total{class="chunk"'

Serve = Callable[..., Sidecar]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    put(data, "/there", b"x")
    return data


@pytest.fixture
def serve(data: Path, cache_dir: Path) -> Iterator[Serve]:
    """Starts a sidecar before the directory with extra flags; or, given routes, before those."""
    with ExitStack() as stack:

        def start(*flags: str, routes: list[dict[str, Any]] | None = None) -> Sidecar:
            upstream = None if routes else f"file://{data}"
            more = ("--routes", json.dumps(routes)) if routes else ()
            return stack.enter_context(Sidecar(upstream, cache_dir, (*ANY_DISK, *more, *flags)))

        yield start


def put(data: Path, path: str, body: bytes) -> Path:
    file = data / path.removeprefix("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(body)
    return file


def get(sidecar: Sidecar, target: str, *fields: tuple[str, str]) -> Response:
    answer = exchange(sidecar.url, target, headers=fields)
    sidecar.wait_idle()
    return answer


def said(answer: Response) -> str:
    return answer.value("Cache-Status") or ""


@pytest.mark.client("zarr")
@pytest.mark.parametrize(
    "client",
    [
        pytest.param("fsspec", marks=pytest.mark.client("fsspec")),
        pytest.param("obstore", marks=pytest.mark.client("obstore")),
    ],
)
def test_zarr_reads_an_array_and_no_chunk_is_asked_for_twice(
    data: Path, serve: Serve, client: Client
) -> None:
    for path, body in sparse_array().objects.items():
        put(data, path, body)
    sidecar = serve()
    for values in read_all_at_once(sidecar.url, client, 4):
        np.testing.assert_array_equal(values, sparse_array().values)
    assert sidecar.metric(CHUNKS_ASKED) == len(sparse_array().chunks)
    for values in read_all_at_once(sidecar.url, client, 4):
        np.testing.assert_array_equal(values, sparse_array().values)
    assert sidecar.metric(CHUNKS_ASKED) == len(sparse_array().chunks)


@pytest.mark.client("zarr")
@pytest.mark.client("obstore")
def test_zarr_reads_shards_by_their_ranges(data: Path, serve: Serve) -> None:
    values, objects = sharded_array()
    for path, body in objects.items():
        put(data, path, body)
    with opened(serve().url, "obstore", name=SHARDED) as array:
        np.testing.assert_array_equal(array[:], values)
        np.testing.assert_array_equal(array[20:30, 70:75], values[20:30, 70:75])


@pytest.mark.client("curl")
def test_curl_sees_an_origin_like_any_other(data: Path, serve: Serve) -> None:
    put(data, "/a b/0.json", b'{"a": 1}')
    sidecar = serve("--cors-origins", "http://localhost:3000")

    def curl(target: str, *options: str) -> str:
        command = ["curl", "-sSi", *options, f"{sidecar.url}{target}"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    whole = curl("/a%20b/0.json", "-H", "Origin: http://localhost:3000")
    assert whole.startswith("HTTP/1.1 200") and whole.endswith('{"a": 1}')
    for line in (
        "Content-Type: application/json",
        "Content-Length: 8",
        "Accept-Ranges: bytes",
        "Access-Control-Allow-Origin: http://localhost:3000",
    ):
        assert f"{line}\n" in whole.replace("\r", "")
    assert curl("/a%20b/0.json", "-r", "2-4").endswith('\n\na":')
    assert curl("/a%20b/0.json", "-r", "-2").endswith("\n\n1}")
    assert curl("/a%20b/1.json").startswith("HTTP/1.1 404")


def test_absences_are_remembered_for_heads_and_ranges_too(data: Path, serve: Serve) -> None:
    sidecar = serve()
    assert get(sidecar, "/c/0").status == 404
    asked = sidecar.metric(CHUNKS_ASKED)
    again = [
        get(sidecar, "/c/0"),
        get(sidecar, "/c/0", ("Range", "bytes=0-1")),
        exchange(sidecar.url, "/c/0", "HEAD"),
    ]
    assert [answer.status for answer in again] == [404] * 3
    assert all("detail=negative" in said(answer) for answer in again)
    assert sidecar.metric(CHUNKS_ASKED) == asked


def test_a_directory_where_a_chunk_may_come_is_no_remembered_absence(
    data: Path, serve: Serve
) -> None:
    put(data, "/c/0/0", b"x")
    sidecar = serve()
    for _ in range(2):
        answer = get(sidecar, "/c/0")
        assert (answer.status, "hit" in said(answer)) == (404, False)
    for target, status in (("/c/", 404), ("/", 404), ("/c%2f0", 400), ("/c/%2e%2e/there", 400)):
        assert get(sidecar, target).status == status


def test_links_lead_nowhere_outside(data: Path, serve: Serve, tmp_path: Path) -> None:
    put(tmp_path, "/secret", b"secret")
    (data / "out").symlink_to("../secret")
    (data / "up").symlink_to("..")
    (data / "not-fetched").symlink_to(".git/annex/objects/xx")
    sidecar = serve()
    answers = [get(sidecar, target) for target in ("/out", "/up/secret", "/not-fetched")]
    assert [answer.status for answer in answers] == [403, 403, 502]
    assert all(b"secret" not in answer.body for answer in answers)


def test_it_is_read_only_whatever_a_client_sends(data: Path, serve: Serve) -> None:
    sidecar = serve()
    for method in ("PUT", "POST", "DELETE", "PATCH", "PROPFIND"):
        body = None if method in ("DELETE", "PROPFIND") else b"new"
        assert exchange(sidecar.url, "/there", method, (), body).status == 405
    assert exchange(sidecar.url, "/there", "OPTIONS").value("Allow") == "GET, HEAD, OPTIONS"
    assert exchange(sidecar.url, "/there", "GET", (), b"a body").body == b"x"
    assert (data / "there").read_bytes() == b"x"


def test_a_body_that_is_kept_stands_in_while_the_directory_is_gone(
    data: Path, serve: Serve
) -> None:
    put(data, "/held", b"held")
    sidecar = serve("--ttl", "1h")
    assert get(sidecar, "/held").body == b"held"
    kept = data.rename(data.with_name("kept"))
    assert get(sidecar, "/held").body == b"held"
    gone = get(sidecar, "/c/0")
    assert (gone.status, gone.value("Retry-After")) == (503, "1")
    assert gone.value("Content-Type") == "application/problem+json"
    assert str(data).encode() not in gone.body
    put(data, "/c/0", b"another's")
    assert get(sidecar, "/c/0").status == 503
    data.rename(data.with_name("other"))
    kept.rename(data)
    assert wait_for(lambda: get(sidecar, "/c/0").status == 404, "the directory is asked again")


def test_a_route_whose_directory_is_not_there_waits_for_it(
    data: Path, serve: Serve, tmp_path: Path
) -> None:
    routes = [
        {"prefix": "/late", "upstream": f"file://{tmp_path}/late"},
        {"prefix": "/data", "upstream": f"file://localhost{data}"},
    ]
    sidecar = serve(routes=routes)
    told = (
        "the directory of route /late can't be read yet: The upstream's directory can't be opened"
    )
    wait_for(lambda: told in sidecar.stderr(), "a warning")
    assert exchange(sidecar.url, "/data/there").body == b"x"
    assert exchange(sidecar.url, "/late/0").status == 503
    (tmp_path / "late").mkdir()
    assert exchange(sidecar.url, "/late/0").status == 503
    put(tmp_path, "/late/0", b"came")
    assert wait_for(lambda: get(sidecar, "/late/0").status == 200, "the directory that came")
    assert get(sidecar, "/late/1").status == 404


def test_a_cache_within_the_directory_stops_the_start(data: Path) -> None:
    result = run_command(
        *("serve", "--upstream", f"file://{data}", "--cache-dir", str(data / "a/cache")),
        *("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", *ANY_DISK),
    )
    [line] = [line for line in result.stderr.splitlines() if line.startswith("chunkside: ")]
    assert result.returncode == 2
    assert line.startswith("chunkside: cache_dir=") and "it lies beneath file://" in line


@pytest.mark.root
class TestVolumes:
    """Mounted, by a server that the test is: /data is what readers of a network mount have."""

    @pytest.fixture
    def volume(self, data: Path) -> Iterator[NetworkMount]:
        files = {"held": b"held", "x.zarr/c/0": b"body", "x.zarr/c/1": os.urandom(2_000_000)}
        with NetworkMount(data, files) as volume:
            yield volume

    def test_calls_that_hang_hold_up_nobody_else(
        self, volume: NetworkMount, serve: Serve, tmp_path: Path
    ) -> None:
        put(tmp_path, "/local/there", b"x")
        dead = {
            "prefix": "/dead",
            "upstream": f"file://{volume.directory}",
            "upstream_first_byte_timeout": "500ms",
            "upstream_deadline": "2s",
            "upstream_connections": 4,
        }
        local = {"prefix": "/local", "upstream": f"file://{tmp_path}/local"}
        sidecar = serve(routes=[dead, local])
        assert get(sidecar, "/dead/held").body == b"held"
        assert get(sidecar, "/dead/x.zarr/c/2").status == 404
        volume.fall_silent()
        threads = _threads(sidecar)
        statuses = [get(sidecar, f"/dead/x.zarr/c/{number}").status for number in range(12)]
        assert set(statuses) <= {503, 504, 404}
        assert statuses[2] == 404, "remembered from before"
        assert 404 not in statuses[:2] + statuses[3:]
        assert 504 in statuses
        assert _threads(sidecar) <= threads + 4
        # What is held, and who else is there, are served as ever.
        assert get(sidecar, "/dead/held").body == b"held"
        assert get(sidecar, "/local/there").body == b"x"
        volume.speak_again()
        back = wait_for(lambda: _body(get(sidecar, "/dead/x.zarr/c/0")), "the volume is back")
        assert back == b"body"
        assert get(sidecar, "/dead/x.zarr/c/3").status == 404
        assert sidecar.stop() == 0

    def test_a_call_that_hangs_does_not_keep_the_sidecar_from_ending(
        self, volume: NetworkMount, serve: Serve
    ) -> None:
        sidecar = serve("--upstream-first-byte-timeout", "300ms", "--shutdown-timeout", "1s")
        volume.fall_silent()
        assert exchange(sidecar.url, "/x.zarr/c/0").status in (503, 504)
        assert sidecar.stop() == 0

    def test_a_volume_that_dies_makes_nothing_absent_not_even_once_unmounted(
        self, volume: NetworkMount, serve: Serve
    ) -> None:
        sidecar = serve()
        assert get(sidecar, "/x.zarr/c/0").body == b"body"
        volume.die()
        assert get(sidecar, "/x.zarr/c/1").status == 503
        volume.unmount()
        assert (volume.directory / "there").exists()
        for target in ("/x.zarr/c/1", "/x.zarr/c/2", "/there"):
            assert get(sidecar, target).status == 503
        assert get(sidecar, "/x.zarr/c/0").body == b"body"
        # Another one may well bear the device's and the root's numbers of one that is gone.
        with mounted_over(volume.directory):
            assert get(sidecar, "/x.zarr/c/1").status == 503

    def test_what_is_stale_stands_in_and_is_validated_once_the_volume_is_back(
        self, volume: NetworkMount, serve: Serve
    ) -> None:
        sidecar = serve("--ttl", "0s", "--upstream-first-byte-timeout", "300ms")
        assert get(sidecar, "/held").body == b"held"
        volume.fall_silent()
        stale = get(sidecar, "/held")
        assert (stale.status, stale.body) == (200, b"held")
        assert "detail=stale-if-error" in said(stale)
        volume.speak_again()
        wait_for(
            lambda: "fwd-status=304" in said(get(sidecar, "/held")), "a validation by the volume"
        )

    def test_a_body_that_stalls_is_cut_and_never_ended(
        self, volume: NetworkMount, serve: Serve
    ) -> None:
        sidecar = serve("--upstream-idle-timeout", "300ms", "--upstream-deadline", "2s")
        assert get(sidecar, "/held").body == b"held"
        volume.fall_silent(after_reads=6)
        answer = get(sidecar, "/x.zarr/c/1")
        assert (answer.status, answer.is_complete) == (200, False)
        assert 0 < len(answer.body) < 2_000_000
        volume.speak_again()
        whole = wait_for(lambda: _body(get(sidecar, "/x.zarr/c/1")), "the volume is back")
        assert len(whole) == 2_000_000


def _threads(sidecar: Sidecar) -> int:
    return len(os.listdir(f"/proc/{sidecar.pid}/task"))


def _body(answer: Response) -> bytes | None:
    return answer.body if answer.status == 200 else None
