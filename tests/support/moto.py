"""moto as a real S3: the emulator in its own process, with its own interpreter."""

import http.client
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

from tests.support.deadline import DEADLINE_SECONDS, wait_for
from tests.support.nginx import answers, free_port


@contextmanager
def moto(python: str) -> Iterator[str]:
    """An empty store, and its URL with no slash at its end."""
    port = free_port()
    with subprocess.Popen(
        [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            wait_for(lambda: answers(port), "the S3 emulator to listen")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(DEADLINE_SECONDS)


def upload(url: str, bucket: str, folder: Path) -> None:
    """Makes a bucket that anybody may read, of all files beneath a folder."""
    files = [each for each in sorted(folder.rglob("*")) if each.is_file()]
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)) as connection:
        _put(connection, f"/{bucket}", b"")
        for file in files:
            key = quote(str(file.relative_to(folder)))
            _put(connection, f"/{bucket}/{key}", file.read_bytes())


def _put(connection: http.client.HTTPConnection, target: str, body: bytes) -> None:
    connection.request("PUT", target, body, {"x-amz-acl": "public-read"})
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200, f"PUT {target}: {answer.status}"
