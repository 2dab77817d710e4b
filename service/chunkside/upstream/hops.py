"""One try: with the sidecar's own credential, and on along the redirects that a route follows.

The credential, the clients' own and the sidecar's certificate are for the upstream's own location:
no other sees them, also if it leads back there (RFC 9110 §15.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from chunkside.core.credentials import is_signed
from chunkside.core.fields import Fields
from chunkside.core.request import SAFE_METHODS
from chunkside.gateway.errors import OriginNonsense
from chunkside.gateway.ports import Observer, OriginRequest
from chunkside.upstream.chain import Chain
from chunkside.upstream.credential import Credential, Line
from chunkside.upstream.redirects import FOLLOWED_STATUSES, MOST_HOPS, Place, Redirects
from chunkside.upstream.tls import Tls, TlsFiles
from chunkside.upstream.unused import Unused
from chunkside.upstream.wire import HttpResponse, Wire

_REFUSED: Final = frozenset({401, 403})
_NO_FIELDS: Final = Fields()

# Sends a request as it is, to the upstream's own location or to another.
Ask = Callable[[OriginRequest, str | None], Awaitable[HttpResponse]]


class Store(Protocol):
    """A cloud: how it spells a request, who signs it, and what it calls an absence."""

    async def send(self, request: OriginRequest, ask: Ask) -> HttpResponse:
        """Raises OriginError."""
        ...


@dataclass(frozen=True, slots=True)
class Means:
    """What an origin is asked with. `credential`: the sidecar's own, if it has one. `redirects`:
    those that are followed; None where all pass through. `chain`: what a cloud's own chain of
    credentials found. `store`: the cloud that is asked, if it is one. `unused`: what lies there
    where nothing signs.
    """

    tls: Tls = field(default_factory=lambda: Tls(TlsFiles()))
    credential: Credential | None = None
    redirects: Redirects | None = None
    chain: Chain[Any] | None = None
    store: Store | None = None
    unused: Unused | None = None

    @property
    def is_known(self) -> bool:
        """Whether it is known whose credentials these are."""
        return self.chain is None or self.chain.is_known

    @property
    def trouble(self) -> str | None:
        """Why that isn't known."""
        return None if self.chain is None else self.chain.trouble

    @property
    def has_own_credential(self) -> bool:
        return self.credential is not None or self.chain is not None or self.tls.shows_certificate


class Hops:
    """`location`: the upstream's own."""

    def __init__(self, wire: Wire, location: str, observer: Observer, means: Means) -> None:
        self._store = means.store
        self._unused = means.unused
        self._wire = wire
        self._location = location
        self._observer = observer
        self._credential = means.credential
        self._redirects = means.redirects

    async def send(
        self, request: OriginRequest, seconds: float, left: float, *, is_anew: bool = False
    ) -> HttpResponse:
        """As `Wire.send`; `left` bounds all hops together."""
        until = asyncio.get_running_loop().time() + left
        response = await self._ask(request, seconds, until, is_anew=is_anew)
        is_read = request.method in ("GET", "HEAD") and request.content is None
        # What was signed for one host is of no use to another.
        is_followed = is_read and request.host is None
        if self._redirects is None or not is_followed:
            return response
        return await self._follow(self._redirects, request, response, seconds, until)

    async def _ask(
        self, request: OriginRequest, seconds: float, until: float, *, is_anew: bool
    ) -> HttpResponse:
        """At the upstream's own location: once more where the secret was exchanged meanwhile."""
        if self._store is not None:
            response = await self._store.send(request, self._at(seconds, until, is_anew=is_anew))
            is_refused = response.head.status in _REFUSED and not request.is_signed
            if self._unused is not None and is_refused:
                self._unused.refused()
            return response
        credential = None if request.is_signed else self._credential
        if credential is None:
            return await self._wire.send(request, seconds, _left(until), is_anew=is_anew)
        line = await credential.line()
        response = await self._wire.send(
            _with(request, line), seconds, _left(until), is_anew=is_anew
        )
        if response.head.status not in _REFUSED:
            return response
        try:
            newer = await credential.line_after(line)
        except BaseException:
            response.close()
            raise
        may_repeat = request.method in SAFE_METHODS and request.content is None
        if newer is None or not may_repeat or not _left(until):
            return response
        await response.skip()
        self._observer.upstream_retried()
        return await self._wire.send(_with(request, newer), seconds, _left(until))

    def _at(self, seconds: float, until: float, *, is_anew: bool) -> Ask:
        async def ask(request: OriginRequest, location: str | None) -> HttpResponse:
            return await self._wire.send(
                request, seconds, _left(until), is_anew=is_anew, elsewhere=location
            )

        return ask

    async def _follow(
        self,
        redirects: Redirects,
        request: OriginRequest,
        response: HttpResponse,
        seconds: float,
        until: float,
    ) -> HttpResponse:
        at = Place(self._location, request.target)
        seen, has_left = [at], False
        while response.head.status in FOLLOWED_STATUSES:
            to = redirects.next(at, response.head)
            if to is None and len(seen) == 1:
                return response
            await response.skip()
            if to is None:
                raise OriginNonsense(
                    f"{self._location} redirects to {at.location}, and that on to a host which "
                    "follow_redirects doesn't list."
                )
            if to in seen:
                raise OriginNonsense(f"{self._location} redirects in a circle.")
            if len(seen) > MOST_HOPS:
                raise OriginNonsense(f"{self._location} redirects more than {MOST_HOPS} times.")
            seen.append(to)
            at, has_left = to, has_left or to.location != self._location
            asked = replace(request, target=to.target)
            if has_left or is_signed(to.target, _NO_FIELDS):
                bare = replace(asked, fields=redirects.fields_elsewhere(asked.fields))
                response = await self._wire.send(
                    bare, seconds, _left(until), elsewhere=to.location if has_left else None
                )
            else:
                response = await self._ask(asked, seconds, until, is_anew=False)
        return response


def _left(until: float) -> float:
    return max(0.0, until - asyncio.get_running_loop().time())


def _with(request: OriginRequest, line: Line) -> OriginRequest:
    """The field takes the place of any of its name that a client sent."""
    fields = request.fields.without(frozenset({line[0].lower()})).plus(line)
    return replace(request, fields=fields)
