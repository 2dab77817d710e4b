"""A private container of a store that refuses wrong signatures, behind a sidecar that signs."""

import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest

from chunkside.upstream.azure_secrets import AccountKey
from tests.e2e.conftest import ANY_DISK
from tests.plugins.requirements import find_client_program
from tests.support.azurite import (
    ACCOUNT,
    ENVIRONMENT,
    KEY_TEXT,
    NOBODY,
    PUBLIC,
    ask,
    azurite,
    make_container,
    put,
    sas,
)
from tests.support.certificates import Authority
from tests.support.deadline import DEADLINE_SECONDS, wait_for
from tests.support.http_client import Response, exchange
from tests.support.metadata_service import MetadataService, metadata_service
from tests.support.sidecar import Sidecar, run_command

pytestmark = pytest.mark.client("azurite-blob")
BODY = b"body of the chunk"
UPSTREAM = f"az://{ACCOUNT}/era5"
WRONG = "d3Ixbmctazl5LXdyMW5nLWs5eQ=="


@pytest.fixture(scope="module")
def program(pytestconfig: pytest.Config) -> str:
    found = find_client_program("azurite-blob", pytestconfig.rootpath)
    assert found is not None
    return found


def fill(url: str) -> None:
    make_container(url, "era5")
    make_container(url, "public", PUBLIC)
    for container in ("era5", "public"):
        put(url, f"/{container}/x/c/0", BODY)
    put(url, "/era5/x/zarr.json", b"{}")


@pytest.fixture(scope="module")
def store(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with azurite(program, tmp_path_factory.mktemp("store")) as url:
        fill(url)
        yield url


@pytest.fixture(scope="module")
def sidecar(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    flags = (*ANY_DISK, "--upstream-endpoint", store)
    home = tmp_path_factory.mktemp("cache")
    with Sidecar(f"az://{ACCOUNT}", home, flags, ENVIRONMENT) as running:
        yield running


def until_ready(sidecar: Sidecar) -> None:
    """Until it has looked for credentials, for which no start waits."""
    wait_for(lambda: exchange(sidecar.admin_url, "/readyz").status == 200, "the first look")


def told(answer: Response) -> str:
    return answer.value("Cache-Status") or ""


def test_it_signs_for_everybody_and_asks_once(store: str, sidecar: Sidecar) -> None:
    assert exchange(store, f"/{ACCOUNT}/era5/x/c/0").status == 403
    first = exchange(sidecar.url, "/era5/x/c/0")
    assert (first.status, first.body) == (200, BODY)
    sidecar.wait_idle()
    assert "; hit" in told(exchange(sidecar.url, "/era5/x/c/0"))
    for field in ("Range", "x-ms-range"):
        ranged = exchange(sidecar.url, "/era5/x/c/0", headers=[(field, "bytes=0-3")])
        assert (ranged.status, ranged.body) == (206, b"body")
        assert "; hit" in told(ranged)
    head = exchange(sidecar.url, "/era5/x/c/0", "HEAD")
    assert (head.status, head.value("x-ms-blob-type")) == (200, "BlockBlob")


@pytest.mark.parametrize(
    ("asked", "bytes_of"), [("bytes=0-3", slice(0, 4)), ("bytes=-5", slice(-5, None))]
)
@pytest.mark.parametrize("field", ["Range", "x-ms-range"])
def test_ranges_and_validations_are_signed_too(
    store: str, tmp_path: Path, field: str, asked: str, bytes_of: slice
) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", store, "--ttl", "0s")
    with Sidecar(f"{UPSTREAM}/x", tmp_path, flags, ENVIRONMENT) as sidecar:
        ranged = exchange(sidecar.url, "/era5/x/c/0", headers=[(field, asked)])
        assert (ranged.status, ranged.body) == (206, BODY[bytes_of])
        for forward in ("fwd-status=200", "fwd-status=304"):
            assert forward in told(exchange(sidecar.url, "/era5/x/c/0"))
            sidecar.wait_idle()
        tag = exchange(sidecar.url, "/era5/x/c/0").value("ETag") or ""
        assert exchange(sidecar.url, "/era5/x/c/0", headers=[("If-Match", tag)]).status == 200
        assert exchange(sidecar.url, "/era5/x/c/0", headers=[("If-None-Match", tag)]).status == 304
        assert exchange(sidecar.url, "/era5/x/c/0", headers=[("If-Match", '"0x"')]).status == 412
        assert exchange(sidecar.url, "/era5/y/c/0").status == 421


def test_a_missing_blob_is_remembered_and_says_so_to_azures_clients(sidecar: Sidecar) -> None:
    asked = 'chunkside_upstream_requests_total{class="chunk"'
    before = sidecar.metric(asked)
    # Its code is in a field, so that it needn't wait for the GET that proves it.
    head = exchange(sidecar.url, "/era5/x/c/1", "HEAD")
    assert (head.status, head.value("x-ms-error-code")) == (404, "BlobNotFound")
    sidecar.wait_idle()
    assert sidecar.metric(asked) == before + 2
    # The first makes the header block known, the others take the fast lane.
    for _ in range(4):
        answer = exchange(sidecar.url, "/era5/x/c/1")
        assert (answer.status, answer.value("x-ms-error-code")) == (404, "BlobNotFound")
        assert answer.body.startswith(b"<Error><Code>BlobNotFound</Code><Message>")
        assert "detail=negative" in told(answer)
    head = exchange(sidecar.url, "/era5/x/c/1", "HEAD")
    assert (head.status, head.value("x-ms-error-code")) == (404, "BlobNotFound")
    ranged = exchange(sidecar.url, "/era5/x/c/1", headers=[("x-ms-range", "bytes=0-3")])
    assert ranged.status == 404 and "detail=negative" in told(ranged)
    assert sidecar.metric(asked) == before + 2


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_missing_container_is_never_an_absence(sidecar: Sidecar, method: str) -> None:
    for _ in range(2):
        answer = exchange(sidecar.url, "/nowhere/x/c/0", method)
        assert answer.status == 502
        if method == "GET":
            assert b"no container nowhere" in answer.body
    assert exchange(sidecar.url, "/nowhere?restype=container&comp=list").status == 502


def test_a_public_container_is_read_without_a_credential(store: str, tmp_path: Path) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", store, "--upstream-auth", "none")
    with Sidecar(f"az://{ACCOUNT}", tmp_path, flags, ENVIRONMENT) as sidecar:
        assert exchange(sidecar.url, "/public/x/c/0").body == BODY
        for is_known in (False, True):
            absent = exchange(sidecar.url, "/public/x/c/1")
            assert (absent.status, absent.value("x-ms-error-code")) == (404, "BlobNotFound")
            assert ("detail=negative" in told(absent)) == is_known
            sidecar.wait_idle()
        # Of a private one nobody is told whether it is there.
        refused = exchange(sidecar.url, "/era5/x/c/0")
        assert refused.status == 403 and "; hit" not in told(refused)


@pytest.mark.parametrize(
    "secret",
    [
        {"AZURE_STORAGE_KEY": WRONG},
        {"AZURE_STORAGE_SAS_TOKEN": sas(key=AccountKey(ACCOUNT, b"wr1ng"))},
    ],
    ids=["key", "SAS"],
)
def test_a_wrong_secret_gives_the_stores_403_and_is_seen_nowhere(
    store: str, tmp_path: Path, secret: dict[str, str]
) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", store, "--log-level", "debug", "--log-requests", "1")
    with Sidecar(f"az://{ACCOUNT}", tmp_path, flags, NOBODY | secret) as sidecar:
        for _ in range(2):
            answer = exchange(sidecar.url, "/era5/x/c/0")
            assert answer.status == 403 and "fwd=uri-miss" in told(answer)
            assert answer.value("x-ms-error-code") == "AuthorizationFailure"
        assert exchange(sidecar.url, "/era5/x/c/1", "HEAD").status == 403
        hide_and_seek(sidecar, tmp_path, *secret.values())


def hide_and_seek(sidecar: Sidecar, directory: Path, *secrets: str) -> None:
    """Nothing of a secret is in logs, on pages, or on disk."""
    pages = ("/", "/info", "/metrics", "/stats", "/entries?prefix=/", "/why/era5/x/c/0")
    said = sidecar.stderr() + sidecar.stdout()
    said += "".join(str(exchange(sidecar.admin_url, each).body) for each in pages)
    held = b"".join(each.read_bytes() for each in directory.rglob("*") if each.is_file())
    for secret in secrets:
        signature = dict(part.partition("=")[::2] for part in secret.split("&")).get("sig", secret)
        for spelled in (secret, signature, quote(signature, "")):
            assert spelled not in said and spelled.encode() not in held
    assert "SharedKey " not in said and b"SharedKey " not in held


@pytest.mark.parametrize(
    "environment",
    [
        {"AZURE_STORAGE_KEY": KEY_TEXT},
        {"AZURE_STORAGE_SAS_TOKEN": "?" + sas()},
        {"AZURE_STORAGE_CONNECTION_STRING": f"AccountName={ACCOUNT};AccountKey={KEY_TEXT}"},
        {"AZURE_STORAGE_CONNECTION_STRING": f"SharedAccessSignature={sas()};QueueEndpoint=x"},
    ],
    ids=["key", "SAS", "connection string", "connection string with a SAS"],
)
def test_a_secret_of_the_account_is_read_from_where_azures_clients_have_it(
    store: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", store, "--log-level", "debug", "--log-requests", "1")
    with Sidecar(UPSTREAM, tmp_path, flags, NOBODY | environment) as sidecar:
        ranged = exchange(sidecar.url, "/era5/x/zarr.json", headers=[("Range", "bytes=-1")])
        assert (ranged.status, ranged.body) == (206, b"}")
        assert exchange(sidecar.url, "/era5/x/c/0").body == BODY
        assert exchange(sidecar.url, "/era5/x/c/1").status == 404
        target = "/era5?restype=container&comp=list&prefix=x%2F"
        listed = exchange(sidecar.url, target)
        assert listed.status == 200 and b"<Name>x/c/0</Name>" in listed.body
        sidecar.wait_idle()
        assert "; hit" in told(exchange(sidecar.url, "/era5/x/c/0"))
        secrets = [part for part in next(iter(environment.values())).split(";") if "sig=" in part]
        hide_and_seek(sidecar, tmp_path, KEY_TEXT, *(each.lstrip("?") for each in secrets))


def test_a_file_with_the_secret_is_read_again_when_it_changes(store: str, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(WRONG)
    auth = ("--upstream-auth", "azure", "--upstream-auth-file", str(file))
    flags = (*ANY_DISK, "--upstream-endpoint", store, *auth)
    with Sidecar(UPSTREAM, tmp_path / "cache", flags, NOBODY) as sidecar:
        assert exchange(sidecar.url, "/era5/x/c/0").status == 403
        for secret in (KEY_TEXT, sas(), f"AccountName={ACCOUNT};AccountKey={KEY_TEXT}"):
            file.write_text(secret)
            # What was refused a moment ago isn't looked for again at once.
            wait_for(lambda: exchange(sidecar.url, "/era5/x/c/1").status == 404, "the new secret")
        info = exchange(sidecar.admin_url, "/info").body.decode()
        assert '"upstream_auth": "azure"' in info and str(file) not in info


def test_listings_are_passed_on_within_scope_and_never_stored(store: str, tmp_path: Path) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", store)
    with Sidecar(f"{UPSTREAM}/x", tmp_path, flags, ENVIRONMENT) as sidecar:
        target = "/era5?restype=container&comp=list&prefix=x%2Fc%2F&delimiter=%2F"
        for _ in range(2):
            listed = exchange(sidecar.url, target)
            assert listed.status == 200 and b"<Name>x/c/0</Name>" in listed.body
            sidecar.wait_idle()
            assert "stored" not in told(listed) and "; hit" not in told(listed)
        for beyond in ("prefix=y%2F", "prefix=", "delimiter=%2F", "prefix=x%2F&Prefix=y"):
            asked = f"/era5?restype=container&comp=list&{beyond}"
            assert exchange(sidecar.url, asked).status == 421, beyond
        assert exchange(sidecar.url, "/?comp=list").status == 421


def test_what_a_query_asks_of_a_blob_is_stored_only_if_it_is_its_bytes(
    store: str, sidecar: Sidecar
) -> None:
    taken = ask(store, "PUT", "/era5/x/c/0?comp=snapshot")
    assert taken.status == 201
    snapshot = quote(taken.value("x-ms-snapshot") or "", "")
    for query, is_stored in (
        (f"snapshot={snapshot}", True),
        ("comp=metadata", False),
        ("comp=blocklist&blocklisttype=all", False),
        (f"snapshot={snapshot}&comp=metadata", False),
    ):
        for is_again in (False, True):
            answer = exchange(sidecar.url, f"/era5/x/c/0?{query}")
            assert answer.status == 200, query
            assert ("; hit" in told(answer)) == (is_again and is_stored), query
            sidecar.wait_idle()
    # A snapshot that isn't there is an absence of its own.
    gone = "/era5/x/c/0?snapshot=2020-01-01T00%3A00%3A00.0000000Z"
    assert exchange(sidecar.url, gone).status == 404
    assert exchange(sidecar.url, "/era5/x/c/0").body == BODY


def test_what_clients_sign_is_removed_and_a_sas_of_theirs_goes_as_it_is(
    store: str, sidecar: Sidecar
) -> None:
    theirs = [
        ("Authorization", "SharedKey theirs:c2lnbmVk"),
        ("x-ms-date", "Wed, 01 Jan 2020 00:00:00 GMT"),
        ("x-ms-version", "2026-02-06"),
        ("x-ms-client-request-id", "1"),
    ]
    answer = exchange(sidecar.url, "/era5/x/c/0", headers=theirs)
    assert (answer.status, answer.body) == (200, BODY)
    assert answer.value("x-ms-client-request-id") is None
    bearer = [("Authorization", "Bearer theirs"), *theirs[1:]]
    assert exchange(sidecar.url, "/era5/x/c/0", headers=bearer).body == BODY
    for _ in range(2):
        signed = exchange(sidecar.url, f"/era5/x/zarr.json?{sas()}")
        assert (signed.status, signed.body) == (200, b"{}")
        sidecar.wait_idle()
        assert "fwd=bypass" in told(signed) and "stored" not in told(signed)
    wrong = sas(key=AccountKey(ACCOUNT, b"wr1ng"))
    assert exchange(sidecar.url, f"/era5/x/zarr.json?{wrong}").status == 403


def test_writes_are_refused_unless_they_are_wanted(sidecar: Sidecar) -> None:
    assert exchange(sidecar.url, "/era5/x/c/9", "PUT", body=b"x").status == 405


BLOB = [("x-ms-blob-type", "BlockBlob")]


def test_writes_go_through_and_drop_what_they_name(store: str, tmp_path: Path) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", store, "--allow-writes", "--negative-scope", "all")
    with Sidecar(UPSTREAM, tmp_path, flags, ENVIRONMENT) as sidecar:

        def held(target: str) -> bool:
            return "; hit" in told(exchange(sidecar.url, target))

        def write(method: str, target: str, body: bytes, *fields: tuple[str, str]) -> int:
            return exchange(sidecar.url, target, method, list(fields), body).status

        names = ("/era5/w/a%20b/c%2Bd=(1)~", "/era5/w/%C3%A9,b;c@d", "/era5/w/a+b", "/era5/w/c")
        other = "/era5/x/c/0"
        exchange(sidecar.url, other)
        for target in names:
            assert exchange(sidecar.url, target).status == 404
            sidecar.wait_idle()
            assert held(target)
            kind = ("Content-Type", "text/plain; charset=utf-8")
            assert write("PUT", target, b"one", *BLOB, kind) == 201, target
            answer = exchange(sidecar.url, target)
            assert (answer.status, answer.body) == (200, b"one"), target
            assert answer.value("Content-Type") == kind[1]
            sidecar.wait_idle()
            assert held(target)
        # In blocks, which is no change until they are listed.
        target = names[-1]
        assert write("PUT", f"{target}?comp=block&blockid=MDA%3D", b"two") == 201
        blocks = b"<?xml version='1.0'?><BlockList><Latest>MDA=</Latest></BlockList>"
        assert write("PUT", f"{target}?comp=blocklist", blocks) == 201
        assert exchange(sidecar.url, target).body == b"two"
        sidecar.wait_idle()
        assert held(target)
        assert write("PUT", f"{target}?comp=metadata", b"", ("x-ms-meta-a", "1")) == 200
        assert exchange(sidecar.url, target).value("x-ms-meta-a") == "1"
        # A copy, which Azure says it may still be at.
        copy, source = "/era5/w/copy", f"{store}/{ACCOUNT}{other}?{sas()}"
        assert exchange(sidecar.url, copy).status == 404
        assert write("PUT", copy, b"", ("x-ms-copy-source", source)) == 202
        assert exchange(sidecar.url, copy).body == BODY
        assert write("DELETE", copy, b"") == 202
        assert exchange(sidecar.url, copy).status == 404
        # None of it was said of anything else.
        assert held(other) and held(names[0])


CLIENT = """
import os, sys
import adlfs

url, account = sys.argv[1:]
store = adlfs.AzureBlobFileSystem(
    connection_string=f"BlobEndpoint={url};AccountName={account};AccountKey=dGhlaXJz"
)
big = os.urandom(9_000_000)
with store.open("era5/c/big", "wb", block_size=4_000_000) as file:
    for place in range(0, len(big), 3_000_000):
        file.write(big[place : place + 3_000_000])
assert store.cat("era5/c/big") == big
for content in (b"1", b"22", b""):
    store.pipe("era5/c/small", content, overwrite=True)
    assert store.cat("era5/c/small") == content
assert store.find("era5/c") == ["era5/c/big", "era5/c/small"]
store.rm("era5/c/small")
store.invalidate_cache()
assert not store.exists("era5/c/small")
"""


@pytest.mark.client("adlfs")
def test_azures_own_client_writes_and_reads_what_it_wrote(
    store: str, tmp_path: Path, python_with: Callable[[str], str]
) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", store, "--allow-writes", "--negative-scope", "all")
    with Sidecar(UPSTREAM, tmp_path, flags, ENVIRONMENT) as sidecar:
        command = [python_with("adlfs"), "-c", CLIENT, sidecar.url, ACCOUNT]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr


def test_another_identity_finds_nothing_of_what_one_has_stored(store: str, tmp_path: Path) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", store)
    with Sidecar(UPSTREAM, tmp_path, flags, ENVIRONMENT) as sidecar:
        exchange(sidecar.url, "/era5/x/c/0")
        sidecar.wait_idle()
    with Sidecar(UPSTREAM, tmp_path, flags, NOBODY) as sidecar:
        assert exchange(sidecar.url, "/era5/x/c/0").status == 403
    with_sas = NOBODY | {"AZURE_STORAGE_SAS_TOKEN": sas()}
    with Sidecar(UPSTREAM, tmp_path, flags, with_sas) as sidecar:
        assert "fwd=uri-miss" in told(exchange(sidecar.url, "/era5/x/c/0"))
    with Sidecar(UPSTREAM, tmp_path, flags, ENVIRONMENT) as sidecar:
        assert "; hit" in told(exchange(sidecar.url, "/era5/x/c/0"))


def test_a_probe_says_how_it_is_asked(store: str) -> None:
    flags = ("--upstream", UPSTREAM, "--upstream-endpoint", store)
    done = run_command("check", "--probe", "/era5/x/c/0", *flags, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "A missing key is answered 404: remembered for" in done.stdout
    done = run_command("check", *flags, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"upstream: {UPSTREAM}" in done.stdout
    assert (
        f"the store is asked at {store}, requests are signed with what Azure's chain" in done.stdout
    )


# Tokens, which Azurite takes over TLS alone; of theirs it looks at the form.


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def tls_store(
    program: str, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    home = tmp_path_factory.mktemp("tls")
    with azurite(program, home) as url:
        fill(url)
    with azurite(program, home, authority.certificate("IP:127.0.0.1")) as url:
        yield url


@pytest.fixture
def service() -> Iterator[MetadataService]:
    with metadata_service() as running:
        yield running


def tls_flags(store: str, authority: Authority) -> tuple[str, ...]:
    return (*ANY_DISK, "--upstream-endpoint", store, "--upstream-ca-file", str(authority.ca_file))


def test_a_managed_identity_reads_what_is_private(
    tls_store: str, authority: Authority, service: MetadataService, tmp_path: Path
) -> None:
    flags = (*tls_flags(tls_store, authority), "--log-level", "debug", "--log-requests", "1")
    with Sidecar(UPSTREAM, tmp_path, flags, service.environment()) as sidecar:
        assert exchange(sidecar.url, "/era5/x/c/0").body == BODY
        assert exchange(sidecar.url, "/era5/x/c/1").status == 404
        sidecar.wait_idle()
        assert "; hit" in told(exchange(sidecar.url, "/era5/x/c/0"))
        assert "detail=negative" in told(exchange(sidecar.url, "/era5/x/c/1"))
        assert exchange(sidecar.url, "/nowhere/x").status == 421
        assert len(service.asked) == 1
        hide_and_seek(sidecar, tmp_path, *service.tokens, service.tokens[0].split(".")[1])
    # The same identity is the same after a restart, by another token.
    with Sidecar(UPSTREAM, tmp_path, flags, service.environment()) as sidecar:
        assert "; hit" in told(exchange(sidecar.url, "/era5/x/c/0"))
        assert len(service.asked) == 2


def test_a_token_that_expires_mid_run_is_renewed_and_a_slow_service_holds_nobody_up(
    tls_store: str, authority: Authority, service: MetadataService, tmp_path: Path
) -> None:
    gate = threading.Event()
    gate.set()
    service.gate = lambda: gate.wait(30)
    service.lives = 120
    flags = (*tls_flags(tls_store, authority), "--ttl", "0s", "--negative-ttl", "0s")
    with Sidecar(UPSTREAM, tmp_path, flags, service.environment()) as sidecar:
        until_ready(sidecar)
        gate.clear()
        service.lives = 20
        for _ in range(3):
            assert exchange(sidecar.url, "/era5/x/c/0").body == BODY
        wait_for(lambda: len(service.asked) == 2, "the service to be asked again")
        assert len(service.tokens) == 1
        gate.set()
        wait_for(lambda: len(service.tokens) == 2, "another token")
        # That one ends soon, so that the next is waited for.
        service.lives = 86_400
        wait_for(
            lambda: exchange(sidecar.url, "/era5/x/c/0").body == BODY and len(service.tokens) > 2,
            "a third token",
        )


@pytest.mark.parametrize("auth", ["auto", "azure"])
def test_while_the_chain_fails_its_token_is_waited_for(
    tls_store: str, authority: Authority, service: MetadataService, tmp_path: Path, auth: str
) -> None:
    service.answer = (400, b'{"error": "invalid_request", "error_description": "n0 s3cr3t"}')
    flags = (*tls_flags(tls_store, authority), "--log-level", "debug", "--upstream-auth", auth)
    with Sidecar(UPSTREAM, tmp_path, flags, service.environment()) as sidecar:
        until_ready(sidecar)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(exchange, sidecar.url, "/era5/x/c/0")
            wait_for(lambda: "credentials failed" in sidecar.stderr(), "the log to say so")
            assert not waiting.done()
            service.answer = None
            assert waiting.result(DEADLINE_SECONDS).body == BODY
        assert "n0 s3cr3t" not in sidecar.stderr()
