"""What goes to the origin and comes back unstored: relayed reads, and writes between two stamps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from itertools import chain, islice
from typing import Final

from chunkside.core.ancestry import directory_of
from chunkside.core.cache_status import CacheStatus, Result
from chunkside.core.decision import Forward, Whole, Write
from chunkside.core.entry import Absent, Now, Selected
from chunkside.core.heads import SelectedHead, head_of
from chunkside.core.invalidation import (
    LONGEST_KEY_LIST,
    admits_failure,
    keys_named,
    objects_told,
)
from chunkside.core.key import Object, is_array_document
from chunkside.core.lease import Lease
from chunkside.core.listing import listings_above
from chunkside.core.policy import proves_existence
from chunkside.core.ranges import part_answered, part_of_whole
from chunkside.core.request import Request
from chunkside.core.response import ResponseHead
from chunkside.core.storability import stored_of
from chunkside.core.verbatim import other_names
from chunkside.gateway.edges import Edges
from chunkside.gateway.errors import (
    OriginNonsense,
    OriginNotAsked,
    OriginUnreachable,
    RequestAborted,
)
from chunkside.gateway.ports import Buffer, Content, OriginRequest, OriginResponse
from chunkside.gateway.reply import Reply
from chunkside.gateway.rewrites import weigh_head

# For this long after a write whose fate is unknown nothing of its object is stored.
UNKNOWN_FATE_SECONDS: Final = 60.0
# So much of a write's answer is read for what it admits.
_LOOKED_AT_BYTES: Final = 4096
# Stamped one by one, while everybody waits. A store deletes a thousand keys at once, and a Host
# that names a bucket gives each some names.
_MOST_NAMES: Final = 8192
_CONDITIONS: Final = frozenset(
    {b"if-none-match", b"if-modified-since", b"if-match", b"if-unmodified-since"}
)


class Passing:
    def __init__(self, edges: Edges) -> None:
        self._edges = edges

    async def relay(
        self,
        request: Request,
        content: Content | None,
        forward: Forward,
        entry: Selected | None,
        look: Callable[[OriginResponse], OriginResponse] | None = None,
    ) -> Reply:
        """`look` sees the answer before anything falls to it."""
        sent_at = self._edges.now()
        lease = self._edges.lease(request.key)
        try:
            response = await self._edges.upstream.send(_asked(request, content))
            if look is not None:
                response = look(response)
            self._weigh(request, response.head.status)
            if request.method == "GET" and response.head.status in (200, 206):
                weigh_head(self._edges, request, entry, response.head, sent_at)
                self._see(request, lease, response.head, sent_at)
        finally:
            self._edges.index.end(lease)
        status = CacheStatus(
            forward=forward,
            fwd_status=response.head.status,
            detail="negative" if isinstance(entry, Absent) else None,
        )
        is_a_read = request.method in ("GET", "HEAD") and forward is not Forward.BYPASS
        return self.pass_on(request, response, "miss" if is_a_read else "bypass", status)

    def _see(self, request: Request, lease: Lease, head: ResponseHead, sent_at: Now) -> None:
        """Whoever gets these bytes must not be given older ones from store after them.

        What is encoded has other tags and lengths, as has what doesn't tell how long the whole is.
        """
        if b"content-encoding" in head.fields:
            return
        if head.status == 206:
            told = part_answered(request.fields.combined(b"range"), head.fields)
            head = replace(head, length=None if told is None else told[1])
        if head.length is not None:
            stored = stored_of(request, head, sent_at, self._edges.policy)
            self._edges.see(lease, stored, is_relayed=True)

    def _weigh(self, request: Request, status: int) -> None:
        """Drops what the origin's answer to this very key contradicts, and what may be on its way.

        A marker falls even if it was made meanwhile: to forget one too many costs a request.
        """
        if request.method not in ("GET", "HEAD"):
            return
        edges, key = self._edges, request.key
        edges.hear_refusal(request, status)
        known = edges.index.look_up(request.absence_key)
        if proves_existence(status):
            edges.refute(key)
        elif status in (404, 410) and not isinstance(known, Absent):
            edges.discard(edges.index.deny(key))

    def pass_on(
        self, request: Request, response: OriginResponse, result: Result, status: CacheStatus
    ) -> Reply:
        """The origin's answer as it comes, unless it is one that nobody can have asked for.

        A whole in the place of a single range is cut: readers take what comes for what they asked.
        """
        head = response.head
        nonsense = _nonsense(request, head)
        if nonsense is not None:
            response.close()
            raise OriginNonsense(nonsense)
        status = replace(status, fwd_status=head.status)
        cut = _cut(request, head, self._edges)
        if cut is not None:
            body = _body(response, cut.first, cut.end) if cut.length else b""
            release = response.close
            return Reply(cut.status, cut.fields, body, cut.length, result, status, release=release)
        has_body = request.method != "HEAD" and head.status not in (204, 304)
        return Reply(
            head.status,
            head.fields,
            _body(response) if has_body else b"",
            head.length,
            result,
            status,
            release=response.close,
        )

    async def write(self, request: Request, content: Content | None, write: Write) -> Reply:
        """Forwards a write. What is held of its objects falls before and after, whatever comes of
        it.

        It runs until its answer has ended: some origins send the head, and do the work behind it.
        """
        if write.names_keys:
            write, content = await _named_by(request, content)
        running = _RunningWrite(self._edges, request, write)
        try:
            response = await self._edges.upstream.send(_asked(request, content))
            reply = self.pass_on(request, response, "bypass", CacheStatus(forward=Forward.METHOD))
        except OriginNotAsked:
            # It was never sent.
            running.end(is_known=True)
            raise
        except BaseException:
            running.end(is_known=False)
            raise
        running.others += objects_told(request, response.head.fields)
        is_known = response.head.status < 500 and response.head.status != 202
        if isinstance(reply.body, bytes):
            running.end(is_known=is_known)
            return reply

        def release() -> None:
            running.end(is_known=False)
            response.close()

        reply.body = running.until_ended(reply.body, is_known=is_known)
        reply.release = release
        return reply


class _RunningWrite:
    """Nothing of its objects is stored while it runs, nor for a while after one whose fate is
    unknown: no answer, half an answer, or one that says that the origin itself doesn't know.

    `others`: objects that its answer names; they fall with its end.
    """

    def __init__(self, edges: Edges, request: Request, write: Write) -> None:
        self.others: tuple[Object, ...] = ()
        self._edges = edges
        self._has_ended = False
        own = request.key.object
        each_named = (_all_names(request, each) for each in (own, *write.others))
        names = list(islice(chain.from_iterable(each_named), _MOST_NAMES + 1))
        if len(names) > _MOST_NAMES:
            write, names = Write(is_broad=True), [own]
        self._objects = dict.fromkeys(names)
        self._write = write
        self._is_of_metadata = request.key_class == "metadata"
        seconds = edges.write_seconds + UNKNOWN_FATE_SECONDS
        # A broad one stamps all there is.
        above = () if write.is_broad else chain(*map(listings_above, self._objects))
        self._names = {
            target: edges.begin_write(target, seconds, whole_location=write.is_broad)
            for target in dict.fromkeys((*self._objects, *above))
        }
        edges.observer.invalidated(request.method)
        self._cause = f"a {request.method} through this sidecar"
        self._note()

    async def until_ended(
        self, body: AsyncIterator[Buffer], *, is_known: bool
    ) -> AsyncIterator[Buffer]:
        begun = b""
        async for piece in body:
            if len(begun) < _LOOKED_AT_BYTES:
                begun += bytes(piece[:_LOOKED_AT_BYTES])
            yield piece
        self.end(is_known=is_known and not admits_failure(begun))

    def end(self, *, is_known: bool) -> None:
        """Once; what is told later doesn't count."""
        if self._has_ended:
            return
        self._has_ended = True
        edges, write = self._edges, self._write
        closed_for = 0.0 if is_known else UNKNOWN_FATE_SECONDS
        self._note()
        for target, name in self._names.items():
            edges.end_write(target, name, closed_for, whole_location=write.is_broad)
        for target in self._objects:
            if write.is_deep:
                edges.doubt(target, with_beneath=True)
            if self._is_of_metadata or is_array_document(target.path):
                edges.note_change(target)
        for target in self.others:
            edges.shared.fallen.note(target, self._cause, edges.now())
            edges.forget(target)

    def _note(self) -> None:
        """For whoever asks why nothing is remembered any more."""
        edges, write = self._edges, self._write
        fallen, now = edges.shared.fallen, edges.now()
        for target in self._objects:
            fallen.note(target, self._cause, now, with_beneath=write.is_deep)
            if self._is_of_metadata or is_array_document(target.path):
                fallen.note_beneath(directory_of(target), self._cause, now)
            if write.is_broad:
                fallen.note_beneath(Object(target.location, b"/"), self._cause, now)


async def _named_by(request: Request, content: Content | None) -> tuple[Write, Content | None]:
    """What a request changes whose body names it, and the body to send."""
    if content is None:
        return Write(is_broad=True), None
    read = b""
    try:
        async for chunk in content.chunks:
            read += chunk
            if len(read) > LONGEST_KEY_LIST:
                return Write(is_broad=True), _begun(content, _after(read, content.chunks))
    except RequestAborted as error:
        raise OriginUnreachable("The request broke off before its end.") from error
    objects = keys_named(request, read)
    write = Write(is_broad=True) if objects is None else Write(is_broad=False, others=objects)
    return write, _begun(content, _after(read, None))


def _begun(content: Content, chunks: AsyncIterator[bytes]) -> Content:
    """A body whose client has been told to send it."""
    return replace(content, chunks=chunks, is_held_back=False)


async def _after(read: bytes, more: AsyncIterator[bytes] | None) -> AsyncIterator[bytes]:
    yield read
    if more is not None:
        async for chunk in more:
            yield chunk


def _all_names(request: Request, target: Object) -> tuple[Object, ...]:
    host = request.host
    return (target,) if host is None else (target, *other_names(target, host))


def _asked(request: Request, content: Content | None) -> OriginRequest:
    return OriginRequest(
        request.method,
        request.target,
        request.fields,
        request.key_class,
        content,
        is_signed=request.is_signed,
        host=request.host,
    )


def _nonsense(request: Request, head: ResponseHead) -> str | None:
    """What is wrong with an answer that means nothing to the question; None for any other.

    Some statuses readers take for absence, or for a whole body, where nothing was asked for them.
    """
    status, fields = head.status, request.fields
    told = f"The origin answered {status} to a {request.method}"
    if not 200 <= status < 600:
        return f"{told}, which is no status of an answer."
    if request.method != "GET":
        return None
    if status in (204, 205) or (status == 304 and _CONDITIONS.isdisjoint(fields.names)):
        return f"{told} that asked for nothing of the kind."
    if status == 206 and b"range" not in fields and b"x-ms-range" not in fields:
        return f"{told} of the whole."
    if status == 206 and not _tells_its_place(head):
        return f"{told} without saying which part it is."
    return None


def _tells_its_place(head: ResponseHead) -> bool:
    """Whether a 206 says which bytes it has, or that its parts do (RFC 9110 §15.3.7)."""
    media_type = head.fields.combined(b"content-type").strip().lower()
    return b"content-range" in head.fields or media_type.startswith(b"multipart/byteranges")


def _cut(request: Request, head: ResponseHead, edges: Edges) -> SelectedHead | None:
    """What is to be cut from an answer of the whole to a single range; None where it passes as it
    is: where nobody asked for a range, or a condition stood on it, or it can't be told.
    """
    fields = request.fields
    is_whole = request.method == "GET" and head.status == 200 and bool(head.length)
    if not is_whole or b"if-range" in fields or b"x-ms-range" in fields:
        return None
    selection = part_of_whole(fields, head.length or 0)
    if isinstance(selection, Whole):
        return None
    return head_of(stored_of(request, head, edges.now(), edges.policy), selection)


async def _body(
    response: OriginResponse, first: int = 0, end: int | None = None
) -> AsyncIterator[Buffer]:
    """The body's bytes from `first` to `end`, exclusive; all of them where that is None."""
    position = 0
    async for chunk in response.chunks():
        begin, position = position, position + len(chunk)
        piece = chunk[max(0, first - begin) : None if end is None else end - begin]
        if piece:
            yield piece
        if end is not None and position >= end:
            return
