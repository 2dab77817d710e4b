"""A sidecar that is killed at random while it fills, again and again on one cache directory.

Each round has bodies of its own, whole and by ranges, some without a length, and holes; readers
compare every byte with what the origin has, and a writer sees to it that nothing older than his
last write comes back. The moment of the kill is a number of bytes that readers have got. While no
sidecar runs every file is verified; after the restart no temp file may be left by the first scan.
"""

import hashlib
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from chunkside.store.verification import Verification
from tests.support.deadline import DEADLINE_SECONDS, wait_for
from tests.support.http_client import Connection
from tests.support.origin import Origin, Script
from tests.support.sidecar import Sidecar

KIB, MIB = 1 << 10, 1 << 20
FLAGS = (
    *("--min-free", "0", "--allow-memory-filesystem"),
    *("--ttl", "1h", "--negative-ttl", "1h"),
    # So little that bodies are evicted too.
    *("--cache-size", "64MiB", "--max-body-size", "16MiB"),
)
LOOPS = ("uvloop", "asyncio")
READERS = 4
_SIZES = (0, 1, 700, 60 * KIB, 256 * KIB, 256 * KIB + 1, 600 * KIB, 3 * MIB, 9 * MIB)
_ROUNDS_KEPT = 3
_PIECE = 64 * KIB


@dataclass
class Report:
    seed: int
    kills: int = 0
    responses: int = 0
    compared_bytes: int = 0
    cut_short: int = 0
    """Responses that a kill cut off."""
    temps_left: int = 0
    files_verified: int = 0
    writes: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.kills} kills, {self.responses} responses and "
            f"{self.compared_bytes / MIB:.0f} MiB compared, {self.cut_short} cut short, "
            f"{self.writes} writes, {self.temps_left} temp files left by kills, "
            f"{self.files_verified} files verified, wrong: {self.wrong or 'nothing'}"
        )


class _Cut(Exception):
    """The connection ended: the sidecar is dead."""


class Kills:
    def __init__(self, origin: Origin, cache_dir: Path, seed: int) -> None:
        self.report = Report(seed)
        self._origin = origin
        self._cache_dir = cache_dir
        self._draw = random.Random(seed)
        self._targets: list[list[str]] = []
        self._written = [f"/written/c/{number}" for number in range(4)]
        for target in self._written:
            origin.put(target, _bytes_of(f"{seed}{target}0", 300 * KIB))
        self._lock = threading.Lock()
        self._got = threading.Condition(self._lock)
        self._got_bytes = 0
        self._is_over = False

    def run(
        self, rounds: int, on_round: Callable[[Report], object] = lambda report: None
    ) -> Report:
        """Stops at the first round in which anything is wrong."""
        for number in range(rounds):
            self._round(number)
            on_round(self.report)
            if self.report.wrong:
                break
        return self.report

    def _round(self, number: int) -> None:
        self._make_bodies(number)
        flags = (*FLAGS, "--loop", LOOPS[number % 2])
        with Sidecar(self._origin.url, self._cache_dir, flags) as sidecar:
            wait_for(lambda: not self._temps(), "the end of all temp files after the restart")
            for target in self._written:
                self._expect(sidecar.url, target)
            self._race(sidecar, self._draw.randrange(24 * MIB) if self._draw.random() < 0.9 else 0)
            self.report.kills += 1
        self.report.temps_left += len(self._temps())
        self._verify_files()

    def _make_bodies(self, number: int) -> None:
        if len(self._targets) >= _ROUNDS_KEPT:
            for target in self._targets.pop(0):
                self._origin.objects.pop(target, None)
        self._origin.forget_requests()
        self._origin.behave()
        targets = [f"/r{number}/c/{place}" for place in range(24)]
        for place, target in enumerate(targets):
            if place % 8 == 7:
                continue
            size = _SIZES[place % len(_SIZES)] + self._draw.randrange(9)
            self._origin.put(target, _bytes_of(f"{self.report.seed}{target}", size))
            if place % 6 == 5:
                self._origin.script(target, Script(framing="chunked"))
        self._targets.append(targets)

    # While it runs.

    def _race(self, sidecar: Sidecar, kill_after_bytes: int) -> None:
        """Lets all read and write, and kills the sidecar once so many bytes have been read."""
        self._got_bytes, self._is_over = 0, False
        known = [target for targets in self._targets for target in targets]
        seeds = [self._draw.randrange(1 << 32) for _ in range(READERS + 1)]
        threads = [
            threading.Thread(target=self._read, args=(sidecar.url, known, seed), daemon=True)
            for seed in seeds[1:]
        ]
        threads.append(
            threading.Thread(target=self._write, args=(sidecar.url, seeds[0]), daemon=True)
        )
        for thread in threads:
            thread.start()
        with self._got:
            self._got.wait_for(
                lambda: self._got_bytes >= kill_after_bytes or self.report.wrong, DEADLINE_SECONDS
            )
            self._is_over = True
        sidecar.kill()
        for thread in threads:
            thread.join(DEADLINE_SECONDS)
            assert not thread.is_alive(), "a reader hangs"

    def _read(self, url: str, targets: list[str], seed: int) -> None:
        draw = random.Random(seed)
        try:
            for connection in self._connections(url):
                target = draw.choice(targets if draw.random() < 0.5 else self._targets[-1])
                body = self._truth(target)
                fields = []
                first, last = 0, len(body or b"") - 1
                if body and draw.random() < 0.4:
                    first = draw.randrange(len(body))
                    last = min(len(body) - 1, first + draw.choice((9, 5000, 400 * KIB)))
                    fields = [("Range", f"bytes={first}-{last}")]
                status = 404 if body is None else 206 if fields else 200
                wanted = None if body is None else body[first : last + 1]
                self._compare(connection, target, fields, status, wanted)
        except _Cut:
            return

    def _write(self, url: str, seed: int) -> None:
        """Reads, writes and reads again: never what was there before the write."""
        draw = random.Random(seed)
        try:
            for connection in self._connections(url):
                target = draw.choice(self._written)
                self._compare(connection, target, [], 200, self._truth(target))
                new = _bytes_of(f"{seed}{draw.random()}", draw.choice((10, 300 * KIB)))
                self._put(connection, target, new)
                self._compare(connection, target, [], 200, new)
        except _Cut:
            return

    def _put(self, connection: Connection, target: str, body: bytes) -> None:
        try:
            connection.send("PUT", target, body=body)
            answer = connection.response()
        except (OSError, EOFError, ValueError, IndexError):
            raise _Cut from None
        if not answer.is_complete:
            raise _Cut
        if answer.status != 204:
            self._tell(f"PUT {target}: {answer.status}")
        self.report.writes += 1

    def _connections(self, url: str) -> Iterator[Connection]:
        while not self._is_over:
            try:
                connection = Connection(url)
            except OSError:
                return
            with connection:
                yield connection

    def _expect(self, url: str, target: str) -> None:
        """What the origin holds now, and nothing that was there before a write."""
        with Connection(url) as connection:
            self._compare(connection, target, [], 200, self._truth(target))

    def _truth(self, target: str) -> bytes | None:
        found = self._origin.objects.get(target)
        return None if found is None else found.body

    def _compare(
        self,
        connection: Connection,
        target: str,
        fields: list[tuple[str, str]],
        status: int,
        wanted: bytes | None,
    ) -> None:
        """Reads an answer piece by piece. Raises _Cut where it breaks off."""
        try:
            connection.send("GET", target, fields)
            head = connection.head()
        except (OSError, EOFError, ValueError, IndexError):
            raise _Cut from None
        what = f"{target} {dict(fields)}"
        if head.status != status:
            self._tell(f"{what}: {head.status}, not {status}")
            return
        if wanted is None:
            connection.rest(head)
            return
        length = head.value("Content-Length")
        if length is None:
            answer = connection.rest(head)
            self._count(what, answer.body, wanted, 0)
            if not answer.is_complete:
                self._cut()
        elif int(length) != len(wanted):
            self._tell(f"{what}: {length} bytes promised, not {len(wanted)}")
        else:
            self._compare_pieces(connection, what, wanted)
        with self._lock:
            self.report.responses += 1

    def _compare_pieces(self, connection: Connection, what: str, wanted: bytes) -> None:
        for at in range(0, len(wanted), _PIECE):
            try:
                piece = connection.exactly(min(_PIECE, len(wanted) - at))
            except (OSError, EOFError):
                self._cut()
            self._count(what, piece, wanted, at)

    def _count(self, what: str, piece: bytes, wanted: bytes, at: int) -> None:
        if piece != wanted[at : at + len(piece)]:
            self._tell(f"{what}: other bytes from {at} on")
        with self._got:
            self._got_bytes += len(piece)
            self.report.compared_bytes += len(piece)
            self._got.notify_all()

    def _cut(self) -> NoReturn:
        with self._lock:
            self.report.cut_short += 1
        if not self._is_over:
            self._tell("an answer broke off while the sidecar lived")
        raise _Cut

    def _tell(self, what: str) -> None:
        with self._got:
            self.report.wrong.append(f"round {self.report.kills}: {what}")
            self._got.notify_all()

    # While none runs.

    def _temps(self) -> list[Path]:
        return list(self._cache_dir.rglob("*.tmp"))

    def _verify_files(self) -> None:
        verification = Verification(str(self._cache_dir))
        for bad in (bad for batch in verification.run() for bad in batch):
            self._tell(f"{bad.path}: {bad.reason}")
        self.report.files_verified += verification.files


def kill_often(
    rounds: int,
    cache_dir: Path,
    seed: int,
    on_round: Callable[[Report], object] = lambda report: None,
) -> Report:
    with ExitStack() as stack:
        origin = stack.enter_context(Origin())
        return Kills(origin, cache_dir, seed).run(rounds, on_round)


def _bytes_of(name: str, size: int) -> bytes:
    """The same for the same name."""
    return random.Random(hashlib.sha256(name.encode()).digest()).randbytes(size)
