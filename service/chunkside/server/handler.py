"""The data port: a request of aiohttp's in, our answer out, one result counted."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import HttpVersion, HttpVersion10, HttpVersion11, web

from chunkside.aiohttp_internals.serving import RawResponse
from chunkside.core.cache_status import Result
from chunkside.core.cors import is_preflight
from chunkside.core.decision import Refuse
from chunkside.core.fields import Fields
from chunkside.core.policy import ONLY_IF_CACHED
from chunkside.core.request import Request
from chunkside.core.route import Route, ends_here
from chunkside.core.routes import Routes
from chunkside.gateway.errors import BodyTorn
from chunkside.gateway.gateway import Gateway
from chunkside.gateway.reply import CAPABILITIES, Reply, own_answer, problem_reply, refusal
from chunkside.gateway.tries import Tries, counted
from chunkside.server.head import Connection, render_head
from chunkside.server.intake import OUT_OF_STEP, Upload, judge_error, judge_framing, judge_neighbour
from chunkside.server.observer import RequestObserver, TargetObserver, Unwatched
from chunkside.server.peers import Peers
from chunkside.server.request_lines import RequestLines, Told

_SET_COOKIE: Final = frozenset({b"set-cookie", b"set-cookie2"})
_NO_BODY: Final = frozenset({204, 304})
_TORN: Final = "body-torn"
_NO_FIELDS: Final = Fields()


_Seat = tuple[Route, Gateway]
Wait = Callable[[], Awaitable[None]]


class DataPort:
    """`instance` is this process's name in `Via`, by which a loop is known. `allowed_hosts`: names
    in lower case that are answered for beside those that nobody outside can point here. `peers`:
    who may ask at all. `lines`: where requests are told of.
    """

    def __init__(
        self,
        routes: Iterable[tuple[Route, Gateway]],
        observer: RequestObserver,
        instance: str,
        allowed_hosts: frozenset[bytes] = frozenset(),
        peers: Peers | None = None,
        lines: RequestLines | None = None,
        targets: TargetObserver | None = None,
    ) -> None:
        self._observer = observer
        self._lines = RequestLines() if lines is None else lines
        self._targets = targets or Unwatched()
        self._instance = instance.encode()
        self.via = b"1.1 " + self._instance
        self.take(routes, allowed_hosts, peers or Peers(), {})

    def take(
        self,
        routes: Iterable[tuple[Route, Gateway]],
        allowed_hosts: frozenset[bytes],
        peers: Peers,
        waits: Mapping[str, Wait],
    ) -> None:
        """Answers by these from now on. What is under way goes on as it began, and who is connected
        stays. `waits`: for routes by whose names nothing can be looked up yet.
        """
        self._waits = waits
        self._seats: dict[str, _Seat] = {route.name: (route, gateway) for route, gateway in routes}
        self._routes = Routes(route for route, _ in self._seats.values())
        self._allowed_hosts = allowed_hosts
        self._hosts = {route.name: allowed_hosts | route.hosts for route in self._routes}
        self._peers = peers

    async def __call__(self, http: web.BaseRequest) -> web.StreamResponse:
        exchange = _Exchange(http, Fields(http.raw_headers), time.perf_counter())
        if not self._lines.wants_one():
            return await self._answer(exchange)
        with counted() as exchange.tries:
            return await self._answer(exchange)

    async def _answer(self, exchange: _Exchange) -> web.StreamResponse:
        http, fields = exchange.http, exchange.fields
        upload = Upload(http, fields) if http.body_exists else None
        name, request = self._understand(http, fields)
        if isinstance(request, Request) and name in self._waits:
            name, request = await self._understand_later(exchange, name, request)
        seat = self._seats.get(name)
        if isinstance(request, Reply):
            reply, key_class, is_in_step = request, "chunk", True
        elif isinstance(request, Refuse):
            reply, key_class = refusal(request), "chunk"
            is_in_step = request.slug not in OUT_OF_STEP
        else:
            key_class, is_in_step = request.key_class, True
            assert seat is not None
            try:
                reply = await self._ask(seat, request, upload)
            except asyncio.CancelledError:
                # The client has gone, and nobody was answered.
                self._ended(exchange, name, key_class, None)
                raise
        if not isinstance(request, Reply):
            _tell_pages(seat, reply, fields)
        if upload is not None:
            is_in_step = is_in_step and upload.leaves_in_step
        sending = _Sending(http, reply, self.via, is_in_step=is_in_step)
        try:
            return await sending.send()
        finally:
            reply.release()
            self._ended(exchange, name, key_class, sending)

    async def _understand_later(
        self, exchange: _Exchange, name: str, request: Request
    ) -> tuple[str, Request | Refuse | Reply]:
        """Anew, once more is known of the route or has been waited for long enough."""
        try:
            await self._waits[name]()
        except asyncio.CancelledError:
            self._ended(exchange, name, request.key_class, None)
            raise
        return self._understand(exchange.http, exchange.fields)

    def _ended(
        self, exchange: _Exchange, route: str, key_class: str, sending: _Sending | None
    ) -> None:
        """Counts one request, and tells of it. `sending`: None where nobody was answered."""
        method, tries = exchange.http.method, exchange.tries
        seconds = time.perf_counter() - exchange.started
        result: Result = "error"
        status, size, cache_status, fault = None, 0, None, None
        if sending is not None:
            reply, size, fault = sending.reply, sending.body_bytes, sending.fault
            result = "error" if sending.is_torn else reply.result
            status, cache_status = reply.status, reply.cache_status
        self._observer.request_ended(route, key_class, method, result, status, size, seconds)
        target = _raw_target(exchange.http)
        if sending is not None:
            self._targets.saw(target, result, status)
        if tries is None and fault is None:
            return
        known = method, target, exchange.fields, route, key_class, result, status, size, seconds
        if tries is not None:
            self._lines.tell(Told(*known, cache_status, tries.count))
        elif fault is not None and sending is not None:
            self._lines.tell_fault(Told(*known, cache_status), fault, sending.reply.says)

    async def _ask(self, seat: _Seat, request: Request, upload: Upload | None) -> Reply:
        route, gateway = seat
        reply = await gateway.answer(request, None if upload is None else upload.content())
        if upload is not None and upload.is_torn:
            reply.release()
            return problem_reply(
                400,
                "broken-body",
                "The request's body broke off or is malformed",
                "Send a body as its framing announces it (RFC 9112 §6, §7.1).",
            )
        if not route.forwards_cookies and not _SET_COOKIE.isdisjoint(reply.fields.names):
            # Cookies don't keep to ports: this one would reach every server on this host.
            reply.fields = reply.fields.without(_SET_COOKIE)
        return reply

    def _understand(
        self, http: web.BaseRequest, fields: Fields
    ) -> tuple[str, Request | Refuse | Reply]:
        """The name that the request counts under, and what it asks of its route; or the reply to
        what it asks of this server itself.
        """
        target = self._target(http)
        route = self._routes.choose(target)
        name = self._routes.name_of(route)
        hosts = self._hosts.get(name, self._allowed_hosts)
        refusal = self._refuse(http.version, http.method, target, fields, hosts)
        if refusal is not None:
            return name, refusal
        if ends_here(http.method, target, fields):
            return name, own_answer("own-options", CAPABILITIES)
        if isinstance(route, Refuse):
            return name, route
        if route.pages is not None and is_preflight(http.method, fields):
            return name, own_answer("preflight", route.pages.preflight(fields))
        return name, route.request(http.method, target, fields, has_body=http.body_exists)

    def _target(self, http: web.BaseRequest) -> bytes:
        if http.method == "CONNECT":
            # Its target is no path (RFC 9112 §3.2.3), and it is refused whatever that names.
            return next(iter(self._routes)).at + b"/"
        return _raw_target(http)

    def _refuse(
        self,
        version: HttpVersion,
        method: str,
        target: bytes,
        fields: Fields,
        hosts: frozenset[bytes],
    ) -> Refuse | None:
        """Why nobody who sends this gets an answer, whatever its path. `hosts`: further names that
        this machine may be asked by.
        """
        refusal = judge_framing(version, fields) or judge_neighbour(method, target, fields, hosts)
        if refusal is not None:
            return refusal
        if self._instance in fields.combined(b"via"):
            return Refuse(
                508,
                "loop",
                "The upstream leads back here",
                "Set upstream (or that of the route) to the origin itself, not to this sidecar.",
            )
        return None

    def is_welcome(self, fields: Fields) -> bool:
        """Whether a GET with these fields gets an answer at all, whatever its target."""
        return self._refuse(HttpVersion11, "GET", b"/", fields, self._allowed_hosts) is None

    def error_page(
        self, http: web.BaseRequest, status: int, error: BaseException | None
    ) -> RawResponse:
        """The answer to what is no HTTP that can be understood, or met a fault of ours."""
        if status >= 500:
            route = self._routes.choose(self._target(http))
            reply = problem_reply(
                500, "internal", "Chunkside has a fault", "Its log tells more. Please report it."
            )
        else:
            route, reply = None, refusal(judge_error(error))
        self._count(route, http.method, reply, _raw_target(http))
        return _response(http, reply, self.via, keeps_alive=False)

    def admits(self, transport: asyncio.BaseTransport) -> bool:
        return self._peers.admits(transport)

    def late_head(self) -> bytes:
        return self._whole(
            problem_reply(
                408,
                "head-timeout",
                "The request's head took too long",
                "Send the whole head at once.",
            )
        )

    def crowded(self) -> bytes:
        return self._whole(
            problem_reply(
                503,
                "crowded",
                "Too many connections",
                "Close some, or let this process have more open files (ulimit -n).",
                (b"Retry-After", b"1"),
            )
        )

    def foreign(self) -> bytes:
        return self._whole(
            problem_reply(
                403,
                "foreign-client",
                "Not a client that is answered",
                "Ask from one of the networks in allowed_clients, or add this one to them.",
            )
        )

    def _whole(self, reply: Reply) -> bytes:
        """Head and body of an answer to no request; the connection ends with it."""
        self._count(None, "other", reply)
        assert isinstance(reply.body, bytes)
        connection = Connection(is_http_10=False, keeps_alive=False)
        return render_head(reply, self.via, connection) + reply.body

    def _count(
        self, route: Route | Refuse | None, method: str, reply: Reply, target: bytes | None = None
    ) -> None:
        """Counts and tells what no gateway was asked for."""
        name, size = self._routes.name_of(route), reply.length or 0
        self._observer.request_ended(name, "chunk", method, "error", reply.status, size, 0.0)
        fault, is_wanted = _fault(reply), self._lines.wants_one()
        if fault is None and not is_wanted:
            return
        known = method, target, _NO_FIELDS, name, "chunk", reply.result, reply.status, size, 0.0
        told = Told(*known, reply.cache_status)
        if is_wanted:
            self._lines.tell(told)
        elif fault is not None:
            self._lines.tell_fault(told, fault, reply.says)


@dataclass(slots=True)
class _Exchange:
    """A request as it came. `tries`: of one that gets a log line."""

    http: web.BaseRequest
    fields: Fields
    started: float
    tries: Tries | None = None


def _raw_target(http: web.BaseRequest) -> bytes:
    return http.raw_path.encode("utf-8", "surrogateescape")


def _fault(reply: Reply) -> str | None:
    """What kind of failure of this sidecar's an answer tells of; None where it doesn't."""
    detail = reply.cache_status.detail
    # The reader's client may hide what a 421 says, and what it asks for be meant for elsewhere.
    is_own = reply.result == "error" and (reply.status >= 500 or reply.status == 421)
    # Who says only-if-cached asked to be told so.
    return detail if is_own and detail != ONLY_IF_CACHED.slug else None


def _tell_pages(seat: _Seat | None, reply: Reply, asked: Fields) -> None:
    """Says on every status which pages may read it, where that isn't left to the origin."""
    if seat is not None and seat[0].pages is not None:
        reply.fields = seat[0].pages.instead(reply.fields, asked)


class _Sending:
    """Writes one reply. `is_torn`: it was cut off because its bytes can't be had."""

    def __init__(
        self, http: web.BaseRequest, reply: Reply, via: bytes, *, is_in_step: bool
    ) -> None:
        """`is_in_step`: what follows on the connection can be trusted to be the next request."""
        self._http = http
        self.reply = reply
        self._via = via
        self._is_in_step = is_in_step
        self.body_bytes = 0
        self.is_torn = False

    @property
    def fault(self) -> str | None:
        return _TORN if self.is_torn else _fault(self.reply)

    async def send(self) -> web.StreamResponse:
        http, reply = self._http, self.reply
        keeps_alive = (
            bool(http.keep_alive) and self._is_in_step and not _ends_with_connection(http, reply)
        )
        response = _response(http, reply, self._via, keeps_alive=keeps_alive)
        body = reply.body
        if isinstance(body, bytes):
            self.body_bytes = 0 if http.method == "HEAD" else len(body)
            return response
        await response.prepare(http)
        response.send_head()
        try:
            async for piece in body:
                await response.write(piece)
                self.body_bytes += len(piece)
            await response.write_eof()
        except BodyTorn as torn:
            self.is_torn = True
            # Never a clean end: whoever reads must see that this is not the whole.
            _cut(http)
            raise ConnectionResetError("the body broke off") from torn
        return response


def _response(http: web.BaseRequest, reply: Reply, via: bytes, *, keeps_alive: bool) -> RawResponse:
    connection = Connection(http.version <= HttpVersion10, keeps_alive)
    is_whole = isinstance(reply.body, bytes)
    has_body = http.method != "HEAD" and reply.status not in _NO_BODY
    length = reply.length if reply.length is not None or not is_whole else 0
    return RawResponse(
        reply.status,
        render_head(reply, via, connection),
        length=length if has_body else 0,
        is_chunked=length is None and not connection.is_http_10,
        whole=reply.body if isinstance(reply.body, bytes) and has_body else b"",
        keep_alive=keeps_alive,
    )


def _cut(http: web.BaseRequest) -> None:
    transport = http.transport
    if transport is None:
        return
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        # A reset, since a body without a length ends well with a plain end of the connection.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def _ends_with_connection(http: web.BaseRequest, reply: Reply) -> bool:
    is_unframed = reply.length is None and not isinstance(reply.body, bytes)
    return is_unframed and http.version <= HttpVersion10
