"""`/file/…` of the admin port: the Arrow file of a stored body, byte for byte.

The target is all that follows `/file` in the request's own, query and all, so that it means there
what it means on the data port. What else may be asked for is in fields: no target can hold them.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import unquote_to_bytes

from aiohttp import hdrs, web

from chunkside.core.entry import Part
from chunkside.core.fields import Fields
from chunkside.server.raw_target import target_behind

PATH: Final = "/file"
ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"
HELP: Final = (
    "Put /file before the path of a URL of the data port. `Chunkside-Range: 0-99` asks for the "
    "file that holds those bytes, `Chunkside-Partition:` with what /entries calls `partition` for "
    "what was learned with that credential. Other fields select among variants, as they do there."
)
_RANGE: Final = re.compile(rb"([0-9]{1,19})-([0-9]{1,19})")
_PARTITION: Final = re.compile(rb"\*|[0-9a-f]{8,64}")
_NOT_IN_NAMES: Final = re.compile(rb"[^0-9A-Za-z._-]+")
_LONGEST_NAME: Final = 120
_SLICE_BYTES: Final = 1024 * 1024
_NO_FIELDS: Final = Fields()


@dataclass(frozen=True, slots=True)
class FileRequest:
    """`target`: as sent to the data port. `part`: the bytes that the file must hold, None for the
    whole body. `partition`: how its name begins; b"" for clients without credentials. `fields`:
    those of the request, which select among variants.
    """

    target: bytes
    part: Part | None = None
    partition: bytes = b""
    fields: Fields = _NO_FIELDS


class _Descriptor(Protocol):
    @property
    def fd(self) -> int: ...


@dataclass(frozen=True, slots=True)
class HeldFile:
    """An open file that the index holds, and how long it must be. `part`: what of the body it is,
    None for all of it.
    """

    file: _Descriptor
    size: int
    part: Part | None


def parse_file_request(raw_path: str, raw_headers: Iterable[tuple[bytes, bytes]]) -> FileRequest:
    """What a request for `/file/…` asks for. Raises ValueError with a sentence on what is wrong."""
    rest = target_behind(PATH, raw_path)
    fields = Fields(raw_headers)
    part = None
    if value := fields.combined(b"chunkside-range"):
        found = _RANGE.fullmatch(value.strip())
        if found is None or int(found[1]) > int(found[2]):
            raise ValueError("`Chunkside-Range` is two offsets, both inclusive.")
        part = Part(int(found[1]), int(found[2]))
    partition = fields.combined(b"chunkside-partition").strip()
    if partition and _PARTITION.fullmatch(partition) is None:
        raise ValueError("`Chunkside-Partition` is 8 hexadecimal digits or more.")
    return FileRequest(rest, part, partition, fields)


async def send_file(http: web.BaseRequest, target: bytes, held: HeldFile) -> web.StreamResponse:
    """Sends all of the file by sendfile.

    A file that proves shorter than it must be cuts the connection, never ends cleanly.
    """
    name = _file_name(target, held.part)
    response = web.StreamResponse(
        headers={
            hdrs.CONTENT_TYPE: ARROW_STREAM,
            hdrs.CONTENT_DISPOSITION: f'attachment; filename="{name}"',
            hdrs.CONTENT_LENGTH: str(held.size),
        }
    )
    await response.prepare(http)
    transport = http.transport
    if http.method == hdrs.METH_HEAD or transport is None:
        return response
    try:
        # All of the head must be gone before anything passes it by.
        transport.set_write_buffer_limits(high=0)
        await http.writer.drain()
        transport.set_write_buffer_limits()
        is_whole = await _send_by_kernel(transport, held)
    except OSError:
        # The client has gone, or the disk has.
        is_whole = False
    if not is_whole:
        transport.abort()
    return response


async def _send_by_kernel(transport: asyncio.Transport, held: HeldFile) -> bool:
    """Whether all was sent. uvloop has no sendfile of its own; and where pages are cold, that of
    the stock loop would hold it. So a thread calls it, on a descriptor that no loop knows.
    """
    sock = transport.get_extra_info("socket")
    if sock is None:
        return False
    connection = os.dup(sock.fileno())
    try:
        at = 0
        while at < held.size:
            count = min(_SLICE_BYTES, held.size - at)
            try:
                sent = await _in_thread(os.sendfile, connection, held.file.fd, at, count)
            except BlockingIOError:
                await _until_writable(connection)
                continue
            if not sent:
                return False
            at += sent
    finally:
        os.close(connection)
    return True


async def _in_thread(job: Callable[..., int], *args: int) -> int:
    """As asyncio.to_thread, but it ends only when the thread has: its descriptors may be closed."""
    running = asyncio.get_running_loop().run_in_executor(None, job, *args)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


async def _until_writable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    is_writable = asyncio.Event()
    loop.add_writer(descriptor, is_writable.set)
    try:
        await is_writable.wait()
    finally:
        loop.remove_writer(descriptor)


def _file_name(target: bytes, part: Part | None) -> str:
    path = unquote_to_bytes(target).strip(b"/") or b"body"
    name = _NOT_IN_NAMES.sub(b"_", path).decode().strip("._")[-_LONGEST_NAME:] or "body"
    return f"{name}{'' if part is None else f'.r{part.first}-{part.last}'}.arrow"
