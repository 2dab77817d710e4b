"""A store that answers 403 for missing keys, with credentials that lose their rights: SeaweedFS,
which says 404 to those who may not list, behind an nginx that says it as S3 does.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from chunkside.upstream.aws import Keys
from tests.arrays.samples import zarr2, zarr3
from tests.e2e.conftest import ANY_DISK
from tests.plugins.requirements import find_client_program
from tests.support.arrays import (
    SHARDED,
    Client,
    opened,
    read_all_at_once,
    sharded_array,
    sparse_array,
)
from tests.support.deadline import wait_for
from tests.support.http_client import Response, exchange
from tests.support.nginx import listless
from tests.support.seaweedfs import ask, seaweedfs
from tests.support.sidecar import Sidecar, run_command

pytestmark = [pytest.mark.client("weed"), pytest.mark.server("nginx")]
READER = Keys("AKREAD", "r3ad-s3cr3t-r3ad-s3cr3t", None)
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": READER.access_key,
    "AWS_SECRET_ACCESS_KEY": READER.secret_key,
    "AWS_EC2_METADATA_DISABLED": "true",
}
DOCUMENT, THERE = "/era5/x/zarr.json", "/era5/x/c/0/0"
WANTED = ("--absent-statuses", "404,410,403")
NO_SUCH_KEY = b"<Error><Code>NoSuchKey</Code></Error>"
NOTHING_FOR_ANYBODY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Deny",
            "Principal": "*",
            "Action": ["s3:GetObject"],
            "Resource": ["arn:aws:s3:::era5/*"],
        }
    ],
}


class Store:
    """`url`: the store's own, for whom it belongs to. `before`: what its readers see of it."""

    def __init__(self, url: str, before: str) -> None:
        self.url = url
        self.before = before

    def put(self, key: str, body: bytes) -> None:
        assert ask(self.url, "PUT", f"/era5/{key}", body).status == 200

    def deny_all(self) -> None:
        policy = json.dumps(NOTHING_FOR_ANYBODY).encode()
        assert ask(self.url, "PUT", "/era5?policy", policy).status == 204
        wait_for(lambda: ask(self.url, "GET", DOCUMENT, keys=READER).status == 403, "a policy")

    def allow(self) -> None:
        assert ask(self.url, "DELETE", "/era5?policy").status == 204
        wait_for(lambda: ask(self.url, "GET", DOCUMENT, keys=READER).status == 200, "none")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Store]:
    program = find_client_program("weed", pytestconfig.rootpath)
    assert program is not None
    home = tmp_path_factory.mktemp("store")
    with seaweedfs(program, home / "weed", READER) as url, listless(url, home) as before:
        assert ask(url, "PUT", "/era5").status == 200
        store = Store(url, before)
        store.put("x/zarr.json", zarr3((9, 9), (1, 1)))
        store.put("x/c/0/0", b"body of the chunk")
        store.put("v/.zarray", zarr2((9, 9), (1, 1)))
        yield store


@pytest.fixture
def sidecar(store: Store, tmp_path: Path) -> Iterator[Sidecar]:
    flags = (*ANY_DISK, *WANTED, "--upstream-endpoint", store.before, "--metadata-ttl", "0")
    with Sidecar("s3://", tmp_path / "cache", flags, ENVIRONMENT) as running:
        yield running


def told(answer: Response) -> str:
    return answer.value("Cache-Status") or ""


def asked(sidecar: Sidecar, key_class: str) -> float:
    return sidecar.metric(f'chunkside_upstream_requests_total{{class="{key_class}"')


def test_a_missing_chunk_is_asked_for_once_with_its_array_s_document(sidecar: Sidecar) -> None:
    # What was asked for before its array's document was known is not kept.
    assert exchange(sidecar.url, DOCUMENT).status == 200
    sidecar.wait_idle()
    before = asked(sidecar, "chunk"), asked(sidecar, "metadata")
    first = exchange(sidecar.url, "/era5/x/c/1/1")
    assert (first.status, first.body) == (404, NO_SUCH_KEY)
    assert told(first) == "chunkside; fwd=uri-miss; fwd-status=403; stored"
    # The first makes the header block known, the others take the fast lane.
    for _ in range(4):
        again = exchange(sidecar.url, "/era5/x/c/1/1")
        assert (again.status, again.body) == (404, NO_SUCH_KEY)
        assert "detail=negative" in told(again)
    for method, headers in (("HEAD", []), ("GET", [("Range", "bytes=-16")])):
        answer = exchange(sidecar.url, "/era5/x/c/1/1", method, headers)
        assert answer.status == 404 and "detail=negative" in told(answer)
    assert (asked(sidecar, "chunk"), asked(sidecar, "metadata")) == (before[0] + 1, before[1] + 1)
    why = exchange(sidecar.admin_url, "/why/era5/x/c/1/1").body
    assert b"a whole 403 to a full GET" in why and b"a 404 is the answer" in why
    assert exchange(sidecar.url, THERE).body == b"body of the chunk"


@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_heads_and_ranges_are_told_of_it_too(sidecar: Sidecar, method: str) -> None:
    headers = [("Range", "bytes=-16")] if method == "GET" else []
    for key in ("/era5/v/1.1", "/era5/v/1.2"):
        assert exchange(sidecar.url, key, method, headers).status == 404
    sidecar.wait_idle()
    assert "detail=negative" in told(exchange(sidecar.url, "/era5/v/1.2", method, headers))


@pytest.mark.client("zarr")
@pytest.mark.parametrize(
    "client",
    [
        pytest.param("fsspec", marks=pytest.mark.client("fsspec")),
        pytest.param("obstore", marks=pytest.mark.client("obstore")),
    ],
)
def test_zarr_python_reads_sparse_arrays_of_it(
    store: Store, sidecar: Sidecar, client: Client
) -> None:
    sharded, shards = sharded_array()
    for path, body in (sparse_array().objects | shards).items():
        store.put(path.removeprefix("/"), body)
    costs = []
    for _ in range(3):
        before = asked(sidecar, "chunk")
        for values in read_all_at_once(f"{sidecar.url}/era5", client, 2):
            np.testing.assert_array_equal(values, sparse_array().values)
        with opened(f"{sidecar.url}/era5", client, name=SHARDED) as array:
            np.testing.assert_array_equal(array[:], sharded)
        sidecar.wait_idle()
        costs.append(asked(sidecar, "chunk") - before)
    assert costs[-1] == 0, costs


@pytest.mark.parametrize("target", ["/era5/x/.zattrs", "/era5/y/c/0", "/nowhere/x/c/0", "/era5/a"])
def test_what_no_array_s_document_speaks_for_stays_refused(sidecar: Sidecar, target: str) -> None:
    for _ in range(2):
        answer = exchange(sidecar.url, target)
        assert answer.status == 403 and b"AccessDenied" in answer.body
        assert "stored" not in told(answer)


def test_rights_that_are_lost_make_no_absences(store: Store, sidecar: Sidecar) -> None:
    assert exchange(sidecar.url, DOCUMENT).status == 200
    assert exchange(sidecar.url, "/era5/x/c/2/2").status == 404
    store.deny_all()
    try:
        for target in (THERE, "/era5/x/c/2/3", "/era5/v/2.2"):
            for method in ("GET", "HEAD"):
                assert exchange(sidecar.url, target, method).status == 403
    finally:
        store.allow()
    assert exchange(sidecar.url, THERE).body == b"body of the chunk"
    # They may not have come back everywhere.
    assert exchange(sidecar.url, "/era5/x/c/2/3").status == 403
    assert exchange(sidecar.url, "/era5/x/c/2/2").status == 404


def test_a_probe_names_the_setting_and_its_risk(store: Store) -> None:
    flags = ("--upstream", "s3://era5", "--upstream-endpoint", store.before)
    done = run_command("check", "--probe", DOCUMENT, *flags, env=ENVIRONMENT)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Grant s3:ListBucket, or set absent_statuses=404,410,403. The risk: " in done.stdout
    done = run_command("check", "--probe", DOCUMENT, *flags, *WANTED, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "told as 404, and remembered for" in done.stdout
