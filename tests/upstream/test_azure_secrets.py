"""What an Azure storage account is asked with, and where that is named."""

import base64

import pytest

from chunkside.upstream import azure_secrets
from chunkside.upstream import chain as chains
from chunkside.upstream.azure_secrets import AccountKey, Sas, find, parsed
from chunkside.upstream.watched import UnfitFile
from tests.support.azurite import NOBODY

KEY = base64.b64encode(b"k" * 64).decode()
OTHER = base64.b64encode(b"o" * 64).decode()
SAS = "sv=2023-11-03&ss=b&srt=co&sp=rl&se=2030-01-01T00%3A00%3A00Z&sig=s3cr3t%3D"
_AZURE = (
    *("AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"),
    *("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"),
    *("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"),
)


@pytest.fixture(autouse=True)
def nobody(monkeypatch):
    """Nothing of the developer's own."""
    for name in _AZURE:
        monkeypatch.delenv(name, raising=False)
    for name, value in NOBODY.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("told", "secret"),
    [
        (KEY, ("key", b"k" * 64)),
        (SAS, ("sas", SAS.encode())),
        ("?" + SAS, ("sas", SAS.encode())),
        (f"AccountName=data;AccountKey={KEY};EndpointSuffix=core.windows.net", ("key", b"k" * 64)),
        (f"BlobEndpoint=https://x/;SharedAccessSignature={SAS}", ("sas", SAS.encode())),
    ],
    ids=["key", "SAS", "SAS as it is in URLs", "connection string", "connection string with a SAS"],
)
def test_a_key_a_sas_and_a_connection_string_are_told_apart(told, secret):
    found = parsed("data", told.encode())
    match found:
        case AccountKey(account, key):
            assert (account, ("key", key)) == ("data", secret)
        case Sas(query):
            assert ("sas", query) == secret
    assert "s3cr3t" not in repr(found) and "kkkk" not in repr(found)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("not a key", "no account key"),
        ("AccountName=data;UseDevelopmentStorage=true", "without AccountKey"),
        (f"AccountName=other;AccountKey={KEY}", "of the account other, not of data"),
        (f"AccountName=s3cr3t==;AccountKey={KEY}", "of another account, not of data"),
        ("\udcff", "no account key"),
        ("sp=r&sig=s3cr3t", "no shared access signature"),
        (f"{SAS} x", "no shared access signature"),
        (f"{SAS}&x=\x01", "no shared access signature"),
    ],
)
def test_what_is_none_of_them_is_refused_and_not_shown(told, why):
    with pytest.raises(UnfitFile, match=why) as caught:
        parsed("data", told.encode(errors="surrogateescape"))
    assert "s3cr3t" not in str(caught.value)


def test_where_nothing_is_named_nobody_signs():
    assert find("data", None, is_required=False) is None


@pytest.mark.parametrize(
    ("names", "identity"),
    [
        ({"AZURE_STORAGE_KEY": KEY}, "azure key data"),
        ({"AZURE_STORAGE_ACCOUNT_KEY": KEY, "AZURE_STORAGE_ACCOUNT": "data"}, "azure key data"),
        ({"AZURE_STORAGE_SAS_TOKEN": SAS}, "azure sas ss=b srt=co sp=rl"),
        ({"AZURE_STORAGE_KEY": KEY, "AZURE_STORAGE_SAS_TOKEN": SAS}, "azure key data"),
        (
            {
                "AZURE_STORAGE_CONNECTION_STRING": f"AccountName=data;SharedAccessSignature={SAS}",
                "AZURE_STORAGE_KEY": KEY,
            },
            "azure sas ss=b srt=co sp=rl",
        ),
        (
            {
                "AZURE_STORAGE_CONNECTION_STRING": f"AccountName=other;AccountKey={KEY}",
                "AZURE_STORAGE_SAS_TOKEN": SAS,
            },
            "azure sas ss=b srt=co sp=rl",
        ),
    ],
    ids=["key", "its other name", "SAS", "key over SAS", "connection string", "of another account"],
)
async def test_the_environment_names_one_and_which_goes_before(monkeypatch, names, identity):
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    found = find("data", None, is_required=False)
    assert found is not None and found.identity == identity
    assert isinstance(await found.secret(), Sas if "sas" in identity else AccountKey)


def test_a_key_of_another_account_is_left_alone_and_that_is_told(monkeypatch, caplog):
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "other")
    assert find("data", None, is_required=False) is None
    assert "AZURE_STORAGE_KEY is not used: it is of the account other, not of data" in caplog.text


def test_what_the_environment_can_not_mean_is_told_without_it(monkeypatch, caplog):
    monkeypatch.setenv("AZURE_STORAGE_KEY", "s3cr3t, and no key")
    azure_secrets._library.cache_clear()
    found = find("data", None, is_required=False)
    assert found is not None and not found.is_known
    assert "AZURE_STORAGE_KEY: no account key" in caplog.text and "s3cr3t" not in caplog.text


async def test_a_file_goes_before_the_environment_and_is_read_again(monkeypatch, tmp_path):
    file = tmp_path / "key"
    file.write_text(KEY + "\n")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", SAS)
    found = find("data", file, is_required=True)
    assert found is not None and found.identity == f"azure {file}"
    first = await found.secret()
    assert first == AccountKey("data", b"k" * 64)
    file.write_text(OTHER)
    # Within some seconds nobody looks.
    assert await found.secret() == first
    monkeypatch.setattr(azure_secrets, "LOOK_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(chains, "_LOOK_AGAIN_SECONDS", 0.0)
    # Unless a store refuses what is held.
    assert await found.secret_after(first, None) == AccountKey("data", b"o" * 64)
    file.write_text(KEY)
    # What is held is handed out while a thread looks.
    assert await found.secret() == AccountKey("data", b"o" * 64)
    assert found._looking is not None
    await found._looking
    assert await found.secret() == first


async def test_while_a_file_is_of_no_use_what_was_read_goes_on_counting(
    monkeypatch, tmp_path, caplog
):
    monkeypatch.setattr(azure_secrets, "LOOK_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(chains, "_LOOK_AGAIN_SECONDS", 0.0)
    file = tmp_path / "key"
    file.write_text(KEY)
    found = find("data", file, is_required=True)
    assert found is not None
    file.write_text("s3cr3t, and no key")
    for _ in range(3):
        assert await found.secret() == AccountKey("data", b"k" * 64)
        assert found._looking is not None
        await found._looking
    assert caplog.text.count("no account key") == 1 and "s3cr3t" not in caplog.text
