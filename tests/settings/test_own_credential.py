"""What follows from a credential of the sidecar's own, and what is refused because of it."""

from dataclasses import replace

import pytest

from chunkside.settings import (
    ConfigurationError,
    allows_writes,
    cautions,
    client_credentials_of,
    forecast,
    identity_of,
    load_settings,
    may_sign,
    refuse_open_ports,
    refuse_unfit_files,
    require_routes,
)
from chunkside.upstream.clouds import CLOUDS, Cloud

HOME = {"upstream": "https://host"}
BEARER = {"upstream_auth": "bearer", "upstream_auth_file": "/run/token"}
SHOWN = {"upstream_cert_file": "/run/cert.pem"}


def route(**values):
    [one] = require_routes(load_settings(values, {}))
    return one


@pytest.mark.parametrize(
    ("values", "identity"),
    [
        ({}, ""),
        ({"upstream_auth": "none", "upstream_auth_file": "/run/token"}, ""),
        (BEARER, "bearer /run/token"),
        ({**BEARER, "upstream_auth": "header"}, "header /run/token"),
        (SHOWN, "certificate /run/cert.pem"),
        (BEARER | SHOWN, "bearer /run/token certificate /run/cert.pem"),
        ({**SHOWN, "upstream": "http://host"}, ""),
        ({**BEARER, "upstream_auth_file": "/run/\udcff"}, "bearer /run/\\udcff"),
    ],
)
def test_it_is_known_by_what_names_it(values, identity):
    one = route(**HOME | values)
    assert identity_of(one) == identity
    assert allows_writes(one) == (not identity)


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("values", [{}, BEARER])
def test_what_is_said_of_writes_goes_before(values, said):
    assert allows_writes(route(**HOME | values, allow_writes=said)) == said


BUCKET = {"upstream": "s3://bucket/era5"}


@pytest.mark.parametrize(
    ("values", "signs", "clients"),
    [
        ({}, True, "strip"),
        ({"upstream_auth": "aws"}, True, "strip"),
        ({"upstream": "gs://bucket"}, True, "strip"),
        ({"upstream": "gs://bucket", "upstream_auth": "gcp"}, True, "strip"),
        ({"upstream": "az://acct/box"}, True, "strip"),
        ({"upstream": "az://acct/box", "upstream_auth": "azure"}, True, "strip"),
        ({"upstream": "az://acct/box", "upstream_auth": "none"}, False, "strip"),
        ({"upstream_auth": "none"}, False, "strip"),
        ({"client_credentials": "partition"}, True, "partition"),
    ],
)
def test_a_bucket_is_read_by_the_chain_and_never_written_unless_that_is_wanted(
    values, signs, clients
):
    one = route(**BUCKET | values)
    assert may_sign(one) == signs
    assert client_credentials_of(one) == clients
    assert not allows_writes(one)
    assert allows_writes(route(**BUCKET | values, allow_writes=True))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (HOME | {"upstream_auth": "aws"}, "aws is for s3://"),
        (HOME | {"upstream_auth": "gcp"}, "gcp is for gs://"),
        (BUCKET | {"upstream_auth": "azure"}, "azure is for az://"),
        (BUCKET | BEARER, "auto, aws or none with s3://"),
        (BEARER | {"upstream": "gs://bucket"}, "auto, gcp or none with gs://"),
    ],
)
def test_nobody_else_signs_by_the_chain(values, words):
    assert not may_sign(route(**values))
    with pytest.raises(ConfigurationError, match=words):
        refuse_unfit_files(load_settings(values, {}))


@pytest.mark.parametrize(("scheme", "kind"), [("s3", "aws"), ("gs", "gcp"), ("az", "azure")])
def test_what_signs_must_be_installed_where_that_is_wanted(scheme, kind, monkeypatch):
    told = load_settings({"upstream": f"{scheme}://bucket", "upstream_auth": kind}, {})
    refuse_unfit_files(told)
    missing = replace(CLOUDS[scheme], library="chunkside_of_another_name.at_all")
    monkeypatch.setitem(CLOUDS, scheme, missing)
    with pytest.raises(ConfigurationError, match=rf"pip install 'chunkside\[{kind}\]'"):
        refuse_unfit_files(told)


def test_what_the_chain_may_find_is_not_for_others(tmp_path):
    told = BUCKET | {"listen": "0.0.0.0:8100"}
    with pytest.raises(ConfigurationError, match="upstream_auth=none"):
        refuse_open_ports(load_settings(told, {}))
    refuse_open_ports(load_settings(told | {"allowed_clients": "10.0.0.0/8"}, {}))
    refuse_open_ports(load_settings(told | {"upstream_auth": "none"}, {}))


def test_what_would_happen_is_told_of_a_bucket(tmp_path):
    told = BUCKET | {"upstream_endpoint": "http://store:8333", "cache_dir": str(tmp_path / "c")}
    lines = forecast(load_settings(told, {}), {}).lines
    assert "upstream: s3://bucket/era5" in lines
    assert any(
        "http://localhost:8100/bucket/era5/ in place of s3://bucket/era5/" in each for each in lines
    )
    words = "the store is asked at http://store:8333, requests are signed with what AWS's chain"
    assert any(each.startswith(words) for each in lines)


@pytest.mark.parametrize(
    ("upstream", "said"),
    [
        (
            "s3://bucket",
            "are not signed, since botocore isn't installed (pip install 'chunkside[aws]",
        ),
        ("gs://bucket", "are not signed, since google.auth isn't installed"),
        ("az://account/box", "are not signed but by a key or SAS of the environment, since azure"),
    ],
)
def test_what_lacks_its_library_is_told_not_to_sign(tmp_path, monkeypatch, upstream, said):
    monkeypatch.setattr(Cloud, "is_installed", False)
    told = {"upstream": upstream, "cache_dir": str(tmp_path / "c")}
    lines = forecast(load_settings(told, {}), {}).lines
    assert any(f"requests {said}" in each for each in lines), lines


def test_of_google_s_store_what_it_stamps_on_everything_does_not_count(tmp_path):
    told = {"upstream": "gs://bucket", "cache_dir": str(tmp_path / "c")}

    def words(**values):
        lines = forecast(load_settings(told | values, {}), {}).lines
        return [line.rpartition("; ")[2] for line in lines if "lifetimes: " in line]

    ignored = "the origin's own are those of Chunkside-Cache-Control, else no-store in "
    obeyed = "the origin's own are those of Chunkside-Cache-Control, else Cache-Control"
    assert words() == [f"{ignored}Cache-Control"]
    assert words(upstream_cache_control="obey") == words(profile="strict") == [obeyed]
    assert words(upstream="s3://bucket") == words(upstream="http://host") == [obeyed]
    del told["upstream"]
    both = [
        {"prefix": "/a", "upstream": "gs://bucket"},
        {"prefix": "/b", "upstream": "gs://other", "upstream_cache_control": "obey"},
    ]
    assert words(routes=both) == [f"{ignored}Cache-Control", obeyed]


@pytest.mark.parametrize("name", ["upstream_region", "upstream_addressing"])
def test_what_is_of_s3_alone_is_refused_of_another_store(name):
    value = {"upstream_region": "eu-west-1", "upstream_addressing": "path"}[name]
    refuse_unfit_files(load_settings(BUCKET | {name: value}, {}))
    with pytest.raises(ConfigurationError, match=rf"{name}.*left out with gs://"):
        refuse_unfit_files(load_settings({"upstream": "gs://bucket", name: value}, {}))


@pytest.mark.parametrize("upstream", ["http://store", "file:///data"])
def test_what_is_of_stores_alone_is_refused_of_others(upstream):
    values = {"upstream": upstream, "upstream_endpoint": "http://store:9000"}
    allowed = rf"upstream_endpoint.*left out with {upstream.partition(':')[0]}://"
    with pytest.raises(ConfigurationError, match=allowed):
        refuse_unfit_files(load_settings(values, {}))


@pytest.mark.parametrize(
    ("upstream", "auth", "variable"),
    [
        ("gs://bucket", "gcp", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("s3://bucket", "aws", "AWS_SHARED_CREDENTIALS_FILE"),
    ],
)
def test_a_file_that_a_clouds_chain_would_not_read_is_refused(upstream, auth, variable):
    of_store = {"upstream": upstream, "upstream_auth_file": "/run/key.json"}
    said = rf"upstream_auth_file.*not read for {upstream[:5]}.*chain reads what {variable} names"
    for word in ("auto", auth):
        with pytest.raises(ConfigurationError, match=said):
            refuse_unfit_files(load_settings(of_store | {"upstream_auth": word}, {}))
    refuse_unfit_files(load_settings(of_store | {"upstream_auth": "none"}, {}))
    # Beside routes it is for those that read it.
    routes = [{"prefix": "/a", "upstream": upstream, "upstream_auth": auth}]
    beside = {"upstream_auth_file": "/run/key.json"}
    refuse_unfit_files(load_settings({"routes": routes, **beside}, {}))
    with pytest.raises(ConfigurationError, match=rf"routes\[/a\].{said}"):
        refuse_unfit_files(load_settings({"routes": [{**routes[0], **beside}]}, {}))


def test_another_word_is_refused_with_those_that_there_are():
    with pytest.raises(ConfigurationError, match="bearer or basic or header; did you mean bearer"):
        load_settings(HOME | {"upstream_auth": "baerer"}, {})


@pytest.mark.parametrize("listen", ["0.0.0.0:8100", "[::]:8100", "10.0.0.1:8100", "box:8100"])
@pytest.mark.parametrize("values", [BEARER, SHOWN])
def test_whoever_reaches_the_machine_is_not_let_use_it(listen, values, tmp_path):
    settings = load_settings(HOME | values | {"listen": f"localhost:1,{listen}"}, {})
    with pytest.raises(ConfigurationError) as refused:
        refuse_open_ports(settings)
    assert str(refused.value).startswith(f"chunkside: listen='{listen}': ")
    assert "set allowed_clients" in str(refused.value)
    problems = forecast(settings, {"XDG_CACHE_HOME": str(tmp_path)}).problems
    assert "listen" in [problem.setting for problem in problems]


@pytest.mark.parametrize(
    "values",
    [
        {"listen": "0.0.0.0:8100"},
        BEARER | {"listen": "localhost:1,127.0.0.2:1,[::1]:2,unix:/run/s"},
        BEARER | {"listen": "0.0.0.0:8100", "allowed_clients": "10.0.0.0/8"},
        SHOWN | {"listen": "0.0.0.0:8100", "upstream": "http://host"},
    ],
    ids=["no credential", "this machine", "listed clients", "a certificate shown to nobody"],
)
def test_where_nobody_else_can_use_it_ports_may_be_open(values):
    refuse_open_ports(load_settings(HOME | values, {}))


def test_one_route_s_credential_counts_for_the_port_of_all():
    routes = [{"prefix": "/a", **HOME}, {"prefix": "/b", "upstream": "https://b", **BEARER}]
    settings = load_settings({"routes": routes, "listen": "0.0.0.0:1"}, {})
    with pytest.raises(ConfigurationError, match="https://b"):
        refuse_open_ports(settings)


@pytest.mark.parametrize(
    ("upstream", "is_told"),
    [
        ("http://host", True),
        ("http://10.0.0.1:9000", True),
        ("https://host", False),
        ("http://localhost:9000", False),
        ("http://127.0.0.5:9000", False),
        ("http://[::1]:9000", False),
    ],
)
def test_a_secret_in_the_clear_is_a_caution(upstream, is_told):
    told = cautions(load_settings({"upstream": upstream, **BEARER}, {}))
    assert ["reads the secret of upstream_auth_file" in line for line in told] == [True] * is_told


@pytest.mark.parametrize(
    ("values", "is_told"),
    [
        ({"upstream_endpoint": "http://emulator:4443"}, True),
        ({"upstream_endpoint": "http://emulator:4443", "upstream_auth": "none"}, False),
        ({"upstream_endpoint": "http://localhost:4443"}, False),
        ({"upstream_endpoint": "https://emulator:4443"}, False),
        ({"upstream_endpoint": "http://store:8333", "upstream": "s3://bucket"}, False),
        ({}, False),
    ],
)
def test_so_is_a_token_but_no_signature(values, is_told):
    told = cautions(load_settings({"upstream": "gs://bucket"} | values, {}))
    assert ["reads the tokens that are sent" in line for line in told] == [True] * is_told


def test_check_says_what_is_sent_shown_and_followed(tmp_path):
    more = {"follow_redirects": "*.b.org,c:1", "allowed_clients": "10.0.0.0/8"}
    settings = load_settings(HOME | BEARER | SHOWN | more, {})
    lines = "\n".join(forecast(settings, {"XDG_CACHE_HOME": str(tmp_path)}).lines)
    assert "own credential: bearer, from /run/token; what clients bring in Authorization," in lines
    assert "own certificate: from /run/cert.pem" in lines
    assert "redirects of reads are followed to *.b.org, c:1; others pass through" in lines
    assert "clients: from 10.0.0.0/8 and by sockets; others are refused with 403" in lines
    assert "writes: refused with 405" in lines


@pytest.mark.parametrize(
    "hosts",
    [
        "https://a",
        "a/b",
        "*",
        "*.",
        "*.org",
        "a*.org",
        "*.10.0.0.1",
        "a:0",
        "a:99999",
        "user@a",
        "a b",
    ],
)
def test_what_is_no_host_to_follow_to_is_refused(hosts):
    with pytest.raises(ConfigurationError, match="follow_redirects"):
        load_settings(HOME | {"follow_redirects": hosts}, {})


@pytest.mark.parametrize("networks", ["10.0.0.1/8", "10.0.0.0/33", "here", "10.0.0", "*"])
def test_what_is_no_network_is_refused(networks):
    with pytest.raises(ConfigurationError, match="allowed_clients"):
        load_settings(HOME | {"allowed_clients": networks}, {})


def test_routes_to_the_same_objects_must_agree_on_what_is_followed():
    routes = [
        {"prefix": "/a", "upstream": "https://host/x", "follow_redirects": "b"},
        {"prefix": "/c", "upstream": "https://host/x"},
    ]
    with pytest.raises(ConfigurationError, match="follow_redirects"):
        load_settings({"routes": routes}, {})
