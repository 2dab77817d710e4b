"""aiohttp's server, taught to send our own head bytes and to leave timers to the front.

The response writer takes our own head bytes (aiohttp's would re-encode field values); the request
handler's errors become ours, and reach who reads a malformed body; whether a handler holds anything
of a connection, what it does for a client that has gone, and when the last answer of one that was
half closed has gone.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Final, Literal

from aiohttp import HttpVersion11, http_parser, web, web_protocol
from aiohttp.abc import AbstractStreamWriter
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

from chunkside.core.request import SAFE_METHODS


class RawResponse(web.StreamResponse):
    """A response whose head is given as bytes, the empty line at its end included.

    `length` bytes of body follow, where it is None chunks or as many bytes as come. A `whole` body
    goes with the head in one write.
    """

    def __init__(
        self,
        status: int,
        head: bytes,
        *,
        length: int | None,
        is_chunked: bool,
        whole: bytes,
        keep_alive: bool,
    ) -> None:
        super().__init__(status=status)
        self._head = head
        self._announced = length
        self._is_chunked = is_chunked
        self._whole = whole
        self._keep_alive = keep_alive

    async def _prepare_headers(self) -> None:
        writer = self._payload_writer
        assert writer is not None
        if self._is_chunked:
            writer.enable_chunking()
        else:
            writer.length = self._announced

    async def _write_headers(self) -> None:
        writer: Any = self._payload_writer
        writer._headers_written = False
        writer._headers_buf = self._head

    def send_head(self) -> None:
        """Sends the head by itself. Else the first piece would be joined to it, which copies pages
        of a mapping, and reads them in the loop's thread.
        """
        assert self._payload_writer is not None
        self._payload_writer.send_headers()

    async def write_eof(self, data: bytes = b"") -> None:
        await super().write_eof(data or self._whole)


ErrorPage = Callable[[web.BaseRequest, int, BaseException | None], RawResponse]


class Handler(web_protocol.RequestHandler):
    """aiohttp's own, but for the answers it makes up itself, for a client that has said all it will
    say, who still gets his answers, for one that has gone, whose read ends with him, and for a body
    that turns out malformed, whose reader is told.
    """

    __slots__ = ("_error_page", "_is_answered", "_is_half_closed", "_newest")

    def __init__(self, manager: web.Server, error_page: ErrorPage, **settings: Any) -> None:
        super().__init__(manager, **settings)
        self._error_page = error_page
        self._is_half_closed = False
        # Whether the last answer has ended and nothing was asked since: it is idle a turn later.
        self._is_answered = False
        self._newest: StreamReader | None = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._messages:
            return
        self._is_answered = False
        before = self._newest
        message, self._newest = self._messages[-1]
        is_malformed = isinstance(message, web_protocol._ErrInfo)
        if is_malformed and before is not None and not before.is_eof():
            # aiohttp queues its own answer behind that of a request which waits for its body.
            before.set_exception(web.RequestPayloadError("the body is malformed"))

    def hear_the_end(self) -> bool:
        """Nothing more will come. True while whole requests are owed their answers; then the
        connection is closed after the last of them.
        """
        is_whole = self._newest is None or self._newest.is_eof()
        self._is_half_closed = is_whole and not (is_idle(self) or self._is_answered)
        if self._is_half_closed and isinstance(self._manager, Server):
            self._manager.waits_for_answer(self)
        return self._is_half_closed

    @property
    def is_read_without_answer(self) -> bool:
        """Whether it is at work on a request that changes nothing, and has answered nothing yet."""
        request = self._current_request
        if request is None or request.method not in SAFE_METHODS:
            return False
        return request.writer.output_size == 0

    def connection_lost(self, exc: BaseException | None) -> None:
        request, task = self._current_request, self._task_handler
        if isinstance(self._manager, Server):
            self._manager.has_gone(self)
        super().connection_lost(exc)
        # A write goes on: what becomes of it others must know. Nobody is left to read the rest.
        if request is not None and task is not None and request.method in SAFE_METHODS:
            task.cancel()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        finished = await super().finish_response(request, resp, start_time)
        self._is_answered = not self._messages
        if self._is_half_closed and not self._messages:
            self.close()
        return finished

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("an answer is under way, no other can be sent")
        return self._error_page(request, status, exc)


# Presigned targets and tokens are longer than aiohttp's 8 KiB. The two differ, so that an error
# tells which one was passed.
LONGEST_TARGET: Final = 16 << 10
LONGEST_FIELD: Final = 32 << 10
_TOO_MANY_FIELDS: Final = "Too many headers received"


def which_is_too_large(error: BaseException | None) -> Literal["target", "fields"] | None:
    """What the parser found too large of a request's head; None for any other error."""
    if isinstance(error, LineTooLong):
        return "target" if LONGEST_TARGET in error.args else "fields"
    is_count = isinstance(error, HttpProcessingError) and error.message == _TOO_MANY_FIELDS
    return "fields" if is_count else None


def parse_head(head: bytes) -> tuple[tuple[bytes, bytes], ...] | None:
    """The fields of a whole request head, byte for byte; None where it is no request of HTTP/1.1,
    announces a body or asks for more than an answer.
    """
    loop = asyncio.get_running_loop()
    parser = http_parser.HttpRequestParser(
        BaseProtocol(loop), loop, 2**16, max_line_size=LONGEST_TARGET, max_field_size=LONGEST_FIELD
    )
    try:
        messages, is_upgraded, tail = parser.feed_data(head)
    except HttpProcessingError:
        return None
    if len(messages) != 1 or is_upgraded or tail:
        return None
    [(message, payload)] = messages
    asks_for_more = message.should_close or message.chunked or message.upgrade
    is_empty = payload is EMPTY_PAYLOAD
    is_plain = is_empty and not asks_for_more and message.version == HttpVersion11
    return tuple(message.raw_headers) if is_plain else None


# The front owns the timers of a quiet connection. 0 would not switch aiohttp's own off: it would
# close every connection after its first answer.
_NEVER_SECONDS: Final = 365 * 86_400.0
# Of clients that have closed their side before an answer began, most have gone for good.
MOST_HALF_CLOSED: Final = 16


class Server(web.Server):
    """aiohttp's low-level server with our error pages, and its own idle timer out of the way.

    Few read a connection of which they have closed their side: where too many seem to, those who
    have waited longest are taken for gone.
    """

    def __init__(self, handler: Any, error_page: ErrorPage, **settings: Any) -> None:
        super().__init__(
            handler,
            keepalive_timeout=_NEVER_SECONDS,
            max_line_size=LONGEST_TARGET,
            max_field_size=LONGEST_FIELD,
            **settings,
        )
        self._error_page = error_page
        self._half_closed: dict[Handler, None] = {}

    def waits_for_answer(self, handler: Handler) -> None:
        """Its client has closed his side, and is owed an answer."""
        self._half_closed[handler] = None
        for each in list(self._half_closed):
            if len(self._half_closed) <= MOST_HALF_CLOSED:
                return
            self.has_gone(each)
            if each.is_read_without_answer:
                each.force_close()

    def has_gone(self, handler: Handler) -> None:
        self._half_closed.pop(handler, None)

    def __call__(self) -> Handler:
        return Handler(self, self._error_page, loop=self._loop, **self._kwargs)


def is_idle(handler: web_protocol.RequestHandler) -> bool:
    """Whether the handler waits for a request and has none queued or under way."""
    waiter = handler._waiter
    return (
        (_has_not_begun(handler) if waiter is None else not waiter.done())
        and not handler._messages
        and handler._current_request is None
        and not handler._upgraded
    )


def _has_not_begun(handler: web_protocol.RequestHandler) -> bool:
    """Whether its task waits for its first turn, on a connection of just now."""
    task = handler._task_handler
    running = None if task is None else task.get_coro()
    return (
        inspect.iscoroutine(running) and inspect.getcoroutinestate(running) == inspect.CORO_CREATED
    )


async def send_continue(writer: AbstractStreamWriter) -> None:
    """Answers `Expect: 100-continue` (RFC 9110 §10.1.1)."""
    raw: Any = writer
    raw._write(b"HTTP/1.1 100 Continue\r\n\r\n")
    # What was sent so far is no part of the answer.
    raw.output_size = 0
