"""What a faulty origin comes to: an error that says so, never an absence, never an empty body."""

import itertools
import json

import aiohttp
import numpy as np
import pytest

from tests.e2e.conftest import StartSidecar
from tests.support.arrays import chunk_slices, opened, sparse_array
from tests.support.deadline import wait_for
from tests.support.http_client import Connection, Response, exchange
from tests.support.origin import Origin, Script, xml_error
from tests.support.sidecar import Sidecar

SIDECAR_FLAGS = (
    *("--upstream-retries", "0"),
    *("--upstream-first-byte-timeout", "1s"),
    *("--upstream-deadline", "2s"),
    *("--upstream-idle-timeout", "1s"),
)


def assert_is_problem(response: Response, status: int) -> None:
    assert response.status == status
    assert response.value("Content-Type") == "application/problem+json"
    assert (response.value("Cache-Status") or "").startswith("chunkside;")
    problem = json.loads(response.body)
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]


@pytest.mark.client("zarr")
def test_with_the_origin_stopped_zarr_reads_what_is_held_and_raises_for_the_rest(
    own_origin: Origin, start_sidecar: StartSidecar
) -> None:
    array = sparse_array()
    url = start_sidecar(*SIDECAR_FLAGS).url
    for path, body in array.objects.items():
        own_origin.put(path, body)
    held = (slice(0, 16), slice(0, 160))
    with opened(url, "fsspec") as reader:
        np.testing.assert_array_equal(reader[held], array.values[held])
        own_origin.stop()
        np.testing.assert_array_equal(reader[held], array.values[held])
        for chunk in sorted(array.chunks):
            row, column = map(int, chunk.rsplit("/", 2)[1:])
            if row == 0:
                continue
            with pytest.raises(aiohttp.ClientResponseError) as raised:
                reader[chunk_slices(row, column)]
            assert raised.value.status == 503


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
def test_a_stopped_origin_is_503_with_retry_after(
    own_origin: Origin, start_sidecar: StartSidecar, method: str
) -> None:
    url = start_sidecar(*SIDECAR_FLAGS).url
    own_origin.stop()
    response = exchange(url, "/a/c/0", method, body=b"new" if method == "PUT" else None)
    assert response.status == 503
    assert int(response.value("Retry-After") or 0) > 0
    if method != "HEAD":
        assert_is_problem(response, 503)


def test_an_origin_that_is_too_slow_is_504(origin: Origin, sidecar: Sidecar, target: str) -> None:
    origin.script(target, Script(never_answer=True))
    assert_is_problem(exchange(sidecar.url, target), 504)


def test_an_origin_that_stays_away_is_left_alone_and_stale_bodies_stand_in(
    own_origin: Origin, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar("--ttl", "0", *SIDECAR_FLAGS)
    own_origin.put("/a/c/0", b"body")
    assert exchange(sidecar.url, "/a/c/0").body == b"body"
    sidecar.wait_idle()
    own_origin.stop()
    numbers = itertools.count(1)

    def is_left_alone() -> bool:
        assert exchange(sidecar.url, f"/a/c/{next(numbers)}").status == 503
        return sidecar.metric('chunkside_upstream_breaker{state="open"}') == 1

    wait_for(is_left_alone, "the end of patience")
    before = sidecar.metric("chunkside_upstream_spared_total")
    stale = exchange(sidecar.url, "/a/c/0")
    assert (stale.status, stale.body) == (200, b"body")
    assert "stale-if-error" in (stale.value("Cache-Status") or "")
    refused = exchange(sidecar.url, "/a/c/none")
    assert_is_problem(refused, 503)
    assert int(refused.value("Retry-After") or 0) > 0
    assert sidecar.metric("chunkside_upstream_spared_total") > before
    said = [line for line in sidecar.stderr().splitlines() if "left alone" in line]
    assert len(said) == 1


FAULTS = {
    "reset before the head": (Script(reset_before_head=True), (502, 503)),
    "closed before the head": (Script(raw=b""), (502, 503)),
    "not HTTP": (Script(raw=b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), (502,)),
    "head that breaks off": (Script(raw=b"HTTP/1.1 200 OK\r\nContent-Le"), (502, 503)),
    "two lengths": (
        Script(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc"),
        (502,),
    ),
    "204 to a GET": (Script(status=204), (502,)),
    "205 to a GET": (Script(status=205), (502,)),
    "304 that nobody asked for": (Script(status=304), (502,)),
    "401": (Script(status=401), (401,)),
    "403": (Script(status=403, body=b"no"), (403,)),
    "429": (Script(status=429), (429,)),
    "500": (Script(status=500), (500,)),
    "502": (Script(status=502), (502,)),
    "503": (Script(status=503, headers=(("Retry-After", "7"),)), (503,)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told_as_it_is_and_not_remembered(
    origin: Origin, sidecar: Sidecar, fault: str, target: str
) -> None:
    script, statuses = FAULTS[fault]
    origin.script(target, script)
    assert exchange(sidecar.url, target).status in statuses
    origin.behave()
    origin.put(target, b"body")
    response = exchange(sidecar.url, target)
    assert (response.status, response.body) == (200, b"body")


TORN = {
    "reset": Script(reset_after_bytes=1000, without=("ETag", "Last-Modified")),
    "closed": Script(end_after_bytes=1000, without=("ETag", "Last-Modified")),
    "closed within chunks": Script(
        end_after_bytes=1000, framing="chunked", without=("ETag", "Last-Modified")
    ),
}


@pytest.mark.parametrize("tear", TORN)
def test_a_torn_body_without_a_validator_cuts_the_client_and_is_not_stored(
    origin: Origin, sidecar: Sidecar, tear: str, target: str
) -> None:
    body = bytes(range(256)) * 40
    origin.put(target, body)
    origin.script(target, TORN[tear])
    # A body of unknown length is held until whole, so its tear may still be told by a status.
    response = exchange_unless_cut(sidecar.url, target)
    if response is not None and response.is_complete:
        assert response.status in (502, 503)
    origin.behave()
    assert exchange(sidecar.url, target).body == body


def exchange_unless_cut(url: str, target: str) -> Response | None:
    try:
        return exchange(url, target)
    except (EOFError, ConnectionError):
        return None


@pytest.mark.parametrize(
    "tear",
    [Script(reset_after_bytes=600_000), Script(end_after_bytes=600_000)],
    ids=["reset", "closed"],
)
def test_a_torn_body_with_a_strong_validator_is_resumed(
    origin: Origin, sidecar: Sidecar, tear: Script, target: str
) -> None:
    body = bytes(range(256)) * 4000
    stored = origin.put(target, body)
    origin.script(target, tear, times=1)
    response = exchange(sidecar.url, target)
    assert response.is_complete
    assert response.body == body
    first, second = origin.requests("GET", target)
    assert first.value("Range") is None
    assert (second.value("Range") or "").startswith("bytes=")
    assert second.value("If-Range") == stored.etag
    assert exchange(sidecar.url, target).body == body
    assert origin.count("GET", target) == 2


def test_a_torn_body_that_changed_meanwhile_is_cut_not_mixed(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    origin.put(target, b"a" * 1_000_000)
    origin.script(target, Script(reset_after_bytes=600_000), times=1)
    gate = origin.hold(target, 600_000)
    with Connection(sidecar.url) as connection:
        connection.send("GET", target)
        gate.wait_held()
        # Before the reset, which would discard what lies unread.
        head = connection.head()
        origin.put(target, b"b" * 1_000_000)
        gate.release()
        response = connection.rest(head)
    assert not response.is_complete
    assert set(response.body) <= {ord("a")}
    assert exchange(sidecar.url, target).body == b"b" * 1_000_000


def test_a_404_whose_body_breaks_off_is_not_remembered(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    raw = b"HTTP/1.1 404 Not Found\r\nContent-Length: 100\r\n\r\nno such"
    origin.script(target, Script(raw=raw))
    exchange_unless_cut(sidecar.url, target)
    origin.behave()
    origin.put(target, b"body")
    assert exchange(sidecar.url, target).body == b"body"


@pytest.mark.parametrize(
    ("code", "is_remembered"),
    [("NoSuchKey", True), ("NoSuchBucket", False), ("NoSuchUpload", False)],
)
def test_a_404_that_says_it_is_no_missing_key_is_relayed(
    origin: Origin, sidecar: Sidecar, code: str, is_remembered: bool, target: str
) -> None:
    origin.script(target, xml_error(404, code))
    assert exchange(sidecar.url, target).status == 404
    assert exchange(sidecar.url, target).status == 404
    assert origin.count("GET", target) == (1 if is_remembered else 2)


def test_a_404_to_anything_but_a_full_get_makes_no_marker(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    exchange(sidecar.url, target, "HEAD")
    exchange(sidecar.url, target, "DELETE")
    exchange(sidecar.url, target, headers=[("Range", "bytes=0-3")])
    origin.put(target, b"appeared")
    assert exchange(sidecar.url, target).body == b"appeared"


@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_a_body_without_a_length_arrives_whole(
    origin: Origin, sidecar: Sidecar, framing: str, target: str
) -> None:
    body = bytes(range(256)) * 400
    origin.put(target, body)
    origin.script(target, Script(framing="chunked" if framing == "chunked" else "close"))
    for _ in range(2):
        assert exchange(sidecar.url, target).body == body
    # Only the end of the connection ends the second kind, which proves nothing.
    assert origin.count("GET", target) == (1 if framing == "chunked" else 2)


def test_a_relayed_head_answer_makes_no_body(origin: Origin, sidecar: Sidecar, target: str) -> None:
    origin.put(target, b"body")
    head = exchange(sidecar.url, target, "HEAD")
    assert (head.status, head.value("Content-Length")) == (200, "4")
    assert exchange(sidecar.url, target).body == b"body"
    assert [each.method for each in origin.requests()] == ["HEAD", "GET"]
