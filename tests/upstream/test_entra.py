"""Azure's chain of credentials: what it finds, what that is called, and how it is renewed."""

import threading

import pytest

from chunkside.gateway.errors import OriginNotAsked
from chunkside.upstream import azure_secrets, entra
from chunkside.upstream import chain as chains
from chunkside.upstream.azure_secrets import find
from chunkside.upstream.chain import LookupFailed
from chunkside.upstream.entra import Token
from tests.support.metadata_service import READER, TENANT, metadata_service, token

_AZURE = (
    *("AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"),
    *("AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"),
    *("AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST", "IDENTITY_ENDPOINT", "MSI_ENDPOINT"),
)


def found_chain(*, is_required=False):
    found = find("data", None, is_required=is_required)
    assert found is not None
    return found


async def settled(chain):
    assert chain._looking is not None
    await chain._looking


@pytest.fixture
def service(monkeypatch):
    for name in _AZURE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(chains, "_LOOK_AGAIN_SECONDS", 0.0)
    with metadata_service() as service:
        for name, value in service.environment().items():
            monkeypatch.setenv(name, value)
        yield service


def test_where_nothing_points_anywhere_and_none_is_found_nobody_signs(service, monkeypatch, caplog):
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")
    monkeypatch.delenv("AZURE_POD_IDENTITY_AUTHORITY_HOST")
    assert find("data", None, is_required=False) is None
    assert not caplog.text


async def test_a_managed_identity_is_known_by_what_its_token_names(service):
    found = found_chain()
    assert found.identity == f"azure {TENANT} {READER}"
    assert await found.secret() == Token(service.tokens[0])
    assert service.asked == [
        {"api-version": ["2018-02-01"], "resource": ["https://storage.azure.com"]}
    ]
    assert service.tokens[0] not in repr(await found.secret())


@pytest.mark.parametrize(
    ("told", "identity"),
    [
        (token(0), f"azure {TENANT} {READER}"),
        (token(0, oid=None, appid="app"), f"azure {TENANT} app"),
        ("opaque", "azure tenant client"),
        ("a.b.c", "azure tenant client"),
    ],
)
def test_what_names_nobody_is_known_by_configuration(monkeypatch, told, identity):
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
    monkeypatch.setenv("AZURE_CLIENT_ID", "client")
    assert entra._identity_of(told) == identity


def test_a_user_assigned_identity_is_asked_for_by_its_id(service, monkeypatch):
    monkeypatch.setenv("AZURE_CLIENT_ID", "33333333-3333-3333-3333-333333333333")
    assert find("data", None, is_required=False) is not None
    assert service.asked[0]["client_id"] == ["33333333-3333-3333-3333-333333333333"]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ((400, b'{"error": "x", "error_description": "s3cr3t"}'), "ClientAuthenticationError"),
        (
            (400, b'{"error": "x", "error_description": "AADSTS70021: s3cr3t"}'),
            r"ClientAuthenticationError \(AADSTS70021\)",
        ),
        ((200, b"s3cr3t, and no JSON"), "ClientAuthenticationError"),
    ],
    ids=["refused", "refused with a code", "nonsense"],
)
def test_of_a_failure_its_kind_alone_is_told(service, caplog, answer, kind):
    caplog.set_level(0)
    service.answer = answer
    with pytest.raises(LookupFailed, match=f"^{kind}$"):
        entra.look_up(None)
    azure_secrets._library.cache_clear()
    chain = find("data", None, is_required=False)
    # It is asked again when it is needed: nobody is anonymous for want of a service.
    assert chain is not None and not chain.is_known
    assert "Azure's chain of credentials failed: ClientAuthenticationError" in caplog.text
    assert "s3cr3t" not in caplog.text


async def test_a_token_is_renewed_ahead_of_expiry_and_nobody_waits_for_a_slow_service(service):
    gate = threading.Event()
    gate.set()
    service.gate = lambda: gate.wait(20)
    # Within the quarter of an hour in which it is looked for, and that in which it is still held.
    service.lives = 200
    found = found_chain()
    gate.clear()
    service.lives = 86_400
    for _ in range(3):
        assert await found.secret() == Token(service.tokens[0])
    gate.set()
    await settled(found)
    assert await found.secret() == Token(service.tokens[1])


async def test_one_that_expired_is_waited_for(service):
    service.lives = 10
    found = found_chain()
    service.lives = 86_400
    assert await found.secret() == Token(service.tokens[1])


async def test_where_it_cant_be_renewed_it_is_used_to_its_end(service, caplog):
    service.lives = 20
    found = found_chain()
    service.answer = (400, b"{}")
    assert await found.secret() == Token(service.tokens[0])
    found._found = None
    with pytest.raises(OriginNotAsked, match="Azure's chain of credentials gives none"):
        await found.secret()
    for kind in ("CredentialUnavailableError", "ClientAuthenticationError"):
        assert caplog.text.count(f"Azure's chain of credentials failed: {kind}") == 1


async def test_what_a_store_refuses_is_asked_for_anew(service):
    found = found_chain()
    first = await found.secret()
    second = await found.secret_after(first, None)
    assert second == Token(service.tokens[1]) != first
    # What others were refused meanwhile was exchanged already.
    assert await found.secret_after(first, None) == second


async def test_a_required_one_is_looked_for_when_it_is_needed(service):
    service.answer = (400, b"{}")
    found = found_chain(is_required=True)
    with pytest.raises(OriginNotAsked):
        await found.secret()
    service.answer = None
    assert await found.secret() == Token(service.tokens[0])


@pytest.mark.parametrize(
    ("environment", "kind"),
    [
        ({"AZURE_TOKEN_CREDENTIALS": "EnvironmentCredentials"}, "ValueError"),
        (
            {
                "AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential",
                "AZURE_TENANT_ID": "t",
                "AZURE_CLIENT_CERTIFICATE_PATH": "/no/such/file",
            },
            "FileNotFoundError",
        ),
    ],
    ids=["no such word", "a certificate that isn't there yet"],
)
def test_what_makes_no_credential_is_a_failure_and_looked_for_again(
    service, monkeypatch, caplog, environment, kind
):
    for name, value in {"AZURE_CLIENT_ID": "c", **environment}.items():
        monkeypatch.setenv(name, value)
    azure_secrets._library.cache_clear()
    chain = find("data", None, is_required=False)
    assert chain is not None and not chain.is_known
    assert f"failed: {kind}, by what AZURE_TOKEN_CREDENTIALS or others say" in caplog.text
    assert "/no/such/file" not in caplog.text
