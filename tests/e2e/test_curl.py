"""What curl shows: the answer's own fields, HEAD and ranges from a stored body, uploads."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.origin import Origin
from tests.support.sidecar import Sidecar

pytestmark = pytest.mark.client("curl")

BODY = b"0123456789"


@dataclass(frozen=True)
class Shown:
    status: int
    fields: dict[str, str]
    body: bytes
    trace: str


def curl(sidecar: Sidecar, target: str, *options: str) -> Shown:
    """The last head that curl got, by lower-case names, and the body."""
    command = ["curl", "-sS", "-v", "--path-as-is", "-g", "-D", "/dev/fd/1", *options]
    done = subprocess.run(
        [*command, sidecar.url + target], capture_output=True, timeout=30, check=True
    )
    head, body = b"", done.stdout
    while re.match(rb"HTTP/1\.1 \d", body):
        head, _, body = body.partition(b"\r\n\r\n")
    status_line, *lines = head.decode().split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    return Shown(int(status_line.split()[1]), fields, body, done.stderr.decode())


def cache_status(shown: Shown) -> set[str]:
    """The parameters of our member of Cache-Status, less the numbers."""
    own = shown.fields["cache-status"].rpartition(",")[2].strip()
    name, *parameters = [each.strip() for each in own.split(";")]
    assert name == "chunkside"
    return {re.sub(r"^(ttl)=.*", r"\1", each) for each in parameters}


def test_miss_and_hit_say_so(origin: Origin, sidecar: Sidecar, target: str) -> None:
    stored = origin.put(target, BODY)
    miss = curl(sidecar, target)
    sidecar.wait_idle()
    hit = curl(sidecar, target)
    for shown in (miss, hit):
        assert (shown.status, shown.body) == (200, BODY)
        assert shown.fields["content-length"] == "10"
        assert shown.fields["etag"] == stored.etag
        assert shown.fields["last-modified"] == stored.last_modified
        assert shown.fields["accept-ranges"] == "bytes"
        assert shown.fields["via"].startswith("1.1 ")
    assert cache_status(miss) >= {"fwd=uri-miss", "fwd-status=200", "stored"}
    assert cache_status(hit) >= {"hit", "ttl"}
    assert "age" not in miss.fields
    assert int(hit.fields["age"]) >= 0


def test_a_negative_hit_says_so(origin: Origin, sidecar: Sidecar, target: str) -> None:
    miss = curl(sidecar, target)
    sidecar.wait_idle()
    hit = curl(sidecar, target)
    assert (miss.status, hit.status) == (404, 404)
    assert cache_status(miss) >= {"fwd=uri-miss", "fwd-status=404", "stored"}
    assert cache_status(hit) >= {"hit", "ttl", "detail=negative"}
    assert int(hit.fields["age"]) >= 0
    assert hit.fields["via"].startswith("1.1 ")
    assert hit.fields["content-length"] == "0"
    assert origin.count() == 1


def test_head_is_answered_from_a_stored_body(origin: Origin, sidecar: Sidecar, target: str) -> None:
    stored = origin.put(target, BODY)
    curl(sidecar, target)
    sidecar.wait_idle()
    head = curl(sidecar, target, "-I")
    assert (head.status, head.body) == (200, b"")
    assert (head.fields["content-length"], head.fields["etag"]) == ("10", stored.etag)
    assert "hit" in cache_status(head)
    assert origin.count() == 1


def test_head_over_a_marker_asks_the_origin(origin: Origin, sidecar: Sidecar, target: str) -> None:
    curl(sidecar, target)
    origin.put(target, BODY)
    assert curl(sidecar, target, "-I").status == 200
    # A HEAD's 2xx is evidence against the marker, which falls.
    assert curl(sidecar, target).body == BODY


RANGES = {
    "5-7": (206, b"567", "bytes 5-7/10"),
    "5-": (206, b"56789", "bytes 5-9/10"),
    "-4": (206, b"6789", "bytes 6-9/10"),
    "-99": (206, BODY, "bytes 0-9/10"),
    "0-999": (206, BODY, "bytes 0-9/10"),
    "10-": (416, None, "bytes */10"),
    "7-5": (200, BODY, None),
}


@pytest.mark.parametrize("asked", RANGES)
def test_a_range_is_cut_from_a_stored_body(
    origin: Origin, sidecar: Sidecar, asked: str, target: str
) -> None:
    origin.put(target, BODY)
    curl(sidecar, target)
    sidecar.wait_idle()
    status, body, content_range = RANGES[asked]
    shown = curl(sidecar, target, "-H", f"Range: bytes={asked}")
    assert shown.status == status
    assert body is None or shown.body == body
    assert shown.fields.get("content-range") == content_range
    assert "hit" in cache_status(shown)
    assert origin.count() == 1


def test_a_condition_is_judged_on_a_stored_body(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    stored = origin.put(target, BODY)
    curl(sidecar, target)
    same = curl(sidecar, target, "-H", f"If-None-Match: {stored.etag}")
    assert (same.status, same.body, same.fields["etag"]) == (304, b"", stored.etag)
    other = curl(sidecar, target, "-H", 'If-None-Match: "other"')
    assert (other.status, other.body) == (200, BODY)
    assert curl(sidecar, target, "-H", 'If-Match: "other"').status == 412
    ranged = ("-H", "Range: bytes=0-1", "-H")
    assert curl(sidecar, target, *ranged, f"If-Range: {stored.etag}").body == b"01"
    assert curl(sidecar, target, *ranged, 'If-Range: "other"').body == BODY
    assert origin.count() == 1


@pytest.mark.parametrize("source", ["file", "stdin"], ids=["length", "chunked"])
def test_an_upload_is_told_to_continue_and_arrives_whole(
    origin: Origin, sidecar: Sidecar, tmp_path: Path, source: str, target: str
) -> None:
    body = bytes(range(256)) * 8000
    file = tmp_path / "upload"
    file.write_bytes(body)
    upload = ["-T", str(file)] if source == "file" else ["--data-binary", f"@{file}", "-X", "PUT"]
    framing = [] if source == "file" else ["-H", "Transfer-Encoding: chunked"]
    shown = curl(sidecar, target, *upload, *framing, "-H", "Expect: 100-continue")
    assert "HTTP/1.1 100 Continue" in shown.trace
    assert shown.status == 201
    assert origin.objects[target].body == body
    assert curl(sidecar, target).body == body


def test_h2c_is_not_taken_up(origin: Origin, sidecar: Sidecar, target: str) -> None:
    origin.put(target, BODY)
    shown = curl(sidecar, target, "--http2")
    assert (shown.status, shown.body) == (200, BODY)
    (request,) = origin.requests()
    assert request.value("Upgrade") is None
    assert request.value("HTTP2-Settings") is None


def test_an_upload_from_a_pipe_has_no_length_and_arrives(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    done = subprocess.run(
        ["curl", "-sS", "-T", "-", sidecar.url + target],
        input=BODY,
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert done.stderr == b""
    assert origin.objects[target].body == BODY
    assert origin.chunked_uploads == 1
