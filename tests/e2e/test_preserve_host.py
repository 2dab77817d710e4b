"""What clients sign arrives as they sent it, and by whose name."""

from pathlib import Path
from urllib.parse import urlsplit

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.e2e.conftest import ANY_DISK
from tests.support.http_client import exchange
from tests.support.origin import Origin, Script
from tests.support.raw_client import say
from tests.support.sidecar import Sidecar

SIDECAR_FLAGS = ("--preserve-host",)
# What a proxy leaves out, rewrites, adds or reads for itself.
TOUCHED = (
    *("Connection", "Keep-Alive", "TE", "Trailer", "Proxy-Connection", "Proxy-Authenticate"),
    *("Cookie", "Via", "Max-Forwards", "Chunkside-Control", "Expect", "Content-Length"),
    *("Range", "If-Range", "If-None-Match", "Accept-Encoding", "Cache-Control", "Pragma"),
    *("X-Amz-Date", "x-amz-content-sha256", "X-AMZ-Meta-A", "User-Agent", "amz-sdk-request"),
)
REPEATED = ("X-AMZ-Meta-A", "Via", "Connection", "Cache-Control")
VALUES = {
    "Expect": st.sampled_from(["100-continue", "100-Continue"]),
    "Content-Length": st.just("4"),
    "Chunkside-Control": st.sampled_from(["bypass", "Refresh"]),
    "Max-Forwards": st.sampled_from(["1", "07"]),
    # Nobody can tell how to speak on after that.
    "Connection": st.sampled_from(["keep-alive", "close", "X-Amz-Date, TE", "keep-alive,  cookie"]),
}
TEXT = st.text("abcXYZ019 ,;=:/\"'()\t~é", max_size=30).map(lambda text: text.strip(" \t"))


@st.composite
def fields_of_a_client(draw: st.DrawFn) -> list[tuple[str, str]]:
    once = draw(st.lists(st.sampled_from(TOUCHED), min_size=1, max_size=8, unique=True))
    names = once + draw(st.lists(st.sampled_from(REPEATED), max_size=3))
    found: list[tuple[str, str]] = []
    for name in draw(st.permutations(names)):
        spelled = draw(st.sampled_from([name, name.lower(), name.upper()]))
        found.append((spelled, draw(VALUES.get(name, TEXT))))
    return found


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    held=fields_of_a_client(),
    host=st.sampled_from(["localhost:8100", "127.0.0.1", "sidecar", "a.b.localhost:1"]),
    method=st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE"]),
    target=st.sampled_from(["/b/k", "/b/a%2fb+c//d?x-id=1&a", "/b/k?X-Amz-Signature=0"]),
)
def test_every_signed_field_arrives_as_it_was_sent(
    shared_origin: Origin,
    sidecar: Sidecar,
    held: list[tuple[str, str]],
    host: str,
    method: str,
    target: str,
) -> None:
    shared_origin.reset()
    names = sorted({name.lower() for name, _ in held})
    authorization = (
        "AWS4-HMAC-SHA256 Credential=AK/20240101/us-east-1/s3/aws4_request, "
        f"SignedHeaders=host;{';'.join(names)}, Signature=00"
    )
    lines = [("Host", host), *held, ("Authorization", authorization)]
    if "content-length" not in names and method in ("PUT", "POST"):
        lines.append(("Content-Length", "4"))
    body = b"body" if any(name.lower() == "content-length" for name, _ in lines) else b""
    head = "\r\n".join([f"{method} {target} HTTP/1.1", *(f"{n}: {v}" for n, v in lines), "", ""])
    is_last = any(value == "close" for _, value in lines)
    said = say(sidecar.url, head.encode() + body, method, hangs_up=not is_last)
    assert said.answers, head
    asked, *_ = shared_origin.requests()
    assert (asked.method, asked.target.decode(), asked.body) == (method, target, body)
    signed = {"host", "authorization", *names}
    arrived = [line.partition(b":") for line in asked.header_lines]
    sent = [(name.encode(), value.encode()) for name, value in lines]
    for each in signed:
        of_it = [(n, v) for n, v in sent if n.decode().lower() == each]
        assert [
            (n, v.strip(b" \t")) for n, _, v in arrived if n.decode().lower() == each
        ] == of_it, (head, asked.header_lines)


SIGNATURE = ("Authorization", "AWS4-HMAC-SHA256 Credential=c, SignedHeaders=host, Signature=5e1f")


def test_nothing_of_what_was_signed_is_stored(own_origin: Origin, tmp_path: Path) -> None:
    own_origin.put("/b/k", b"body of the chunk")
    with Sidecar(own_origin.url, tmp_path, (*ANY_DISK, *SIDECAR_FLAGS)) as sidecar:
        for _ in range(2):
            for target in ("/b/k", "/b/absent", "/b/k?X-Amz-Signature=5e1f"):
                for ranged in ([], [("Range", "bytes=0-3")]):
                    answer = exchange(sidecar.url, target, headers=[SIGNATURE, *ranged])
                    assert "fwd=bypass" in (answer.value("Cache-Status") or "")
        assert own_origin.count() == 12
        sidecar.wait_idle()
        assert sidecar.metric("chunkside_index_entries") == 0
        assert sidecar.metric("chunkside_stored_bytes") == 0
        held = [each for each in tmp_path.rglob("*") if each.is_file()]
        assert not [each for each in held if each.suffix == ".arrow"]
        pages = [exchange(sidecar.admin_url, each).body for each in ("/", "/info", "/metrics")]
        for said in (*pages, *(each.read_bytes() for each in held), sidecar.stderr().encode()):
            assert b"5e1f" not in said and b"body of the chunk" not in said


def test_unsigned_requests_are_asked_by_the_origins_own_name_and_cached(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    origin.put(target, b"body")
    port = urlsplit(sidecar.url).port
    for host in ("localhost", f"127.0.0.1:{port}", "sidecar:80"):
        message = f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        assert say(sidecar.url, message).answers[0].body == b"body"
        sidecar.wait_idle()
    [asked] = origin.requests(path=target)
    assert asked.values("Host") == [urlsplit(origin.url).netloc]
    assert asked.values("Accept-Encoding") == ["identity"]


def test_a_redirect_of_a_signed_request_passes_and_is_never_followed(
    own_origin: Origin, tmp_path: Path
) -> None:
    moved = Script(status=307, headers=(("Location", f"{own_origin.url}/b/there"),))
    own_origin.script("/b/k", moved)
    own_origin.put("/b/there", b"there")
    flags = (*ANY_DISK, *SIDECAR_FLAGS, "--follow-redirects", urlsplit(own_origin.url).netloc)
    with Sidecar(own_origin.url, tmp_path, flags) as sidecar:
        assert exchange(sidecar.url, "/b/k").body == b"there"
        answer = exchange(sidecar.url, "/b/k", headers=[SIGNATURE])
        assert (answer.status, answer.value("Location")) == (307, f"{own_origin.url}/b/there")
