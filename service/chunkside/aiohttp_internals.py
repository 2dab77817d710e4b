"""Every use of aiohttp's private parts, so that a new minor version is read against one file.

What is used and why: the response writer takes our own head bytes (aiohttp's would re-encode field
values); the request handler's errors become ours, and reach who reads a malformed body; whether a
handler holds anything of a connection, what it does for a client that has gone, and when the last
answer of one that was half closed has gone; the client is aiohttp's connections, requests and
answers without its session (which sends some requests again by itself, follows, keeps and decodes,
and takes as long for it as for the rest): it sends the raw target (yarl would drop a bare `?`),
waits for a 100 only so long, takes a connection for a write only where that was used a moment ago,
lets whoever asks bound the wait for one, and counts those that are kept for later among how many
there may be.
`tests/test_aiohttp_internals.py` is the canary.
"""

from __future__ import annotations

import asyncio
import inspect
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Literal

import aiohttp
from aiohttp import HttpVersion11, http_parser, web, web_protocol
from aiohttp.abc import AbstractStreamWriter
from aiohttp.base_protocol import BaseProtocol
from aiohttp.client_exceptions import ServerDisconnectedError
from aiohttp.client_reqrep import ClientRequest, ClientResponse
from aiohttp.helpers import set_result
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from multidict import CIMultiDict
from yarl import URL

from chunkside.core.request import SAFE_METHODS

OLDEST: Final = (3, 14, 3)
TOO_NEW: Final = (3, 15)


class UnfitAiohttp(Exception):
    """The installed aiohttp can't be used; the text says why and what to install."""


def check_aiohttp() -> None:
    """Raises UnfitAiohttp unless its version is one this file was read against, with its C
    parser.
    """
    version = tuple(int(part) for part in aiohttp.__version__.split(".")[:3] if part.isdigit())
    if not OLDEST <= version < TOO_NEW:
        raise UnfitAiohttp(
            f"aiohttp {aiohttp.__version__} is installed; 3.14.3 to 3.14.* is needed"
        )
    if http_parser.HttpRequestParser is http_parser.HttpRequestParserPy:
        raise UnfitAiohttp(
            "aiohttp runs without its C parser: install its wheel and unset AIOHTTP_NO_EXTENSIONS"
        )


# Serving.


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


# Asking.


class _ExactTarget:
    """Stands in for a URL while the request line is written."""

    def __init__(self, url: URL, raw_path_qs: str) -> None:
        self._url = url
        self.raw_path_qs = raw_path_qs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._url, name)


# How long an origin may leave `Expect: 100-continue` unanswered before it is sent the body.
CONTINUE_SECONDS: Final = 1.0
# aiohttp would say these where a client said nothing.
_SAID_FOR_NOBODY: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class _Request(ClientRequest):
    """A request for `target`, byte for byte, that bears no field but Host and those it is given."""

    _skip_auto_headers = CIMultiDict[None]((name, None) for name in _SAID_FOR_NOBODY)
    target: str

    def update_auto_headers(self, skip_auto_headers: Iterable[str] | None) -> None:
        """There are none."""

    async def send(self, conn: Any) -> ClientResponse:
        if conn.protocol.should_close:
            # Something came that nobody asked for: it would pass for the answer to this request.
            conn.close()
            raise ServerDisconnectedError("the connection held bytes that nobody asked for")
        if self._continue is not None:
            is_told = True
            self.loop.call_later(CONTINUE_SECONDS, set_result, self._continue, is_told)
        url = self.url
        self.url = _ExactTarget(url, self.target)  # type: ignore[assignment]
        try:
            return await super().send(conn)
        finally:
            self.url = url


# Servers close quiet connections after some seconds, few of them sooner than this.
WRITES_TRUST_SECONDS: Final = 1.0
# What stands around a request's wait for a connection, where all are taken. It may raise.
around_waits: ContextVar[Callable[[], AbstractAsyncContextManager[None]]] = ContextVar(
    "around_waits", default=nullcontext
)
# Whether a request takes no connection that was used before, after one such failed.
needs_new_connection: ContextVar[bool] = ContextVar("needs_new_connection", default=False)
_idle_at_most: ContextVar[float | None] = ContextVar("_idle_at_most", default=None)
_NONE_AT_ALL: Final = -1.0  # Also of what came back this very moment.
_LONGEST_ANSWER_LINE: Final = 16 << 10
_LONGEST_ANSWER_FIELD: Final = 64 << 10


class Connector(aiohttp.TCPConnector):
    """A pool that gives a request which is never sent again no connection that has been quiet for
    long: the origin may be closing it at this very moment, and nobody would know what came of it.
    Where one failed, the next try trusts none of the others, and they are closed. Its limit counts
    connections to all hosts, and those that are kept for later.
    """

    async def connect(self, req: ClientRequest, traces: Any, timeout: Any) -> Any:
        trusted = None if req.method in SAFE_METHODS else WRITES_TRUST_SECONDS
        if needs_new_connection.get():
            trusted = _NONE_AT_ALL
        token = _idle_at_most.set(trusted)
        try:
            return await super().connect(req, traces, timeout)
        finally:
            _idle_at_most.reset(token)

    async def _get(self, key: Any, traces: Any) -> Any:
        seconds, usual = _idle_at_most.get(), self._keepalive_timeout
        if seconds is not None:
            self._keepalive_timeout = seconds
        # Without traces aiohttp's own is over before anybody else has a turn.
        try:
            return await super()._get(key, traces)
        finally:
            self._keepalive_timeout = usual

    async def _create_connection(self, req: ClientRequest, traces: Any, timeout: Any) -> Any:
        # What is about to be made counts among the acquired already.
        while len(self._acquired) + sum(map(len, self._conns.values())) > self._limit:
            self._close_quietest()
        return await super()._create_connection(req, traces, timeout)

    def _close_quietest(self) -> None:
        kept = {key: connections for key, connections in self._conns.items() if connections}
        quietest = min(kept, key=lambda key: kept[key][0][1])
        protocol, _ = kept[quietest].popleft()
        if not kept[quietest]:
            del self._conns[quietest]
        protocol.close()

    async def _wait_for_available_connection(self, key: Any, traces: Any) -> None:
        async with around_waits.get()():
            try:
                await super()._wait_for_available_connection(key, traces)
            except BaseException:
                # It may have been this one's turn: aiohttp would tell nobody else.
                self._release_waiter()
                raise


@dataclass(frozen=True, slots=True)
class Question:
    """`location`: scheme, host and port; `target`: UTF-8. `tls`: as aiohttp takes it.
    `is_held_back`: `data` waits for a 100.
    """

    method: str
    location: URL
    target: bytes
    headers: Iterable[tuple[str, str]] = ()
    tls: ssl.SSLContext | bool = True
    data: AsyncIterator[bytes] | None = None
    is_held_back: bool = False


class Client:
    """What of aiohttp's client one question takes: a connection out of a pool, a request, an
    answer. Nothing is sent twice, no redirect is followed, no cookie kept, no body decoded.
    `connections`: how many there may be. `read_bytes`: so much of a body is read ahead.
    """

    def __init__(self, connections: int, read_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._connector = Connector(limit=connections, ttl_dns_cache=10)
        self._read_bytes = read_bytes

    async def close(self) -> None:
        await self._connector.close()

    async def ask(self, question: Question, timeout: aiohttp.ClientTimeout) -> ClientResponse:
        """The answer, once its head is there. Of `timeout` those for connecting and reading count.
        Raises aiohttp's errors and OSError.
        """
        request = _Request(
            question.method,
            question.location,
            headers=question.headers,
            data=question.data,
            expect100=question.is_held_back,
            loop=self._loop,
            ssl=question.tls,
        )
        request.target = question.target.decode()
        try:
            return await self._send(request, timeout)
        finally:
            if request._body is not None:
                await request._body.close()

    async def _send(self, request: _Request, timeout: aiohttp.ClientTimeout) -> ClientResponse:
        try:
            connection = await self._connector.connect(request, [], timeout)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError(f"no connection to {request.host}") from error
        try:
            connection.protocol.set_response_params(
                skip_payload=request.method == "HEAD",
                read_until_eof=True,
                auto_decompress=False,
                read_timeout=timeout.sock_read,
                read_bufsize=self._read_bytes,
                max_line_size=_LONGEST_ANSWER_LINE,
                max_field_size=_LONGEST_ANSWER_FIELD,
            )
            answer = await request.send(connection)
            try:
                return await answer.start(connection)
            except BaseException:
                answer.close()
                raise
        except BaseException:
            connection.close()
            raise
