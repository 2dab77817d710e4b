"""Azurite as a real blob storage of Azure's, which checks signatures."""

import base64
import hmac
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote, urlencode

from chunkside.core.fields import Fields
from chunkside.upstream.azure_secrets import AccountKey
from chunkside.upstream.shared_key import shared_key
from tests.clients.readers import AZURE_ACCOUNT, AZURE_KEY
from tests.support.deadline import DEADLINE_SECONDS, wait_for
from tests.support.http_client import Response, exchange
from tests.support.nginx import answers, free_port

ACCOUNT, KEY_TEXT = AZURE_ACCOUNT, AZURE_KEY
KEY = AccountKey(ACCOUNT, base64.b64decode(KEY_TEXT))
VERSION = ("x-ms-version", "2023-11-03")
# Nothing that would look for a metadata service.
PUBLIC = ("x-ms-blob-public-access", "container")
NOBODY = {"AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential"}
ENVIRONMENT = NOBODY | {"AZURE_STORAGE_ACCOUNT_KEY": KEY_TEXT}


@contextmanager
def azurite(
    program: str, home: Path, certificate: tuple[Path, Path] | None = None
) -> Iterator[str]:
    """An empty store, and its URL with no slash at its end. `certificate`: then it speaks TLS, and
    takes tokens.
    """
    home.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [
        *(program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(home)),
        *("--skipApiVersionCheck", "--disableTelemetry", "--silent"),
    ]
    if certificate is not None:
        shown, key = certificate
        command += ["--oauth", "basic", "--cert", str(shown), "--key", str(key)]
    environment = {"PATH": "/usr/bin:/bin", "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY_TEXT}"}
    with (
        (home / "log").open("wb") as log,
        subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        ) as process,
    ):
        try:
            wait_for(lambda: answers(port), "Azurite to listen")
            yield f"{'http' if certificate is None else 'https'}://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(DEADLINE_SECONDS)


def ask(
    url: str,
    method: str,
    target: str,
    body: bytes = b"",
    *more: tuple[str, str],
    key: AccountKey = KEY,
) -> Response:
    """A request that is signed as the sidecar signs. `target`: of the account."""
    told = [VERSION, ("x-ms-date", formatdate(time.time(), usegmt=True)), *more]
    fields = Fields((name.encode(), value.encode()) for name, value in told)
    signature = shared_key(fields, method, f"/{ACCOUNT}{target}".encode(), key, len(body))
    headers = [*told, ("Authorization", signature.decode())]
    return exchange(url, f"/{ACCOUNT}{target}", method, headers, body)


def put(url: str, target: str, body: bytes) -> None:
    told = ask(url, "PUT", target, body, ("x-ms-blob-type", "BlockBlob"))
    assert told.status == 201, (target, told)


def make_container(url: str, name: str, *more: tuple[str, str]) -> None:
    told = ask(url, "PUT", f"/{name}?restype=container", b"", *more)
    assert told.status == 201, (name, told)


def upload(url: str, container: str, folder: Path, *more: tuple[str, str]) -> None:
    """Makes a container of all files beneath a folder; a private one, unless told otherwise."""
    make_container(url, container, *more)
    for file in sorted(each for each in folder.rglob("*") if each.is_file()):
        put(url, f"/{container}/{quote(str(file.relative_to(folder)))}", file.read_bytes())


def sas(permissions: str = "rl", key: AccountKey = KEY, seconds: float = 3600.0) -> str:
    """A signature by the account's key that lets whoever brings it do this with all it has."""
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
    told = {"sv": VERSION[1], "ss": "b", "srt": "sco", "sp": permissions, "se": ends}
    order = (told["sp"], told["ss"], told["srt"], "", told["se"], "", "", told["sv"], "", "")
    to_sign = "\n".join((key.account, *order))
    mac = base64.b64encode(hmac.digest(key.key, to_sign.encode(), "sha256")).decode()
    return urlencode(told | {"sig": mac})
