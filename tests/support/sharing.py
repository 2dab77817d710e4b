"""Sidecars on one cache directory, with readers, writers and purges through each of them.

What must hold: no answer is older than a write that had been answered before the question, through
whatever process; no byte is of anything else; all files together stay within the one budget at each
look; and nobody sweeps while another holds the sweep's lock, which is taken here for a while.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from chunkside.store.verification import Verification
from tests.support.deadline import DEADLINE_SECONDS
from tests.support.disk_usage import UsageWatch
from tests.support.histories import Body, Histories
from tests.support.http_client import Connection, Response, exchange
from tests.support.meanwhile import meanwhile
from tests.support.origin import Origin
from tests.support.sidecar import Sidecar

KIB, MIB = 1 << 10, 1 << 20
CLIENTS = 6
FLAGS = (
    *("--min-free", "0", "--allow-memory-filesystem"),
    # What is stale by its age would be asked for again, and hide what was not invalidated.
    *("--ttl", "1h", "--negative-ttl", "1h", "--metadata-ttl", "1h"),
    *("--max-body-size", "2MiB"),
)
LOOPS = ("uvloop", "asyncio", "uvloop")
_SIZES = (1, 700, 60 * KIB, 256 * KIB, 256 * KIB + 1, 600 * KIB, 1500 * KIB)
_HOT_SIZES = (1, 700, 20 * KIB, 300 * KIB)
# Of a thousand. Any POST falls on all of its origin.
_ACTS = {
    "get": 400,
    "range": 140,
    "head": 80,
    "put": 90,
    "delete": 40,
    "post": 2,
    "purge": 8,
    "new": 240,
}
_ARRAYS = 3
_HOT = [f"/a{array}/c/{chunk}" for array in range(_ARRAYS) for chunk in range(6)]
_DOCUMENTS = [f"/a{array}/zarr.json" for array in range(_ARRAYS)]


@dataclass
class Report:
    seed: int
    budget: int
    operations: int = 0
    acts: Counter[str] = field(default_factory=Counter)
    results: Counter[str] = field(default_factory=Counter)
    """Answers to GETs of bodies, by how the sidecar came by them."""
    looks: int = 0
    most_bytes: int = 0
    """The most that all files took at a look."""
    body_bytes: int = 0
    """What all bodies together take that were asked for or written."""
    sweeps: list[int] = field(default_factory=list)
    files_verified: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        acts = ", ".join(f"{count} {act}" for act, count in sorted(self.acts.items()))
        results = ", ".join(f"{count} {result}" for result, count in sorted(self.results.items()))
        return (
            f"seed {self.seed}: {self.operations} operations ({acts}), GETs: {results}; "
            f"{self.body_bytes / self.budget:.1f} budgets of bodies, at most "
            f"{self.most_bytes / self.budget:.3f} of the budget on disk in {self.looks} looks, "
            f"sweeps {self.sweeps}, {self.files_verified} files verified, "
            f"wrong: {self.wrong or 'nothing'}"
        )


class Sharing:
    def __init__(
        self,
        origin: Origin,
        sidecars: list[Sidecar],
        cache_dir: Path,
        operations: int,
        report: Report,
    ) -> None:
        self.report = report
        self._origin = origin
        self._sidecars = sidecars
        self._cache_dir = cache_dir
        self._operations = operations
        self._histories = Histories()
        self._lock = threading.Lock()
        self._moved = threading.Condition(self._lock)
        self._begun = itertools.count()
        self._new = itertools.count()
        for number, target in enumerate((*_HOT, *_DOCUMENTS)):
            # A third of them is absent at first.
            if number % 3:
                self._appear(target, _bytes_of(f"{report.seed}{target}", _HOT_SIZES[number % 4]))

    def run(self) -> Report:
        """Ends early where anything is wrong."""
        draw = random.Random(self.report.seed)
        clients = [
            threading.Thread(
                target=self._client, args=(number, draw.randrange(1 << 32)), daemon=True
            )
            for number in range(CLIENTS)
        ]
        watch = UsageWatch(self._cache_dir / "v1")
        with meanwhile(watch.look, 0.01):
            for client in clients:
                client.start()
            self._forbid_sweeps()
            for client in clients:
                client.join(8 * DEADLINE_SECONDS)
                assert not client.is_alive(), "a client hangs"
        watch.look()
        self.report.looks, self.report.most_bytes = watch.looks, watch.most_bytes
        if watch.most_bytes > self.report.budget:
            self._tell(f"{watch.most_bytes} bytes of files, more than the budget")
        self._look_back()
        return self.report

    def _forbid_sweeps(self) -> None:
        """Holds the lock that sweeps take, in the midst of it all: then nobody sweeps."""
        self._wait_until(self._operations // 3)
        with _sweeps_forbidden(self._cache_dir):
            before = self._count_sweeps()
            self._wait_until(self._operations // 2)
            after = self._count_sweeps()
        if after != before:
            self._tell(f"sweeps {before} became {after} while another held their lock")

    def _wait_until(self, count: int) -> None:
        with self._moved:
            self._moved.wait_for(
                lambda: self.report.operations >= count or self.report.wrong, 8 * DEADLINE_SECONDS
            )

    def _count_sweeps(self) -> list[int]:
        name = "chunkside_sweep_duration_seconds_count"
        return [int(sidecar.metric(name)) for sidecar in self._sidecars]

    def _look_back(self) -> None:
        """Once all is quiet: what is answered is what the origin has, and what lies there is
        sound.
        """
        for sidecar in self._sidecars:
            sidecar.wait_idle()
            with Connection(sidecar.url) as connection:
                for target in (*_HOT, *_DOCUMENTS):
                    found = self._origin.objects.get(target)
                    connection.send("GET", target)
                    answer = connection.response()
                    is_right = answer.body == found.body if found else answer.status == 404
                    if not is_right:
                        self._tell(f"{target}: not what the origin has at the end")
            self._look_beside(sidecar)
        self.report.sweeps = self._count_sweeps()
        verification = Verification(str(self._cache_dir))
        for bad in (bad for batch in verification.run() for bad in batch):
            self._tell(f"{bad.path}: {bad.reason}")
        self.report.files_verified = verification.files

    def _look_beside(self, sidecar: Sidecar) -> None:
        """What the budget doesn't know is told apart, where it can be known."""
        info = json.loads(exchange(sidecar.admin_url, "/info").body)
        has_swept = sidecar.metric("chunkside_sweep_duration_seconds_count") > 0
        if (info["directory_bytes"] is not None) != has_swept:
            self._tell(f"directories take {info['directory_bytes']} bytes")
        if not 0 <= info["lingering_bytes"] <= self.report.budget:
            self._tell(f"{info['lingering_bytes']} bytes linger")

    # Clients. Each keeps a connection to one process for a while, then turns to another.

    def _client(self, number: int, seed: int) -> None:
        draw = random.Random(seed)
        while not self.report.wrong:
            sidecar = self._sidecars[(number + draw.randrange(2)) % len(self._sidecars)]
            with Connection(sidecar.url) as connection:
                for _ in range(20):
                    if next(self._begun) >= self._operations or self.report.wrong:
                        return
                    self._act(sidecar, connection, draw)

    def _act(self, sidecar: Sidecar, connection: Connection, draw: random.Random) -> None:
        [act] = draw.choices(list(_ACTS), list(_ACTS.values()))
        # A document that is written has all of its array validated.
        target = draw.choice(_HOT if draw.random() < 0.97 else _DOCUMENTS)
        match act:
            case "get":
                self._get(connection, target)
            case "range":
                self._range(connection, target, draw)
            case "head":
                self._head(connection, target)
            case "put" | "post":
                body = _bytes_of(f"{draw.random()}", draw.choice(_HOT_SIZES))
                self._write(connection, act.upper(), target, body)
            case "delete":
                self._write(connection, "DELETE", target, None)
            case "purge":
                self._purge(sidecar, target, draw)
            case _:
                self._new_key(connection, draw)
        with self._moved:
            self.report.acts[act] += 1
            self.report.operations += 1
            self._moved.notify_all()

    def _new_key(self, connection: Connection, draw: random.Random) -> None:
        """Asks for what nobody asked for before, or again for one of those; some are absent."""
        number = next(self._new)
        if number and draw.random() < 0.3:
            number = draw.randrange(number)
        target = f"/n{number % 7}/c/{number}"
        with self._lock:
            if number % 9 and not self._histories.is_known(target):
                size = _SIZES[number % len(_SIZES)]
                self._appear(target, _bytes_of(f"{self.report.seed}{target}", size))
        self._get(connection, target)

    def _appear(self, target: str, body: bytes) -> None:
        self._histories.put_from_the_start(target, body)
        self._origin.put(target, body)
        self.report.body_bytes += len(body)

    def _get(self, connection: Connection, target: str) -> None:
        asked = self._histories.now()
        connection.send("GET", target)
        answer = connection.response()
        if answer.status not in (200, 404) or not answer.is_complete:
            self._tell(f"GET {target}: {_told(answer)}")
            return
        got = None if answer.status == 404 else answer.body
        self._judge(target, asked, lambda body: body == got, answer)
        with self._lock:
            status = answer.value("Cache-Status") or ""
            self.report.results["hit" if "hit" in status.split("; ") else "other"] += 1

    def _range(self, connection: Connection, target: str, draw: random.Random) -> None:
        first = draw.choice((0, 5, 600, 10_000))
        last = first + draw.choice((0, 90, 5_000, 250_000))
        asked = self._histories.now()
        connection.send("GET", target, [("Range", f"bytes={first}-{last}")])
        answer = connection.response()

        def is_shown(body: Body) -> bool:
            match answer.status:
                case 404:
                    return body is None
                case 206:
                    told = answer.value("Content-Range") or ""
                    return (
                        body is not None
                        and body[first : last + 1] == answer.body
                        and told.endswith(f"/{len(body)}")
                    )
                case 416:
                    return body is not None and len(body) <= first
                case _:
                    return False

        self._judge(target, asked, is_shown, answer)

    def _head(self, connection: Connection, target: str) -> None:
        asked = self._histories.now()
        connection.send("HEAD", target)
        answer = connection.response()

        def is_shown(body: Body) -> bool:
            if body is None or answer.status != 200:
                return body is None and answer.status == 404
            tag = f'"{hashlib.sha1(body).hexdigest()[:20]}"'
            return answer.value("ETag") == tag and answer.value("Content-Length") == f"{len(body)}"

        self._judge(target, asked, is_shown, answer)

    def _write(self, connection: Connection, method: str, target: str, body: Body) -> None:
        write = self._histories.begin(target, body)
        connection.send(method, target, body=body)
        answer = connection.response()
        self._histories.end(target, write)
        gone = (404,) if method == "DELETE" else ()
        if answer.status not in (200, 201, 204, *gone) or not answer.is_complete:
            self._tell(f"{method} {target}: {_told(answer)}")
        with self._lock:
            self.report.body_bytes += len(body or b"")

    def _purge(self, sidecar: Sidecar, target: str, draw: random.Random) -> None:
        beneath = {"prefix": target.rsplit("/", 1)[0] + "/"}
        [what] = draw.choices(({"target": target}, beneath, {"all": True}), (6, 3, 1))
        asked = json.dumps(what | {"soft": draw.random() < 0.3}).encode()
        answer = exchange(sidecar.admin_url, "/purge", "POST", body=asked)
        if answer.status != 200:
            self._tell(f"purge {asked!r}: {_told(answer)}")

    def _judge(
        self, target: str, asked: int, is_shown: Callable[[Body], bool], answer: Response
    ) -> None:
        wrong = self._histories.judge(target, asked, is_shown, _told(answer))
        if wrong is not None:
            self._tell(wrong)

    def _tell(self, what: str) -> None:
        with self._moved:
            self.report.wrong.append(f"after {self.report.operations} operations: {what}")
            self._moved.notify_all()


@contextmanager
def _sweeps_forbidden(cache_dir: Path) -> Iterator[None]:
    """From when the sweep that runs has ended."""
    descriptor = os.open(cache_dir / ".sweep.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def share(
    operations: int,
    cache_dir: Path,
    seed: int,
    *,
    loops: Sequence[str] = LOOPS,
    budget: int = 32 * MIB,
) -> Report:
    """So many operations through as many sidecars as there are `loops`, on `cache_dir`, and an
    origin of their own.
    """
    flags = (*FLAGS, "--cache-size", str(budget))
    with ExitStack() as stack:
        origin = stack.enter_context(Origin())
        sidecars = [
            stack.enter_context(Sidecar(origin.url, cache_dir, (*flags, "--loop", loop)))
            for loop in loops
        ]
        report = Report(seed, budget)
        return Sharing(origin, sidecars, cache_dir, operations, report).run()


def _told(answer: Response) -> str:
    cut = "" if answer.is_complete else ", cut short"
    return (
        f"{answer.status}, {len(answer.body)} bytes{cut}, ETag {answer.value('ETag')}, "
        f"{answer.value('Cache-Status')}, {answer.value('Via')}"
    )


def _bytes_of(name: str, size: int) -> bytes:
    """The same for the same name, and unlike those of any other."""
    return random.Random(hashlib.sha256(name.encode()).digest()).randbytes(size)
