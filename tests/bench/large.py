"""A body of gigabytes to many clients at once, one of whom stalls: what the sidecar's memory does.

`python -m tests.bench.large [--mib 2048] [--clients 20] [--rate 20] [--loop uvloop]`. All ask at
once for what nobody has: they follow one growing body, each at its own speed, and compare every
block. Exit code 1 where RssAnon leaves its band, or a byte is wrong.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.http_client import exchange
from tests.support.meanwhile import meanwhile
from tests.support.sidecar import Sidecar

MIB = 1 << 20
BAND_BYTES = 32 * MIB
_NOISE = os.urandom(MIB)
_SAMPLE_SECONDS = 0.1


def block(number: int) -> bytes:
    """The body's MiB of that number: noise, and the number so that no two are alike."""
    return number.to_bytes(8, "big") + _NOISE[8:]


class Origin:
    """Makes the body as it sends it, so that it holds none of it."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.requests = 0
        port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            head = b""
            while b"\r\n\r\n" not in head:
                received = connection.recv(65536)
                if not received:
                    return
                head += received
            self.requests += b" /small" not in head
            count = 1 if b" /small" in head else self._blocks
            connection.sendall(
                b'HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nETag: "one"\r\n'
                b"Connection: close\r\nContent-Length: %d\r\n\r\n" % (count * MIB)
            )
            for number in range(count):
                connection.sendall(block(number))

    def close(self) -> None:
        self._listener.close()


class Client(threading.Thread):
    """Reads at most `rate` MiB a second; one without a rate stalls after its first MiB."""

    def __init__(self, url: str, blocks: int, rate: float | None, stalled: threading.Event) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._blocks = blocks
        self._rate = rate
        self._stalled = stalled
        self.got = 0
        self.fault: str | None = None

    def run(self) -> None:
        try:
            self._run()
        except (OSError, EOFError, AssertionError) as fault:
            self.fault = f"after {self.got} MiB: {fault!r}"

    def _run(self) -> None:
        split = urlsplit(self._url)
        pause, started = threading.Event(), time.monotonic()
        with socket.create_connection((split.hostname or "", split.port or 0), 300) as connection:
            connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += connection.recv(1)
            assert head.startswith(b"HTTP/1.1 200 "), head
            assert b"content-length: %d\r\n" % (self._blocks * MIB) in head.lower(), head
            target = memoryview(bytearray(MIB))
            for number in range(self._blocks):
                _receive(connection, target)
                assert target == block(number), f"block {number} is another"
                self.got += 1
                if self._rate is None:
                    self._stalled.wait()
                    return
                pause.wait(max(0.0, started + self.got / self._rate - time.monotonic()))


def _receive(connection: socket.socket, target: memoryview) -> None:
    filled = 0
    while filled < len(target):
        count = connection.recv_into(target[filled:])
        if not count:
            raise EOFError
        filled += count


def measure(chosen: argparse.Namespace, cache_dir: Path) -> int:
    origin = Origin(chosen.mib)
    flags = ("--loop", chosen.loop, "--cache-size", "16GiB", "--max-body-size", "4GiB")
    samples: list[int] = []
    stalled = threading.Event()
    with Sidecar(origin.url, cache_dir, (*flags, "--min-free", "0")) as sidecar:
        for _ in range(3):
            exchange(sidecar.url, "/small")
        sidecar.wait_idle()
        before = sidecar.rss_anon_bytes()
        clients = [
            Client(sidecar.url, chosen.mib, rate, stalled)
            for rate in [float(chosen.rate)] * chosen.clients + [None]
        ]
        started = time.monotonic()
        with meanwhile(lambda: samples.append(sidecar.rss_anon_bytes()), _SAMPLE_SECONDS):
            for client in clients:
                client.start()
            for client in clients[:-1]:
                client.join()
            took = time.monotonic() - started
            sidecar.wait_idle()
            hit = Client(sidecar.url, chosen.mib, float("inf"), stalled)
            hit.start()
            hit.join()
        stalled.set()
        clients[-1].join()
        mapped = sidecar.metric("chunkside_mapped_bytes")
    origin.close()
    faults = [client.fault for client in (*clients, hit) if client.fault]
    grown = sorted((each - before) / MIB for each in samples)
    low, middle, high = grown[0], grown[len(grown) // 2], grown[-1]
    rates = sorted(client.got / took for client in clients[:-1])
    print(
        f"{chosen.loop}: {chosen.mib} MiB to {chosen.clients} clients at {chosen.rate} MiB/s and "
        f"one that stalls, {took:.0f} s ({rates[0]:.1f} MiB/s the slowest), one request to the "
        f"origin: {origin.requests == 1}; RssAnon {before / MIB:.0f} MiB before, {low:+.1f} to "
        f"{high:+.1f} MiB meanwhile (median {middle:+.1f} of {len(samples)} samples), "
        f"{mapped / MIB:.0f} MiB mapped; faults: {faults or 'none'}"
    )
    is_flat = max(abs(low), abs(high)) * MIB <= BAND_BYTES
    return 0 if is_flat and not faults and origin.requests == 1 else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.large", description=__doc__)
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--rate", type=float, default=20.0, help="MiB/s of each client")
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="chunkside-large-") as place:
        return measure(chosen, Path(place) / "cache")


if __name__ == "__main__":
    sys.exit(main())
