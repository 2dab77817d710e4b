"""Google's chain of credentials: what it finds, what that is called, and how it is renewed."""

import asyncio
import logging
import re
import sys
import time

import pytest

from chunkside.gateway.errors import OriginNotAsked
from chunkside.upstream import google
from tests.support.deadline import wait_for
from tests.support.google import ACCOUNT, PROJECT, Tokens
from tests.support.google_credentials import AUDIENCE, service_account, workload_identity

_GOOGLE = ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Nothing of the developer's own."""
    for name in _GOOGLE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    google._library.cache_clear()
    return tmp_path


@pytest.fixture
def tokens():
    with Tokens() as running:
        yield running


def find(*, is_required=False, may_write=False, must_pay=False):
    return google.find(is_required=is_required, may_write=may_write, must_pay=must_pay)


def name_them(monkeypatch, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def test_where_there_are_none_nobody_has_a_token(caplog):
    assert find() is None
    assert not caplog.records


def test_without_the_extra_there_are_none(monkeypatch, home, tokens):
    name_them(monkeypatch, service_account(home, tokens.url))
    monkeypatch.setattr(google, "find_spec", lambda _: None)
    assert not google.is_installed()
    assert find(is_required=True) is None


def test_without_what_it_asks_by_there_are_none_and_that_is_told(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "google.auth.transport.requests", None)
    assert find() is None
    assert "google.auth.transport.requests is not installed" in caplog.text


async def test_a_service_account_is_known_by_its_name(monkeypatch, home, tokens):
    name_them(monkeypatch, service_account(home, tokens.url))
    chain = find()
    assert chain is not None
    assert chain.identity == f"gcp oauth2.service_account {ACCOUNT}"
    assert await chain.secret() == google.Token(tokens.given[0], PROJECT)
    assert "s3cr3t" not in repr(chain.held())


async def test_a_workload_is_known_by_what_its_token_is_for(monkeypatch, home, tokens):
    environment = workload_identity(home, tokens.url)
    name_them(monkeypatch, environment)
    chain = find()
    assert chain is not None
    file = environment["GOOGLE_APPLICATION_CREDENTIALS"]
    assert chain.identity == f"gcp auth.identity_pool {AUDIENCE} {file} {home / 'gcloud'}"
    assert await chain.secret() == google.Token(tokens.given[0], None)
    assert "kub3rn3t3s-t0ken" in tokens.asked[0]


def test_what_a_machine_is_given_is_known_by_its_account():
    from google.auth.compute_engine import Credentials  # noqa: PLC0415 - an extra

    found = google._found(Credentials(service_account_email=ACCOUNT), PROJECT)
    assert found.identity == f"gcp auth.compute_engine {ACCOUNT}"


def test_a_user_is_known_by_the_client_and_the_file(monkeypatch, home):
    from google.oauth2.credentials import Credentials  # noqa: PLC0415 - an extra

    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/adc.json")
    user = Credentials(
        "ya29.s3cr3t", refresh_token="r3fr3sh", client_id="client", client_secret="cl13nt"
    )
    told = google._found(user, None)
    assert told.identity == f"gcp oauth2 client /home/me/adc.json {home / 'gcloud'}"
    named = Credentials("ya29.s3cr3t", client_id="client", account="me@example.org")
    assert google._found(named, None).identity == "gcp oauth2 me@example.org"
    # They never end by themselves.
    assert not told.expires_within(3600)


@pytest.mark.parametrize(("may_write", "scope"), [(False, "read_only"), (True, "read_write")])
def test_no_more_is_asked_for_than_is_needed(monkeypatch, home, tokens, may_write, scope):
    name_them(monkeypatch, workload_identity(home, tokens.url))
    assert find(may_write=may_write) is not None
    assert f"scope=https://www.googleapis.com/auth/devstorage.{scope}&" in tokens.asked[0] + "&"


def test_what_fails_is_told_by_its_kind_alone(monkeypatch, home, tokens, caplog):
    tokens.refuses = True
    name_them(monkeypatch, workload_identity(home, tokens.url))
    with caplog.at_level(logging.DEBUG):
        assert not find().is_known
    assert "Google's chain of credentials failed: OAuthError" in caplog.text
    assert "t0ken" not in caplog.text
    (home / "workload.json").write_text("{}")
    assert not find().is_known
    assert "failed: DefaultCredentialsError" in caplog.text
    # Whoever looks again and again says it once, and nothing yet of who shall pay.
    caplog.clear()
    assert not find(must_pay=True).is_known
    assert not caplog.records


@pytest.mark.parametrize("told", ["[]", '{"type": "external_account", "audience": 5}'])
def test_a_file_of_which_the_library_makes_nothing_is_a_failure_too(
    monkeypatch, home, caplog, told
):
    (home / "key.json").write_text(told)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(home / "key.json"))
    assert not find().is_known
    assert re.search("chain of credentials failed: (Attribute|Type)Error", caplog.text)


@pytest.mark.parametrize("told", ["/no/such/key.json", '{"private_key": "s3cr3t"}'])
def test_what_names_no_file_may_be_the_secret_itself(monkeypatch, home, caplog, told):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", told)
    chain = find()
    assert not chain.is_known
    said = "failed: DefaultCredentialsError: GOOGLE_APPLICATION_CREDENTIALS names no file"
    assert said in caplog.text and chain.trouble.endswith(said)
    assert told not in caplog.text


@pytest.mark.parametrize(
    ("content", "kind"),
    [("null", "AttributeError"), ('{"type": "external_account", "audience": 5}', "TypeError")],
)
def test_a_file_that_holds_something_else_is_a_chain_that_fails(
    monkeypatch, home, caplog, content, kind
):
    (home / "odd.json").write_text(content)
    name_them(monkeypatch, {"GOOGLE_APPLICATION_CREDENTIALS": str(home / "odd.json")})
    assert not find().is_known
    assert f"Google's chain of credentials failed: {kind}" in caplog.text


def test_who_shall_pay_must_be_known(monkeypatch, home, tokens, caplog):
    assert find(must_pay=True) is None
    assert "no project is known that could pay" in caplog.text
    caplog.clear()
    name_them(monkeypatch, workload_identity(home, tokens.url))
    assert find(must_pay=True) is not None
    assert "no project is known that could pay" in caplog.text
    caplog.clear()
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "mine")
    chain = find(must_pay=True)
    assert chain is not None and chain.held().project == "mine"
    assert not caplog.records


async def test_those_that_are_required_are_looked_for_again(monkeypatch, home, tokens):
    chain = find(is_required=True)
    assert chain is not None
    with pytest.raises(OriginNotAsked, match="Google's chain of credentials"):
        await chain.secret()
    name_them(monkeypatch, service_account(home, tokens.url))
    assert (await chain.secret()).bearer == tokens.given[0]


async def test_a_token_is_renewed_ahead_of_its_end_and_nobody_waits_for_it(
    monkeypatch, home, tokens
):
    tokens.lifetime = 200
    name_them(monkeypatch, service_account(home, tokens.url))
    chain = find()
    assert chain is not None
    tokens.lifetime, tokens.delay = 3600, 1.0
    began = time.monotonic()
    assert (await chain.secret()).bearer == tokens.given[0]
    assert time.monotonic() - began < 0.5
    await asyncio.to_thread(wait_for, lambda: len(tokens.given) == 2, "another token")
    await chain._wait()
    assert (await chain.secret()).bearer == tokens.given[1]
    assert len(tokens.given) == 2


async def test_a_token_that_the_metadata_service_would_give_again_is_kept(
    monkeypatch, home, tokens
):
    """It gives one until less than four minutes are left."""
    tokens.lifetime = 600
    name_them(monkeypatch, service_account(home, tokens.url))
    chain = find()
    assert chain is not None
    await chain.secret()
    assert chain._looking is None
