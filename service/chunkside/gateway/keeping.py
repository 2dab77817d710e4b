"""Keeping a body while it arrives: room for it, its writer, and its commit under a lease.

Whatever the disk does reaches nobody who reads: the body goes on from memory, and is not kept.
"""

from __future__ import annotations

from typing import Final

from chunkside.core.entry import Part, Stored
from chunkside.core.lease import Lease
from chunkside.gateway.edges import Edges
from chunkside.gateway.errors import StoreFault
from chunkside.gateway.growing import SMALL_BODY_BYTES, GrowingBody
from chunkside.gateway.ports import BodyWriter

# Small bodies are answered before they are committed; this many bytes of them may wait for that.
UNCOMMITTED_BYTES: Final = 64 << 20
NOT_KEPT: Final = "not_stored_disk"
# What a file takes beside its body, key and header fields, rounding included; and how much of a
# body of unknown length.
_FILE_OVERHEAD_BYTES: Final = 8 << 10
_FIRST_BYTES: Final = 64 << 10


class Keeping:
    """One body's way to the store; `release` it whatever comes of it."""

    def __init__(self, edges: Edges, lease: Lease) -> None:
        self._edges = edges
        self._lease = lease
        self._reserved = 0
        self._overhead = _FILE_OVERHEAD_BYTES

    async def begin(
        self, stored: Stored, length: int | None, part: Part | None
    ) -> BodyWriter | None:
        """None where it is not to be kept."""
        edges = self._edges
        if not edges.may_store(self._lease):
            return None
        told = sum(len(name) + len(value) for name, value in stored.fields.lines)
        self._overhead += len(stored.key.serialised()) + told
        if not await self._reserve(_FIRST_BYTES if length is None else length):
            return None
        try:
            return await edges.store.begin(stored, self._lease.stamps, length, part)
        except StoreFault as fault:
            edges.store_failed(fault)
            return None

    async def keep(
        self, writer: BodyWriter | None, body: GrowingBody, chunk: bytes
    ) -> BodyWriter | None:
        """Writes the newest chunk; gives the writer for the next, None where there is no use."""
        if writer is None or not body.is_kept:
            return writer
        if body.end > self._edges.policy.max_body_bytes or not await self._has_room(body.end):
            body.stop_keeping()
            return writer
        try:
            await writer.append(chunk)
        except StoreFault as fault:
            self._edges.store_failed(fault)
            body.lose_writer()
            await writer.abandon()
            return None
        body.written()
        return writer

    async def commit(self, writer: BodyWriter | None, stored: Stored, body: GrowingBody) -> str:
        """Gives a word for how that ended."""
        if writer is None:
            return NOT_KEPT
        edges, length = self._edges, body.end
        # Of a large one the writer holds no more than this.
        waiting = min(length, SMALL_BODY_BYTES)
        is_allowed = edges.may_store(self._lease)
        if not is_allowed or edges.uncommitted_bytes + waiting > UNCOMMITTED_BYTES:
            body.stop_keeping()
            await abandon_once_read(writer, body)
            return "refused"
        edges.uncommitted_bytes += waiting
        try:
            committed = await writer.commit(length)
        except StoreFault as fault:
            edges.store_failed(fault)
            await writer.abandon()
            return NOT_KEPT
        finally:
            edges.uncommitted_bytes -= waiting
        edges.shared.health.worked()
        # From here on its blocks count.
        self.release()
        return "stored" if edges.store_body(self._lease, stored, committed) else "refused"

    def release(self) -> None:
        """Gives back what was set aside."""
        self._edges.release(self._reserved)
        self._reserved = 0

    async def _reserve(self, length: int) -> bool:
        """Sets aside what a file of so many body bytes takes."""
        more = length + self._overhead - self._reserved
        if not await self._edges.reserve(more):
            return False
        self._reserved += more
        return True

    async def _has_room(self, end: int) -> bool:
        """Sets more aside as a body of unknown length grows."""
        if end + self._overhead <= self._reserved:
            return True
        return await self._reserve(min(2 * end, self._edges.policy.max_body_bytes))


async def abandon_once_read(writer: BodyWriter, body: GrowingBody) -> None:
    """Lets go of a body that won't be kept once nobody needs what was written of it."""
    try:
        await body.until_nobody_reads_back()
    finally:
        await writer.abandon()
