"""A real HTTP/1.1 origin over a dict of bytes, which counts what it is asked for.

It knows nothing of Zarr beyond the names of its metadata documents, and nothing of the sidecar.
"""

import asyncio
import hashlib
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import partial
from typing import Literal
from urllib.parse import unquote

from aiohttp import web

METADATA_NAMES = frozenset({"zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata"})

_SHUTDOWN_SECONDS = 1.0

Kind = Literal["metadata", "present", "absent"]


@dataclass(frozen=True, slots=True)
class Counts:
    """Requests by kind of key (GET and HEAD alone), by method, and by chunk key."""

    kinds: Counter[Kind] = field(default_factory=Counter)
    methods: Counter[str] = field(default_factory=Counter)
    chunks: Counter[str] = field(default_factory=Counter)

    def __sub__(self, earlier: "Counts") -> "Counts":
        return Counts(
            self.kinds - earlier.kinds,
            self.methods - earlier.methods,
            self.chunks - earlier.chunks,
        )


@dataclass(frozen=True, slots=True)
class _Object:
    body: bytes
    etag: str
    last_modified: str


class Origin:
    """Objects by decoded path without its first slash; every answer waits `delay_seconds`."""

    def __init__(self, objects: Mapping[str, bytes], delay_seconds: float = 0.0) -> None:
        self.delay_seconds = delay_seconds
        self._counts = Counts()
        self._lock = threading.Lock()
        self._objects = {key: _stored(body) for key, body in objects.items()}

    def counts(self) -> Counts:
        """A copy of all counts so far; from any thread."""
        with self._lock:
            return Counts(
                self._counts.kinds.copy(),
                self._counts.methods.copy(),
                self._counts.chunks.copy(),
            )

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        key = unquote(request.raw_path.partition("?")[0]).removeprefix("/")
        self._count(request.method, key)
        if self.delay_seconds > 0:
            await asyncio.sleep(self.delay_seconds)
        match request.method:
            case "GET" | "HEAD":
                return _read(request, self._objects.get(key))
            case "PUT":
                is_new = key not in self._objects
                stored = self._objects[key] = _stored(await request.read())
                return web.Response(status=201 if is_new else 204, headers={"ETag": stored.etag})
            case "DELETE":
                is_gone = self._objects.pop(key, None) is not None
                return web.Response(status=204 if is_gone else 404)
            case _:
                return web.Response(status=405, headers={"Allow": "GET, HEAD, PUT, DELETE"})

    def _count(self, method: str, key: str) -> None:
        with self._lock:
            self._counts.methods[method] += 1
            if method not in {"GET", "HEAD"}:
                return
            if key.rpartition("/")[2] in METADATA_NAMES:
                self._counts.kinds["metadata"] += 1
                return
            self._counts.kinds["present" if key in self._objects else "absent"] += 1
            self._counts.chunks[key] += 1


@contextmanager
def serving(origin: Origin) -> Iterator[str]:
    """Serves from a thread of its own on a free port of loopback; gives the URL."""
    started: Future[_Started] = Future()
    thread = threading.Thread(
        target=lambda: asyncio.run(_serve(origin, started)), name="chunkside-demo-origin"
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{started.result().port}"
    finally:
        if started.exception() is None:
            started.result().stop()
        thread.join()


@dataclass(frozen=True, slots=True)
class _Started:
    port: int
    stop: Callable[[], object]


async def _serve(origin: Origin, started: "Future[_Started]") -> None:
    """Serves until stopped, and tells its port, or why there is none."""
    stopped = asyncio.Event()
    stop = partial(asyncio.get_running_loop().call_soon_threadsafe, stopped.set)
    runner = web.ServerRunner(web.Server(origin.answer), shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        started.set_result(_Started(runner.addresses[0][1], stop))
        await stopped.wait()
    except OSError as error:
        started.set_exception(error)
    finally:
        await runner.cleanup()


def _stored(body: bytes) -> _Object:
    return _Object(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"', formatdate(usegmt=True))


def _read(request: web.BaseRequest, stored: _Object | None) -> web.Response:
    if stored is None:
        return web.Response(status=404, text="no such object\n")
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": stored.etag,
        "Last-Modified": stored.last_modified,
    }
    if _is_match(request.headers.get("If-None-Match"), stored.etag):
        return web.Response(status=304, headers=headers)
    length = len(stored.body)
    span = _asked_range(request, stored)
    if span is None:
        return web.Response(
            body=stored.body, headers=headers, content_type="application/octet-stream"
        )
    if len(span) == 0:
        return web.Response(status=416, headers={"Content-Range": f"bytes */{length}"})
    headers["Content-Range"] = f"bytes {span.start}-{span.stop - 1}/{length}"
    return web.Response(
        status=206,
        body=stored.body[span.start : span.stop],
        headers=headers,
        content_type="application/octet-stream",
    )


def _is_match(asked: str | None, etag: str) -> bool:
    """If-None-Match, by weak comparison (RFC 9110 §13.1.2)."""
    if asked is None:
        return False
    each = {candidate.strip().removeprefix("W/") for candidate in asked.split(",")}
    return "*" in each or etag in each


def _asked_range(request: web.BaseRequest, stored: _Object) -> range | None:
    """The bytes that a single range asks for, empty if it can't be satisfied.

    None means the whole body: no range, several, one that can't be read, or a failed If-Range.
    """
    condition = request.headers.get("If-Range")
    if condition not in {None, stored.etag, stored.last_modified}:
        return None
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("Range", "").strip())
    if found is None:
        return None
    first, last = found.groups()
    length = len(stored.body)
    if not first:
        return range(max(0, length - int(last)), length) if last else None
    if last and int(last) < int(first):
        return None
    return range(int(first), min(int(last) + 1, length) if last else length)
