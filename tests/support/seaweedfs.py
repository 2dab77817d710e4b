"""SeaweedFS as a real S3 that lets nobody in without a right signature."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

from chunkside.core.fields import Fields
from chunkside.upstream.aws import Keys
from chunkside.upstream.signing import signed
from tests.support.deadline import DEADLINE_SECONDS, wait_for
from tests.support.http_client import Response, exchange
from tests.support.nginx import free_port

KEYS = Keys("AKWEED", "w33d-s3cr3t-w33d-s3cr3t", None)
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": KEYS.access_key,
    "AWS_SECRET_ACCESS_KEY": KEYS.secret_key,
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextmanager
def seaweedfs(program: str, home: Path, *readers: Keys, domain: str = "") -> Iterator[str]:
    """An empty store, and its URL with no slash at its end. `readers` may read and not list.
    `domain`: what Hosts that name a bucket end in.
    """
    home.mkdir(parents=True, exist_ok=True)
    (home / "objects").mkdir()
    config = home / "s3.json"
    config.write_text(_config((KEYS,), readers), encoding="utf-8")
    port, flags = free_port(), [f"-filer.localSocket={home / 'filer.sock'}"]
    taken = [port]
    for name in ("master", "volume", "filer", "s3"):
        grpc = free_port()
        flags.append(f"-{name}.port.grpc={grpc}")
        taken.append(grpc)
    flags += [f"-{name}.port={free_port()}" for name in ("master", "volume", "filer")]
    command = [
        *(program, "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={home / 'objects'}"),
        *("-filer", "-s3", f"-s3.port={port}", f"-s3.domainName={domain}"),
        *("-s3.port.iceberg=0", "-s3.port.lance=0", f"-s3.config={config}", *flags),
        *("-master.volumeSizeLimitMB=64", "-volume.max=20"),
    ]
    url = f"http://127.0.0.1:{port}"
    with (
        (home / "log").open("wb") as log,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process,
    ):
        (home / "pid").write_text(str(process.pid))
        try:
            wait_for(lambda: _takes(url), "SeaweedFS to take objects")
            yield url
        finally:
            # It takes long to end in order, and nothing of it is kept.
            process.kill()
            process.wait(DEADLINE_SECONDS)
            for left in taken:
                for socket in Path("/tmp").glob(f"seaweedfs-*-{left}.sock"):
                    socket.unlink()


def accept(url: str, home: Path, *accepted: Keys) -> None:
    """Has a running store accept these keys, and no others."""
    (home / "s3.json").write_text(_config(accepted), encoding="utf-8")
    os.kill(int((home / "pid").read_text()), signal.SIGHUP)

    def knows() -> bool:
        of_old_keys = 200 if KEYS in accepted else 403
        asked = [(KEYS, of_old_keys), *((each, 200) for each in accepted)]
        return all(ask(url, "GET", "/ready/key", keys=keys).status == told for keys, told in asked)

    wait_for(knows, "SeaweedFS to know its keys")


def _config(owners: Iterable[Keys], readers: Iterable[Keys] = ()) -> str:
    # An identity that is gone from it would be kept.
    owner = _identity("owner", owners, "Admin", "Read", "Write", "List", "Tagging")
    of_readers = (_identity(each.access_key, (each,), "Read") for each in readers)
    return json.dumps({"identities": [owner, *of_readers]})


def _identity(name: str, held: Iterable[Keys], *actions: str) -> dict[str, object]:
    credentials = [{"accessKey": keys.access_key, "secretKey": keys.secret_key} for keys in held]
    return {"name": name, "credentials": credentials, "actions": actions}


def ask(url: str, method: str, target: str, body: bytes = b"", keys: Keys = KEYS) -> Response:
    """A request that is signed as the sidecar signs."""
    place = ("http", urlsplit(url).netloc, target.encode())
    fields = signed(
        Fields(), method, place, keys, region="us-east-1", at=time.time(), has_content=bool(body)
    )
    headers = [(name.decode(), value.decode()) for name, value in fields]
    return exchange(url, target, method, headers, body)


def upload(url: str, bucket: str, folder: Path) -> None:
    """Makes a private bucket of all files beneath a folder."""
    assert ask(url, "PUT", f"/{bucket}").status == 200
    for file in sorted(each for each in folder.rglob("*") if each.is_file()):
        key = quote(str(file.relative_to(folder)))
        told = ask(url, "PUT", f"/{bucket}/{key}", file.read_bytes())
        assert told.status == 200, (key, told)


def _takes(url: str) -> bool:
    try:
        if ask(url, "PUT", "/ready").status not in (200, 409):
            return False
        return ask(url, "PUT", "/ready/key", b"x").status == 200
    except (OSError, EOFError):
        return False
