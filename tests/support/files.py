"""A directory as an upstream, in one process with the test, and ways into it that fail or hang."""

import os
import threading
import time
from pathlib import Path

from chunkside.core.fields import Fields
from chunkside.gateway.ports import OriginRequest
from chunkside.upstream.beneath import Way, best_way
from chunkside.upstream.describing import SETTLED_AFTER_SECONDS
from chunkside.upstream.file import FileUpstream
from chunkside.upstream.reading import Files, Read
from chunkside.upstream.root import Root
from chunkside.upstream.wire import Times
from tests.support.deadline import wait_event
from tests.support.house import HandClock, Record

PATIENT = Times(first_byte=10.0, idle=10.0, deadline=20.0)


def ask(target=b"/c/0", *fields, method="GET"):
    return OriginRequest(method, target, Fields(fields), "chunk")


async def whole(response):
    return b"".join([chunk async for chunk in response.chunks()])


def later_clock():
    """So late that whatever was just written has been left alone for long enough."""
    return HandClock(wall=time.time() + SETTLED_AFTER_SECONDS + 1)


class Directory:
    """Made with a file in it, since an empty one counts as none. `make` needs a running loop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record = Record()
        self.clock = later_clock()
        self.put("/there", b"x")
        self._made: list[FileUpstream] = []

    def put(self, path: str, body: bytes) -> Path:
        file = self.path / path.removeprefix("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
        return file

    def make(
        self, times: Times = PATIENT, *, way: Way | None = None, read_at: Read = os.pread
    ) -> FileUpstream:
        files = Files(Root(os.fsencode(self.path)), way, read_at)
        made = FileUpstream("the files", files, times, self.record, clock=self.clock)
        self._made.append(made)
        return made

    async def close(self) -> None:
        for made in self._made:
            await made.close()


class Stall:
    """Holds calls on to whoever makes them, as a dead mount does, until they are let go."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.began = threading.Semaphore(0)

    def wait(self) -> None:
        self.began.release()
        wait_event(self.goes_on, "the end of a stall")


def stalling_way(stall: Stall, *, only: bytes | None = None) -> Way:
    """Stalls at each file, or at those of one name only."""
    way = best_way()

    def stalls(root, names, flags, *, follows_links=False):
        if only is None or only in names:
            stall.wait()
        return way(root, names, flags, follows_links=follows_links)

    return stalls


def failing_way(code: int) -> Way:
    def fails(root, names, flags, *, follows_links=False):
        raise OSError(code, os.strerror(code), "/a/secret/path")

    return fails
