"""S3 as its stores speak it: where a bucket is asked for, in which region, signed by whom, and what
counts as an absence.

Targets come and are keyed in path style, `/bucket/key`, whatever a store is asked in. What a store
refuses and says how to ask better is asked once more: the bucket's region, the store's clock, and
credentials that were exchanged.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal
from urllib.parse import urlsplit

from chunkside.core.buckets import bucket_of, error_code
from chunkside.gateway.ports import Clock, Observer, OriginRequest
from chunkside.upstream.absences import Judge, error_of
from chunkside.upstream.aws import Keys
from chunkside.upstream.chain import Chain
from chunkside.upstream.hops import Ask
from chunkside.upstream.lessons import Lesson, StoreClock, until_taught
from chunkside.upstream.signing import signed
from chunkside.upstream.wire import HttpResponse

Addressing = Literal["auto", "path", "virtual"]

FIRST_REGION: Final = "us-east-1"
_MOST_BUCKETS: Final = 1024
_REGION: Final = re.compile(r"[a-z0-9-]{1,32}")
_REGION_TOLD: Final = re.compile(rb"<Region>([a-z0-9-]{1,32})</Region>")
# What can stand in a host in front of others, and under a certificate for `*`.
_HOST_LABEL: Final = re.compile(rb"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_ELSEWHERE: Final = frozenset({301, 307, 400})
_REFUSED: Final = frozenset({400, 403})
_TOO_SKEWED: Final = frozenset({b"RequestTimeTooSkewed", b"RequestExpired"})
_OF_OLD_KEYS: Final = frozenset(
    {
        *(b"ExpiredToken", b"InvalidToken", b"TokenRefreshRequired"),
        *(b"InvalidAccessKeyId", b"SignatureDoesNotMatch"),
    }
)


@dataclass(frozen=True, slots=True)
class S3Endpoint:
    """`location`: the upstream's own. `is_aws`: then hosts have the region in them. `region`: the
    one that is asked in at first.
    """

    location: str
    is_aws: bool
    region: str
    addressing: Addressing = "auto"
    requester_pays: bool = False

    def place(self, target: bytes, region: str) -> tuple[str, bytes]:
        """Where a target is asked for, and as what there."""
        scheme, _, host = self._location(region).partition("://")
        bucket, rest = bucket_of(target)
        is_virtual = self.addressing == "virtual" or (self.addressing == "auto" and self.is_aws)
        if not is_virtual or _HOST_LABEL.fullmatch(bucket) is None:
            return f"{scheme}://{host}", target
        return f"{scheme}://{bucket.decode()}.{host}", rest if rest[:1] == b"/" else b"/" + rest

    def _location(self, region: str) -> str:
        if not self.is_aws:
            return self.location
        domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        return f"https://s3.{region}.{domain}:443"


@dataclass(frozen=True, slots=True)
class _Spoken:
    """How a request was put. `keys`: what it was signed with; None for not at all. `clock_ahead`:
    seconds by which the store's clock was thought to be ahead of ours.
    """

    region: str
    keys: Keys | None
    clock_ahead: float = 0.0


class S3:
    """`chain`: whose credentials sign; None where nobody's do."""

    def __init__(
        self, endpoint: S3Endpoint, chain: Chain[Keys] | None, clock: Clock, observer: Observer
    ) -> None:
        self._endpoint = endpoint
        self._judge = Judge(endpoint.location)
        self._chain = chain
        self._clock = StoreClock(clock)
        self._observer = observer
        self._regions: OrderedDict[bytes, str] = OrderedDict()

    async def send(self, request: OriginRequest, ask: Ask) -> HttpResponse:
        """Raises OriginError, also where an answer tells of an absence that is not the key's."""
        if request.is_signed:
            # Verbatim, to where it was signed for: whoever signed it chose the style.
            return await self._judge.judged(request, await ask(request, None))
        response = await until_taught(
            request,
            self._observer,
            partial(self._speak, request),
            partial(self._asked, request, ask),
            partial(self._lesson, request),
        )
        return await self._judge.judged(request, response)

    async def _speak(self, request: OriginRequest) -> _Spoken:
        keys = None if self._chain is None else await self._chain.secret()
        return _Spoken(self._region(request), keys, self._clock.ahead)

    async def _asked(self, request: OriginRequest, ask: Ask, spoken: _Spoken) -> HttpResponse:
        return await ask(*self._put(request, spoken))

    def _region(self, request: OriginRequest) -> str:
        return self._regions.get(bucket_of(request.target)[0], self._endpoint.region)

    def _put(self, request: OriginRequest, spoken: _Spoken) -> tuple[OriginRequest, str | None]:
        """A request as it is sent, and where; None for the upstream's own location."""
        location, target = self._endpoint.place(request.target, spoken.region)
        fields = request.fields
        if self._endpoint.requester_pays:
            payer = (b"x-amz-request-payer", b"requester")
            fields = fields.without(frozenset({payer[0]})).plus(payer)
        if spoken.keys is not None:
            fields = signed(
                fields,
                request.method,
                (location.partition("://")[0], host_of(location), target),
                spoken.keys,
                region=spoken.region,
                at=self._clock.wall(spoken.clock_ahead),
                has_content=request.content is not None,
            )
        put = replace(request, target=target, fields=fields)
        return put, None if location == self._endpoint.location else location

    # What an answer teaches.

    async def _lesson(
        self, request: OriginRequest, response: HttpResponse, spoken: _Spoken
    ) -> Lesson | None:
        """What to ask otherwise, if that helps."""
        status = response.head.status
        if status not in _ELSEWHERE and status not in _REFUSED:
            return None
        body = b"" if request.method == "HEAD" else await error_of(response)
        if status in _ELSEWHERE and self._learn_region(request, response, spoken, body):
            return "region"
        if spoken.keys is None or self._chain is None or status not in _REFUSED:
            return None
        code = error_code(body)
        # A HEAD's answer doesn't say.
        is_unsaid = code is None and request.method == "HEAD"
        if (code in _TOO_SKEWED or is_unsaid) and self._clock.teaches(response, spoken.clock_ahead):
            return "clock"
        if code in _OF_OLD_KEYS or is_unsaid:
            newer = await self._chain.secret_after(spoken.keys, code)
            return None if newer is None else "credentials"
        return None

    def _learn_region(
        self, request: OriginRequest, response: HttpResponse, spoken: _Spoken, body: bytes
    ) -> bool:
        found = _REGION_TOLD.search(body)
        told = response.head.fields.get(b"x-amz-bucket-region") or (found and found[1]) or b""
        region = told.decode("latin-1")
        # It becomes part of a host.
        if _REGION.fullmatch(region) is None or region == spoken.region:
            return False
        bucket = bucket_of(request.target)[0]
        self._regions[bucket] = region
        self._regions.move_to_end(bucket)
        if len(self._regions) > _MOST_BUCKETS:
            self._regions.popitem(last=False)
        return True


def host_of(location: str) -> str:
    """What Host says: the port only where it is not the scheme's own."""
    split = urlsplit(location)
    usual = {"http": 80, "https": 443}[split.scheme]
    return split.netloc.removesuffix(f":{usual}") if split.port == usual else split.netloc
