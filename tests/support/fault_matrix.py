"""Every fault, once, half the time and always, against bodies, absences, ranges and writes.

A sidecar stands before an origin for each cell, so that no cell's failures open another's breaker.
`run` raises where a promise is broken, and tells what came of each cell otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import cycle, product
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from chunkside.gateway.origin import RESUMPTIONS
from chunkside.upstream.breaker import LONGEST_REST_SECONDS
from tests.support.deadline import DEADLINE_SECONDS
from tests.support.faulty_origin import FAULTS, SCHEDULES, FaultyOrigin, Schedule
from tests.support.sidecar import Sidecar

Kind = Literal["body", "absence", "range", "write"]
KINDS: Final[tuple[Kind, ...]] = ("body", "absence", "range", "write")

RETRIES: Final = 2
FLAGS: Final = (
    *("--upstream-retries", str(RETRIES), "--upstream-deadline", "6s"),
    *("--upstream-first-byte-timeout", "1s", "--upstream-idle-timeout", "1s"),
    *("--upstream-write-timeout", "2s", "--min-free", "0", "--allow-memory-filesystem"),
)
_READERS: Final = 3
_AT_ONCE: Final = 48
# Of one sidecar.
_ROUTES: Final = 132
_PART: Final = (100, 299)
_SMALL: Final = bytes(range(256)) * 4
_LARGE: Final = bytes(range(256)) * 1500


@dataclass(frozen=True, slots=True)
class Answer:
    """`status` is None where no head came; `is_whole`: the body ended as its framing says."""

    status: int | None
    body: bytes = b""
    is_whole: bool = False
    retry_after: int | None = None


@dataclass(slots=True)
class Cell:
    """`waits`: how often a client had to come back, once the fault had ended, as it was told to."""

    fault: str
    schedule: Schedule
    kind: Kind
    answers: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    heard: int = 0
    waits: int = 0

    @property
    def name(self) -> str:
        return f"{self.fault}, {self.schedule}, {self.kind}"


def cells(faults: Iterable[str] = FAULTS) -> Iterator[Cell]:
    for fault, schedule, kind in product(faults, SCHEDULES, KINDS):
        yield Cell(fault, schedule, kind)


async def run(chosen: list[Cell], keys: int, directory: Path) -> None:
    """Fills the cells in. Each asks for `keys` keys, by a few readers at once."""
    async with asyncio.TaskGroup() as group:
        for start, loop in zip(range(0, len(chosen), _ROUTES), cycle(("uvloop", "asyncio"))):
            its_own = directory / str(start)
            its_own.mkdir()
            group.create_task(_run(chosen[start : start + _ROUTES], keys, its_own, loop))


async def _run(chosen: list[Cell], keys: int, directory: Path, loop: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        origins = [
            await stack.enter_async_context(FaultyOrigin(cell.fault, cell.schedule))
            for cell in chosen
        ]
        routes = [
            {"prefix": f"/{number}", "upstream": origin.url}
            for number, origin in enumerate(origins)
        ]
        configuration = directory / "chunkside.yaml"
        configuration.write_text(json.dumps({"routes": routes}))
        flags = ("--config", str(configuration), "--loop", loop, *FLAGS)
        sidecar = Sidecar(None, directory / "cache", flags)
        await asyncio.to_thread(sidecar.__enter__)
        try:
            room = asyncio.Semaphore(_AT_ONCE)
            async with asyncio.TaskGroup() as group:
                for number, (cell, origin) in enumerate(zip(chosen, origins, strict=True)):
                    url = f"{sidecar.url}/{number}"
                    group.create_task(_one(_Trial(cell, origin, url), keys, room))
        finally:
            await asyncio.to_thread(sidecar.__exit__, None, None, None)


async def _one(trial: _Trial, keys: int, room: asyncio.Semaphore) -> None:
    async with room:
        try:
            await trial.run([b"/a/c/%d" % number for number in range(keys)])
        except AssertionError as error:
            raise AssertionError(f"{trial.cell.name}: {error}") from error


class _Trial:
    def __init__(self, cell: Cell, origin: FaultyOrigin, url: str) -> None:
        self.cell = cell
        self._origin = origin
        self._url = url
        self._got: dict[bytes, Answer] = {}

    async def run(self, targets: list[bytes]) -> None:
        cell, origin = self.cell, self._origin
        if cell.kind in ("body", "range"):
            for number, target in enumerate(targets):
                origin.objects[target] = (_LARGE if number % 2 else _SMALL) + target
        # Two at the beginning, one after the other, so that connections are used again.
        for target in targets[:2]:
            await self._ask(target)
        left = iter(targets[2:])
        await asyncio.gather(*(self._read(left) for _ in range(_READERS)))
        cell.asked, cell.heard = len(targets), len(origin.heard)
        self._judge_requests(targets)
        origin.mend()
        await self._recovers()
        for target in targets:
            await self._judge_after(target)

    async def _read(self, left: Iterator[bytes]) -> None:
        for target in left:
            await self._ask(target)

    async def _ask(self, target: bytes) -> None:
        match self.cell.kind:
            case "write":
                answer = await exchange(self._url, b"PUT", target, body=target)
            case "range":
                answer = await exchange(self._url, b"GET", target, part=_PART)
            case _:
                answer = await exchange(self._url, b"GET", target)
        self._got[target] = answer
        self.cell.answers[self._judge(target, answer)] += 1

    def _judge(self, target: bytes, answer: Answer) -> str:
        """A word for it. Raises where no client should ever get it."""
        status, kind, origin = answer.status, self.cell.kind, self._origin
        if status is None or not answer.is_whole:
            return "cut"
        if status >= 400 and status not in (404, 410):
            return str(status)
        match kind:
            case "body":
                is_right = status == 200 and answer.body == origin.objects[target]
            case "range":
                first, last = _PART
                is_right = status == 206 and answer.body == origin.objects[target][first : last + 1]
            case "absence":
                is_right = status == 404
            case _:
                is_right = status in (201, 204) and origin.objects[target] == target
        assert is_right, f"{status} with {len(answer.body)} bytes to {target!r}"
        return "right"

    def _judge_requests(self, targets: list[bytes]) -> None:
        """No more requests than docs say, and no write twice."""
        most = 1 + RETRIES
        if self.cell.kind in ("body", "range"):
            most *= 1 + RESUMPTIONS
        for target in targets:
            if self.cell.kind == "write":
                assert self._origin.count("PUT", target) <= 1, f"{target!r} was written twice"
            count = self._origin.count("GET", target)
            assert count <= most, f"{target!r} was asked for {count} times"

    async def _recovers(self) -> None:
        """The fault is over: at once, or when a client was told to come back."""
        self._origin.objects[b"/back"] = b"back"
        async with asyncio.timeout(LONGEST_REST_SECONDS + DEADLINE_SECONDS):
            while (answer := await exchange(self._url, b"GET", b"/back")).status != 200:
                assert answer.status == 503, f"{answer.status} after the fault's end"
                assert answer.retry_after is not None, "nobody was told when to come back"
                self.cell.waits += 1
                await asyncio.sleep(answer.retry_after)  # polls: it does as it is told
        assert answer.body == b"back"
        assert self.cell.waits <= 1, f"{self.cell.waits} waits after the fault's end"

    async def _judge_after(self, target: bytes) -> None:
        """What is answered from now on is what the origin has."""
        objects = self._origin.objects
        if self.cell.kind == "absence" and self._got[target].status != 404:
            objects[target] = b"appeared"
        answer = await exchange(self._url, b"GET", target)
        assert answer.is_whole, f"{target!r} is cut after the fault's end"
        if target in objects:
            assert (answer.status, answer.body) == (200, objects[target]), (
                f"{answer.status} with {len(answer.body)} bytes to {target!r} after the fault's end"
            )
        else:
            assert answer.status == 404, f"{answer.status} to {target!r} after the fault's end"


async def exchange(
    url: str,
    method: bytes,
    target: bytes,
    *,
    body: bytes = b"",
    part: tuple[int, int] | None = None,
) -> Answer:
    """One request on a connection of its own."""
    split = urlsplit(url)
    lines = [b"Host: localhost", b"Connection: close"]
    if part is not None:
        lines.append(b"Range: bytes=%d-%d" % part)
    if body:
        lines.append(b"Content-Length: %d" % len(body))
    head = method + b" " + split.path.encode() + target + b" HTTP/1.1\r\n" + b"\r\n".join(lines)
    reader, writer = await asyncio.open_connection(split.hostname, split.port)
    received = bytearray()
    try:
        writer.write(head + b"\r\n\r\n" + body)
        async with asyncio.timeout(3 * DEADLINE_SECONDS):
            while piece := await reader.read(1 << 16):
                received += piece
    except ConnectionError:
        # What came before it is looked at.
        pass
    finally:
        writer.close()
    return _parsed(bytes(received))


def _parsed(received: bytes) -> Answer:
    head, end_of_head, body = received.partition(b"\r\n\r\n")
    if not end_of_head:
        return Answer(None)
    status = int(head.split(b" ")[1])
    retry = re.search(rb"\r\nRetry-After: (\d+)", head, re.IGNORECASE)
    retry_after = None if retry is None else int(retry[1])
    length = re.search(rb"\r\nContent-Length: (\d+)", head, re.IGNORECASE)
    if length is not None:
        is_whole = len(body) == int(length[1])
    elif re.search(rb"\r\nTransfer-Encoding: chunked", head, re.IGNORECASE):
        body, is_whole = _unchunked(body)
    else:
        is_whole = status in (204, 304)
    return Answer(status, body, is_whole, retry_after)


def _unchunked(body: bytes) -> tuple[bytes, bool]:
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        if not size or not int(size, 16):
            return whole, size == b"0" and body.startswith(b"\r\n")
        whole, body = whole + body[: int(size, 16)], body[int(size, 16) + 2 :]
    return whole, False


def table(filled: list[Cell]) -> str:
    """For each fault and kind what clients got, and what the origin was asked for each key."""
    lines = [
        "| fault | how often | " + " | ".join(KINDS) + " |",
        "|---|---|" + "---|" * len(KINDS),
    ]
    by_row: dict[tuple[str, Schedule], dict[Kind, Cell]] = {}
    for cell in filled:
        by_row.setdefault((cell.fault, cell.schedule), {})[cell.kind] = cell
    for (fault, schedule), row in by_row.items():
        told = " | ".join(_told(row[kind]) for kind in KINDS)
        lines.append(f"| {fault} | {schedule} | {told} |")
    return "\n".join(lines)


def _told(cell: Cell) -> str:
    right = cell.answers["right"]
    others = [
        f"{count} {answer}" for answer, count in sorted(cell.answers.items()) if answer != "right"
    ]
    answers = ", ".join(([f"{right} right"] if right else []) + others)
    return f"{answers}; {cell.heard / cell.asked:.1f}"
