"""One request on the wire to an HTTP origin: aiohttp's client, taught to change nothing."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import aiohttp
from yarl import URL

from chunkside.aiohttp_internals.asking import (
    Client,
    Question,
    around_waits,
    needs_new_connection,
)
from chunkside.core.fields import Fields, list_members
from chunkside.core.request import SAFE_METHODS
from chunkside.core.response import ResponseHead
from chunkside.core.verbatim import names_signed
from chunkside.gateway.errors import (
    BodyTorn,
    OriginError,
    OriginNonsense,
    OriginNotAsked,
    OriginTooSlow,
    OriginUnreachable,
)
from chunkside.gateway.ports import Observer, OriginRequest
from chunkside.upstream.tls import Tls

_READ_BYTES: Final = 256 << 10
_PROXIES: Final = (
    *("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"),
)
# X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT and those of issuers that aren't there.
_OF_UNKNOWN_AUTHORITIES: Final = frozenset({18, 19, 20, 21})
_SKIPPED_BYTES: Final = 64 << 10
_SKIP_SECONDS: Final = 1.0
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})
_BODILESS: Final = frozenset({204, 304})
_MEDIA_TYPE: Final = frozenset({b"content-type"})
_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# A name may be as long as a field: those that no server sends are not kept in memory.
_LONGEST_USUAL_NAME: Final = 64


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds, but for `retries`, `connections` and `queue`: how many may wait for one of them."""

    connect: float = 3.0
    first_byte: float = 8.0
    idle: float = 15.0
    deadline: float = 25.0
    write: float = 300.0
    retries: int = 3
    connections: int = 128
    queue: int = 4096


class Wire:
    """`location`: scheme, host and port. `via` is what requests say of this process."""

    def __init__(
        self, location: str, times: Times, observer: Observer, via: bytes, tls: Tls
    ) -> None:
        self._location = location
        self._times = times
        self._observer = observer
        self._via = via
        self._tls = tls
        self._waiting = 0
        self._client = Client(times.connections, _READ_BYTES)
        self._url = URL(location, encoded=True)
        self._reads = _timeout(times, times.idle)
        self._writes = _timeout(times, times.write)

    async def close(self) -> None:
        await self._client.close()

    async def send(
        self,
        request: OriginRequest,
        seconds: float,
        left: float,
        *,
        is_anew: bool = False,
        elsewhere: str | None = None,
    ) -> HttpResponse:
        """Sends a request once. A connection is waited for up to `left` seconds; then its answer's
        head may take `seconds`, connecting and sending included, but no longer than is left. With
        a body `seconds` count from the last piece that was sent, and `left` bounds the wait alone.
        `is_anew`: on a connection that nothing was sent on before. `elsewhere`: the location to ask
        in the place of our own.
        """
        until = asyncio.get_running_loop().time() + left
        where = elsewhere or self._location
        is_bound = request.content is None and request.method in SAFE_METHODS
        started = time.perf_counter()
        status: int | None = None
        was_sent = True
        try:
            async with asyncio.timeout(min(seconds, left) if is_bound else seconds) as timeout:
                patience = _Patience(timeout, seconds, until if is_bound else None)
                try:
                    answer = await self._request(where, request, patience, until, is_anew=is_anew)
                finally:
                    patience.end()
            status = answer.status
            try:
                return HttpResponse(answer, self._observer)
            except OriginNonsense:
                answer.close()
                raise
        except OriginNotAsked:
            was_sent = False
            raise
        except (TimeoutError, aiohttp.ServerTimeoutError) as error:
            allowed = min(seconds, left) if is_bound else seconds
            raise self._too_slow(where, error, allowed) from error
        except (aiohttp.ClientError, OSError, ssl.SSLError) as error:
            raise _failed(where, error) from error
        finally:
            if was_sent:
                self._observer.upstream_answered(
                    request.key_class, request.method, status, time.perf_counter() - started
                )

    async def _request(
        self,
        where: str,
        request: OriginRequest,
        patience: _Patience,
        until: float,
        *,
        is_anew: bool,
    ) -> aiohttp.ClientResponse:
        wait_token = around_waits.set(lambda: self._in_line(patience, until))
        new_token = needs_new_connection.set(is_anew)
        try:
            is_elsewhere = where != self._location
            question = Question(
                request.method,
                URL(where, encoded=True) if is_elsewhere else self._url,
                request.target,
                self._headers(request),
                await self._tls.context(is_elsewhere=is_elsewhere),
                self._data(request, patience),
                is_held_back=_is_held_back(request),
            )
            is_read = request.method in SAFE_METHODS
            return await self._client.ask(question, self._reads if is_read else self._writes)
        finally:
            around_waits.reset(wait_token)
            needs_new_connection.reset(new_token)

    @asynccontextmanager
    async def _in_line(self, patience: _Patience, until: float) -> AsyncIterator[None]:
        """Around a wait for a connection: it is bounded, and no time of the origin's."""
        if self._waiting >= self._times.queue:
            raise OriginNotAsked(
                f"{self._waiting} requests wait for one of the {self._times.connections} "
                f"connections to {self._location} already."
            )
        self._waiting += 1
        patience.rest()
        try:
            async with asyncio.timeout_at(until):
                yield
        except TimeoutError as error:
            raise OriginNotAsked(
                f"All {self._times.connections} connections to {self._location} were busy for as "
                "long as this request may take."
            ) from error
        finally:
            self._waiting -= 1
        patience.renew()

    def _too_slow(self, where: str, error: BaseException, first_byte: float) -> OriginError:
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return OriginUnreachable(
                f"{where} accepted no connection within {self._times.connect:g} s."
            )
        return OriginTooSlow(f"No answer from {where} within {first_byte:.3g} s.")

    def _headers(self, request: OriginRequest) -> list[tuple[str, str]]:
        # An origin's validator goes back to it as it came, whatever it is spelled in.
        headers = [
            (name.decode("ascii"), value.decode(errors="surrogateescape"))
            for name, value in request.fields
        ]
        if request.host is not None:
            headers.insert(0, ("Host", request.host.decode()))
        # What a client signed stays as it is.
        if request.host is None or b"via" not in names_signed(request.target, request.fields):
            headers.append(("Via", self._via.decode()))
        content = request.content
        is_told = b"content-length" in request.fields
        if content is not None and content.length is not None and not is_told:
            headers.append(("Content-Length", str(content.length)))
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


def _is_held_back(request: OriginRequest) -> bool:
    content = request.content
    # What a client signed says so itself.
    return content is not None and content.is_held_back and b"expect" not in request.fields


def _timeout(times: Times, read_seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=None, sock_connect=times.connect, sock_read=max(read_seconds, times.first_byte)
    )


def _failed(where: str, error: Exception) -> OriginError:
    if isinstance(error, aiohttp.ClientConnectorError):
        why = _cause(error.os_error)
        if getattr(error.os_error, "verify_code", None) in _OF_UNKNOWN_AUTHORITIES:
            return OriginUnreachable(
                f"{where} shows a certificate that can't be verified: {why}. If its authority is "
                "one of your own, name its file by upstream_ca_file."
            )
        told = os.environ  # environment: other clients go by it
        proxied = next(filter(told.get, _PROXIES), None)
        past = f" {proxied} is set, but no origin is asked by a proxy." if proxied else ""
        return OriginUnreachable(
            f"{where} can't be connected to: {why}. Is the origin up, and the setting upstream "
            f"right?{past}"
        )
    if isinstance(error, aiohttp.ClientConnectionError | OSError):
        return OriginUnreachable(f"{where} broke the connection off: {_plain(error)}".rstrip(": "))
    said = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
    why = next(iter(said.splitlines()), "it can't be parsed")
    return OriginNonsense(f"{where} sent no HTTP that makes sense: {why}")


def _plain(error: Exception) -> str:
    """In words; of a head that broke off aiohttp has all that had come of it, which is nobody's."""
    is_of_words = all(isinstance(each, str | int) for each in error.args)
    return str(error) if is_of_words else ""


def _cause(error: OSError) -> str:
    """asyncio has an address in the place of what the kernel says of it."""
    told = error.strerror or str(error)
    if error.errno is not None and told.startswith("Connect call failed"):
        return os.strerror(error.errno)
    return told


class _Patience:
    """Counts a timeout anew as long as a request's body makes way; never beyond `until`."""

    def __init__(self, timeout: asyncio.Timeout, seconds: float, until: float | None) -> None:
        self._timeout: asyncio.Timeout | None = timeout
        self._seconds = seconds
        self._until = until

    def renew(self) -> None:
        if self._timeout is None or self._timeout.expired():
            return
        end = asyncio.get_running_loop().time() + self._seconds
        self._timeout.reschedule(end if self._until is None else min(end, self._until))

    def rest(self) -> None:
        """Nothing counts until it is renewed."""
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(None)

    def end(self) -> None:
        """The wait is over; the rest of the body may still be on its way, without a limit."""
        self._timeout = None


class HttpResponse:
    def __init__(self, answer: aiohttp.ClientResponse, observer: Observer) -> None:
        self._answer = answer
        self._observer = observer
        self._ahead = b""
        self.head = _head(answer)

    async def read_ahead(self, most: int) -> bytes | None:
        """The body, which `chunks` gives all the same; None where it is longer than that. Raises
        BodyTorn.
        """
        if len(self._ahead) <= most:
            async for chunk in self._arriving():
                self._ahead += chunk
                if len(self._ahead) > most:
                    break
        return self._ahead if len(self._ahead) <= most else None

    def replace_body(self, body: bytes, media_type: bytes) -> None:
        """Has an answer that was read to its end say something else."""
        fields = self.head.fields.without(_MEDIA_TYPE).plus((b"Content-Type", media_type))
        self.head = replace(self.head, fields=fields, length=len(body))
        self._ahead = body

    async def chunks(self) -> AsyncIterator[bytes]:
        ahead, self._ahead = self._ahead, b""
        if ahead:
            yield ahead
        async for chunk in self._arriving():
            yield chunk

    async def _arriving(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._answer.content.iter_any():
                self._observer.upstream_received(len(chunk))
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise BodyTorn from error

    async def skip(self) -> None:
        """Lets go of it, if soon read to its end so that its connection can be used again."""
        skipped = 0
        try:
            async with asyncio.timeout(_SKIP_SECONDS):
                async for chunk in self.chunks():
                    skipped += len(chunk)
                    if skipped > _SKIPPED_BYTES:
                        break
        except (BodyTorn, TimeoutError):
            # That connection is none to use again.
            pass
        finally:
            self.close()

    def close(self) -> None:
        # A connection whose answer was read to its end went back to the pool by itself.
        self._answer.close()


def _head(answer: aiohttp.ClientResponse) -> ResponseHead:
    every = Fields(answer.raw_headers)
    if not all(map(_is_name, every.names)):
        # In answers aiohttp's parser lets a space pass between the name of a framing field and its
        # colon, and takes it for no framing: whoever reads it next may.
        raise OriginNonsense("The origin sent a field whose name is none (RFC 9112 §5.1).")
    fields = every.end_to_end(_FRAMING)
    codings = list_members(every.combined(b"transfer-encoding"))
    is_chunked = codings == [b"chunked"]
    told = every.get(b"content-length")
    length = int(told) if told is not None and told.isdigit() and not codings else None
    is_bodiless = answer.method == "HEAD" or answer.status in _BODILESS
    return ResponseHead(
        answer.status, fields, length, is_framed=is_chunked or length is not None or is_bodiless
    )


def _is_name(told: bytes) -> bool:
    return _is_usual_name(told) if len(told) <= _LONGEST_USUAL_NAME else _is_token(told)


def _is_token(told: bytes) -> bool:
    return _TOKEN.fullmatch(told) is not None


_is_usual_name = lru_cache(maxsize=512)(_is_token)
