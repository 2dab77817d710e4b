"""Peers that are slow, that leave, or that say too much: memory is bounded, nothing stays."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.conftest import ANY_DISK
from tests.support.deadline import wait_event, wait_for
from tests.support.http_client import exchange
from tests.support.origin import Origin, Script
from tests.support.sidecar import Sidecar

MIB = 1 << 20
# A body far larger than all buffers on its way.
SIZE = 192 * MIB
BOUND = 48 * MIB


class SlowOrigin:
    """Reads one request's head, and its body only once it is let; counts what came."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.may_read = threading.Event()
        self.received = 0
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(1)
            self.may_read.wait()
            while self.received < SIZE and (piece := connection.recv(MIB)):
                self.received += len(piece)
            connection.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")

    def close(self) -> None:
        self.may_read.set()
        self._thread.join()
        self._listener.close()


@pytest.fixture
def slow_origin() -> Iterator[SlowOrigin]:
    origin = SlowOrigin()
    yield origin
    origin.close()


def connected(url: str) -> socket.socket:
    split = urlsplit(url)
    return socket.create_connection((split.hostname, split.port), 30)


def test_a_slow_origin_slows_an_upload_and_fills_no_memory(
    slow_origin: SlowOrigin, tmp_path: Path
) -> None:
    sent = 0

    def upload(client: socket.socket) -> None:
        nonlocal sent
        client.sendall(b"PUT /k HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % SIZE)
        piece = bytes(MIB)
        while sent < SIZE:
            sent += client.send(piece[: SIZE - sent])

    last: list[int] = []

    def has_come_to_rest() -> bool:
        last.append(sent)
        return sent > 0 and len(last) > 50 and len(set(last[-50:])) == 1

    with (
        Sidecar(slow_origin.url, tmp_path / "cache", ANY_DISK) as sidecar,
        connected(sidecar.url) as client,
    ):
        before = sidecar.rss_anon_bytes()
        thread = threading.Thread(target=upload, args=(client,))
        thread.start()
        wait_for(has_come_to_rest, "the upload to stand still")
        assert sent < BOUND
        assert sidecar.rss_anon_bytes() - before < BOUND
        slow_origin.may_read.set()
        thread.join()
        assert client.recv(12) == b"HTTP/1.1 201"
        assert slow_origin.received == SIZE
        assert sidecar.rss_anon_bytes() - before < BOUND


def test_slow_readers_of_one_key_hold_nobody_up_and_fill_no_memory(
    own_origin: Origin, own_sidecar: Sidecar
) -> None:
    size = 64 * MIB
    own_origin.put("/k", bytes(size), etag='"one"')
    before = own_sidecar.rss_anon_bytes()
    with ExitStack() as stack:
        for _ in range(8):
            client = stack.enter_context(connected(own_sidecar.url))
            client.sendall(b"GET /k HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(12) == b"HTTP/1.1 200"
        # One who reads gets all of it while the others stand still.
        answer = exchange(own_sidecar.url, "/k")
        assert (len(answer.body), answer.is_complete) == (size, True)
        assert own_sidecar.rss_anon_bytes() - before < BOUND
    assert own_origin.count("GET") == 1


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "relayed"])
def test_clients_that_leave_free_everything(
    own_origin: Origin, own_sidecar: Sidecar, is_stored: bool
) -> None:
    headers = () if is_stored else (("Cache-Control", "no-store"),)
    own_origin.put("/k", bytes(8 * MIB), headers=headers)
    gate = own_origin.hold("/k", MIB, times=None)
    descriptors = Path(f"/proc/{own_sidecar.pid}/fd")
    exchange(own_sidecar.url, "/other")
    before = len(list(descriptors.iterdir()))
    clients = [connected(own_sidecar.url) for _ in range(20)]
    for client in clients:
        client.sendall(b"GET /k HTTP/1.1\r\nHost: localhost\r\n\r\n")
    for client in clients:
        assert client.recv(12) == b"HTTP/1.1 200"
    for client in clients:
        client.close()
    gate.release()
    own_sidecar.wait_idle()
    # What is left: a file that is kept open for the next who asks, and connections in the pool.
    wait_for(lambda: len(list(descriptors.iterdir())) <= before + 4, "descriptors to be let go of")
    assert exchange(own_sidecar.url, "/other").status == 404


def test_a_header_timeout_and_an_idle_timeout_are_settings(
    own_origin: Origin, cache_dir: Path
) -> None:
    flags = (*ANY_DISK, "--header-timeout", "50ms", "--idle-timeout", "50ms")
    with Sidecar(own_origin.url, cache_dir, flags) as sidecar:
        with connected(sidecar.url) as late:
            late.sendall(b"GET / HTTP/1.1\r\nHost: local")
            assert late.recv(12) == b"HTTP/1.1 408"
        with connected(sidecar.url) as idle:
            assert idle.recv(1) == b""


def test_an_origin_that_says_too_much_of_a_head_is_nonsense(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    for lines in (b"X: " + b"a" * 200_000, b"\r\n".join([b"X-A: a"] * 20_000), b"X: a\r\n b\r\n"):
        origin.script(target, Script(raw=b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n\r\n"))
        answer = exchange(sidecar.url, target)
        assert answer.status == 502
        assert answer.value("Content-Type") == "application/problem+json"


NONSENSE = {
    "length and chunks": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody",
    "a length that is none": b"Content-Length: four\r\n\r\nbody",
    "a space before the colon": b"Content-Length : 4\r\n\r\nbody",
    "a tab before the colon": b"Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n",
    "a name that is none": b"X(Y: 1\r\nContent-Length: 4\r\n\r\nbody",
    "a NUL": b"X: a\0b\r\nContent-Length: 4\r\n\r\nbody",
    "a bare CR": b"X: a\rb\r\nContent-Length: 4\r\n\r\nbody",
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_an_answer_that_means_two_things_is_nonsense_and_not_stored(
    origin: Origin, sidecar: Sidecar, target: str, kind: str
) -> None:
    origin.script(target, Script(raw=b"HTTP/1.1 200 OK\r\n" + NONSENSE[kind]), times=1)
    assert exchange(sidecar.url, target).status == 502
    origin.put(target, b"body")
    assert exchange(sidecar.url, target).body == b"body"


def test_a_client_that_leaves_before_anything_came_ends_nothing_for_others(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    origin.put(target, b"body")
    gate = origin.hold(target)
    with connected(sidecar.url) as client:
        client.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        gate.wait_held()
    got: list[bytes] = []
    is_asked = threading.Event()

    def ask() -> None:
        is_asked.set()
        got.append(exchange(sidecar.url, target).body)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_event(is_asked, "the second reader")
    gate.release()
    thread.join()
    assert got == [b"body"]
    assert origin.count("GET") == 1
