"""`/file/…` of the admin port: the Arrow file of a stored body, byte for byte.

The target is all that follows `/file` in the request's own, query and all, so that it means there
what it means on the data port. What else may be asked for is in fields: no target can hold them.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import unquote_to_bytes

from aiohttp import hdrs, web

from chunkside.core.entry import Part
from chunkside.core.fields import Fields
from chunkside.core.key import origin_target

PATH: Final = "/file"
ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"
HELP: Final = (
    "Put /file before the path of a URL of the data port. `Chunkside-Range: 0-99` asks for the "
    "file that holds those bytes, `Chunkside-Partition:` with what /entries calls `partition` for "
    "what was learned with that credential."
)
_RANGE: Final = re.compile(rb"([0-9]{1,19})-([0-9]{1,19})")
_PARTITION: Final = re.compile(rb"[0-9a-f]{8,64}")
_NOT_IN_NAMES: Final = re.compile(rb"[^0-9A-Za-z._-]+")
_LONGEST_NAME: Final = 120
_SLICE_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileRequest:
    """`target`: as sent to the data port. `part`: the bytes that the file must hold, None for the
    whole body. `partition`: how its name begins; b"" for clients without credentials.
    """

    target: bytes
    part: Part | None = None
    partition: bytes = b""


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
    target = origin_target(raw_path.encode("utf-8", "surrogateescape"))
    rest = target.removeprefix(PATH.encode())
    if rest == target or not rest.startswith(b"/"):
        raise ValueError("/file must be spelled so.")
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
    return FileRequest(rest, part, partition)


async def send_file(http: web.BaseRequest, target: bytes, held: HeldFile) -> web.StreamResponse:
    """Sends all of the file, by sendfile where the loop has it (uvloop has not).

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
    if http.method == hdrs.METH_HEAD:
        return response
    try:
        is_whole = await _send_natively(http, held)
        if is_whole is None:
            is_whole = await _send_in_slices(response, held)
    except OSError:
        # The client has gone, or the disk has.
        is_whole = False
    if not is_whole and http.transport is not None:
        http.transport.abort()
    return response


async def _send_natively(http: web.BaseRequest, held: HeldFile) -> bool | None:
    """Whether all was sent; None where the loop can't, and nothing was."""
    transport = http.transport
    if transport is None:
        return False
    file = io.FileIO(held.file.fd, "rb", closefd=False)
    try:
        sent = await asyncio.get_running_loop().sendfile(
            transport, file, 0, held.size, fallback=False
        )
    except (NotImplementedError, asyncio.SendfileNotAvailableError):
        return None
    return sent == held.size


async def _send_in_slices(response: web.StreamResponse, held: HeldFile) -> bool:
    at = 0
    while at < held.size:
        piece = await asyncio.to_thread(
            os.pread, held.file.fd, min(_SLICE_BYTES, held.size - at), at
        )
        if not piece:
            return False
        await response.write(piece)
        at += len(piece)
    return True


def _file_name(target: bytes, part: Part | None) -> str:
    path = unquote_to_bytes(target).strip(b"/") or b"body"
    name = _NOT_IN_NAMES.sub(b"_", path).decode().strip("._")[-_LONGEST_NAME:] or "body"
    return f"{name}{'' if part is None else f'.r{part.first}-{part.last}'}.arrow"
