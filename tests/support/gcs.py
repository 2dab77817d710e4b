"""fake-gcs-server as a Google store that lets everybody in, and says no more than 404 of what is
absent.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from json import dumps
from pathlib import Path
from urllib.parse import quote

from tests.support.deadline import DEADLINE_SECONDS, wait_for
from tests.support.http_client import exchange
from tests.support.nginx import free_port

# No metadata service is looked for, and no credentials are found.
NOBODY = {"NO_GCE_CHECK": "true", "CLOUDSDK_CONFIG": "/nowhere"}


@contextmanager
def fake_gcs(program: str, home: Path, *, has_paths: bool = True) -> Iterator[str]:
    """An empty store, and its URL with no slash at its end. `has_paths`: like `/bucket/key`."""
    home.mkdir(parents=True, exist_ok=True)
    authority = f"127.0.0.1:{free_port()}"
    url = f"http://{authority}"
    host, _, port = authority.partition(":")
    command = [
        *(program, "-scheme", "http", "-backend", "memory", "-host", host, "-port", port),
        *("-external-url", url, "-log-level", "warn"),
        *(("-public-host", authority) if has_paths else ()),
    ]
    with (
        (home / "log").open("wb") as log,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process,
    ):
        try:
            wait_for(lambda: _answers(url), "fake-gcs-server to answer")
            yield url
        finally:
            process.kill()
            process.wait(DEADLINE_SECONDS)


def make_bucket(url: str, bucket: str) -> None:
    told = exchange(url, "/storage/v1/b", "POST", _JSON, dumps({"name": bucket}).encode())
    assert told.status == 200, told


def put(url: str, bucket: str, key: str, body: bytes, encoding: str | None = None) -> None:
    """Makes an object by an upload in two parts: what is told of it, and what it holds."""
    told = dumps({"name": key} | ({"contentEncoding": encoding} if encoding else {})).encode()
    content = b"".join(
        (
            b"--AND\r\nContent-Type: application/json\r\n\r\n" + told,
            b"\r\n--AND\r\nContent-Type: application/octet-stream\r\n\r\n" + body + b"\r\n--AND--",
        )
    )
    target = f"/upload/storage/v1/b/{bucket}/o?uploadType=multipart"
    kind = [("Content-Type", "multipart/related; boundary=AND")]
    answer = exchange(url, target, "POST", kind, content)
    assert answer.status == 200, (key, answer)


def upload(url: str, bucket: str, folder: Path) -> None:
    """Makes a bucket of all files beneath a folder."""
    make_bucket(url, bucket)
    for file in sorted(each for each in folder.rglob("*") if each.is_file()):
        put(url, bucket, str(file.relative_to(folder)), file.read_bytes())


def by_json(bucket: str, key: str, query: str = "alt=media", begin: str = "/storage") -> str:
    """The target of an object in Google's JSON interface."""
    return f"{begin}/v1/b/{bucket}/o/{quote(key, safe='')}?{query}"


def _answers(url: str) -> bool:
    try:
        return exchange(url, "/storage/v1/b").status == 200
    except (OSError, EOFError):
        return False


_JSON = [("Content-Type", "application/json")]
