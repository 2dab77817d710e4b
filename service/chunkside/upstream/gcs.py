"""Google's object store as it is spoken to by its XML interface: whose token requests bear, who
pays for them, and what counts as an absence.

A target in path style is known to that interface; what is asked of the JSON one goes by as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from chunkside.core.buckets import bucket_of, error_code, has_key
from chunkside.core.fields import Fields
from chunkside.core.json_api import Named, named_by, told_of
from chunkside.core.ranges import encoding_of
from chunkside.gateway.errors import OriginNonsense, OtherAbsence
from chunkside.gateway.ports import Observer, OriginRequest
from chunkside.upstream.absences import NO_SUCH_KEY, Judge, error_of
from chunkside.upstream.chain import Chain
from chunkside.upstream.google import Token
from chunkside.upstream.hops import Ask
from chunkside.upstream.lessons import Lesson, until_taught
from chunkside.upstream.wire import HttpResponse

_ABSENT: Final = frozenset({404, 410})
_AUTHORIZATION: Final = b"authorization"
_PAYER: Final = b"x-goog-user-project"
# As the JSON interface says that a key is missing, in JSON or by itself.
_NO_SUCH_OBJECT: Final = b"No such object: "
_IDENTITY: Final = Fields([(b"Accept-Encoding", b"identity")])


@dataclass(frozen=True, slots=True)
class GcsEndpoint:
    """`location`: the upstream's own."""

    location: str
    requester_pays: bool = False

    @property
    def is_googles(self) -> bool:
        host = urlsplit(self.location).hostname or ""
        return host.endswith(".googleapis.com")


class Gcs:
    """`chain`: whose tokens requests bear; None where they bear none."""

    def __init__(
        self, endpoint: GcsEndpoint, chain: Chain[Token] | None, observer: Observer
    ) -> None:
        self._endpoint = endpoint
        self._judge = Judge(endpoint.location)
        self._chain = chain
        self._observer = observer
        self._buckets = Buckets()

    async def send(self, request: OriginRequest, ask: Ask) -> HttpResponse:
        """Raises OriginError, also where an answer tells of an absence that is not the key's."""
        response = await self._sent(request, ask)
        if response.head.status not in _ABSENT or request.method not in ("GET", "HEAD"):
            return response
        try:
            return await self._judged(request, response, ask)
        except BaseException:
            response.close()
            raise

    async def _sent(self, request: OriginRequest, ask: Ask) -> HttpResponse:
        if request.is_signed or self._chain is None:
            return await ask(request, None)
        return await until_taught(
            request,
            self._observer,
            self._chain.secret,
            partial(self._asked, request, ask),
            partial(_lesson, self._chain),
        )

    async def _asked(self, request: OriginRequest, ask: Ask, token: Token) -> HttpResponse:
        return await ask(self._put(request, token), None)

    def _put(self, request: OriginRequest, token: Token) -> OriginRequest:
        own = [(b"Authorization", b"Bearer " + token.bearer.encode())]
        replaced = {_AUTHORIZATION}
        if self._endpoint.requester_pays:
            replaced.add(_PAYER)
            if token.project is not None:
                own.append((_PAYER, token.project.encode()))
        fields = request.fields.without(frozenset(replaced)).plus(*own)
        return replace(request, fields=fields)

    # What a 404 says.

    async def _judged(
        self, request: OriginRequest, response: HttpResponse, ask: Ask
    ) -> HttpResponse:
        named = named_by(request.target)
        if named is not None:
            return await self._judged_json(request, response, named, ask)
        is_of_a_key = request.method == "GET" and has_key(request.target)
        if not is_of_a_key or self._endpoint.is_googles or encoding_of(response.head.fields):
            return await self._judge.judged(request, response)
        if not await _says_nothing(response):
            return await self._judge.judged(request, response)
        await self._refuse_without_bucket(bucket_of(request.target)[0], ask)
        await self._refuse_without_paths(request.target, ask)
        # In the words that say so for readers, and are kept.
        response.replace_body(NO_SUCH_KEY, b"application/xml")
        return response

    async def _judged_json(
        self, request: OriginRequest, response: HttpResponse, named: Named, ask: Ask
    ) -> HttpResponse:
        """What passes here is never remembered, but clients go by it."""
        bucket = bucket_of(named.place)[0]
        body = b"" if request.method == "HEAD" else await error_of(response)
        if named.is_object and b"%b%b/" % (_NO_SUCH_OBJECT, bucket) in body:
            return response
        if named.is_object and not self._endpoint.is_googles:
            await self._refuse_without_bucket(bucket, ask)
            return response
        raise OtherAbsence(
            f"The store {self._endpoint.location} answered {response.head.status}, which doesn't "
            "say that an object is missing: look at the bucket's name, and at upstream_endpoint."
        )

    async def _refuse_without_bucket(self, bucket: bytes, ask: Ask) -> None:
        """Of a store that says no more than 404, a key is missing only if its bucket is there."""
        look = partial(self._status, b"/storage/v1/b/" + bucket, ask)
        status = await self._buckets.status(bucket, look)
        if status != 200:
            raise OriginNonsense(
                f"The store {self._endpoint.location} answered 404 without a code, and {status} "
                f"when it was asked for the bucket {bucket.decode()}: that is no absence. Look at "
                "the name in the target and in upstream, and at upstream_endpoint."
            )

    async def _refuse_without_paths(self, target: bytes, ask: Ask) -> None:
        """Some have objects by the JSON interface alone, and answer 404 to every path."""
        status = await self._status(told_of(target), ask)
        if status not in _ABSENT:
            raise OriginNonsense(
                f"The store {self._endpoint.location} answered 404 to a path without a code, and "
                f"{status} when it was asked for the object by its JSON interface: that is no "
                "absence. Has it paths like /bucket/key? Start fake-gcs-server with -public-host."
            )

    async def _status(self, target: bytes, ask: Ask) -> int:
        response = await self._sent(OriginRequest("GET", target, _IDENTITY, "listing"), ask)
        await response.skip()
        return response.head.status


async def _lesson(chain: Chain[Token], response: HttpResponse, token: Token) -> Lesson | None:
    """Another token, where the store refused the one that there was."""
    if response.head.status != 401:
        return None
    newer = await chain.secret_after(token, b"401")
    return None if newer is None else "credentials"


class Buckets:
    """What a store says of its buckets, asked for after whoever wants to know has come: one
    question of a bucket at a time, for all who came before it was sent.
    """

    def __init__(self) -> None:
        self._next: dict[bytes, asyncio.Task[int]] = {}
        self._running: dict[bytes, asyncio.Task[int]] = {}

    async def status(self, bucket: bytes, look: Callable[[], Awaitable[int]]) -> int:
        """`look` asks. Raises what it raises."""
        task = self._next.get(bucket)
        if task is None:
            task = asyncio.create_task(self._after(self._running.get(bucket), bucket, look))
            task.add_done_callback(_read)
            self._next[bucket] = task
        # Whoever goes leaves it to the others.
        return await asyncio.shield(task)

    async def _after(
        self,
        before: asyncio.Task[int] | None,
        bucket: bytes,
        look: Callable[[], Awaitable[int]],
    ) -> int:
        if before is not None:
            await asyncio.wait({before})
        task = self._running[bucket] = self._next.pop(bucket)
        try:
            return await look()
        finally:
            if self._running.get(bucket) is task:
                del self._running[bucket]


def _read(task: asyncio.Task[int]) -> None:
    """So that no error of one that nobody waits for any more is told as unread."""
    if not task.cancelled():
        task.exception()


async def _says_nothing(response: HttpResponse) -> bool:
    """Whether an error's body gives no reason, and is no page of whatever stands before a store."""
    body = await error_of(response)
    is_too_long = not body and response.head.length != 0
    return error_code(body) is None and not body.lstrip().startswith(b"<") and not is_too_long
