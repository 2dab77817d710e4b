"""What an object store's 404 says: that the key is missing, or something else, which to an array
reader is no absence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from chunkside.core.buckets import CODES_OF_ABSENCE, bucket_of, error_code, has_key
from chunkside.core.ranges import encoding_of
from chunkside.gateway.errors import BodyTorn, OriginUnreachable, OtherAbsence
from chunkside.gateway.ports import OriginRequest
from chunkside.upstream.wire import HttpResponse

NO_SUCH_KEY: Final = b"<Error><Code>NoSuchKey</Code></Error>"
"""As S3 and Google say so, of which their clients look for the code."""
LONGEST_ERROR: Final = 64 << 10
_ABSENT: Final = frozenset({404, 410})
ERROR_CODE: Final = b"x-ms-error-code"
"""The field by which Azure says what its XML does, of a HEAD too."""
# What an anonymous reader is told of a container, whether it is private or isn't there.
_UNSEEN: Final = b"ResourceNotFound"
_OF_BUCKETS: Final = frozenset({b"NoSuchBucket", b"ContainerNotFound"})
_SHOWN: Final = re.compile(rb"[A-Za-z. ]{1,64}")


@dataclass(frozen=True, slots=True)
class Judge:
    """`location`: of the store. `bucket`: what the store calls one. `prefix`: what targets begin
    with before it.
    """

    location: str
    bucket: str = "bucket"
    prefix: bytes = b""

    async def judged(self, request: OriginRequest, response: HttpResponse) -> HttpResponse:
        """Raises OtherAbsence for a 404 that is not the key's: readers would take it for that."""
        if response.head.status not in _ABSENT or request.method not in ("GET", "HEAD"):
            return response
        try:
            return await self._judged(request, response)
        except BaseException:
            response.close()
            raise

    async def _judged(self, request: OriginRequest, response: HttpResponse) -> HttpResponse:
        status = response.head.status
        has_a_key = has_key(request.target.removeprefix(self.prefix))
        told = response.head.fields.get(ERROR_CODE)
        if request.method == "HEAD":
            # Where it says nothing more, a GET will.
            if has_a_key and (told is None or told in CODES_OF_ABSENCE):
                return response
            raise OtherAbsence(self._not_an_absence(request, status, told or b""))
        body = await error_of(response)
        is_plain = not encoding_of(response.head.fields)
        code = error_code(body)
        if has_a_key and is_plain and code in CODES_OF_ABSENCE and told in (None, code):
            return response
        raise OtherAbsence(self._not_an_absence(request, status, told or code or b""))

    def _not_an_absence(self, request: OriginRequest, status: int, code: bytes) -> str:
        target = request.target.removeprefix(self.prefix)
        name = bucket_of(target)[0].decode()
        if code == _UNSEEN:
            return (
                f"The store {self.location} answered {status} (ResourceNotFound), as it does to "
                f"readers without a credential if the {self.bucket} {name} is private, or isn't "
                "there: look at upstream_auth, and at the name."
            )
        if name and (code in _OF_BUCKETS or not has_key(target)):
            return (
                f"The store {self.location} has no {self.bucket} {name} (it answered {status}): "
                "look at the name in the target and in upstream, and at upstream_endpoint."
            )
        shown = "another code" if code else "without a code"
        if _SHOWN.fullmatch(code):
            shown = code.decode()
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
