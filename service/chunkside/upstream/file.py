"""The way to a directory of files: who waits for his turn, and when it is left alone."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator
from typing import Final

from chunkside.core.response import ResponseHead
from chunkside.gateway.errors import (
    BodyTorn,
    OriginError,
    OriginNotAsked,
    OriginTooSlow,
    OriginUnreachable,
)
from chunkside.gateway.ports import Clock, Observer, OriginRequest
from chunkside.upstream.breaker import Breaker, Refused
from chunkside.upstream.places import Hanging, Place
from chunkside.upstream.reading import Answer, Changed, Files, other_method
from chunkside.upstream.root import RootGone
from chunkside.upstream.wire import Times
from chunkside.upstream.workers import Done, Raised, Workers

log = logging.getLogger(__name__)

_WHERE: Final = "The upstream's directory"


class FileUpstream:
    """`name` is what the log calls it. Of `times` those for connecting, writing and retries mean
    nothing here; `connections` are files that are open at once, and threads.

    A call that hangs takes its thread with it until it returns. Its file isn't asked for again
    meanwhile, and the directory is left alone like any origin that fails; the first such call that
    returns with something ends that.
    """

    def __init__(
        self, name: str, files: Files, times: Times, observer: Observer, *, clock: Clock
    ) -> None:
        self._name = name
        self._files = files
        self._times = times
        self._observer = observer
        self._clock = clock
        self._workers = Workers("files")
        self._places = asyncio.Semaphore(times.connections)
        self._waiting = 0
        self._hanging = Hanging(self._answers)
        self._breaker = Breaker(probe_seconds=times.deadline)
        self._told_state = self._breaker.state
        observer.breaker_is(self._told_state)
        # What is there now is what counts from now on.
        self._workers.start(files.look, self._looked)

    @property
    def threads(self) -> int:
        return self._workers.threads

    async def close(self) -> None:
        self._workers.close()
        self._files.close()

    async def send(self, request: OriginRequest) -> FileResponse:
        answer = other_method(request, self._clock.now().wall)
        if answer is not None:
            self._count(request, answer.head.status, 0.0)
            return FileResponse(answer, None, self._times.idle, self._observer)
        is_probe, is_told = self._is_probe(), False
        try:
            response = await self._read(request)
            is_told = True
            self._answers()
        except OriginNotAsked:
            raise
        except OriginError as error:
            is_told = True
            self._fails(request, error, is_probe=is_probe)
            raise
        finally:
            if is_probe and not is_told:
                self._breaker.withdrew(self._now())
            self._tell_state()
        return response

    # When it is left alone.

    def _is_probe(self) -> bool:
        """Raises OriginNotAsked while the directory is left alone."""
        admission = self._breaker.admit(self._now())
        self._tell_state()
        if isinstance(admission, Refused):
            raise self._spared(
                "breaker",
                f"{_WHERE} has failed for some time, and is asked again in a moment.",
                math.ceil(admission.seconds),
            )
        return admission.is_probe

    def _answers(self) -> None:
        if self._breaker.succeeded():
            log.warning("%s answers again", self._name)
        self._tell_state()

    def _fails(self, request: OriginRequest, error: OriginError, *, is_probe: bool) -> None:
        target = None if isinstance(error.__cause__, RootGone) else request.target
        if self._breaker.failed(self._now(), target, is_probe=is_probe):
            log.warning("%s fails, and is left alone for a while: %s", self._name, error)

    def _tell_state(self) -> None:
        if self._breaker.state != self._told_state:
            self._told_state = self._breaker.state
            self._observer.breaker_is(self._told_state)

    def _looked(self, outcome: Done[None] | Raised) -> None:
        if isinstance(outcome, Raised):
            log.warning("%s can't be read yet: %s", self._name, _words(outcome.error))

    # One request.

    async def _read(self, request: OriginRequest) -> FileResponse:
        """Raises OriginError."""
        until = asyncio.get_running_loop().time() + self._times.deadline
        place = await self._place(request.target.partition(b"?")[0], until)
        seconds = min(self._times.first_byte, until - asyncio.get_running_loop().time())
        started, wall = time.perf_counter(), self._clock.now().wall
        answer: Answer | None = None
        try:
            answer = await place.open(lambda: self._files.answer(request, wall), seconds)
            return FileResponse(answer, place, self._times.idle, self._observer)
        except TimeoutError as error:
            raise OriginTooSlow(f"{_WHERE} gave nothing within {seconds:.3g} s.") from error
        except (RootGone, Changed, OSError) as error:
            raise OriginUnreachable(_words(error)) from error
        finally:
            status = None if answer is None else answer.head.status
            self._count(request, status, time.perf_counter() - started)
            if answer is None or not answer.read:
                place.end()

    async def _place(self, path: bytes, until: float) -> Place:
        """Raises OriginNotAsked."""
        most = self._times.connections
        if path in self._hanging:
            raise self._spared("breaker", "Reading this file hangs, and is still waited for.")
        if len(self._hanging) >= most:
            raise self._spared("breaker", f"Reading {most} files hangs.")
        if self._waiting >= self._times.queue:
            raise self._spared("queue", f"{self._waiting} requests wait for {most} files already.")
        self._waiting += 1
        try:
            async with asyncio.timeout_at(until):
                await self._places.acquire()
        except TimeoutError:
            raise self._spared(
                "queue", f"{most} files were being read for as long as this request may take."
            ) from None
        finally:
            self._waiting -= 1
        return Place(self._workers, self._hanging, path, self._places.release)

    def _spared(self, reason: str, words: str, seconds: int = 1) -> OriginNotAsked:
        self._observer.upstream_spared(reason)
        return OriginNotAsked(words, seconds)

    def _count(self, request: OriginRequest, status: int | None, seconds: float) -> None:
        self._observer.upstream_answered(request.key_class, request.method, status, seconds)

    def _now(self) -> float:
        return self._clock.now().boot


def _words(error: BaseException) -> str:
    """What can be told to anybody: no path."""
    match error:
        case RootGone():
            return str(error)
        case Changed():
            return "The file was being written: it changed each time it was read."
        case OSError(strerror=why):
            return f"The file can't be read: {why or type(error).__name__}."
        case _:
            return type(error).__name__


class FileResponse:
    """`place` is given back once the body was taken: what was read of it takes memory."""

    def __init__(
        self, answer: Answer, place: Place | None, idle_seconds: float, observer: Observer
    ) -> None:
        self.head: ResponseHead = answer.head
        self._read = answer.read
        self._rest = answer.rest
        self._place = place
        self._idle_seconds = idle_seconds
        self._observer = observer

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            if self._read:
                self._observer.upstream_received(len(self._read))
                yield self._read
            while self._place is not None and self._rest is not None and not self._rest.is_at_end:
                piece = await self._place.read(self._rest, self._idle_seconds)
                self._observer.upstream_received(len(piece))
                yield piece
        except (Changed, OSError) as error:
            # A wait that was too long is an OSError, too.
            raise BodyTorn from error
        finally:
            self.close()

    def close(self) -> None:
        if self._place is not None:
            self._place.end()
