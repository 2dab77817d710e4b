"""What settings mean of Azure's storage, and which of them mean nothing there."""

import base64
from dataclasses import replace

import pytest

from chunkside.settings import (
    ConfigurationError,
    cautions,
    forecast,
    load_settings,
    refuse_unfit_files,
    require_routes,
    same_way,
)
from chunkside.upstream.clouds import CLOUDS

CONTAINER = {"upstream": "az://acct/box/era5"}
KEY = base64.b64encode(b"k" * 64).decode()


@pytest.fixture
def key_file(tmp_path):
    file = tmp_path / "key"
    file.write_text(KEY)
    return str(file)


@pytest.mark.parametrize(
    ("name", "value", "whose"),
    [
        ("upstream_region", "westeurope", "s3://"),
        ("upstream_addressing", "path", "s3://"),
        ("upstream_requester_pays", True, "s3:// and gs://"),
    ],
)
def test_what_only_other_stores_know_is_refused(name, value, whose):
    told = load_settings(CONTAINER | {name: value}, {})
    with pytest.raises(ConfigurationError, match=f"{name}.*a setting for {whose} alone.*left out"):
        refuse_unfit_files(told)
    # Beside routes it is for those of S3's.
    routes = [{"prefix": "/a", **CONTAINER}, {"prefix": "/b", "upstream": "s3://bucket"}]
    refuse_unfit_files(load_settings({"routes": routes, name: value}, {}))
    routes[0][name] = value
    with pytest.raises(ConfigurationError, match=rf"routes\[/a\].{name}"):
        refuse_unfit_files(load_settings({"routes": routes}, {}))


def test_a_secret_of_the_account_may_be_in_a_file(key_file, monkeypatch, tmp_path):
    told = CONTAINER | {"upstream_auth": "azure", "upstream_auth_file": key_file}
    # Then the library has nothing to do.
    missing = replace(CLOUDS["az"], library="chunkside_of_another_name.at_all")
    monkeypatch.setitem(CLOUDS, "az", missing)
    settings = load_settings(told | {"cache_dir": str(tmp_path / "c")}, {})
    refuse_unfit_files(settings)
    assert any(
        f"are signed with what {key_file} holds" in each for each in forecast(settings).lines
    )


@pytest.mark.parametrize(
    ("held", "why"),
    [
        ("no key", "no account key"),
        ("", "empty"),
        (f"AccountName=other;AccountKey={KEY}", "of the account other, not of acct"),
    ],
)
def test_what_is_no_secret_of_the_account_is_refused_at_the_start(tmp_path, held, why):
    file = tmp_path / "key"
    file.write_text(held)
    told = CONTAINER | {"upstream_auth": "azure", "upstream_auth_file": str(file)}
    with pytest.raises(ConfigurationError, match=f"upstream_auth_file.*{why}") as caught:
        refuse_unfit_files(load_settings(told, {}))
    assert KEY not in str(caught.value)


def test_a_file_is_used_only_where_that_is_said(key_file):
    told = load_settings(CONTAINER | {"upstream_auth_file": key_file}, {})
    with pytest.raises(ConfigurationError, match="upstream_auth_file is set; allowed: azure"):
        refuse_unfit_files(told)


@pytest.mark.parametrize(
    ("values", "is_told"),
    [
        ({"upstream_endpoint": "http://store:10000"}, True),
        ({"upstream_endpoint": "http://127.0.0.1:10000"}, False),
        ({"upstream_endpoint": "https://store"}, False),
        ({"upstream_endpoint": "http://store", "upstream_auth": "none"}, False),
        ({}, False),
    ],
)
def test_tokens_in_the_clear_are_a_caution(values, is_told):
    told = cautions(load_settings(CONTAINER | values, {}))
    assert ["reads the tokens and SAS" in line for line in told] == [True] * is_told


def test_of_one_endpoint_each_account_is_asked_its_own_way():
    def route(upstream):
        return require_routes(
            load_settings({"upstream": upstream, "upstream_endpoint": "http://store"}, {})
        )[0]

    one = route("az://acct/box")
    assert same_way(one, route("az://acct/other"))
    assert not same_way(one, route("az://another/box"))
