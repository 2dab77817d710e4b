"""Several upstreams by path prefix: how they are written, what they inherit, what is refused."""

import json
from pathlib import Path

import pytest

from chunkside.settings import (
    ConfigurationError,
    RouteSettings,
    Settings,
    UpstreamAddress,
    load_settings,
    require_routes,
)
from chunkside.settings.routes import LONGEST_PREFIX, MOST_ROUTES
from chunkside.upstream.redirects import ListedHost

HOST = "https://host/bucket"
ERA5 = {"prefix": "/era5", "upstream": f"{HOST}/era5"}
CMIP = {"prefix": "/cmip", "upstream": f"{HOST}/cmip"}


def routes_of(*routes, **beside):
    return require_routes(load_settings({"routes": list(routes), **beside}, {}))


def refusal_of(*routes, **beside) -> ConfigurationError:
    return refusal_of_value(list(routes), **beside)


def refusal_of_value(value, **beside) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as refusal:
        load_settings({"routes": value, **beside}, {})
    line = str(refusal.value)
    assert line.isprintable()
    assert "allowed: " in line
    assert "(--routes)" in line or "(--upstream)" in line
    return refusal.value


# How they are written.

YAML = """
ttl: 1d
routes:
  - prefix: /era5
    upstream: https://host/bucket/era5
    ttl: 1h
    negative_ttl: 10m
    negative_scope: all
    allow_writes: false
    absent_statuses: [404]
    upstream_retries: 0
    max_body_size: 1GiB
  - {prefix: /, upstream: "https://elsewhere", absent_statuses: "403, 410"}
"""


FILES = {"prefix": "/files", "upstream": "file:///data"}


def test_a_route_of_files_is_only_read_whatever_stands_beside():
    files, other = routes_of(FILES, ERA5, allow_writes=True)
    assert (files.settings.allow_writes, other.settings.allow_writes) == (False, True)
    refusal = refusal_of({**FILES, "allow_writes": True})
    assert (refusal.setting, refusal.reason) == (
        "routes[/files].allow_writes",
        "files are only read",
    )


def test_two_directories_share_nothing_and_need_not_agree():
    inner = {"prefix": "/inner", "upstream": "file:///data/inner", "cookies": "forward"}
    assert len({route.upstream.location for route in routes_of(FILES, inner)}) == 2
    twin = {"prefix": "/twin", "upstream": "file://localhost/data/", "cookies": "forward"}
    assert refusal_of(FILES, twin).setting == "routes[/twin].cookies"


def test_an_object_by_prefixes_says_the_same_as_a_list():
    listed = routes_of(ERA5, {**CMIP, "ttl": "1h"})
    cmip = {"upstream": CMIP["upstream"], "ttl": "1h"}
    for named in (
        {"/era5": ERA5["upstream"], "/cmip/": cmip},
        json.dumps({"/era5": ERA5["upstream"], "/cmip": cmip}),
    ):
        assert require_routes(load_settings({"routes": named}, {})) == listed


@pytest.mark.parametrize("route", [None, 7, {"prefix": "/b", **CMIP}, ["x"]])
def test_what_stands_under_a_prefix_is_an_upstream_or_an_object(route):
    assert "routes[/a]" in str(refusal_of_value({"/a": route}))


def test_a_file_holds_a_list_of_objects(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(YAML)
    era5, rest = require_routes(load_settings({}, {}, file))
    assert (era5.prefix, str(era5.upstream)) == ("/era5", "https://host/bucket/era5")
    own = era5.settings
    assert (own.ttl, own.negative_ttl, own.negative_scope) == (3600, 600, "all")
    assert (own.allow_writes, sorted(own.absent_statuses)) == (False, [404])
    assert (own.upstream_retries, own.max_body_size) == (0, 2**30)
    assert (rest.prefix, str(rest.upstream)) == ("/", "https://elsewhere")
    assert (rest.settings.ttl, rest.settings.negative_ttl) == (86400, 300)
    assert rest.settings.absent_statuses == {403, 410}


def test_the_environment_and_a_flag_hold_the_same_in_json(tmp_path):
    text = json.dumps([ERA5 | {"ttl": 60, "cache_missing": False}])
    by_flag = load_settings({"routes": text}, {})
    assert load_settings({}, {"CHUNKSIDE_ROUTES": text}) == by_flag
    [route] = require_routes(by_flag)
    assert (route.settings.ttl, route.settings.cache_missing) == (60, False)
    file = tmp_path / "c.yaml"
    file.write_text(YAML)
    assert load_settings({}, {"CHUNKSIDE_ROUTES": text}, file).routes == by_flag.routes


@pytest.mark.parametrize("value", ["", " ", "[]", []])
def test_no_routes_are_none(value):
    settings = load_settings({"routes": value, "upstream": "http://o"}, {})
    assert [route.prefix for route in require_routes(settings)] == ["/"]


@pytest.mark.parametrize(
    ("written", "prefix"),
    [
        ("/", "/"),
        ("//", "/"),
        ("/a/", "/a"),
        ("/a//", "/a"),
        ("/a/b.c", "/a/b.c"),
        ("/~me/x:y@z", "/~me/x:y@z"),
        ("/my%20data", "/my%20data"),
        ("/...", "/..."),
    ],
)
def test_a_slash_at_the_end_of_a_prefix_is_dropped(written, prefix):
    [route] = routes_of(ERA5 | {"prefix": written})
    assert route.prefix == prefix


# What they inherit.


def test_what_a_route_leaves_out_is_as_set_beside_it():
    beside = {
        "profile": "archive",
        "stale_if_error": 6.0,
        "upstream_cache_control": "ignore",
        "client_cache_control": "obey",
        "targeted_cache_control": ("CDN-Cache-Control",),
        "client_credentials": "strip",
        "mode": "observe",
        "audit_share": 0.25,
        "max_body_size": 5,
        "cache_missing": False,
        "ttl": 7.0,
        "negative_scope": "all",
        "negative_ttl": 8.0,
        "metadata_ttl": 9.0,
        "metadata_names": ("a",),
        "absent_statuses": frozenset({403, 410}),
        "credential_headers": ("B",),
        "cors_origins": ("http://localhost:3000",),
        "ignored_query": ("c",),
        "allow_writes": False,
        "cookies": "forward",
        "upstream_connect_timeout": 1.0,
        "upstream_first_byte_timeout": 2.0,
        "upstream_idle_timeout": 3.0,
        "upstream_retries": 4,
        "upstream_deadline": 5.0,
        "upstream_write_timeout": 6.0,
        "upstream_ca_file": Path("/etc/ca.pem"),
        "upstream_auth": "bearer",
        "upstream_auth_file": Path("/etc/token"),
        "upstream_endpoint": UpstreamAddress("http", "store", 8333, ""),
        "upstream_region": "eu-west-1",
        "upstream_addressing": "path",
        "upstream_requester_pays": True,
        "upstream_cert_file": Path("/etc/cert.pem"),
        "upstream_key_file": Path("/etc/key.pem"),
        "follow_redirects": (ListedHost("example.org"),),
        "upstream_connections": 7,
        "upstream_queue": 8,
    }
    # It doesn't go with a credential of the sidecar's own.
    assert beside.keys() | {"preserve_host"} == RouteSettings.model_fields.keys()
    written = {name: list(v) if isinstance(v, frozenset) else v for name, v in beside.items()}
    [inherits] = routes_of(ERA5, **written)
    assert {name: getattr(inherits.settings, name) for name in beside} == beside
    # And what it says itself goes before.
    [own] = routes_of(ERA5 | written)
    assert {name: getattr(own.settings, name) for name in beside} == beside


def test_a_value_that_equals_the_default_goes_before_the_one_beside_it():
    [route] = routes_of(ERA5 | {"ttl": "300s"}, ttl="1h")
    assert route.settings.ttl == 300


def test_a_single_upstream_is_the_route_of_all_paths():
    settings = load_settings({"upstream": HOST, "ttl": "1h"}, {})
    [route] = require_routes(settings)
    assert (route.prefix, str(route.upstream), route.settings.ttl) == ("/", HOST, 3600)


# What is refused.


@pytest.mark.parametrize(
    ("route", "setting", "parts"),
    [
        pytest.param(ERA5 | {"ttl": "soon"}, "routes[/era5].ttl", ["'soon'", "7d"], id="value"),
        pytest.param(ERA5 | {"ttl": None}, "routes[/era5].ttl", ["not a duration"], id="null"),
        pytest.param(ERA5 | {"ttl": [1]}, "routes[/era5].ttl", ["not a duration"], id="list"),
        pytest.param(
            ERA5 | {"negative_tll": 1},
            "routes[/era5].negative_tll",
            ["no such setting of a route", "did you mean negative_ttl?"],
            id="unknown-name",
        ),
        pytest.param(
            ERA5 | {"upstrem": 1},
            "routes[/era5].upstrem",
            ["did you mean upstream?", "prefix, upstream, "],
            id="nearly-upstream",
        ),
        pytest.param(
            ERA5 | {"cache_dir": "/x"},
            "routes[/era5].cache_dir",
            ["holds for the whole sidecar", "set cache_dir beside routes"],
            id="not-by-route",
        ),
        pytest.param(
            ERA5 | {"routes": []}, "routes[/era5].routes", ["whole sidecar"], id="routes-in-routes"
        ),
        pytest.param(
            ERA5 | {"absent_statuses": [404, 401]},
            "routes[/era5].absent_statuses",
            ["not a status that tells", "404, 410 and 403, or some of them"],
            id="unauthorised",
        ),
        pytest.param(
            ERA5 | {"absent_statuses": [True]},
            "routes[/era5].absent_statuses",
            ["not a list of texts"],
            id="statuses-of-other-kinds",
        ),
        pytest.param(
            ERA5 | {"upstream": "gs://b"}, "routes[/era5].upstream", ["name of a bucket"], id="gs"
        ),
        pytest.param(
            ERA5 | {"upstream": "http://me:hunter2@o"},
            "routes[/era5].upstream",
            ["credentials in it", "***@o"],
            id="secrets",
        ),
        pytest.param({"prefix": "/a"}, "routes[0].upstream", ["not set"], id="no-upstream"),
        pytest.param({"upstream": HOST}, "routes[0].prefix", ["not set"], id="no-prefix"),
        pytest.param(ERA5 | {"prefix": "era5"}, "routes[0].prefix", ["begin with /"], id="slash"),
        pytest.param(ERA5 | {"prefix": ""}, "routes[0].prefix", ["begin with /"], id="empty"),
        pytest.param(ERA5 | {"prefix": 5}, "routes[0].prefix", ["begin with /"], id="a-number"),
        pytest.param("/era5", "routes[0]", ["not an object"], id="no-object"),
        pytest.param({1: 2}, "routes[0]", ["not an object"], id="names-that-are-no-text"),
    ],
)
def test_one_line_names_route_setting_value_and_what_is_allowed(route, setting, parts):
    refusal = refusal_of(route)
    line = str(refusal)
    assert line.startswith(f"chunkside: {setting}")
    assert [part for part in parts if part not in line] == []
    assert "hunter2" not in line


@pytest.mark.parametrize(
    "prefix",
    [
        *(
            "/a?b",
            "/a#b",
            "/a b",
            "/a//b",
            "/./a",
            "/a/..",
            "/a/%2e%2E",
            "/%2e",
            "/a%2Fb",
            "/a%5cb",
        ),
        *("/a\\b", "/%zz", "/%", "/é", "/\ud800", "/a\n", "/%00"),
    ],
)
def test_a_prefix_that_readers_can_not_send_as_it_is_is_refused(prefix):
    refusal = refusal_of(ERA5 | {"prefix": prefix})
    assert refusal.setting == "routes[0].prefix"
    assert "not a path that can be sent as it is" in str(refusal)


def test_a_prefix_that_is_too_long_is_refused():
    routes_of(ERA5 | {"prefix": "/" + "a" * (LONGEST_PREFIX - 1)})
    assert "longer than" in str(refusal_of(ERA5 | {"prefix": "/" + "a" * LONGEST_PREFIX}))


def test_too_many_routes_are_refused():
    many = [ERA5 | {"prefix": f"/{number}"} for number in range(MOST_ROUTES + 1)]
    assert len(routes_of(*many[1:])) == MOST_ROUTES
    assert "too many" in str(refusal_of(*many))


@pytest.mark.parametrize("prefix", ["/era5", "/era5/", "/%65ra5", "/era%35/"])
def test_two_routes_of_one_prefix_are_refused(prefix):
    refusal = refusal_of(ERA5, CMIP, ERA5 | {"prefix": prefix})
    assert refusal.setting == "routes[2].prefix"
    assert "the route /era5 has this path already" in str(refusal)


@pytest.mark.parametrize(
    "value",
    [
        *("[", "5", "null", '"/era5"', "/era5", '[{"prefix": "/a",}]', "[" * 100_000),
        *({"/era5": ERA5}, 5, True),
        '[{"prefix": "/a", "prefix": "/b", "upstream": "http://o"}]',
        '[{"prefix": "/a", "upstream": "http://o", "ttl": 1, "ttl": 2}]',
        "[" + "1" * 5000 + "]",
    ],
)
def test_what_is_no_list_of_objects_is_refused_without_being_shown(value):
    refusal = refusal_of_value(value)
    assert refusal.value is None
    assert "upstream" in refusal.allowed


def test_an_upstream_beside_routes_is_refused_and_both_places_are_named():
    with pytest.raises(ConfigurationError) as refusal:
        load_settings({"routes": [ERA5]}, {"CHUNKSIDE_UPSTREAM": "http://o"})
    line = str(refusal.value)
    assert "upstream='http://o' (CHUNKSIDE_UPSTREAM)" in line
    assert "--routes" in line
    assert "make it the route of prefix /" in line


def test_neither_upstream_nor_routes_is_told_of_both():
    with pytest.raises(ConfigurationError, match="several as routes"):
        require_routes(Settings())


# Routes that lead to the same objects share what is stored of them.

SAME = {"prefix": "/again", "upstream": f"{HOST}/era5"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("credential_headers", ["X-Key"]),
        ("credential_headers", []),
        ("cookies", "forward"),
        ("ignored_query", ["v"]),
        ("metadata_names", ["*.toml"]),
        ("client_credentials", "share"),
        ("targeted_cache_control", ["CDN-Cache-Control"]),
    ],
)
@pytest.mark.parametrize("upstream", [f"{HOST}/era5", HOST, f"{HOST}/era5/x", "https://HOST:443"])
def test_routes_to_the_same_objects_agree_on_what_makes_answers_the_same(name, value, upstream):
    refusal = refusal_of(ERA5, SAME | {"upstream": upstream, name: value})
    assert refusal.setting == f"routes[/again].{name}"
    assert "differs from that of /era5" in str(refusal)
    routes_of(ERA5 | {name: value}, SAME | {"upstream": upstream, name: value})
    routes_of(ERA5, SAME | {"upstream": upstream}, **{name: value})


@pytest.mark.parametrize(
    "upstream",
    [f"{HOST}/era", f"{HOST}/era51", "http://host/bucket/era5", "https://h2/bucket/era5"],
)
def test_routes_to_other_objects_need_not_agree(upstream):
    routes_of(ERA5, SAME | {"upstream": upstream, "credential_headers": [], "cookies": "forward"})


STRICT, LENIENT = {"profile": "strict"}, {"profile": "archive"}


def test_where_bodies_are_shared_routes_agree_on_being_strict():
    share = {"client_credentials": "share"}
    refusal = refusal_of(ERA5 | STRICT | share, SAME | share)
    assert refusal.setting == "routes[/again].profile"
    routes_of(ERA5 | STRICT | share, SAME | STRICT | share)
    routes_of(ERA5 | LENIENT | share, SAME | share)
    routes_of(ERA5 | STRICT, SAME)


def test_lifetimes_and_the_like_may_differ_for_the_same_objects():
    own = {"ttl": 1, "negative_ttl": 2, "allow_writes": False, "absent_statuses": [410]}
    assert len(routes_of(ERA5, SAME | own)) == 2
