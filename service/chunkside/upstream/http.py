"""The way to an HTTP origin: aiohttp's client, taught to change nothing."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import aiohttp
from multidict import CIMultiDict

from chunkside.aiohttp_internals import Connector, ExactTargetRequest, exact_url, never_resend
from chunkside.core.fields import Fields, list_members
from chunkside.core.request import SAFE_METHODS
from chunkside.core.response import ResponseHead
from chunkside.gateway.errors import (
    BodyTorn,
    OriginError,
    OriginNonsense,
    OriginTooSlow,
    OriginUnreachable,
    RequestAborted,
)
from chunkside.gateway.ports import Observer, OriginRequest

log = logging.getLogger(__name__)

_READ_BYTES: Final = 256 << 10
_FIRST_PAUSE_SECONDS: Final = 0.05
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})
_BODILESS: Final = frozenset({204, 304})
_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds, but for `retries` and `connections`."""

    connect: float = 3.0
    first_byte: float = 8.0
    idle: float = 15.0
    deadline: float = 25.0
    write: float = 300.0
    retries: int = 3
    connections: int = 128


class HttpUpstream:
    """`location`: scheme, host and port. `via` is what requests say of this process."""

    def __init__(self, location: str, times: Times, observer: Observer, *, via: bytes) -> None:
        self._location = location
        self._times = times
        self._observer = observer
        self._via = via
        self._is_failing = False
        self._session = aiohttp.ClientSession(
            connector=Connector(limit=times.connections, ttl_dns_cache=10),
            request_class=ExactTargetRequest,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=times.connect, sock_read=times.idle
            ),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            read_bufsize=_READ_BYTES,
            max_line_size=16 << 10,
            max_field_size=64 << 10,
            trust_env=False,
        )
        never_resend(self._session)

    async def close(self) -> None:
        await self._session.close()

    async def send(self, request: OriginRequest) -> HttpResponse:
        if request.method in SAFE_METHODS and request.content is None:
            return await self._send_safely(request)
        return await self._send_once(request, self._times.write)

    async def _send_safely(self, request: OriginRequest) -> HttpResponse:
        """Tries again where the connection failed before a head came, within the deadline."""
        pause = _FIRST_PAUSE_SECONDS
        try:
            async with asyncio.timeout(self._times.deadline):
                for _ in range(self._times.retries):
                    try:
                        return await self._send_once(request, self._times.first_byte)
                    except OriginUnreachable:
                        # Jitter: many readers lose their connections at the same moment.
                        await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311
                        pause *= 2
                return await self._send_once(request, self._times.first_byte)
        except TimeoutError as error:
            raise OriginTooSlow(
                f"No answer from {self._location} within {self._times.deadline:g} s."
            ) from error

    async def _send_once(self, request: OriginRequest, seconds: float) -> HttpResponse:
        """One request on the wire. Its answer's head may take `seconds`, connecting and sending
        included; with a body they count from the last piece that was sent.
        """
        started = time.perf_counter()
        status: int | None = None
        try:
            async with asyncio.timeout(seconds) as timeout:
                patience = _Patience(timeout, seconds)
                try:
                    answer = await self._session.request(
                        request.method,
                        exact_url(self._location, request.target),
                        headers=self._headers(request),
                        data=self._data(request, patience),
                        expect100=request.content is not None and request.content.is_held_back,
                        allow_redirects=False,
                        timeout=self._timeout(request),
                    )
                finally:
                    patience.end()
            status = answer.status
            self._note(None)
            try:
                return HttpResponse(answer, self._observer)
            except OriginNonsense:
                answer.close()
                raise
        except (TimeoutError, aiohttp.ServerTimeoutError) as error:
            too_slow = self._too_slow(error, seconds)
            self._note(too_slow)
            raise too_slow from error
        except (aiohttp.ClientError, OSError, ssl.SSLError) as error:
            failed = self._failed(error)
            if not isinstance(error.__cause__, RequestAborted):
                self._note(failed)
            raise failed from error
        finally:
            self._observer.upstream_answered(
                request.key_class, request.method, status, time.perf_counter() - started
            )

    def _timeout(self, request: OriginRequest) -> aiohttp.ClientTimeout:
        times = self._times
        reads = times.idle if request.method in SAFE_METHODS else times.write
        return aiohttp.ClientTimeout(
            total=None, sock_connect=times.connect, sock_read=max(reads, times.first_byte)
        )

    def _too_slow(self, error: BaseException, first_byte: float) -> OriginError:
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return OriginUnreachable(
                f"{self._location} accepted no connection within {self._times.connect:g} s."
            )
        return OriginTooSlow(f"No answer from {self._location} within {first_byte:g} s.")

    def _failed(self, error: Exception) -> OriginError:
        where = self._location
        if isinstance(error, aiohttp.ClientConnectorError):
            why = error.os_error.strerror or str(error.os_error)
            return OriginUnreachable(
                f"{where} can't be connected to: {why}. Is the origin up, and the setting upstream "
                "right?"
            )
        if isinstance(error, aiohttp.ClientConnectionError | OSError):
            return OriginUnreachable(f"{where} broke the connection off: {error}".rstrip(": "))
        said = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
        return OriginNonsense(f"{where} sent no HTTP that makes sense: {said.splitlines()[0]}")

    def _note(self, error: OriginError | None) -> None:
        """Says when the origin begins to fail, and when it is back."""
        if error is not None and not self._is_failing:
            log.warning("the origin fails: %s", error)
        elif error is None and self._is_failing:
            log.warning("the origin %s answers again", self._location)
        self._is_failing = error is not None

    def _headers(self, request: OriginRequest) -> CIMultiDict[str]:
        headers: CIMultiDict[str] = CIMultiDict()
        for name, value in request.fields:
            headers.add(name.decode("ascii"), value.decode())
        headers.add("Via", self._via.decode())
        content = request.content
        if content is not None and content.length is not None:
            headers.add("Content-Length", str(content.length))
        return headers

    def _data(self, request: OriginRequest, patience: _Patience) -> AsyncIterator[bytes] | None:
        content = request.content
        return None if content is None else self._counted(content.chunks, patience)

    async def _counted(
        self, chunks: AsyncIterator[bytes], patience: _Patience
    ) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            self._observer.upstream_sent(len(chunk))
            yield chunk
            patience.renew()


class _Patience:
    """Counts a timeout anew as long as a request's body makes way."""

    def __init__(self, timeout: asyncio.Timeout, seconds: float) -> None:
        self._timeout: asyncio.Timeout | None = timeout
        self._seconds = seconds

    def renew(self) -> None:
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._seconds)

    def end(self) -> None:
        """The wait is over; the rest of the body may still be on its way, without a limit."""
        self._timeout = None


class HttpResponse:
    def __init__(self, answer: aiohttp.ClientResponse, observer: Observer) -> None:
        self._answer = answer
        self._observer = observer
        self.head = _head(answer)

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._answer.content.iter_any():
                self._observer.upstream_received(len(chunk))
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise BodyTorn from error

    def close(self) -> None:
        # A connection whose answer was read to its end went back to the pool by itself.
        self._answer.close()


def _head(answer: aiohttp.ClientResponse) -> ResponseHead:
    every = Fields((_name(name), value) for name, value in answer.raw_headers)
    fields = every.end_to_end().without(_FRAMING)
    codings = list_members(every.combined(b"transfer-encoding"))
    is_chunked = codings == [b"chunked"]
    told = every.get(b"content-length")
    length = int(told) if told is not None and told.isdigit() and not codings else None
    is_bodiless = answer.method == "HEAD" or answer.status in _BODILESS
    return ResponseHead(
        answer.status, fields, length, is_framed=is_chunked or length is not None or is_bodiless
    )


def _name(told: bytes) -> bytes:
    """A field's name, if it is one. Raises OriginNonsense.

    In answers aiohttp's parser lets a space pass between the name of a framing field and its colon,
    and takes it for no framing: whoever reads it next may.
    """
    if _TOKEN.fullmatch(told) is None:
        raise OriginNonsense("The origin sent a field whose name is none (RFC 9112 §5.1).")
    return told
