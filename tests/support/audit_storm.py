"""A sidecar that audits every hit, read while its objects are written: through it, and at the
origin.

What the origin answers is always so, and what changed has another tag and a later date. So nothing
that an audit finds may be called wrong.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

from tests.support.http_client import Connection, exchange
from tests.support.origin import Object, Origin
from tests.support.sidecar import Sidecar, value_of

_READERS = 4
_KEYS = 64


class StoreLikeOrigin(Origin):
    """Names itself as an object store does, and dates what is put by its own clock."""

    def put(
        self,
        path: str,
        body: bytes,
        *,
        etag: str | None = "",
        last_modified: str | None = None,
        headers: Iterable[tuple[str, str]] = (),
    ) -> Object:
        return super().put(
            path,
            body,
            etag=etag,
            last_modified=last_modified or formatdate(usegmt=True),
            headers=(("X-Amz-Request-Id", "QX7"), *headers),
        )


@dataclass(slots=True)
class Report:
    """`verdicts` by name."""

    verdicts: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    reads: int = 0
    writes: int = 0
    stderr: str = ""

    @property
    def audits(self) -> int:
        return sum(self.verdicts.values())


def storm(audits: int, cache_dir: Path, seed: int, deadline_seconds: float) -> Report:
    """Reads and writes until so many audits came to a verdict."""
    report, stopping = Report(), threading.Event()
    flags = ("--min-free", "0", "--allow-memory-filesystem", "--audit-share", "1")
    with StoreLikeOrigin() as origin, Sidecar(origin.url, cache_dir, flags) as sidecar:
        work = [_read] * _READERS + [_write_through, _write_at_the_origin]
        threads = [
            threading.Thread(target=each, args=(sidecar, origin, report, stopping, seed + number))
            for number, each in enumerate(work)
        ]
        for thread in threads:
            thread.start()
        try:
            ends_at = time.monotonic() + deadline_seconds
            while _count(sidecar, report) < audits and time.monotonic() < ends_at:
                stopping.wait(0.2)
                origin.forget_requests()
        finally:
            stopping.set()
            for thread in threads:
                thread.join()
        report.stderr = sidecar.stderr()
    return report


def _count(sidecar: Sidecar, report: Report) -> int:
    page = exchange(sidecar.admin_url, "/metrics").body.decode()
    for verdict in ("agree", "changed", "wrong"):
        sample = f'chunkside_audits_total{{verdict="{verdict}"}}'
        report.verdicts[verdict] = int(value_of(page, sample))
    for reason in ("busy", "error", "overtaken", "unreadable"):
        sample = f'chunkside_audits_left_out_total{{reason="{reason}"}}'
        report.left_out[reason] = int(value_of(page, sample))
    return report.audits


def _target(chance: random.Random) -> str:
    return f"/array/c/{chance.randrange(_KEYS)}"


def _body(chance: random.Random) -> bytes:
    return chance.randbytes(chance.choice([1, 100, 3_000]))


def _read(
    sidecar: Sidecar, _: Origin, report: Report, stopping: threading.Event, seed: int
) -> None:
    chance = random.Random(seed)
    with Connection(sidecar.url) as connection:
        while not stopping.is_set():
            part = [("Range", "bytes=0-9")] if chance.random() < 0.1 else []
            connection.send("GET", _target(chance), part)
            connection.response()
            report.reads += 1


def _write_through(
    sidecar: Sidecar, _: Origin, report: Report, stopping: threading.Event, seed: int
) -> None:
    chance = random.Random(seed)
    with Connection(sidecar.url) as connection:
        while not stopping.wait(0.01):
            method = chance.choice(["PUT", "PUT", "DELETE"])
            body = _body(chance) if method == "PUT" else None
            connection.send(method, _target(chance), body=body)
            connection.response()
            report.writes += 1


def _write_at_the_origin(
    _: Sidecar, origin: Origin, report: Report, stopping: threading.Event, seed: int
) -> None:
    chance = random.Random(seed)
    while not stopping.wait(0.01):
        if chance.random() < 0.7:
            origin.put(_target(chance), _body(chance))
        else:
            origin.objects.pop(_target(chance), None)
        report.writes += 1
