"""The same bytes to an origin straight and through the sidecar: what it receives, and what comes
back, is the same but for what a proxy must change.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.conftest import ANY_DISK
from tests.e2e.test_relay import TARGETS
from tests.support.raw_client import Final, Said, say
from tests.support.raw_origin import Heard, RawOrigin
from tests.support.sidecar import Sidecar

Lines = list[tuple[bytes, bytes]]

# What belongs to one connection, or to whoever stands at its end.
_OF_ONE_HOP = {
    b"connection",
    b"keep-alive",
    b"te",
    b"trailer",
    b"upgrade",
    b"http2-settings",
    b"proxy-connection",
    b"proxy-authorization",
    b"expect",
    b"host",
    b"via",
}
# A fill asks for the whole, as it is, whatever the one who started it wants of it.
_NOT_OF_A_FILL = {
    b"accept-encoding",
    b"range",
    b"if-range",
    b"if-match",
    b"if-none-match",
    b"if-modified-since",
    b"if-unmodified-since",
}
_ADDED_TO_ANSWERS = {b"via", b"connection", b"keep-alive", b"proxy-connection", b"date"}
_FRAMING = {b"content-length", b"transfer-encoding", b"trailer"}


@dataclass
class Between:
    """A sidecar in front of an origin that answers everything with `answer`, in bytes."""

    sidecar: Sidecar
    origin: RawOrigin
    answer: bytes = b""

    async def straight_and_through(self, request: bytes) -> tuple[Exchanged, Exchanged]:
        """`request` has HOST where the authority belongs."""
        return (
            await self.exchange(self.origin.url, request),
            await self.exchange(self.sidecar.url, request),
        )

    async def exchange(self, url: str, request: bytes) -> Exchanged:
        self.origin.heard.clear()
        message = request.replace(b"HOST", url.removeprefix("http://").encode())
        method = request.split(b" ")[0].decode()
        said = await asyncio.to_thread(say, url, message, method, half_closes=True)
        return Exchanged(said, list(self.origin.heard))


@dataclass(frozen=True)
class Exchanged:
    said: Said
    heard: list[Heard]

    @property
    def answer(self) -> Final:
        [answer] = self.said.answers
        return answer

    @property
    def request(self) -> Heard:
        [heard] = self.heard
        return heard


@pytest.fixture
async def between(tmp_path: Path) -> AsyncIterator[Between]:
    async def speak(heard: Heard, writer: asyncio.StreamWriter) -> None:
        head, end, body = pair.answer.partition(b"\r\n\r\n")
        writer.write(head + end + (b"" if heard.method == "HEAD" else body))
        if b"\r\nconnection: close" in pair.answer.lower():
            writer.close()

    async with RawOrigin(speak) as origin:
        with Sidecar(origin.url, tmp_path / "cache", ANY_DISK) as sidecar:
            pair = Between(sidecar, origin)
            yield pair


def lines_of(head: bytes) -> Lines:
    split = [line.partition(b":") for line in head.split(b"\r\n")[1:] if line]
    return [(name, value.strip(b" \t")) for name, _, value in split]


def forwarded(heard: Heard, *, is_fill: bool) -> Lines:
    """The field lines of a request as they should arrive, or did, less what is a hop's own."""
    lines = lines_of(heard.head)
    named = {
        token.strip().lower()
        for name, value in lines
        if name.lower() == b"connection"
        for token in value.split(b",")
    }
    # How the body is framed is compared by the body, and by `framing`.
    left_out = _OF_ONE_HOP | named | _FRAMING | (_NOT_OF_A_FILL if is_fill else set())
    return [line for line in lines if line[0].lower() not in left_out]


def framing(heard: Heard) -> set[bytes]:
    """How its body is framed; not at all, and with a length of 0, are the same."""
    lines = {(name.lower(), value) for name, value in lines_of(heard.head)}
    lines.discard((b"content-length", b"0"))
    return {name for name, _ in lines} & _FRAMING - {b"trailer"}


def told(answer: Final) -> Lines:
    """The field lines of an answer less what is a hop's own, and what the sidecar adds."""
    lines = lines_of(b"\r\n" + b"\r\n".join(answer.lines))
    named = {
        token.strip().lower()
        for name, value in lines
        if name.lower() == b"connection"
        for token in value.split(b",")
    }
    left_out = _ADDED_TO_ANSWERS | _FRAMING | named
    return [
        line
        for line in lines
        if line[0].lower() not in left_out
        and line != (b"Accept-Ranges", b"bytes")
        and not (line[0] == b"Cache-Status" and line[1].startswith(b"chunkside"))
    ]


def request(
    method: bytes, target: bytes, *lines: bytes, body: bytes = b"", version: bytes = b"1.1"
) -> bytes:
    start = b"%b %b HTTP/%b" % (method, target, version)
    return b"\r\n".join([start, b"Host: HOST", *lines, b"", b""]) + body


OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 4\r\n\r\nbody"
CHUNKS = b"4;a=b\r\nWiki\r\n5\r\npedia\r\n0\r\nX-Trailer: 1\r\n\r\n"

REQUESTS = {
    "plain": request(b"GET", b"/1"),
    "repeated, odd and empty fields": request(
        b"GET", b"/2", b"X-A: 1", b"x-oDD:   v  ", b"X-Empty:", b"X-A: 2", b"X-A: 1"
    ),
    "UTF-8": request(b"GET", b"/3", "X-Name: Ünïcode \U0001f419".encode()),
    "separators in values": request(b"GET", b"/4", b'X-Q: "a, \\"b\\"; c", d', b"X-C: a:b::c"),
    "every hop-by-hop field": request(
        b"GET",
        b"/5",
        b"Connection: close, X-Hop, TE",
        b"X-Hop: 1",
        b"TE: trailers",
        b"Keep-Alive: timeout=5",
        b"Proxy-Connection: keep-alive",
        b"Proxy-Authorization: Basic eA==",
        b"X-End: 1",
    ),
    "what Connection names, in capitals": request(
        b"GET", b"/6", b"Connection: X-HOP", b"Connection: ,, x-HoP2 ,", b"X-Hop: 1", b"x-hop2: 2"
    ),
    "a Via of others": request(b"GET", b"/7", b"Via: 1.0 fred, 1.1 p.example.net (x, y)"),
    "a browser's": request(
        b"GET",
        b"/8",
        b'sec-ch-ua: "Not:A-Brand";v="8", "Chromium";v="156"',
        b"Sec-Fetch-Site: same-site",
        b"Referer: http://127.0.0.1:9790/",
        b"Origin: http://127.0.0.1:9790",
        b"Accept-Language: en-US,en;q=0.9",
    ),
    "TensorStore's": request(
        b"GET", b"/9", b"cache-control: no-cache", b"Accept-Encoding: deflate, gzip, br, zstd"
    ),
    "a long field": request(b"GET", b"/10", b"X-Long: " + b"x" * 20_000),
    "a hundred fields": request(b"GET", b"/11", *[b"X-%d: %d" % (n, n) for n in range(100)]),
    "HTTP/1.0": request(b"GET", b"/12", b"X-A: 1", version=b"1.0"),
    "a condition": request(b"GET", b"/13", b'If-None-Match: "x"', b"X-A: 1"),
    "HEAD": request(b"HEAD", b"/14", b"X-A: 1", b"Accept-Encoding: gzip"),
    "several ranges": request(b"GET", b"/15", b"Range: bytes=0-1,3-3", b"Accept-Encoding: gzip"),
    "a signature": request(
        b"GET",
        b"/16?x-id=GetObject",
        b"Authorization: AWS4-HMAC-SHA256 Credential=A/b, SignedHeaders=host;range, Signature=00",
        b"Range: bytes=-404",
        b"amz-sdk-invocation-id: 1",
        b"Accept-Encoding: identity",
    ),
    "PUT with a length": request(b"PUT", b"/17", b"Content-Length: 4", b"X-A: 1", body=b"body"),
    "PUT of nothing": request(b"PUT", b"/18", b"Content-Length: 0"),
    "PUT in chunks": request(b"PUT", b"/19", b"Transfer-Encoding: chunked", body=CHUNKS),
    "PUT unless it is there": request(
        b"PUT", b"/20", b"If-None-Match: *", b"Content-Length: 1", b"x-amz-checksum-crc32: IS3",
        body=b"x",
    ),
    "POST": request(b"POST", b"/21?uploads", b"Content-Length: 1", b"Content-Type: a/b", body=b"x"),
    "POST without a body": request(b"POST", b"/22?uploads", b"Content-Length: 0"),
    "DELETE": request(b"DELETE", b"/23", b'If-Match: "x"'),
    "DELETE with a body": request(b"DELETE", b"/24", b"Content-Length: 1", body=b"x"),
    "PATCH": request(b"PATCH", b"/25", b"Content-Length: 1", body=b"x"),
    "PROPFIND": request(b"PROPFIND", b"/26/", b"Depth: 1", b"Content-Length: 1", body=b"x"),
    "a preflight": request(
        b"OPTIONS",
        b"/27",
        b"Origin: http://page.example",
        b"Access-Control-Request-Method: GET",
        b"Access-Control-Request-Headers: range",
    ),
    "GET with a body": request(b"GET", b"/28", b"Content-Length: 4", body=b"body"),
    "MOVE": request(b"MOVE", b"/29", b"Destination: /30", b"Overwrite: F"),
}  # fmt: skip


async def test_what_the_origin_receives_is_what_was_sent(between: Between) -> None:
    between.answer = OK
    for name, sent in REQUESTS.items():
        straight, through = await between.straight_and_through(sent)
        # Only what the cache itself asks on behalf of many asks in its own way.
        is_fill = sent.startswith(b"GET") and not re.search(
            rb"signature|range: bytes=[^\r]*,|content-length", sent, re.IGNORECASE
        )
        # A whole that comes in the place of a range is told for what it is of it.
        status = 206 if b"Range: bytes=-" in sent else 200
        one, other = straight.request, through.request
        assert (one.method, one.target, one.body) == (other.method, other.target, other.body), name
        ours = forwarded(one, is_fill=is_fill)
        assert forwarded(other, is_fill=is_fill) == ours, name
        assert framing(one) == framing(other), name
        lines = lines_of(other.head)
        assert [v for n, v in lines if n.lower() == b"host"] == [
            between.origin.url.removeprefix("http://").encode()
        ], name
        vias = [v for n, v in lines if n.lower() == b"via"]
        assert re.fullmatch(rb"1\.1 chunkside-[0-9a-f]{8}", vias[-1]), name
        assert vias[:-1] == [v for n, v in lines_of(one.head) if n.lower() == b"via"], name
        assert (through.answer.status, through.answer.body) == (status, straight.answer.body), name


async def test_every_target_arrives_byte_for_byte(between: Between) -> None:
    between.answer = OK
    targets = [*TARGETS, "/" + "k" * 3000, "/a%25b", "/a%252Fb", "/a%23b", "/%E4%B8%AD", "/@h:9/x"]
    for method in (b"HEAD", b"GET", b"PUT"):
        for target in targets:
            sent = request(method, target.encode(), b"Content-Length: 0")
            straight, through = await between.straight_and_through(sent)
            assert straight.request.target == through.request.target == target.encode()


def answer(status: bytes, *lines: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([b"HTTP/1.1 " + status, *lines, b"", b""]) + body


ANSWERS = {
    "repeated, odd and empty fields": answer(
        b"200 OK", b"X-A: 1", b"x-oDD:   v  ", b"X-Empty:", b"X-A: 2", b"Content-Length: 4",
        body=b"body",
    ),
    "Latin-1 and UTF-8": answer(
        b"200 OK", b"X-Latin: \xe9\xff", "X-Name: Ü".encode(), b"Content-Length: 0"
    ),
    "Link, Vary and Set-Cookie apart": answer(
        b"200 OK", b"Link: </a>; rel=x", b"Link: </b>; rel=y", b"Vary: Accept", b"Vary: X-T",
        b"Content-Length: 4", body=b"body",
    ),
    "every hop-by-hop field": answer(
        b"200 OK",
        b"Connection: X-Hop, keep-alive",
        b"X-Hop: 1",
        b"Keep-Alive: timeout=5",
        b"Proxy-Connection: keep-alive",
        b"X-End: 1",
        b"Content-Length: 4",
        body=b"body",
    ),
    "chunks, extensions and trailers": answer(
        b"200 OK", b"Trailer: X-Trailer", b"Transfer-Encoding: chunked", body=CHUNKS
    ),
    "until the connection ends": answer(b"200 OK", b"Connection: close", body=b"body"),
    "encoded": answer(
        b"200 OK", b"Content-Encoding: gzip", b'ETag: "g"', b"Content-Length: 4",
        body=b"\x1f\x8b\x08\x00",
    ),
    "a Cache-Status and an Age of others": answer(
        b"200 OK", b"Cache-Status: Origin; hit, CDN; fwd=miss", b"Age: 7",
        b"Cache-Control: no-store", b"Content-Length: 4", body=b"body",
    ),
    "a reason of its own": answer(b"200 Fine By Me", b"Content-Length: 0"),
    "no reason": answer(b"200 ", b"Content-Length: 0"),
    "early hints first": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK,
    "a continue first": b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
    "an empty body": answer(b"200 OK", b"Content-Length: 0"),
    "a date": answer(b"200 OK", b"Date: Mon, 01 Jan 2024 00:00:00 GMT", b"Content-Length: 0"),
}  # fmt: skip


@pytest.mark.parametrize("method", [b"GET", b"PUT", b"OPTIONS"])
async def test_what_the_client_gets_is_what_the_origin_said(
    between: Between, method: bytes
) -> None:
    for n, (name, said) in enumerate(ANSWERS.items()):
        between.answer = said
        sent = request(method, b"/%d" % n, b"Content-Length: 0")
        straight, through = await between.straight_and_through(sent)
        one, other = straight.answer, through.answer
        assert (one.status, one.body) == (other.status, other.body), name
        assert told(other) == told(one), name
        # A server's 1xx say something of its connection; ours has nothing of the kind to say.
        assert through.said.interim == (), name
        if b"Date:" in said:
            assert other.values(b"date") == one.values(b"date")
        else:
            assert len(other.values(b"date")) == 1
        frames = [
            line
            for line in lines_of(b"\r\n" + b"\r\n".join(other.lines))
            if line[0].lower() in _FRAMING
        ]
        assert len(frames) == 1, name


STATUSES = [
    200, 201, 202, 203, 207, 226, 300, 301, 302, 303, 307, 308, 400, 401, 402, 403, 404, 405, 406,
    408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 421, 422, 423, 424, 425, 426, 428, 429,
    431, 451, 499, 500, 501, 502, 503, 504, 505, 507, 508, 511, 520, 599,
]  # fmt: skip


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"PUT", b"DELETE", b"POST", b"PROPFIND"])
async def test_every_status_passes_as_it_is(between: Between, method: bytes) -> None:
    for status in STATUSES:
        lines = (
            b"Location: /elsewhere?a=b#c",
            # Longer than all tries may take: it is asked once.
            b"Retry-After: 3600",
            b'WWW-Authenticate: Basic realm="x"',
        )
        body = b"" if method == b"HEAD" else b"told"
        between.answer = answer(b"%d Told" % status, *lines, b"Content-Length: 4", body=body)
        straight, through = await between.straight_and_through(
            request(method, b"/%d" % status, b"Content-Length: 0")
        )
        one, other = straight.answer, through.answer
        assert (other.status, other.body) == (one.status, one.body) == (status, body)
        assert told(other) == told(one)
        assert other.values(b"content-length") == [b"4"], status


@pytest.mark.parametrize(
    ("method", "status", "through"),
    [
        # Readers take these for absence, or for a whole (DESIGN, rule 1).
        (b"GET", 204, 502),
        (b"GET", 205, 502),
        (b"GET", 304, 502),
        (b"GET", 206, 502),
        (b"GET", 101, 502),
        (b"PUT", 101, 502),
        (b"GET", 600, 502),
        (b"DELETE", 999, 502),
        (b"HEAD", 204, 204),
        (b"PUT", 204, 204),
        (b"PUT", 205, 205),
        (b"OPTIONS", 204, 204),
        (b"HEAD", 304, 304),
    ],
)
async def test_a_status_that_has_no_body_has_none_and_is_none_to_a_get(
    between: Between, method: bytes, status: int, through: int
) -> None:
    between.answer = answer(
        b"%d Told" % status, *([] if status in (204, 304) else [b"Content-Length: 0"])
    )
    exchanged = await between.exchange(
        between.sidecar.url, request(method, b"/k", b"Content-Length: 0")
    )
    assert exchanged.answer.status == through
    if through in (204, 304):
        assert exchanged.answer.body == b""
        assert exchanged.answer.values(b"content-length") == []
        assert exchanged.answer.values(b"transfer-encoding") == []
