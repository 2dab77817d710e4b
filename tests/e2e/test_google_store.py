"""A private bucket of Google's, behind a sidecar that finds its token by itself, and an emulator
that says less than the store.
"""

import gzip
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.e2e.conftest import ANY_DISK
from tests.plugins.requirements import find_client_program
from tests.support.arrays import NAME, sparse_array
from tests.support.deadline import DEADLINE_SECONDS, wait_for
from tests.support.gcs import NOBODY, by_json, fake_gcs, make_bucket, put
from tests.support.google import PROJECT, PrivateStore, Tokens
from tests.support.google_credentials import machine, service_account, workload_identity
from tests.support.http_client import Response, exchange
from tests.support.sidecar import Sidecar, run_command

pytestmark = pytest.mark.client("fake-gcs-server")
BUCKET = "era5"
BODY = b"body of the chunk"
DOWNLOAD = "/download/storage"
ODD = ("a//b", "/lead", "a b", "a+b", "a?b", "a#b", "a%b", "a%2Fb", "é/ü", "a&b=c;d,e@f:g")


@pytest.fixture(scope="module")
def emulator(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[str]:
    program = find_client_program("fake-gcs-server", pytestconfig.rootpath)
    assert program is not None
    with fake_gcs(program, tmp_path_factory.mktemp("store")) as url:
        make_bucket(url, BUCKET)
        for key in ("x/c/0", "y/c/0", "x/zarr.json"):
            put(url, BUCKET, key, BODY)
        for key in ODD:
            put(url, BUCKET, f"x/{key}", key.encode())
        yield url


@pytest.fixture
def tokens() -> Iterator[Tokens]:
    with Tokens() as running:
        yield running


@pytest.fixture
def store(emulator: str, tokens: Tokens) -> Iterator[PrivateStore]:
    with PrivateStore(emulator, tokens) as running:
        yield running


@pytest.fixture(scope="module")
def sidecar(emulator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    """In front of the emulator, without a credential."""
    flags = (*ANY_DISK, "--upstream-endpoint", emulator)
    with Sidecar("gs://", tmp_path_factory.mktemp("cache"), flags, NOBODY) as running:
        yield running


def until_ready(sidecar: Sidecar) -> None:
    """Until it has looked for credentials, for which no start waits."""
    wait_for(lambda: exchange(sidecar.admin_url, "/readyz").status == 200, "the first look")


def told(answer: Response) -> str:
    return answer.value("Cache-Status") or ""


def test_it_has_a_token_for_everybody_and_asks_once(
    store: PrivateStore, tokens: Tokens, tmp_path: Path
) -> None:
    environment = service_account(tmp_path, tokens.url)
    flags = (*ANY_DISK, "--upstream-endpoint", store.url)
    with Sidecar(f"gs://{BUCKET}", tmp_path / "cache", flags, environment) as sidecar:
        assert exchange(store.url, f"/{BUCKET}/x/c/0").status == 403
        first = exchange(sidecar.url, f"/{BUCKET}/x/c/0")
        assert (first.status, first.body) == (200, BODY)
        assert first.value("x-goog-generation")
        sidecar.wait_idle()
        # It is stamped private, max-age=0, and kept all the same.
        assert "; hit" in told(exchange(sidecar.url, f"/{BUCKET}/x/c/0"))
        ranged = exchange(sidecar.url, f"/{BUCKET}/x/c/0", headers=[("Range", "bytes=0-3")])
        assert (ranged.status, ranged.body) == (206, b"body")
        for is_known in (False, True, True):
            answer = exchange(sidecar.url, f"/{BUCKET}/x/c/1")
            assert answer.status == 404 and b"<Code>NoSuchKey</Code>" in answer.body
            assert ("detail=negative" in told(answer)) is is_known
        assert len(tokens.given) == 1
        assert exchange(sidecar.url, f"/{BUCKET}/x/c/0", "PUT", body=b"x").status == 405
        upload = f"/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name=x"
        assert exchange(sidecar.url, upload, "POST", body=b"x").status == 405
        assert exchange(sidecar.url, by_json(BUCKET, "x/c/0", ""), "DELETE").status == 405
        assert exchange(sidecar.url, "/other/x").status == 421
    assert {each[2].get("Authorization") for each in store.heard[1:]} == {
        f"Bearer {tokens.given[0]}"
    }


def test_one_object_by_three_names_is_one_entry(sidecar: Sidecar) -> None:
    names = [f"/{BUCKET}/x/c/0", by_json(BUCKET, "x/c/0"), by_json(BUCKET, "x/c/0", begin=DOWNLOAD)]
    assert exchange(sidecar.url, names[1]).body == BODY
    sidecar.wait_idle()
    for name in (*names, f"{names[1]}&tensorstore=5e1f"):
        answer = exchange(sidecar.url, name)
        assert (answer.status, answer.body) == (200, BODY)
        assert "; hit" in told(answer)
        assert answer.value("x-goog-hash") and answer.value("x-goog-generation")
    absent = [
        f"/{BUCKET}/x/c/7",
        by_json(BUCKET, "x/c/7"),
        by_json(BUCKET, "x/c/7", begin=DOWNLOAD),
    ]
    assert exchange(sidecar.url, absent[2]).status == 404
    for name in absent:
        assert "detail=negative" in told(exchange(sidecar.url, name))
    held = json.loads(exchange(sidecar.admin_url, f"/entries?prefix=/{BUCKET}/x/c").body)
    assert sorted(each["target"] for each in held["entries"]) == [names[0], absent[0]]
    why = exchange(sidecar.admin_url, f"/why{names[1]}").body
    assert why.startswith(b"It is stored, as the origin had it")
    purge = json.dumps({"target": names[2]}).encode()
    assert exchange(sidecar.admin_url, "/purge", "POST", body=purge).status == 200
    assert "; hit" not in told(exchange(sidecar.url, names[0]))


@pytest.mark.parametrize("key", ODD)
def test_a_key_of_any_spelling_is_itself_by_either_name(sidecar: Sidecar, key: str) -> None:
    for target in (
        by_json(BUCKET, f"x/{key}"),
        by_json(BUCKET, f"x/{key}", begin=DOWNLOAD),
        f"/{BUCKET}/x/{quote(key)}",
    ):
        for _ in range(2):
            answer = exchange(sidecar.url, target)
            assert (answer.status, answer.body) == (200, key.encode()), target
            sidecar.wait_idle()


@pytest.mark.parametrize("key", ["..", "x/../y/c/0", "x/./c/0"])
def test_a_key_that_a_path_would_not_say_is_refused(sidecar: Sidecar, key: str) -> None:
    assert exchange(sidecar.url, by_json(BUCKET, key)).status == 400


def test_what_else_is_asked_by_json_passes_and_is_not_kept(sidecar: Sidecar) -> None:
    for target in (
        by_json(BUCKET, "x/c/0", ""),
        f"/storage/v1/b/{BUCKET}/o?prefix=x/",
        f"/storage/v1/b/{BUCKET}",
        by_json(BUCKET, "x/c/0", "alt=media&ifGenerationNotMatch=1"),
    ):
        for _ in range(2):
            answer = exchange(sidecar.url, target)
            assert answer.status == 200 and "fwd=bypass" in told(answer), target
    absent = exchange(sidecar.url, by_json(BUCKET, "x/c/8", ""))
    assert absent.status == 404 and "fwd=bypass" in told(absent)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_bucket_that_is_not_there_is_never_an_absence(
    sidecar: Sidecar, store: PrivateStore, tokens: Tokens, tmp_path: Path, method: str
) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", store.url)
    environment = service_account(tmp_path, tokens.url)
    with Sidecar("gs://", tmp_path / "cache", flags, environment) as before_a_store:
        for url in (sidecar.url, before_a_store.url):
            for target in (
                "/nowhere/x/c/0",
                by_json("nowhere", "x/c/0"),
                by_json("nowhere", "x/c/0", ""),
                "/storage/v1/b/nowhere/o?prefix=x/",
            ):
                for _ in range(2):
                    assert exchange(url, target, method).status == 502, (url, target)


def test_objects_by_json_that_are_not_there_pass_as_the_store_says_it(
    store: PrivateStore, tokens: Tokens, tmp_path: Path
) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", store.url)
    environment = service_account(tmp_path, tokens.url)
    with Sidecar("gs://", tmp_path / "cache", flags, environment) as sidecar:
        for query in ("", "alt=media&ifGenerationNotMatch=1"):
            answer = exchange(sidecar.url, by_json(BUCKET, "x/c/9", query))
            assert answer.status == 404 and b"No such object: era5/x/c/9" in answer.body


def test_a_prefix_is_all_that_is_admitted_by_either_name(emulator: str, tmp_path: Path) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", emulator)
    with Sidecar(f"gs://{BUCKET}/x", tmp_path, flags, NOBODY) as sidecar:
        for target in (
            f"/{BUCKET}/x/c/0",
            by_json(BUCKET, "x/c/0"),
            by_json(BUCKET, "x/c/0", ""),
            f"/storage/v1/b/{BUCKET}/o?prefix=x/c",
        ):
            assert exchange(sidecar.url, target).status == 200, target
        for target in (
            f"/{BUCKET}/y/c/0",
            by_json(BUCKET, "y/c/0"),
            by_json(BUCKET, "y/c/0", ""),
            f"/storage/v1/b/{BUCKET}/o?prefix=y/",
            f"/storage/v1/b/{BUCKET}/o",
            f"/storage/v1/b/{BUCKET}",
            "/storage/v1/b",
        ):
            assert exchange(sidecar.url, target).status == 421, target


def test_absences_at_an_emulator_are_remembered_once_their_bucket_answers(
    emulator: str, tmp_path: Path
) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", emulator)
    with Sidecar("gs://", tmp_path, flags, NOBODY) as sidecar:
        chunks = 'chunkside_upstream_requests_total{class="chunk"'
        told_of = 'chunkside_upstream_requests_total{class="listing"'
        assert exchange(sidecar.url, f"/{BUCKET}/x/c/1", "HEAD").status == 404
        sidecar.wait_idle()
        for method in ("GET", "GET", "HEAD", "GET"):
            answer = exchange(sidecar.url, f"/{BUCKET}/x/c/1", method)
            assert answer.status == 404 and "detail=negative" in told(answer)
            if method == "GET":
                assert answer.body == b"<Error><Code>NoSuchKey</Code></Error>"
        assert (sidecar.metric(chunks), sidecar.metric(told_of)) == (2, 2)


def test_an_emulator_that_has_no_paths_makes_nothing_absent(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Without `-public-host` it answers 404 to all of them, also where there is an object."""
    program = find_client_program("fake-gcs-server", pytestconfig.rootpath)
    assert program is not None
    with fake_gcs(program, tmp_path / "store", has_paths=False) as url:
        make_bucket(url, BUCKET)
        put(url, BUCKET, "x/c/0", BODY)
        assert exchange(url, f"/{BUCKET}/x/c/0").status == 404
        flags = (*ANY_DISK, "--upstream-endpoint", url)
        with Sidecar("gs://", tmp_path / "cache", flags, NOBODY) as sidecar:
            for target in (f"/{BUCKET}/x/c/0", by_json(BUCKET, "x/c/0")):
                for _ in range(2):
                    answer = exchange(sidecar.url, target)
                    assert answer.status == 502 and b"-public-host" in answer.body
            assert exchange(sidecar.url, f"/{BUCKET}/x/c/0", "HEAD").status == 502
            # What isn't there isn't, whoever is asked.
            assert exchange(sidecar.url, f"/{BUCKET}/x/c/1").status == 404


def test_writes_by_json_make_what_they_name_forgotten(emulator: str, tmp_path: Path) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", emulator, "--allow-writes", "--ttl", "1h")
    with Sidecar("gs://", tmp_path, flags, NOBODY) as sidecar:
        target, kept = f"/{BUCKET}/w/c/0", f"/{BUCKET}/x/c/0"
        assert exchange(sidecar.url, target).status == 404
        upload = f"/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name=w%2Fc%2F0"
        assert exchange(sidecar.url, upload, "POST", body=b"one").status == 200
        assert exchange(sidecar.url, target).body == b"one"
        exchange(sidecar.url, kept)
        sidecar.wait_idle()
        assert "; hit" in told(exchange(sidecar.url, target))
        assert exchange(sidecar.url, by_json(BUCKET, "w/c/0", ""), "DELETE").status < 300
        assert exchange(sidecar.url, target).status == 404
        assert "; hit" in told(exchange(sidecar.url, kept))


def test_what_lies_compressed_is_given_as_it_was_before_that(
    emulator: str, sidecar: Sidecar
) -> None:
    text = b"hello " * 1000
    put(emulator, BUCKET, "x/packed", gzip.compress(text), "gzip")
    target = f"/{BUCKET}/x/packed"
    asks = [
        [],
        [("Accept-Encoding", "gzip")],
        [("Accept-Encoding", "identity")],
        [("Range", "bytes=0-4")],
        [("Range", "bytes=0-4"), ("Accept-Encoding", "gzip")],
    ]
    for headers in (*asks, *reversed(asks)):
        answer = exchange(sidecar.url, target, headers=headers)
        is_ranged = ("Range", "bytes=0-4") in headers
        assert (answer.status, answer.body) == ((206, text[:5]) if is_ranged else (200, text))
        assert answer.value("Content-Encoding") is None
        sidecar.wait_idle()
    # Cold, by a range first.
    put(emulator, BUCKET, "x/packed2", gzip.compress(text), "gzip")
    for headers in reversed(asks):
        answer = exchange(sidecar.url, f"{target}2", headers=headers)
        assert answer.body in (text[:5], text)


# Tokens.


def test_a_token_that_the_store_refuses_is_asked_for_anew_once(
    store: PrivateStore, tokens: Tokens, tmp_path: Path
) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", store.url)
    environment = service_account(tmp_path, tokens.url)
    with Sidecar("gs://", tmp_path / "cache", flags, environment) as sidecar:
        until_ready(sidecar)
        tokens.revoke()
        assert exchange(sidecar.url, f"/{BUCKET}/x/c/0").body == BODY
        assert len(tokens.given) == 2
        # Of no use either: the store's own refusal, and it isn't kept.
        tokens.lifetime = 0
        tokens.revoke()
        for _ in range(2):
            answer = exchange(sidecar.url, f"/{BUCKET}/y/c/0")
            assert answer.status == 401 and "fwd=uri-miss" in told(answer)
            assert b"AuthenticationRequired" in answer.body
        assert exchange(sidecar.url, f"/{BUCKET}/x/c/5").status == 401


def test_tokens_are_renewed_while_others_read(
    store: PrivateStore, tokens: Tokens, tmp_path: Path
) -> None:
    """They live for so short that each read finds it time to ask for another."""
    tokens.lifetime = 120
    flags = (*ANY_DISK, "--upstream-endpoint", store.url)
    environment = service_account(tmp_path, tokens.url)
    with Sidecar("gs://", tmp_path / "cache", flags, environment) as sidecar:
        until_ready(sidecar)
        tokens.delay = 3.0
        for number in range(20):
            began = time.monotonic()
            assert exchange(sidecar.url, f"/{BUCKET}/x/c/1{number}").status == 404
            assert exchange(sidecar.admin_url, "/livez").status == 200
            assert time.monotonic() - began < 2.5
        wait_for(lambda: len(tokens.given) == 2, "a second token")

        def uses_it() -> bool:
            exchange(sidecar.url, f"/{BUCKET}/x/c/0", headers=[("Chunkside-Control", "refresh")])
            return store.heard[-1][2]["Authorization"].endswith(tokens.given[1])

        wait_for(uses_it, "the second token in use")


def test_a_token_that_ends_mid_run_is_waited_for(
    store: PrivateStore, tokens: Tokens, tmp_path: Path
) -> None:
    tokens.lifetime = 2
    flags = (*ANY_DISK, "--upstream-endpoint", store.url)
    environment = service_account(tmp_path, tokens.url)
    with Sidecar("gs://", tmp_path / "cache", flags, environment) as sidecar:
        until_ready(sidecar)
        wait_for(lambda: not tokens.is_good(tokens.given[0]), "the end of the first token")
        tokens.lifetime, tokens.delay = 3600, 1.0
        answer = exchange(sidecar.url, f"/{BUCKET}/x/c/0")
        assert (answer.status, answer.body) == (200, BODY)
        assert len(tokens.given) == 2


def test_a_token_that_is_long_in_coming_keeps_no_process_from_ending(
    store: PrivateStore, tokens: Tokens, tmp_path: Path
) -> None:
    tokens.lifetime = 120
    flags = (*ANY_DISK, "--upstream-endpoint", store.url)
    environment = service_account(tmp_path, tokens.url)
    with Sidecar("gs://", tmp_path / "cache", flags, environment) as sidecar:
        until_ready(sidecar)
        tokens.delay = 3600.0
        assert exchange(sidecar.url, f"/{BUCKET}/x/c/0").body == BODY
        wait_for(lambda: len(tokens.asked) == 2, "the look for another token")
        began = time.monotonic()
        assert sidecar.stop() == 0
        assert time.monotonic() - began < 10


def test_a_slow_metadata_service_delays_the_first_read_alone(
    store: PrivateStore, tokens: Tokens, tmp_path: Path
) -> None:
    tokens.delay = 1.5
    flags = (*ANY_DISK, "--upstream-endpoint", store.url)
    with Sidecar("gs://", tmp_path / "cache", flags, machine(tokens.authority)) as sidecar:
        assert exchange(sidecar.url, f"/{BUCKET}/x/c/0").body == BODY
        assert len(tokens.given) == 1


def test_a_workloads_own_token_is_exchanged(
    store: PrivateStore, tokens: Tokens, tmp_path: Path
) -> None:
    environment = workload_identity(tmp_path, tokens.url)
    flags = (*ANY_DISK, "--upstream-endpoint", store.url)
    with Sidecar("gs://", tmp_path / "cache", flags, environment) as sidecar:
        assert exchange(sidecar.url, f"/{BUCKET}/x/c/0").body == BODY
    assert "subject_token=kub3rn3t3s-t0ken" in tokens.asked[0]


def test_no_secret_is_anywhere(store: PrivateStore, tokens: Tokens, tmp_path: Path) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", store.url, "--log-level", "debug")
    said = ""
    for number, make in enumerate((service_account, workload_identity)):
        home = tmp_path / str(number)
        with Sidecar("gs://", home / "cache", flags, make(home, tokens.url)) as sidecar:
            for target in (f"/{BUCKET}/x/c/0", f"/{BUCKET}/x/c/4", by_json(BUCKET, "x/c/0", "")):
                exchange(sidecar.url, target)
            tokens.refuses = True
            tokens.revoke()
            assert exchange(sidecar.url, f"/{BUCKET}/y/c/0").status == 401
            tokens.refuses = False
            pages = [exchange(sidecar.admin_url, "/", headers=[("Accept", "text/html")])]
            pages += [exchange(sidecar.admin_url, each) for each in ("/info", "/metrics")]
            pages.append(exchange(sidecar.admin_url, f"/why/{BUCKET}/x/c/0"))
            sidecar.wait_idle()
            said += sidecar.stderr() + sidecar.stdout() + "".join(str(each.body) for each in pages)
        said += str([each.read_bytes() for each in (home / "cache").rglob("*") if each.is_file()])
    assert "RefreshError" in said
    for secret in ("ya29", "s3cr3t", "t0ken", "PRIVATE KEY", "eyJ"):
        assert secret not in said


def test_another_identity_finds_nothing_of_what_one_has_stored(
    store: PrivateStore, tokens: Tokens, tmp_path: Path
) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", store.url)
    one = service_account(tmp_path / "one", tokens.url)
    other = service_account(tmp_path / "other", tokens.url, "other@project.iam.gserviceaccount.com")
    cache = tmp_path / "cache"
    with Sidecar("gs://", cache, flags, one) as sidecar:
        exchange(sidecar.url, f"/{BUCKET}/x/c/0")
        sidecar.wait_idle()
    with Sidecar("gs://", cache, flags, NOBODY) as sidecar:
        for _ in range(2):
            answer = exchange(sidecar.url, f"/{BUCKET}/x/c/0")
            assert answer.status == 403 and b"AccessDenied" in answer.body
    with Sidecar("gs://", cache, flags, other) as sidecar:
        assert "; hit" not in told(exchange(sidecar.url, f"/{BUCKET}/x/c/0"))
    with Sidecar("gs://", cache, (*flags, "--upstream-auth", "none"), one) as sidecar:
        assert exchange(sidecar.url, f"/{BUCKET}/x/c/0").status == 403
    with Sidecar("gs://", cache, flags, one) as sidecar:
        assert "; hit" in told(exchange(sidecar.url, f"/{BUCKET}/x/c/0"))


def test_where_no_token_is_to_be_had_and_one_is_wanted_nothing_is_asked(
    store: PrivateStore, tokens: Tokens, tmp_path: Path
) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", store.url, "--upstream-auth", "gcp")
    tokens.refuses = True
    environment = service_account(tmp_path, tokens.url)
    with Sidecar("gs://", tmp_path / "cache", flags, environment) as sidecar:
        until_ready(sidecar)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(exchange, sidecar.url, f"/{BUCKET}/x/c/0")
            wait_for(lambda: "RefreshError" in sidecar.stderr(), "the log to say so")
            assert not store.heard and not waiting.done()
            tokens.refuses = False
            assert waiting.result(DEADLINE_SECONDS).body == BODY
    assert "Google's chain of credentials failed: RefreshError" in sidecar.stderr()


def test_who_asks_pays_where_that_is_set(
    store: PrivateStore, tokens: Tokens, tmp_path: Path
) -> None:
    store.payer = PROJECT
    flags = (*ANY_DISK, "--upstream-endpoint", store.url)
    environment = service_account(tmp_path, tokens.url)
    with Sidecar("gs://", tmp_path / "cache", flags, environment) as sidecar:
        assert exchange(sidecar.url, f"/{BUCKET}/x/c/0").status == 400
    paying = (*flags, "--upstream-requester-pays")
    with Sidecar("gs://", tmp_path / "cache", paying, environment) as sidecar:
        assert exchange(sidecar.url, f"/{BUCKET}/x/c/0").body == BODY
    environment = workload_identity(tmp_path, tokens.url)
    with Sidecar("gs://", tmp_path / "cache", paying, environment) as sidecar:
        assert exchange(sidecar.url, f"/{BUCKET}/x/c/0").status == 400
        # It is told beside what the store answers.
        wait_for(lambda: "no project is known that could pay" in sidecar.stderr(), "the warning")
    environment |= {"GOOGLE_CLOUD_PROJECT": PROJECT}
    with Sidecar("gs://", tmp_path / "cache", paying, environment) as sidecar:
        assert exchange(sidecar.url, f"/{BUCKET}/x/c/0").body == BODY


# Commands.


def test_a_probe_says_how_it_is_asked(store: PrivateStore, tokens: Tokens, tmp_path: Path) -> None:
    flags = ("--upstream", f"gs://{BUCKET}", "--upstream-endpoint", store.url)
    environment = service_account(tmp_path, tokens.url)
    done = run_command("check", *flags, "--cache-dir", str(tmp_path / "cache"), env=environment)
    assert f"asked at {store.url}" in done.stdout
    assert "signed with what Google's chain of credentials finds" in done.stdout
    assert "the origin's own are those of" in done.stdout
    done = run_command("check", "--probe", f"/{BUCKET}/x/c/0", *flags, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "A missing key is answered 404: remembered" in done.stdout
    assert "It says `private, max-age=0`: stored, and used without asking" in done.stdout


def test_the_commands_know_objects_by_the_store_s_own_names(emulator: str, tmp_path: Path) -> None:
    array = sparse_array()
    for name, content in array.objects.items():
        put(emulator, BUCKET, name.removeprefix("/"), content)
    flags = (*ANY_DISK, "--upstream-endpoint", emulator)
    with Sidecar(f"gs://{BUCKET}", tmp_path, flags, NOBODY) as sidecar:

        def said(*command: str) -> str:
            done = run_command(*command, "--admin", sidecar.admin_url)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        url = f"gs://{BUCKET}/{NAME}"
        assert "absent" in said("warm", url, "--data", sidecar.url)
        assert "and fresh for" in said("why", f"{url}/zarr.json")
        assert "remembered as absent" in said("why", f"{url}/c/0/1")
        assert "held" in said("map", url)
        info = json.loads(exchange(sidecar.admin_url, "/info").body)
        [route] = info["routes"]
        assert route["upstream"] == f"gs://{BUCKET}"
        assert (route["upstream_auth"], route["upstream_cache_control"]) == ("auto", "ignore")
        page = exchange(sidecar.admin_url, "/", headers=[("Accept", "text/html")]).body
        assert f"gs://{BUCKET}".encode() in page
