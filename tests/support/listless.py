"""An origin that lets read and not list, so that it answers 403 for what is missing."""

from __future__ import annotations

import json

from chunkside.gateway.ports import OriginRequest
from tests.support.fake_upstream import Answer, FakeUpstream, Thing

PLAIN = "Access Denied"
OF_LISTING = (
    "User: arn:aws:sts::1:assumed-role/Reader/x is not authorized to perform: s3:ListBucket on "
    'resource: "arn:aws:s3:::data" because no identity-based policy allows the s3:ListBucket action'
)
OF_READING = OF_LISTING.replace("ListBucket", "GetObject")


def refusal(message: str = PLAIN, code: str = "AccessDenied") -> Answer:
    said = f"<Error><Code>{code}</Code><Message>{message}</Message><RequestId>1</RequestId></Error>"
    return Answer(403, ((b"Content-Type", b"application/xml"),), said.encode())


GROUP = json.dumps({"zarr_format": 3, "node_type": "group"}).encode()
INFO = json.dumps({"scales": [{"key": "8_8_8"}, {"key": "16_16_16"}, {}, 1]}).encode()


class ListlessOrigin(FakeUpstream):
    """`denies_all`: its readers' credential is in force no longer. `refusal`: what it answers
    for what is missing, and then for everything.
    """

    denies_all = False
    refusal = refusal()

    def _behaved(self, request: OriginRequest, body: bytes) -> Answer:
        if self.denies_all:
            return self.refusal
        return super()._behaved(request, body)

    def _read(self, request: OriginRequest, thing: Thing | None) -> Answer:
        return self.refusal if thing is None else super()._read(request, thing)
