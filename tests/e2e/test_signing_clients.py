"""Real clients that sign for themselves, by way of a sidecar that hands on what they signed, to
stores that verify it.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from chunkside.upstream.aws import Keys
from tests.clients.signers import SIGNERS, STORY
from tests.e2e.conftest import ANY_DISK
from tests.e2e.test_clients import slug
from tests.plugins.requirements import find_client_program, find_python_with
from tests.support.http_client import exchange
from tests.support.moto import VERIFIES, make_user, moto
from tests.support.seaweedfs import KEYS, ask, seaweedfs
from tests.support.sidecar import Sidecar

pytestmark = [pytest.mark.timeout(180), pytest.mark.client("weed", "moto")]
ROOT = Path(__file__).resolve().parents[2]
BUCKET, DOMAIN = "era5", "store.example"
# One of these, by which clients ask, leads nowhere.
FLAGS = (*ANY_DISK, "--preserve-host", "--allowed-hosts", f"{DOMAIN},{BUCKET}.{DOMAIN}")


@dataclass(frozen=True)
class Store:
    url: str
    keys: Keys
    sidecar: Sidecar

    @property
    def by_name(self) -> str:
        """The sidecar, as most clients are told of it."""
        return self.sidecar.url.replace("127.0.0.1", "localhost")

    def asked(self) -> tuple[float, float]:
        """How often the sidecar was, and how often the store."""
        names = "chunkside_requests_total", "chunkside_upstream_requests_total"
        return self.sidecar.metric(names[0]), self.sidecar.metric(names[1])


@contextmanager
def _opened(kind: str, home: Path, root: Path) -> Iterator[tuple[str, Keys]]:
    if kind == "SeaweedFS":
        program = find_client_program("weed", root)
        assert program is not None
        with seaweedfs(program, home, domain=DOMAIN) as url:
            yield url, KEYS
    else:
        python = find_python_with("moto", root)
        assert python is not None
        with moto(python, VERIFIES) as url:
            yield url, make_user(python, url)


@pytest.fixture(scope="module", params=["SeaweedFS", "moto"])
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    home = tmp_path_factory.mktemp("store")
    with _opened(request.param, home / "store", request.config.rootpath) as (url, keys):
        assert ask(url, "PUT", f"/{BUCKET}", keys=keys).status == 200
        with Sidecar(url, home / "cache", FLAGS) as sidecar:
            yield Store(url, keys, sidecar)
        # Of all that was read by all of them.
        assert not list((home / "cache").rglob("*.arrow"))


@pytest.mark.parametrize(
    ("name", "module"),
    [
        pytest.param(name, module, id=slug(name), marks=pytest.mark.client(module))
        for name, (module, _) in SIGNERS.items()
    ],
)
def test_a_client_that_signs_writes_and_reads_as_if_it_asked_the_store(
    name: str, module: str, store: Store, python_with: Callable[[str], str]
) -> None:
    before = store.asked()
    story = _tell(name, store, store.keys, python_with(_with(module)))
    assert story == {each: STORY[each] for each in story}
    assert {"whole", "range", "absent", "deleted"} <= story.keys()
    to_us, to_the_store = (now - then for now, then in zip(store.asked(), before, strict=True))
    assert to_us == to_the_store > 0
    assert store.sidecar.metric("chunkside_index_entries") == 0


@pytest.mark.parametrize("name", ["boto3", "obstore"])
@pytest.mark.client("obstore")
def test_a_client_with_a_wrong_secret_is_told_so_by_the_store(
    name: str, store: Store, python_with: Callable[[str], str]
) -> None:
    wrong = replace(store.keys, secret_key="wr0ng-s3cr3t")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        _tell(name, store, wrong, python_with(_with(SIGNERS[name][0])))
    assert "SignatureDoesNotMatch" in failed.value.stderr or "403" in failed.value.stderr


def test_each_of_two_clients_gets_what_the_store_gives_it(store: Store) -> None:
    target = f"/{BUCKET}/whose"
    assert ask(store.sidecar.url, "PUT", target, b"body", store.keys).status == 200
    wrong = replace(store.keys, secret_key="wr0ng-s3cr3t")
    for keys, status in [(store.keys, 200), (wrong, 403), (store.keys, 200)]:
        answer = ask(store.sidecar.url, "GET", target, keys=keys)
        assert answer.status == status
        assert "fwd=bypass" in (answer.value("Cache-Status") or "")
    assert exchange(store.sidecar.url, target).status == 403
    assert store.sidecar.metric("chunkside_index_entries") == 0


def _with(module: str) -> str:
    """All that can be are in one environment, with one lock."""
    return module if module == "boto3" else "icechunk"


def _tell(name: str, store: Store, keys: Keys, python: str) -> dict[str, Any]:
    host = f"{DOMAIN}:9000" if SIGNERS[name][0] == "boto3" else store.url.partition("://")[2]
    environment = {
        "PATH": os.defpath,
        "AWS_ACCESS_KEY_ID": keys.access_key,
        "AWS_SECRET_ACCESS_KEY": keys.secret_key,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    done = subprocess.run(
        [python, "-m", "tests.clients.signers", name, BUCKET, store.by_name, host],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    story: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return story
