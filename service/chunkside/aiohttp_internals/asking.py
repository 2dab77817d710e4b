"""aiohttp's client without its session: connections, requests and answers.

The session sends some requests again by itself, follows redirects, keeps cookies and decodes
bodies, and takes as long for it as for the rest. What is left sends target and fields as they are
(yarl would drop a bare `?`), waits for a 100 only so long, takes a connection for a write only
where that was used a moment ago, lets whoever asks bound the wait for one, and counts those that
are kept for later among how many there may be.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
from aiohttp.client_exceptions import ServerDisconnectedError
from aiohttp.client_reqrep import ClientRequest, ClientResponse
from aiohttp.helpers import set_result
from aiohttp.http_writer import StreamWriter
from multidict import CIMultiDict
from yarl import URL

from chunkside.core.request import SAFE_METHODS

# How long an origin may leave `Expect: 100-continue` unanswered before it is sent the body.
CONTINUE_SECONDS: Final = 1.0
# aiohttp would say these where a client said nothing.
_SAID_FOR_NOBODY: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_NO_TARGET: Final = re.compile(rb"[\x00-\x20\x7f]")


class _Request(ClientRequest):
    """A request for `target` that bears no field but Host and those it is given. What it is given
    goes out byte for byte: aiohttp would refuse, or alter, what is no UTF-8.
    """

    _skip_auto_headers = CIMultiDict[None]((name, None) for name in _SAID_FOR_NOBODY)
    target: bytes

    def update_auto_headers(self, skip_auto_headers: Iterable[str] | None) -> None:
        """There are none."""

    async def send(self, conn: Any) -> ClientResponse:
        protocol = conn.protocol
        if protocol.should_close:
            # Something came that nobody asked for: it would pass for the answer to this request.
            conn.close()
            raise ServerDisconnectedError("the connection held bytes that nobody asked for")
        writer: Any = StreamWriter(protocol, self.loop)
        if self.chunked is not None:
            writer.enable_chunking()
        writer._headers_written, writer._headers_buf = False, self._head()
        sending = None
        if self._continue is not None:
            is_told = True
            self.loop.call_later(CONTINUE_SECONDS, set_result, self._continue, is_told)
        if self._body or self._continue is not None or protocol.writing_paused:
            body = self.write_bytes(writer, conn, self._get_content_length())
            self._writer = sending = self.loop.create_task(body)
        else:
            protocol.start_timeout()
            writer.set_eof()
        no_session: Any = None
        no_timer: Any = None
        return ClientResponse(
            self.method,
            self.original_url,
            writer=sending,
            continue100=self._continue,
            timer=no_timer,
            request_info=self.request_info,
            traces=[],
            loop=self.loop,
            session=no_session,
            stream_writer=writer,
        )

    def _head(self) -> bytes:
        lines = [f"{name}: {value}" for name, value in self.headers.items()]
        text = "\n".join(lines)
        is_one_head = text.count("\n") == len(lines) - 1 and "\r" not in text and "\0" not in text
        if not is_one_head or _NO_TARGET.search(self.target):
            raise ValueError("what a request is given would not be one request")
        fields = text.replace("\n", "\r\n").encode(errors="surrogateescape")
        return b"%b %b HTTP/1.1\r\n%b\r\n\r\n" % (self.method.encode(), self.target, fields)


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
    """`location`: scheme, host and port. `headers`: what is no UTF-8 of them by `surrogateescape`.
    `tls`: as aiohttp takes it. `is_held_back`: `data` waits for a 100.
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
        request.target = question.target
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
