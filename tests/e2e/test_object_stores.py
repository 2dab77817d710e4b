"""A private bucket of a store that refuses wrong signatures, behind a sidecar that signs."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import ANY_DISK
from tests.plugins.requirements import find_client_program
from tests.support.deadline import wait_for
from tests.support.http_client import Response, exchange
from tests.support.seaweedfs import ENVIRONMENT, KEYS, ask, seaweedfs
from tests.support.sidecar import Sidecar, run_command

pytestmark = pytest.mark.client("weed")
BUCKET = "era5"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[str]:
    program = find_client_program("weed", pytestconfig.rootpath)
    assert program is not None
    with seaweedfs(program, tmp_path_factory.mktemp("store")) as url:
        assert ask(url, "PUT", f"/{BUCKET}").status == 200
        assert ask(url, "PUT", f"/{BUCKET}/x/c/0", b"body of the chunk").status == 200
        yield url


@pytest.fixture(scope="module")
def sidecar(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    flags = (*ANY_DISK, "--upstream-endpoint", store)
    home = tmp_path_factory.mktemp("cache")
    with Sidecar("s3://", home, flags, ENVIRONMENT) as running:
        yield running


def told(answer: Response) -> str:
    return answer.value("Cache-Status") or ""


def test_it_signs_for_everybody_and_asks_once(store: str, sidecar: Sidecar) -> None:
    assert exchange(store, "/era5/x/c/0").status == 403
    first = exchange(sidecar.url, "/era5/x/c/0")
    assert (first.status, first.body) == (200, b"body of the chunk")
    sidecar.wait_idle()
    assert "; hit" in told(exchange(sidecar.url, "/era5/x/c/0"))
    ranged = exchange(sidecar.url, "/era5/x/c/0", headers=[("Range", "bytes=0-3")])
    assert (ranged.status, ranged.body) == (206, b"body")


def test_ranges_and_validations_are_signed_too(store: str, tmp_path: Path) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", store, "--ttl", "0s")
    with Sidecar(f"s3://{BUCKET}/x", tmp_path, flags, ENVIRONMENT) as sidecar:
        ranged = exchange(sidecar.url, "/era5/x/c/0", headers=[("Range", "bytes=0-3")])
        assert (ranged.status, ranged.body) == (206, b"body")
        for forward in ("fwd-status=200", "fwd-status=304"):
            assert forward in told(exchange(sidecar.url, "/era5/x/c/0"))
            sidecar.wait_idle()
        assert exchange(sidecar.url, "/era5/y/c/0").status == 421


def test_a_missing_key_is_remembered_and_says_so_to_botocore(sidecar: Sidecar) -> None:
    asked = 'chunkside_upstream_requests_total{class="chunk"'
    before = sidecar.metric(asked)
    assert exchange(sidecar.url, "/era5/x/c/1", "HEAD").status == 404
    sidecar.wait_idle()
    assert sidecar.metric(asked) == before + 2
    # The first makes the header block known, the others take the fast lane.
    for _ in range(4):
        answer = exchange(sidecar.url, "/era5/x/c/1")
        assert answer.status == 404
        assert answer.body == b"<Error><Code>NoSuchKey</Code></Error>"
        assert "detail=negative" in told(answer)
    assert exchange(sidecar.url, "/era5/x/c/1", "HEAD").status == 404
    assert sidecar.metric(asked) == before + 2


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_missing_bucket_is_never_an_absence(sidecar: Sidecar, method: str) -> None:
    for _ in range(2):
        answer = exchange(sidecar.url, "/nowhere/x/c/0", method)
        assert answer.status == 502
        if method == "GET":
            assert b"no bucket nowhere" in answer.body
    listed = exchange(sidecar.url, "/nowhere?list-type=2&prefix=x%2F&delimiter=%2F&max-keys=1")
    assert listed.status == 502
    # S3's clients show nobody what a 502 says.
    wait_for(lambda: "has no bucket nowhere" in sidecar.stderr(), "the log to say so")


def test_wrong_credentials_give_the_stores_403_and_nothing_is_kept(
    store: str, tmp_path: Path
) -> None:
    wrong = ENVIRONMENT | {"AWS_SECRET_ACCESS_KEY": "wr0ng-s3cr3t"}
    flags = (*ANY_DISK, "--upstream-endpoint", store, "--log-level", "debug")
    with Sidecar("s3://", tmp_path, flags, wrong) as sidecar:
        for _ in range(2):
            answer = exchange(sidecar.url, "/era5/x/c/0")
            assert answer.status == 403 and "fwd=uri-miss" in told(answer)
            assert b"SignatureDoesNotMatch" in answer.body
        # There is none that lies unused.
        assert "isn't used" not in sidecar.stderr()
        refused = "the store refuses what AWS's chain of credentials finds"
        [line] = [line for line in sidecar.stderr().splitlines() if refused in line]
        assert line.endswith(f'(aws env {KEYS.access_key}): SignatureDoesNotMatch"')
        assert exchange(sidecar.url, "/era5/x/c/1", "HEAD").status == 403
        pages = [exchange(sidecar.admin_url, each) for each in ("/", "/info", "/metrics")]
        said = sidecar.stderr() + sidecar.stdout() + "".join(str(each.body) for each in pages)
        assert "wr0ng" not in said and "Signature=" not in said
        assert not [
            each for each in tmp_path.rglob("*") if each.is_file() and b"wr0ng" in each.read_bytes()
        ]


def test_a_probe_tells_the_stores_own_word(store: str) -> None:
    wrong = ENVIRONMENT | {"AWS_SECRET_ACCESS_KEY": "wr0ng-s3cr3t"}
    flags = ("--upstream", "s3://era5", "--upstream-endpoint", store)
    done = run_command("check", "--probe", "/era5/x/c/0", *flags, env=wrong)
    assert done.returncode == 1
    assert "(SignatureDoesNotMatch): it wants a credential" in done.stdout


def test_a_store_that_awss_clients_would_ask_is_named(tmp_path: Path) -> None:
    elsewhere = ENVIRONMENT | {"AWS_ENDPOINT_URL": "http://minio:9000"}
    with Sidecar("s3://era5", tmp_path, ANY_DISK, elsewhere) as sidecar:
        said = "upstream s3://era5: S3 is asked at AWS."
        wait_for(lambda: said in sidecar.stderr(), "the log to say so")
        assert (
            "name http://minio:9000: if that is the store, set upstream_endpoint"
            in sidecar.stderr()
        )


def test_what_clients_sign_is_removed(sidecar: Sidecar) -> None:
    theirs = [
        (
            "Authorization",
            "AWS4-HMAC-SHA256 Credential=AKTHEIRS/x, SignedHeaders=host, Signature=0",
        ),
        ("X-Amz-Date", "20200101T000000Z"),
        ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
        ("x-amz-security-token", "theirs"),
    ]
    answer = exchange(sidecar.url, "/era5/x/c/0", headers=theirs)
    assert (answer.status, answer.body) == (200, b"body of the chunk")


def test_names_of_any_spelling_are_read_and_written(store: str, tmp_path: Path) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", store, "--allow-writes")
    with Sidecar("s3://", tmp_path, flags, ENVIRONMENT) as sidecar:
        assert exchange(sidecar.url, "/era5/x/c/2").status == 404
        assert exchange(sidecar.url, "/era5/x/c/2", "PUT", body=b"two").status == 200
        assert exchange(sidecar.url, "/era5/x/c/2").body == b"two"
        for target in ("/era5/a%20b/c%2Bd=(1)~/0", "/era5/%C3%A9/a,b;c@d/0"):
            assert exchange(sidecar.url, target, "PUT", body=b"odd").status == 200
            answer = exchange(sidecar.url, target)
            assert (answer.status, answer.body) == (200, b"odd"), target


def test_writes_are_refused_unless_they_are_wanted(sidecar: Sidecar) -> None:
    assert exchange(sidecar.url, "/era5/x/c/9", "PUT", body=b"x").status == 405


def test_another_identity_finds_nothing_of_what_one_has_stored(store: str, tmp_path: Path) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", store)
    with Sidecar("s3://", tmp_path, flags, ENVIRONMENT) as sidecar:
        exchange(sidecar.url, "/era5/x/c/0")
        sidecar.wait_idle()
    anonymous = {"AWS_EC2_METADATA_DISABLED": "true"}
    with Sidecar("s3://", tmp_path, flags, anonymous) as sidecar:
        assert exchange(sidecar.url, "/era5/x/c/0").status == 403
    with Sidecar("s3://", tmp_path, (*flags, "--upstream-auth", "none"), ENVIRONMENT) as sidecar:
        for _ in range(2):
            assert exchange(sidecar.url, "/era5/x/c/0").status == 403
        wait_for(lambda: "isn't used" in sidecar.stderr(), "the log to say so")
        said = [line for line in sidecar.stderr().splitlines() if "isn't used" in line]
        assert len(said) == 1, sidecar.stderr()
        assert "(AWS_ACCESS_KEY_ID)" in said[0] and KEYS.access_key not in said[0]
        assert "set upstream_auth to auto or aws" in said[0]
    with Sidecar("s3://", tmp_path, flags, ENVIRONMENT) as sidecar:
        assert "; hit" in told(exchange(sidecar.url, "/era5/x/c/0"))


def test_credentials_that_were_exchanged_mid_run_are_read_anew(store: str, tmp_path: Path) -> None:
    file = tmp_path / "credentials"

    def write(secret: str) -> None:
        file.write_text(
            f"[default]\naws_access_key_id={KEYS.access_key}\naws_secret_access_key={secret}\n"
        )

    write("0ld-s3cr3t")
    environment = {
        "AWS_SHARED_CREDENTIALS_FILE": str(file),
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    flags = (*ANY_DISK, "--upstream-endpoint", store)
    with Sidecar("s3://", tmp_path / "cache", flags, environment) as sidecar:
        write(KEYS.secret_key)
        began = time.monotonic()
        answer = exchange(sidecar.url, "/era5/x/c/0")
        assert (answer.status, answer.body) == (200, b"body of the chunk")
        assert time.monotonic() - began < 20


def test_a_probe_says_how_it_is_asked(store: str) -> None:
    flags = ("--upstream", f"s3://{BUCKET}", "--upstream-endpoint", store)
    done = run_command("check", "--probe", "/era5/x/c/0", *flags, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NoSuchKey" in done.stdout or "remembered" in done.stdout
