"""Either the client signs or the sidecar: what preserve_host goes with, and what it doesn't."""

import json

import pytest

from chunkside.settings import (
    ConfigurationError,
    client_credentials_of,
    forecast,
    load_settings,
    require_routes,
)

STORE = {"upstream": "http://store:9000", "preserve_host": True}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"upstream": "s3://bucket"}, "the sidecar itself asks s3://bucket, and a signature can't"),
        ({"upstream": "file:///data"}, "the sidecar itself asks file:///data"),
        ({"upstream_auth": "bearer", "upstream_auth_file": "/t"}, "upstream_auth is bearer: "),
        ({"client_credentials": "strip"}, "client_credentials is strip, which removes what"),
        ({"upstream": "http://store:9000/bucket"}, "readers' path is / and the upstream's /bucket"),
    ],
)
def test_what_would_leave_nothing_to_verify_is_refused(values, words):
    with pytest.raises(ConfigurationError) as refused:
        load_settings(STORE | values, {})
    assert words in str(refused.value)
    assert str(refused.value).startswith("chunkside: preserve_host='true': ")
    load_settings(STORE | values | {"preserve_host": False}, {})


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"upstream": "https://store"},
        {"upstream_auth": "none"},
        {"client_credentials": "share"},
        {"upstream_cert_file": "/cert.pem", "upstream": "https://store"},
        {"follow_redirects": ["mirror"]},
    ],
)
def test_what_leaves_signatures_alone_is_allowed(values):
    [route] = require_routes(load_settings(STORE | values, {}))
    assert client_credentials_of(route) == values.get("client_credentials", "partition")


def test_a_route_is_named_and_may_have_the_path_of_its_upstream():
    routes = [
        {"prefix": "/era5", "upstream": "http://store:9000/era5", "preserve_host": True},
        {"prefix": "/other", "upstream": "http://store:9000/era5"},
    ]
    told = require_routes(load_settings({"routes": json.dumps(routes)}, {}))
    assert [route.settings.preserve_host for route in told] == [True, False]
    with pytest.raises(ConfigurationError, match=r"routes\[/other\]\.preserve_host"):
        load_settings({"routes": json.dumps(routes), "preserve_host": True}, {})


def test_check_says_so(tmp_path):
    told = forecast(load_settings(STORE | {"cache_dir": str(tmp_path)}, {}), {}).lines
    assert (
        "what clients sign: passed on with their own Host, each to the origin, none stored" in told
    )
