"""What an object store's 404 says: that the key is missing, or something else, which to an array
reader is no absence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from chunkside.core.buckets import bucket_of, error_code, has_key, names_missing_key
from chunkside.core.ranges import encoding_of
from chunkside.gateway.errors import BodyTorn, OriginNonsense, OriginUnreachable
from chunkside.gateway.ports import OriginRequest
from chunkside.upstream.wire import HttpResponse

LONGEST_ERROR: Final = 64 << 10
_ABSENT: Final = frozenset({404, 410})
_OF_BUCKETS: Final = frozenset({b"NoSuchBucket", b"ContainerNotFound"})
_SHOWN: Final = re.compile(rb"[A-Za-z. ]{1,64}")


@dataclass(frozen=True, slots=True)
class Judge:
    """`location`: of the store. `bucket`: what the store calls one."""

    location: str
    bucket: str = "bucket"

    async def judged(self, request: OriginRequest, response: HttpResponse) -> HttpResponse:
        """Raises OriginNonsense for a 404 that is not the key's: readers would take it for that."""
        status = response.head.status
        if status not in _ABSENT or request.method not in ("GET", "HEAD"):
            return response
        if request.method == "HEAD" and has_key(request.target):
            # It says nothing more: a GET will.
            return response
        body = b"" if request.method == "HEAD" else await error_of(response)
        is_plain = not encoding_of(response.head.fields)
        if is_plain and has_key(request.target) and names_missing_key(body):
            return response
        response.close()
        code = error_code(body) or b"without a code"
        raise OriginNonsense(self._not_an_absence(request, status, code))

    def _not_an_absence(self, request: OriginRequest, status: int, code: bytes) -> str:
        name = bucket_of(request.target)[0].decode()
        if name and (code in _OF_BUCKETS or not has_key(request.target)):
            return (
                f"The store {self.location} has no {self.bucket} {name} (it answered {status}): "
                "look at the name in the target and in upstream, and at upstream_endpoint."
            )
        shown = code.decode() if _SHOWN.fullmatch(code) else "another code"
        return (
            f"The store {self.location} answered {status} ({shown}), which doesn't say that the "
            "key is missing: it is no absence."
        )


async def error_of(response: HttpResponse) -> bytes:
    """The body of an error, b"" of one that is too long. Raises OriginUnreachable."""
    try:
        return await response.read_ahead(LONGEST_ERROR) or b""
    except BodyTorn as torn:
        response.close()
        raise OriginUnreachable("The store broke off in the middle of its answer.") from torn
