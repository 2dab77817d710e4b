"""Credentials that expire, are withdrawn, come late or by a clock that is off: reads go on."""

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from chunkside.upstream.aws import Keys
from tests.e2e.conftest import ANY_DISK
from tests.plugins.requirements import find_client_program
from tests.support.credential_services import Services, credential_services
from tests.support.deadline import DEADLINE_SECONDS, wait_for
from tests.support.http_client import Connection, Response, exchange
from tests.support.moto import VERIFIES_WITH_A_ROLE, make_role, make_user, moto
from tests.support.origin import Origin
from tests.support.seaweedfs import ENVIRONMENT, KEYS, accept, ask, seaweedfs
from tests.support.sidecar import Sidecar

pytestmark = [pytest.mark.client("weed"), pytest.mark.timeout(120)]
OTHER: Final = Keys("AKOTHER", "0ther-s3cr3t-0ther-s3cr3t", None)
TARGET, BODY = "/era5/x/c/0", b"body of the chunk"


@dataclass(frozen=True)
class Store:
    url: str
    home: Path

    def accept(self, *keys: Keys) -> None:
        accept(self.url, self.home, *keys)


@pytest.fixture(scope="module")
def running_store(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Store]:
    program = find_client_program("weed", pytestconfig.rootpath)
    assert program is not None
    home = tmp_path_factory.mktemp("store")
    with seaweedfs(program, home) as url:
        assert ask(url, "PUT", "/era5").status == 200
        assert ask(url, "PUT", TARGET, BODY).status == 200
        yield Store(url, home)


@pytest.fixture
def store(running_store: Store) -> Store:
    """Accepts KEYS, whatever the last test had it accept."""
    running_store.accept(KEYS)
    return running_store


@pytest.fixture
def services() -> Iterator[Services]:
    with credential_services(KEYS) as services:
        yield services


def flags_for(store: Store, *more: str) -> tuple[str, ...]:
    return (*ANY_DISK, "--upstream-endpoint", store.url, *more)


@contextmanager
def read_without_end(sidecar: Sidecar) -> Iterator[Counter[tuple[int, bytes]]]:
    """Reads that each ask the store, from several clients at once, until the end; what came."""
    came: Counter[tuple[int, bytes]] = Counter()
    is_over = threading.Event()

    def read() -> None:
        with Connection(sidecar.url) as connection:
            while not is_over.is_set():
                connection.send("GET", TARGET, [("Chunkside-Control", "bypass")])
                answer = connection.response()
                came[answer.status, answer.body[:200]] += 1

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        yield came
    finally:
        is_over.set()
        for reader in readers:
            reader.join(DEADLINE_SECONDS)


def until_more_come(came: Counter[tuple[int, bytes]]) -> None:
    wanted = came.total() + 30
    wait_for(lambda: came.total() >= wanted, "reads to go on")


def test_no_read_fails_when_keys_expire_and_others_come(
    store: Store, services: Services, tmp_path: Path
) -> None:
    store.accept(KEYS, OTHER)
    ends = [datetime.now(UTC)]

    def give_for_a_moment() -> tuple[Keys, datetime]:
        ends.append(datetime.now(UTC) + timedelta(seconds=4))
        return KEYS, ends[-1]

    services.give = give_for_a_moment
    with (
        Sidecar("s3://", tmp_path, flags_for(store), services.of_a_container) as sidecar,
        read_without_end(sidecar) as came,
    ):
        until_more_come(came)
        services.give = lambda: (OTHER, datetime.now(UTC) + timedelta(hours=1))
        wait_for(lambda: datetime.now(UTC) >= ends[-1], "the end of the first keys")
        store.accept(OTHER)
        until_more_come(came)
    assert came.keys() == {(200, BODY)}, sidecar.stderr()
    # Not for each of them.
    assert len(services.asked) < 10


def test_no_read_fails_when_keys_are_withdrawn_ahead_of_their_time(
    store: Store, services: Services, tmp_path: Path
) -> None:
    with (
        Sidecar("s3://", tmp_path, flags_for(store), services.of_a_container) as sidecar,
        read_without_end(sidecar) as came,
    ):
        until_more_come(came)
        services.give = lambda: (OTHER, datetime.now(UTC) + timedelta(hours=1))
        store.accept(OTHER)
        until_more_come(came)
    assert came.keys() == {(200, BODY)}, sidecar.stderr()
    assert len(services.asked) < 10


def test_another_identity_is_not_read_with_until_a_restart(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "credentials"

    def write(keys: Keys) -> None:
        secret = f"aws_secret_access_key={keys.secret_key}"
        file.write_text(f"[default]\naws_access_key_id={keys.access_key}\n{secret}\n")

    environment = {
        "AWS_SHARED_CREDENTIALS_FILE": str(file),
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    write(KEYS)
    with Sidecar("s3://", tmp_path / "cache", flags_for(store), environment) as sidecar:
        assert exchange(sidecar.url, TARGET).body == BODY
        write(OTHER)
        store.accept(OTHER)
        answer = exchange(sidecar.url, "/era5/x/c/1")
        assert (answer.status, b"InvalidAccessKeyId" in answer.body) == (403, True)
        assert "restart to read with that" in sidecar.stderr()
        # What was stored is that of who could read it.
        assert exchange(sidecar.url, TARGET).body == BODY
    with Sidecar("s3://", tmp_path / "cache", flags_for(store), environment) as sidecar:
        assert exchange(sidecar.url, "/era5/x/c/1").status == 404
        answer = exchange(sidecar.url, TARGET)
        assert "fwd=uri-miss" in (answer.value("Cache-Status") or "")


# A slow chain.


def test_a_slow_metadata_service_holds_up_those_alone_who_need_it(
    store: Store, services: Services, tmp_path: Path, origin: Origin
) -> None:
    origin.put("/a/c/0", b"of another origin")
    routes = [
        {"prefix": "/", "upstream": "s3://", "upstream_endpoint": store.url},
        {"prefix": "/other", "upstream": origin.url},
    ]
    flags = (*ANY_DISK, "--routes", json.dumps(routes))
    cache = tmp_path / "cache"
    with Sidecar(None, cache, flags, services.of_an_instance) as sidecar:
        assert exchange(sidecar.url, TARGET).body == BODY
        sidecar.wait_idle()
    services.is_open.clear()
    with Sidecar(None, cache, flags, services.of_an_instance) as sidecar:
        assert exchange(sidecar.admin_url, "/livez").status == 200
        told = exchange(sidecar.admin_url, "/readyz")
        assert (told.status, b"with whose credentials" in told.body) == (503, True)
        assert exchange(sidecar.url, "/other/a/c/0").body == b"of another origin"
        answers: list[Response] = []
        waiting = threading.Thread(target=lambda: answers.append(exchange(sidecar.url, TARGET)))
        waiting.start()
        refused = exchange(sidecar.url, "/era5/../../x")
        assert (refused.status, answers) == (400, [])
        services.is_open.set()
        waiting.join(DEADLINE_SECONDS)
        # Once it is known whose it is, what is stored is found.
        [answer] = answers
        assert (answer.status, answer.body) == (200, BODY)
        assert "; hit" in (answer.value("Cache-Status") or "")
        ready = "the sidecar to be ready"
        wait_for(lambda: exchange(sidecar.admin_url, "/readyz").status == 200, ready)


def test_a_sidecar_ends_while_its_metadata_service_keeps_silent(
    store: Store, services: Services, tmp_path: Path
) -> None:
    services.is_open.clear()
    flags = flags_for(store, "--shutdown-timeout", "1s")
    with Sidecar("s3://", tmp_path, flags, services.of_an_instance) as sidecar:
        wait_for(lambda: services.asked, "the metadata service to be asked")
        began = time.monotonic()
        assert sidecar.stop() == 0
        assert time.monotonic() - began < 5


def test_a_sidecar_ends_while_settings_are_read_anew_and_credentials_with_them(
    store: Store, services: Services, tmp_path: Path
) -> None:
    flags = flags_for(store, "--shutdown-timeout", "1s")
    with Sidecar("s3://", tmp_path, flags, services.of_an_instance) as sidecar:
        assert exchange(sidecar.url, TARGET).body == BODY
        services.is_open.clear()
        asked = len(services.asked)
        os.kill(sidecar.pid, signal.SIGHUP)
        wait_for(lambda: len(services.asked) > asked, "the metadata service to be asked")
        # Meanwhile all is as it was.
        assert "; hit" in (exchange(sidecar.url, TARGET).value("Cache-Status") or "")
        began = time.monotonic()
        assert sidecar.stop() == 0
        assert time.monotonic() - began < 5


def test_a_chain_that_fails_at_the_start_is_asked_again(
    store: Store, services: Services, tmp_path: Path
) -> None:
    def fail() -> tuple[Keys, datetime]:
        raise ConnectionError

    give, services.give = services.give, fail
    with Sidecar("s3://", tmp_path, flags_for(store), services.of_a_container) as sidecar:
        wait_for(lambda: "chain of credentials failed" in sidecar.stderr(), "it to say so")
        services.give = give
        answer = exchange(sidecar.url, TARGET)
        assert (answer.status, answer.body) == (200, BODY)


# A clock.

OFF = """
import sys, time
from pathlib import Path
real, file = time.time, Path(sys.argv[1])
time.time = lambda: real() + float(file.read_text())
from chunkside.cli import main
sys.exit(main(sys.argv[2:]))
"""


def test_reads_go_on_while_the_clock_steps(store: Store, tmp_path: Path) -> None:
    """Whatever it says: the store refuses what is signed a quarter of an hour before or after."""
    script, clock = tmp_path / "off.py", tmp_path / "seconds"
    script.write_text(OFF)
    clock.write_text("-1200")
    command = (sys.executable, str(script), str(clock))
    cache = tmp_path / "cache"
    with (
        Sidecar("s3://", cache, flags_for(store), ENVIRONMENT, command=command) as sidecar,
        read_without_end(sidecar) as came,
    ):
        for seconds in ("-1200", "1200", "0", "86400"):
            clock.with_suffix(".new").write_text(seconds)
            clock.with_suffix(".new").rename(clock)
            until_more_come(came)
            head = exchange(sidecar.url, TARGET, "HEAD", [("Chunkside-Control", "bypass")])
            assert head.status == 200
    assert came.keys() == {(200, BODY)}, sidecar.stderr()


# Roles.


@pytest.mark.client("moto")
def test_a_role_is_taken_by_a_token_of_the_webs(
    tmp_path: Path, python_with: Callable[[str], str]
) -> None:
    """As a pod takes one by its service account. Keys and token that come of it are verified."""
    python, token = python_with("moto"), tmp_path / "token"
    token.write_text("eyJhbGciOiJub25lIn0.e30.")
    with moto(python, VERIFIES_WITH_A_ROLE) as url:
        keys = make_user(python, url)
        environment = {
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
            "AWS_ROLE_ARN": make_role(python, url),
            "AWS_ENDPOINT_URL_STS": url,
            "AWS_REGION": "us-east-1",
        }
        flags = (*ANY_DISK, "--upstream-endpoint", url)
        with Sidecar("s3://", tmp_path / "cache", flags, environment) as sidecar:
            ready = "the sidecar to be ready"
            wait_for(lambda: exchange(sidecar.admin_url, "/readyz").status == 200, ready)
            assert ask(url, "PUT", "/era5", keys=keys).status == 200
            assert ask(url, "PUT", TARGET, BODY, keys=keys).status == 200
            assert exchange(url, TARGET).status == 403
            answer = exchange(sidecar.url, TARGET)
            assert (answer.status, answer.body) == (200, BODY)
            assert exchange(sidecar.url, "/era5/x/c/1").status == 404


# Single sign-on.


def test_single_sign_on_gives_keys(store: Store, services: Services, tmp_path: Path) -> None:
    environment = services.of_single_sign_on(tmp_path)
    with Sidecar("s3://", tmp_path / "cache", flags_for(store), environment) as sidecar:
        assert exchange(sidecar.url, TARGET).body == BODY
    assert services.asked == ["/federation/credentials"]
