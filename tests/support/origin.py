"""An HTTP origin that does what a test tells it to.

It logs every request as the bytes that came, and frames its answers by hand, so that it can answer
wrongly too: a reset before the head or within the body, a body without a length, a range ignored.
Left alone it behaves: conditionals, single ranges, PUT, POST and DELETE on `objects`.

It runs in threads of its own, one per connection, so that a test may be synchronous or not. What an
answer holds is settled when its request has arrived; a gate then decides when it is sent. So a GET
that is held while a PUT passes carries what the object was before.
"""

import hashlib
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from types import TracebackType
from typing import Literal, Self
from urllib.parse import unquote

from tests.support.deadline import DEADLINE_SECONDS, wait_for

LAST_MODIFIED = "Wed, 01 Jul 2026 12:00:00 GMT"
_SLICE_BYTES = 256 * 1024
_REASONS = {100: "Continue", 200: "OK", 204: "No Content", 206: "Partial Content", 404: "Not Found"}

Framing = Literal["length", "chunked", "close"]


@dataclass(frozen=True, slots=True)
class Object:
    """One object as the origin holds it."""

    body: bytes
    etag: str | None
    last_modified: str | None = LAST_MODIFIED
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Exchange:
    """One request as it came, and what was sent for it so far."""

    method: str
    target: bytes
    header_lines: tuple[bytes, ...]
    connection: int
    body: bytes = b""
    status: int | None = None
    body_bytes_sent: int = 0
    is_done: bool = False

    @property
    def path(self) -> str:
        return unquote(self.target.split(b"?", 1)[0].decode("latin-1"))

    def values(self, name: str) -> list[str]:
        """The values of a header field, in order of arrival."""
        split = (line.partition(b":") for line in self.header_lines)
        wanted = name.lower().encode()
        return [value.strip().decode("latin-1") for key, _, value in split if key.lower() == wanted]

    def value(self, name: str) -> str | None:
        return next(iter(self.values(name)), None)


@dataclass(frozen=True, slots=True)
class Script:
    """How a target misbehaves. What is left at its default happens as usual."""

    status: int | None = None
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    without: tuple[str, ...] = ()
    framing: Framing = "length"
    reset_before_head: bool = False
    reset_after_bytes: int | None = None
    """Body bytes after which the connection is reset."""
    end_after_bytes: int | None = None
    """Body bytes after which the connection is closed in good order, though more was promised."""
    never_answer: bool = False
    raw: bytes | None = None
    """Sent in place of an answer; then the connection is closed."""
    ignore_range: bool = False


def xml_error(status: int, code: str) -> Script:
    """What an S3-style store answers: a status with `<Code>` in its body."""
    body = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code></Error>'.encode()
    return Script(status=status, body=body, headers=(("Content-Type", "application/xml"),))


class Gate:
    """Holds answers at one place until released."""

    def __init__(self, target: str, method: str, after: "After", times: int | None) -> None:
        self.target = target
        self.method = method
        self.after = after
        self._left = times
        self._held = threading.Semaphore(0)
        self._open = threading.Event()

    def admits(self, exchange: Exchange) -> bool:
        """Whether this gate holds that request; a request admitted counts against `times`."""
        if self._open.is_set() or self._left == 0:
            return False
        if (exchange.method, exchange.target) != (self.method, self.target.encode("latin-1")):
            return False
        if self._left is not None:
            self._left -= 1
        return True

    def wait_held(self) -> None:
        """Returns once one more request stands at the gate."""
        if not self._held.acquire(timeout=DEADLINE_SECONDS):
            raise AssertionError(f"no {self.method} {self.target} came to the gate at {self.after}")

    def release(self) -> None:
        self._open.set()

    def pass_through(self) -> None:
        self._held.release()
        self._open.wait()


After = Literal["request", "head"] | int
"""Where a gate stands: before the head, after it, or after so many bytes of the body."""


@dataclass(slots=True)
class _Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes
    script: Script
    gates: list[Gate] = field(default_factory=list)


class _ConnectionLostError(Exception):
    pass


class _Reader:
    """Lines and byte counts from a socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()

    def _more(self) -> None:
        received = self._connection.recv(_SLICE_BYTES)
        if not received:
            raise _ConnectionLostError
        self._buffer += received

    def line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            self._more()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._more()
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def chunked(self) -> bytes:
        parts = []
        while size := int(self.line().split(b";")[0], 16):
            parts.append(self.exactly(size))
            self.line()
        while self.line():
            pass
        return b"".join(parts)


class Origin:
    """A context manager: serves from entry to exit, on a free port unless one is given."""

    def __init__(self, objects: Mapping[str, bytes] | None = None, port: int = 0) -> None:
        self.objects: dict[str, Object] = {}
        self.exchanges: list[Exchange] = []
        self.chunked_uploads = 0
        self._lock = threading.Lock()
        self._scripts: list[tuple[str, str | None, Script, list[int]]] = []
        self._gates: list[Gate] = []
        self._connections: dict[int, socket.socket] = {}
        self._threads: list[threading.Thread] = []
        self._connection_count = 0
        self._stopping = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        for path, body in (objects or {}).items():
            self.put(path, body)

    def __enter__(self) -> Self:
        self._start_thread(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends every connection; from now on a connection is refused. May be called twice."""
        self._stopping.set()
        with self._lock:
            for gate in self._gates:
                gate.release()
            open_sockets = [self._listener, *self._connections.values()]
            threads = list(self._threads)
        for opened in open_sockets:
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(DEADLINE_SECONDS)
            assert not thread.is_alive(), f"{thread.name} of the origin does not end"
        self._listener.close()

    def put(
        self,
        path: str,
        body: bytes,
        *,
        etag: str | None = "",
        last_modified: str | None = LAST_MODIFIED,
        headers: Iterable[tuple[str, str]] = (),
    ) -> Object:
        """Puts an object under its decoded path; the ETag is made of the bytes unless given."""
        if etag == "":
            etag = f'"{hashlib.sha1(body).hexdigest()[:20]}"'
        stored = Object(body, etag, last_modified, tuple(headers))
        self.objects[path] = stored
        return stored

    def script(
        self, target: str, script: Script, *, method: str | None = None, times: int = -1
    ) -> None:
        """Misbehaves for a raw target: the next `times` requests, or for ever."""
        with self._lock:
            self._scripts.append((target, method, script, [times]))

    def behave(self) -> None:
        with self._lock:
            self._scripts.clear()

    def reset(self) -> None:
        """As it was at first: no objects, no scripts, no gates, nothing seen."""
        self.behave()
        with self._lock:
            for gate in self._gates:
                gate.release()
            self._gates.clear()
        self.objects.clear()
        self.exchanges.clear()
        self.chunked_uploads = 0

    def hold(
        self, target: str, after: After = "request", *, method: str = "GET", times: int | None = 1
    ) -> Gate:
        """Holds the answers to the next `times` requests for a raw target; None holds them all."""
        gate = Gate(target, method, after, times)
        with self._lock:
            self._gates.append(gate)
        return gate

    def requests(self, method: str | None = None, path: str | None = None) -> list[Exchange]:
        """What came so far, by method and decoded path; None means any."""
        return [
            exchange
            for exchange in list(self.exchanges)
            if method in (None, exchange.method) and path in (None, exchange.path)
        ]

    def count(self, method: str | None = None, path: str | None = None) -> int:
        return len(self.requests(method, path))

    def gets_by_path(self) -> Counter[str]:
        return Counter(exchange.path for exchange in self.requests("GET"))

    def bodies_by_path(self) -> Counter[str]:
        """How often bytes of an object were sent, whole or in part."""
        sent = (e for e in self.requests() if e.status in (200, 206) and e.body_bytes_sent)
        return Counter(exchange.path for exchange in sent)

    def forget_requests(self) -> None:
        self.exchanges.clear()

    def wait_count(self, count: int, method: str | None = None, path: str | None = None) -> None:
        what = f"{count} x {method or 'any'} {path or 'anywhere'} at the origin"
        wait_for(lambda: self.count(method, path) >= count, what)

    def _start_thread(self, run: object, *arguments: object) -> None:
        assert callable(run)
        thread = threading.Thread(target=run, args=arguments, name=f"origin-{self.port}")
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._connection_count += 1
                number = self._connection_count
                self._connections[number] = connection
                if self._stopping.is_set():
                    connection.close()
                    return
                self._start_thread(self._serve, connection, number)

    def _serve(self, connection: socket.socket, number: int) -> None:
        reader = _Reader(connection)
        try:
            while self._serve_one(connection, reader, number):
                pass
        except (OSError, _ConnectionLostError):
            pass
        finally:
            with self._lock:
                del self._connections[number]
            connection.close()

    def _serve_one(self, connection: socket.socket, reader: _Reader, number: int) -> bool:
        """Answers one request; False ends the connection."""
        exchange = self._read(connection, reader, number)
        with self._lock:
            answer = self._settle(exchange)
        for gate in answer.gates:
            if gate.after == "request":
                gate.pass_through()
        if answer.script.never_answer:
            self._stopping.wait()
            return False
        if answer.script.reset_before_head:
            _reset(connection)
            return False
        if answer.script.raw is not None:
            connection.sendall(answer.script.raw)
            return False
        is_kept = self._send(connection, exchange, answer)
        exchange.is_done = True
        return is_kept and exchange.value("Connection") != "close"

    def _read(self, connection: socket.socket, reader: _Reader, number: int) -> Exchange:
        method, target, _ = reader.line().split(b" ", 2)
        lines = []
        while line := reader.line():
            lines.append(line)
        exchange = Exchange(method.decode(), target, tuple(lines), number)
        if (exchange.value("Expect") or "").lower() == "100-continue":
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if "chunked" in (exchange.value("Transfer-Encoding") or ""):
            exchange.body = reader.chunked()
            self.chunked_uploads += 1
        else:
            exchange.body = reader.exactly(int(exchange.value("Content-Length") or 0))
        return exchange

    def _settle(self, exchange: Exchange) -> _Answer:
        """Logs the request, applies it, and fixes its answer and the gates that hold it."""
        self.exchanges.append(exchange)
        script = self._script_for(exchange)
        if script.status is None:
            answer = self._well_behaved(exchange, script)
        else:
            answer = _Answer(script.status, [], script.body or b"", script)
        if script.body is not None:
            answer.body = script.body
        answer.headers = [
            (name, value)
            for name, value in answer.headers
            if name.lower() not in {dropped.lower() for dropped in script.without}
        ]
        answer.headers.extend(script.headers)
        answer.gates = [gate for gate in self._gates if gate.admits(exchange)]
        exchange.status = answer.status
        return answer

    def _script_for(self, exchange: Exchange) -> Script:
        for target, method, script, left in self._scripts:
            if target.encode("latin-1") != exchange.target or method not in (None, exchange.method):
                continue
            if left[0] != 0:
                left[0] -= 1
                return script
        return Script()

    def _well_behaved(self, exchange: Exchange, script: Script) -> _Answer:
        match exchange.method:
            case "GET" | "HEAD":
                return self._read_object(exchange, script)
            case "PUT":
                is_new = exchange.path not in self.objects
                if not is_new and exchange.value("If-None-Match") == "*":
                    return _Answer(412, [], b"", script)
                stored = self.put(exchange.path, exchange.body)
                return _Answer(201 if is_new else 204, [("ETag", stored.etag or "")], b"", script)
            case "DELETE":
                is_gone = self.objects.pop(exchange.path, None) is not None
                return _Answer(204 if is_gone else 404, [], b"", script)
            case "POST":
                return self._post(exchange, script)
            case _:
                return _Answer(200, [], b"", script)

    def _post(self, exchange: Exchange, script: Script) -> _Answer:
        if exchange.target.endswith(b"?delete"):
            bucket = exchange.path.rstrip("/")
            for key in re.findall(rb"<Key>([^<]*)</Key>", exchange.body):
                self.objects.pop(f"{bucket}/{key.decode()}", None)
            return _Answer(200, [], b"<DeleteResult/>", script)
        self.put(exchange.path, exchange.body)
        return _Answer(200, [], b"", script)

    def _read_object(self, exchange: Exchange, script: Script) -> _Answer:
        stored = self.objects.get(exchange.path)
        if stored is None:
            return _Answer(404, [("Content-Type", "text/plain")], b"no such object\n", script)
        headers = [("Accept-Ranges", "bytes"), *stored.headers]
        if stored.etag is not None:
            headers.append(("ETag", stored.etag))
        if stored.last_modified is not None:
            headers.append(("Last-Modified", stored.last_modified))
        if _is_match(exchange.value("If-None-Match"), stored.etag):
            return _Answer(304, headers, b"", script)
        if (asked := exchange.value("If-Match")) and not _is_match(asked, stored.etag):
            return _Answer(412, [], b"", script)
        return self._slice(exchange, stored, headers, script)

    def _slice(
        self, exchange: Exchange, stored: Object, headers: list[tuple[str, str]], script: Script
    ) -> _Answer:
        length = len(stored.body)
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", exchange.value("Range") or "")
        condition = exchange.value("If-Range")
        is_current = condition is None or condition in (stored.etag, stored.last_modified)
        if script.ignore_range or asked is None or asked.group() == "bytes=-" or not is_current:
            return _Answer(200, headers, stored.body, script)
        first, last = _bounds(asked.group(1), asked.group(2), length)
        if first >= length or first > last:
            return _Answer(416, [("Content-Range", f"bytes */{length}")], b"", script)
        headers.append(("Content-Range", f"bytes {first}-{last}/{length}"))
        return _Answer(206, headers, stored.body[first : last + 1], script)

    def _send(self, connection: socket.socket, exchange: Exchange, answer: _Answer) -> bool:
        script = answer.script
        connection.sendall(_head(answer, exchange.method))
        for gate in answer.gates:
            if gate.after == "head":
                gate.pass_through()
        if exchange.method == "HEAD" or answer.status in (204, 304):
            return True
        stops = {gate.after for gate in answer.gates if isinstance(gate.after, int)}
        stops |= {n for n in (script.reset_after_bytes, script.end_after_bytes) if n is not None}
        sent = 0
        for stop in sorted(stops | {len(answer.body)}):
            self._send_body(connection, exchange, answer.body[sent:stop], script.framing)
            sent = stop
            for gate in answer.gates:
                if gate.after == stop:
                    gate.pass_through()
            if stop == script.reset_after_bytes:
                _reset(connection)
                return False
            if stop == script.end_after_bytes:
                return False
        if script.framing == "chunked":
            connection.sendall(b"0\r\n\r\n")
        return script.framing != "close"

    def _send_body(
        self, connection: socket.socket, exchange: Exchange, part: bytes, framing: Framing
    ) -> None:
        for start in range(0, len(part), _SLICE_BYTES):
            piece = part[start : start + _SLICE_BYTES]
            if framing == "chunked":
                connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
            else:
                connection.sendall(piece)
            exchange.body_bytes_sent += len(piece)


def _head(answer: _Answer, method: str) -> bytes:
    headers = [("Date", formatdate(usegmt=True)), *answer.headers]
    is_bodyless = answer.status in (204, 304)
    names = {name.lower() for name, _ in headers}
    if not is_bodyless and answer.script.framing == "length" and "content-length" not in names:
        headers.append(("Content-Length", str(len(answer.body))))
    if not is_bodyless and answer.script.framing == "chunked" and method != "HEAD":
        headers.append(("Transfer-Encoding", "chunked"))
    if answer.script.framing == "close":
        headers.append(("Connection", "close"))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    reason = _REASONS.get(answer.status, "Whatever")
    return f"HTTP/1.1 {answer.status} {reason}\r\n{lines}\r\n".encode("latin-1")


def _is_match(asked: str | None, etag: str | None) -> bool:
    if asked is None or etag is None:
        return False
    return asked == "*" or etag in [each.strip() for each in asked.split(",")]


def _bounds(first: str, last: str, length: int) -> tuple[int, int]:
    """First and last byte, inclusive, of `bytes=first-last` of a body."""
    if not first:
        return max(0, length - int(last)), length - 1 if int(last) else -1
    return int(first), min(int(last or length), length - 1)


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
