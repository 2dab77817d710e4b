"""Messages that mean one thing to one reader and another to the next: refused, and the connection
with them. Each is told from the answer, from what the origin saw, and from what the index holds.
"""

import json

import pytest

from tests.support.http_client import exchange
from tests.support.origin import Origin
from tests.support.raw_client import say, send_only
from tests.support.sidecar import Sidecar

HOST = b"Host: localhost\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


def post(*lines: bytes, body: bytes = b"", version: bytes = b"1.1") -> bytes:
    return message(*lines, body=body, method=b"POST", version=version)


def message(
    *lines: bytes,
    body: bytes = b"",
    method: bytes = b"GET",
    target: bytes = b"/k",
    version: bytes = b"1.1",
) -> bytes:
    start = b"%b %b HTTP/%b" % (method, target, version)
    return b"\r\n".join([start, b"Host: localhost", *lines, b"", b""]) + body


def chunked(body: bytes) -> bytes:
    return post(b"Transfer-Encoding: chunked", body=body)


# Each is followed by a request that a second reader might take for the next one.
ATTACKS: dict[str, tuple[bytes, int]] = {
    "length and chunked": (
        post(b"Content-Length: 4", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
        400,
    ),
    "chunked and length": (
        post(b"Transfer-Encoding: chunked", b"Content-Length: 4", body=b"0\r\n\r\n"),
        400,
    ),
    "one length twice": (post(b"Content-Length: 4", b"Content-Length: 4", body=b"body"), 400),
    "two lengths": (post(b"Content-Length: 0", b"Content-Length: 43"), 400),
    "a list of lengths": (post(b"Content-Length: 4, 4", body=b"body"), 400),
    "a length with a plus": (post(b"Content-Length: +4", body=b"body"), 400),
    "a negative length": (post(b"Content-Length: -4", body=b"body"), 400),
    "a length in hex": (post(b"Content-Length: 0x4", body=b"body"), 400),
    "a length with an underscore": (post(b"Content-Length: 1_0", body=b"0123456789"), 400),
    "an empty length": (post(b"Content-Length:", body=b"body"), 400),
    "a length beyond all bounds": (post(b"Content-Length: %d" % 10**30, body=b"body"), 400),
    "a length in other digits": (post("Content-Length: ٤".encode(), body=b"body"), 400),
    "xchunked": (post(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"), 400),
    "quoted chunked": (post(b'Transfer-Encoding: "chunked"', body=b"0\r\n\r\n"), 400),
    "chunked behind a control": (post(b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"), 400),
    "chunked and something after": (post(b"Transfer-Encoding: chunked, identity"), 400),
    "chunked twice": (
        post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
        400,
    ),
    "identity": (post(b"Transfer-Encoding: identity", body=b"0\r\n\r\n"), 400),
    "a coding that is not undone": (
        post(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"),
        501,
    ),
    "chunked in HTTP/1.0": (
        post(b"Transfer-Encoding: chunked", body=b"0\r\n\r\n", version=b"1.0"),
        400,
    ),
    "a space before the colon": (post(b"Transfer-Encoding : chunked", body=b"0\r\n\r\n"), 400),
    "a negative chunk": (chunked(b"-1\r\nx\r\n0\r\n\r\n"), 400),
    "a chunk size of 0x": (chunked(b"0x1\r\nx\r\n0\r\n\r\n"), 400),
    "a chunk size with a plus": (chunked(b"+1\r\nx\r\n0\r\n\r\n"), 400),
    "a chunk size behind a space": (chunked(b" 1\r\nx\r\n0\r\n\r\n"), 400),
    "a chunk size before a space": (chunked(b"1 \r\nx\r\n0\r\n\r\n"), 400),
    "no chunk size": (chunked(b"\r\nx\r\n0\r\n\r\n"), 400),
    "a chunk beyond all bounds": (chunked(b"F" * 20 + b"\r\nx\r\n0\r\n\r\n"), 400),
    "more than the chunk says": (chunked(b"1\r\nxyz\r\n0\r\n\r\n"), 400),
    "chunks ended by LF": (chunked(b"1\nx\n0\n\n"), 400),
    "a chunk extension ended by LF": (chunked(b"1;a\nx\r\n0\r\n\r\n"), 400),
    "a chunk extension with a CR": (chunked(b"1;a\rb\r\nx\r\n0\r\n\r\n"), 400),
    "a chunk extension with a NUL": (chunked(b"1;a\0b\r\nx\r\n0\r\n\r\n"), 400),
    "a chunk extension that opens a quote": (chunked(b'1;a="\r\nx\r\n0\r\n\r\n'), 400),
    "a trailer that frames": (chunked(b"1\r\nx\r\n0\r\nContent-Length: 5\r\n\r\n"), 400),
    "obs-fold": (message(b"X-A: a", b" Transfer-Encoding: chunked"), 400),
    "obs-fold at once": (b"GET /k HTTP/1.1\r\n X-A: a\r\n" + HOST + b"\r\n", 400),
    "NUL in a value": (message(b"X-A: a\0b"), 400),
    "NUL in a name": (message(b"X\0: a"), 400),
    "NUL in the target": (message(target=b"/k\0"), 400),
    "a control in the target": (message(target=b"/k\x01"), 400),
    "a space in the target": (message(target=b"/a b"), 400),
    "a bare CR in a value": (message(b"X-A: a\rContent-Length: 5"), 400),
    "a bare CR as line end": (b"GET /k HTTP/1.1\r" + HOST + b"\r\n", 400),
    "bare LFs": (b"GET /k HTTP/1.1\nHost: localhost\n\n", 400),
    "one bare LF": (message(b"X-A: a\nContent-Length: 5"), 400),
    "a name with a space": (message(b"X A: a"), 400),
    "a name of nothing": (message(b": a"), 400),
    "no colon": (message(b"abc"), 400),
    "no Host": (b"GET /k HTTP/1.1\r\n\r\n", 400),
    "two Hosts": (message(b"Host: localhost"), 400),
    "an empty Host": (b"GET /k HTTP/1.1\r\nHost:\r\n\r\n", 400),
    "a Host with a path": (b"GET /k HTTP/1.1\r\nHost: localhost/evil\r\n\r\n", 400),
    "a Host with a user": (b"GET /k HTTP/1.1\r\nHost: localhost@evil\r\n\r\n", 400),
    "a URL with a user": (message(target=b"http://a@localhost/k"), 400),
    "a URL of no host": (message(target=b"http:///k"), 400),
    "a backslash before the path": (message(target=b"http://localhost\\evil/k"), 400),
    "a target that is no path": (message(target=b"\\k"), 400),
    "a large field": (message(b"X-A: " + b"a" * 40_000), 431),
    "many fields": (message(*[b"X-A: a"] * 200), 431),
    "a long target": (message(target=b"/" + b"a" * 20_000), 414),
    "no method there is": (message(method=b"G(T"), 400),
    "a method of no end": (message(method=b"G" * 10_000), 400),
    "HTTP/2 by prior knowledge": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "another major version": (message(version=b"2.0"), 505),
    "a minor version of its own": (message(version=b"1.2"), 400),
}


def held(sidecar: Sidecar) -> dict[str, int]:
    stats = json.loads(exchange(sidecar.admin_url, "/stats").body)
    return {name: stats[name] for name in ("bodies", "ranges", "markers", "current_size")}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_on_framing_is_refused_and_its_connection_closed(
    origin: Origin, sidecar: Sidecar, name: str
) -> None:
    origin.put("/k", b"body")
    origin.put("/smuggled", b"smuggled")
    before = held(sidecar)
    sent, status = ATTACKS[name]
    said = send_only(sidecar.url, sent + SMUGGLED)
    assert [each.status for each in said.answers] == [status]
    [answer] = said.answers
    assert answer.values(b"connection") == [b"close"]
    assert answer.values(b"content-type") == [b"application/problem+json"]
    assert origin.exchanges == []
    assert held(sidecar) == before


def test_an_attack_in_the_middle_of_a_body_is_no_upload(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    """The chunk that is wrong comes when the origin has been asked already."""
    origin.put(target, b"old")
    head = b"PUT %b HTTP/1.1\r\n" % target.encode() + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    for bad in (b"zz\r\n", b"2\r\nabc\r\n", b"1;a\nx\r\n"):
        said = send_only(sidecar.url, head + b"3\r\nnew\r\n" + bad + SMUGGLED)
        assert [each.status for each in said.answers] == [400]
    assert origin.objects[target].body == b"old"
    assert origin.requests("GET") == []


SAFE: dict[str, tuple[bytes, list[int], list[tuple[str, bytes, bytes]]]] = {
    "a body that looks like a request": (
        message(b"Content-Length: %d" % len(SMUGGLED), body=SMUGGLED, method=b"PUT", target=b"/p"),
        [201],
        [("PUT", b"/p", SMUGGLED)],
    ),
    "a GET with a body that looks like a request": (
        message(b"Content-Length: %d" % len(SMUGGLED), body=SMUGGLED),
        [200],
        [("GET", b"/k", SMUGGLED)],
    ),
    "a refused request with a body that looks like one": (
        message(b"Content-Length: %d" % len(SMUGGLED), body=SMUGGLED, method=b"PURGE"),
        [405],
        [],
    ),
    "chunk extensions": (
        chunked(b"1;a=b;c\r\nx\r\n1;" + b"d" * 9000 + b"\r\ny\r\n0;e\r\n\r\n"),
        [200],
        [("POST", b"/k", b"xy")],
    ),
    "trailers": (
        chunked(b"1\r\nx\r\n0\r\nX-Trailer: 1\r\nVia: 1.1 x\r\n\r\n"),
        [200],
        [("POST", b"/k", b"x")],
    ),
    "chunked in capitals": (
        post(b"Transfer-Encoding: CHUNKED", body=b"1\r\nx\r\n0\r\n\r\n"),
        [200],
        [("POST", b"/k", b"x")],
    ),
    "Connection names the framing": (
        post(b"Connection: content-length, host", b"Content-Length: 4", body=b"body"),
        [200],
        [("POST", b"/k", b"body")],
    ),
    "an upgrade to h2c": (
        message(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAM"),
        [200],
        [("GET", b"/k", b"")],
    ),
    "an upgrade to a websocket": (
        message(b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: x"),
        [200],
        [("GET", b"/k", b"")],
    ),
    "empty lines before the request": (b"\r\n\r\n" + message(), [200], [("GET", b"/k", b"")]),
    "CONNECT": (message(method=b"CONNECT", target=b"localhost:80"), [405], []),
}


@pytest.mark.parametrize("name", SAFE)
def test_what_only_looks_like_an_attack_is_one_request_and_the_next_is_another(
    own_origin: Origin, own_sidecar: Sidecar, name: str
) -> None:
    sent, statuses, seen = SAFE[name]
    own_origin.put("/k", b"body")
    own_origin.put("/next", b"next")
    own_origin.put("/the-end", b"end")
    own_origin.put("/smuggled", b"smuggled")
    said = say(own_sidecar.url, sent + SMUGGLED.replace(b"/smuggled", b"/next"))
    assert [each.status for each in said.answers] == [*statuses, 200, 200]
    assert [each.body for each in said.answers][-2:] == [b"next", b"end"]
    came = [(each.method, each.target, each.body) for each in own_origin.requests()]
    assert came == [*seen, ("GET", b"/next", b""), ("GET", b"/the-end", b"")]
    for each in own_origin.requests():
        names = {line.partition(b":")[0].lower() for line in each.header_lines}
        assert names.isdisjoint({b"upgrade", b"http2-settings", b"connection", b"x-trailer"})
        assert len(names & {b"content-length", b"transfer-encoding"}) == (each.body != b"")


def test_an_upgrade_with_a_body_ends_the_connection_with_its_answer(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    lines = (b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: 4")
    sent = message(*lines, body=b"body", method=b"PUT", target=target.encode())
    said = send_only(sidecar.url, sent + SMUGGLED)
    assert [each.status for each in said.answers] == [201]
    assert [(each.method, each.body) for each in origin.requests()] == [("PUT", b"body")]
