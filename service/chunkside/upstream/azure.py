"""Azure's blob storage as it speaks: what a request bears, what an answer teaches, and what counts
as an absence.

What a store refuses and says how to ask better is asked once more: by its clock, and with a secret
that was exchanged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from email.utils import formatdate
from functools import partial
from typing import Final, assert_never

from chunkside.core.buckets import error_code
from chunkside.core.fields import Fields
from chunkside.core.ranges import part_answered
from chunkside.core.request import SAFE_METHODS
from chunkside.gateway.errors import OriginUnreachable
from chunkside.gateway.ports import Clock, Observer, OriginRequest
from chunkside.upstream.absences import ERROR_CODE, Judge, error_of
from chunkside.upstream.azure_secrets import AccountKey, Sas, Secret
from chunkside.upstream.chain import Chain
from chunkside.upstream.echoes import without_echoes
from chunkside.upstream.entra import Token
from chunkside.upstream.hops import Ask
from chunkside.upstream.lessons import Lesson, StoreClock, until_taught
from chunkside.upstream.retries import RETRIED_STATUSES
from chunkside.upstream.shared_key import shared_key
from chunkside.upstream.wire import HttpResponse

VERSION: Final = b"2023-11-03"
"""Of the protocol, where a client names none that will do."""
# The first in which tokens count.
_FIRST_VERSION: Final = b"2017-11-09"
_OF_VERSION: Final = frozenset({b"x-ms-version"})
_REPLACED: Final = frozenset({b"authorization", b"date", b"x-ms-date"})
# The answer repeats it, and others may get that answer.
_OF_ONE_CLIENT: Final = frozenset({b"x-ms-client-request-id", b"x-ms-return-client-request-id"})
_SUFFIX: Final = re.compile(rb"bytes=-([1-9][0-9]{0,17})", re.IGNORECASE)
_OF_A_PART: Final = frozenset(
    {
        *(b"range", b"if-range", b"if-match", b"if-none-match"),
        *(b"if-modified-since", b"if-unmodified-since"),
    }
)
_REFUSED: Final = frozenset({401, 403})
# The last is what emulators say to a wrong signature.
_OF_OLD_SECRETS: Final = frozenset(
    {b"AuthenticationFailed", b"InvalidAuthenticationInfo", b"AuthorizationFailure"}
)


@dataclass(frozen=True, slots=True)
class AzureEndpoint:
    """`location`: the upstream's own. `prefix`: what targets begin with before the container."""

    location: str
    prefix: bytes = b""


@dataclass(frozen=True, slots=True)
class _Spoken:
    """How a request was put. `secret`: what it bore; None for none. `clock_ahead`: so far the
    store's clock was, when it was dated.
    """

    secret: Secret | None
    clock_ahead: float


class Azure:
    """`chain`: whose secret requests bear; None where they bear none."""

    def __init__(
        self,
        endpoint: AzureEndpoint,
        chain: Chain[Secret] | None,
        clock: Clock,
        observer: Observer,
    ) -> None:
        self._judge = Judge(endpoint.location, "container", endpoint.prefix)
        self._chain = chain
        self._clock = StoreClock(clock)
        self._observer = observer

    async def send(self, request: OriginRequest, ask: Ask) -> HttpResponse:
        """Raises OriginError, also where an answer tells of an absence that is not the key's."""
        if request.is_signed:
            return await self._judge.judged(request, await ask(request, None))
        asked = request.fields.get(b"range") or b""
        if request.method == "GET" and (suffix := _SUFFIX.fullmatch(asked)):
            return await self._last_bytes(request, int(suffix[1]), ask)
        return await self._send(request, ask)

    async def _last_bytes(self, request: OriginRequest, count: int, ask: Ask) -> HttpResponse:
        """Azure knows no range of the last bytes: they are asked for by their place, which takes
        the length.
        """
        asked = request.fields.combined(b"range")
        response = await self._send(await self._by_place(request, count, ask), ask)
        is_of_a_place = response.head.status in (206, 416)
        if not is_of_a_place or part_answered(asked, response.head.fields) is not None:
            return response
        response.close()
        raise OriginUnreachable("The blob was exchanged while its last bytes were asked for.")

    async def _by_place(self, request: OriginRequest, count: int, ask: Ask) -> OriginRequest:
        bare = replace(request, fields=request.fields.without(_OF_A_PART))
        head = await self._send(replace(bare, method="HEAD"), ask)
        status, length = head.head.status, head.head.length
        await head.skip()
        if status in RETRIED_STATUSES:
            raise OriginUnreachable(f"The store answered {status} when it was asked for a length.")
        if status != 200 or not length:
            # A GET says the same, and why.
            return bare
        told = b"bytes=%d-%d" % (max(0, length - count), length - 1)
        fields = request.fields.without(frozenset({b"range"})).plus((b"Range", told))
        return replace(request, fields=fields)

    async def _send(self, request: OriginRequest, ask: Ask) -> HttpResponse:
        response = await until_taught(
            request,
            self._observer,
            self._speak,
            partial(self._asked, request, ask),
            partial(self._lesson, request),
        )
        return await self._judge.judged(request, response)

    async def _speak(self) -> _Spoken:
        secret = None if self._chain is None else await self._chain.secret()
        return _Spoken(secret, self._clock.ahead)

    async def _asked(self, request: OriginRequest, ask: Ask, spoken: _Spoken) -> HttpResponse:
        response = await ask(self._put(request, spoken), None)
        if not isinstance(spoken.secret, Sas):
            return response
        try:
            return await without_echoes(response, spoken.secret.query, request.method)
        except BaseException:
            response.close()
            raise

    def _put(self, request: OriginRequest, spoken: _Spoken) -> OriginRequest:
        """A request as it is sent."""
        fields, target = _of_this_version(request.fields), request.target
        if request.method in SAFE_METHODS:
            fields = fields.without(_OF_ONE_CLIENT)
        match spoken.secret:
            case None:
                pass
            case Token(value):
                line = (b"Authorization", b"Bearer " + value.encode())
                fields = self._dated(fields, spoken.clock_ahead).plus(line)
            case AccountKey() as key:
                fields = self._dated(fields, spoken.clock_ahead)
                length = None if request.content is None else request.content.length
                signature = shared_key(fields, request.method, target, key, length)
                fields = fields.plus((b"Authorization", signature))
            case Sas(query):
                fields = fields.without(frozenset({b"authorization"}))
                target += (b"&" if b"?" in target else b"?") + query
            case _:
                assert_never(spoken.secret)
        return replace(request, target=target, fields=fields)

    def _dated(self, fields: Fields, clock_ahead: float) -> Fields:
        at = formatdate(self._clock.wall(clock_ahead), usegmt=True)
        return fields.without(_REPLACED).plus((b"x-ms-date", at.encode()))

    # What an answer teaches.

    async def _lesson(
        self, request: OriginRequest, response: HttpResponse, spoken: _Spoken
    ) -> Lesson | None:
        """What to ask otherwise, if that helps."""
        status, secret = response.head.status, spoken.secret
        if self._chain is None or secret is None or status not in _REFUSED:
            return None
        code = response.head.fields.get(ERROR_CODE)
        if code is None and request.method != "HEAD":
            code = error_code(await error_of(response))
        is_of_secret = status == 401 or code is None or code in _OF_OLD_SECRETS
        if not is_of_secret:
            return None
        is_dated = not isinstance(secret, Sas)
        if is_dated and self._clock.teaches(response, spoken.clock_ahead):
            return "clock"
        newer = await self._chain.secret_after(secret, code)
        return None if newer is None else "credentials"


def _of_this_version(fields: Fields) -> Fields:
    told = fields.get(b"x-ms-version")
    if told is not None and told >= _FIRST_VERSION:
        return fields
    return fields.without(_OF_VERSION).plus((b"x-ms-version", VERSION))
