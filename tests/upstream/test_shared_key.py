"""Shared Key: what is signed, held against the documents' words and against Azure's own client."""

import base64
import json
import subprocess

import pytest

from chunkside.core.fields import Fields
from chunkside.upstream.azure_secrets import AccountKey
from chunkside.upstream.shared_key import shared_key, string_to_sign

DATE = ("x-ms-date", "Tue, 01 Dec 2026 08:00:00 GMT")
VERSION = ("x-ms-version", "2023-11-03")
KEY = base64.b64encode(b"k" * 64).decode()


def fields(*lines):
    return Fields((name.encode(), value.encode()) for name, value in lines)


def test_the_string_to_sign_is_that_of_the_documents():
    told = string_to_sign(
        fields(
            DATE,
            ("Range", "bytes=0-9"),
            ("If-None-Match", '"0x8D"'),
            ("Content-Type", "text/plain; charset=utf-8"),
            ("X-Ms-Meta-A", "  b \t c "),
            VERSION,
            ("Accept", "*/*"),
        ),
        "PUT",
        b"/data/a%20b/c?restype=x&comp=list&Prefix=a%2Fb&include=snapshots&include=metadata&f",
        "acc",
        11,
    )
    assert told == (
        b'PUT\n\n\n11\n\ntext/plain; charset=utf-8\n\n\n\n"0x8D"\n\nbytes=0-9\n'
        b"x-ms-date:Tue, 01 Dec 2026 08:00:00 GMT\nx-ms-meta-a:b c\nx-ms-version:2023-11-03\n"
        b"/acc/data/a%20b/c\ncomp:list\nf:\ninclude:metadata,snapshots\nprefix:a/b\nrestype:x"
    )


def test_no_length_is_signed_of_what_has_none():
    for length in (None, 0):
        assert string_to_sign(fields(DATE), "PUT", b"/a/b", "acc", length).startswith(
            b"PUT\n\n\n\n\n"
        )


# As the client sends them; it has no Range of its own.
CASES = [
    ("GET", "/data/x/c/0", [], 0),
    ("GET", "/data/x/c/0", [("x-ms-range", "bytes=0-9"), ("If-Match", '"0x8"')], 0),
    ("HEAD", "/data/a%20b/%C3%A9/a,b%3Bc@d", [("If-Modified-Since", DATE[1])], 0),
    ("GET", "/data?restype=container&comp=list&prefix=a%2Fb&delimiter=%2F", [], 0),
    ("GET", "/data/x?snapshot=2026-01-01T00%3A00%3A00.0000000Z", [], 0),
    ("PUT", "/data/x", [("x-ms-blob-type", "BlockBlob"), ("Content-Type", "a/b")], 3),
    (
        "PUT",
        "/data/x?comp=metadata",
        [(f"x-ms-meta-{n}", n) for n in ("ab", "a-b", "a_b", "a1", "b", "a", "abc", "a-bc")],
        0,
    ),
]
SIGNER = """
import json, sys
from azure.core.pipeline import PipelineContext, PipelineRequest
from azure.core.pipeline.transport import HttpRequest
from azure.storage.blob._shared.authentication import SharedKeyCredentialPolicy

policy = SharedKeyCredentialPolicy("acc", sys.argv[1])
signed = []
for method, target, lines, length in json.loads(sys.argv[2]):
    headers = dict(lines) | {"Content-Length": str(length)}
    request = HttpRequest(method, "https://acc.blob.core.windows.net" + target, headers=headers)
    asked = PipelineRequest(request, PipelineContext(None))
    policy.on_request(asked)
    signed.append(request.headers["Authorization"])
print(json.dumps(signed))
"""


@pytest.mark.client("adlfs")
def test_azures_own_client_signs_alike(python_with):
    cases = [(method, target, [DATE, VERSION, *more], n) for method, target, more, n in CASES]
    command = [python_with("adlfs"), "-c", SIGNER, KEY, json.dumps(cases)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    secret = AccountKey("acc", base64.b64decode(KEY))
    ours = [
        shared_key(fields(*lines), method, target.encode(), secret, length).decode()
        for method, target, lines, length in cases
    ]
    assert ours == json.loads(done.stdout)
