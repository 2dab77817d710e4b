"""What a running sidecar takes up of settings that were read again."""

import pytest

from chunkside.settings import (
    ConfigurationError,
    ConfiguredRoute,
    RouteSettings,
    Settings,
    load_settings,
    other_answers,
    refuse_open_ports,
    require_routes,
    same_way,
    taken_up,
)
from chunkside.settings.reloading import DECIDED_HERE, NEED_A_RESTART
from chunkside.settings.routes import AGREED

UPSTREAM = "http://origin/a"
OTHER_VALUES = {"credential_headers": "X-Who", "cookies": "forward", "ignored_query": "q"}
OTHER_VALUES |= {
    "follow_redirects": "mirror.example",
    "client_credentials": "strip",
    "targeted_cache_control": "CDN-Cache-Control",
    "metadata_names": "*.x",
    "upstream_cache_control": "ignore",
}


def route(**told: object) -> ConfiguredRoute:
    return require_routes(load_settings({"upstream": UPSTREAM, **told}, {}))[0]


def test_what_it_says_of_settings_is_of_settings_there_are() -> None:
    assert set(NEED_A_RESTART) <= Settings.model_fields.keys() - RouteSettings.model_fields.keys()
    assert RouteSettings.model_fields.keys() >= DECIDED_HERE
    # By redirects both change: where answers come from, and the way there.
    assert set(AGREED) - DECIDED_HERE == {"follow_redirects"}


def test_what_needs_a_restart_stays_and_all_else_is_taken_up() -> None:
    running = load_settings({"upstream": UPSTREAM, "listen": "localhost:1", "ttl": 1}, {})
    told = load_settings({"upstream": "http://b", "listen": "localhost:2", "ttl": 2}, {})
    settings, waiting = taken_up(running, told)
    assert waiting == ("listen",)
    assert settings.listen == running.listen
    assert (settings.ttl, str(settings.upstream)) == (2, "http://b")
    assert taken_up(running, running) == (running, ())


@pytest.mark.parametrize(
    ("told", "is_same"),
    [
        ({}, True),
        ({"ttl": 5, "allow_writes": False, "cookies": "forward"}, True),
        ({"upstream": "http://origin/b"}, True),
        ({"log_level": "error"}, True),
        ({"upstream": "http://other/a"}, False),
        ({"upstream_connections": 5}, False),
        ({"ttl": 5, "upstream_ca_file": "/ca.pem"}, False),
    ],
)
def test_only_what_is_decided_here_leaves_the_way_to_the_origin_as_it_was(told, is_same) -> None:
    assert same_way(route(), route(**told)) is is_same


def test_what_a_token_may_do_goes_with_the_way() -> None:
    """The others are built for reading alone."""
    told = {"upstream": "gs://bucket"}
    assert same_way(route(**told), route(**told, ttl=5))
    assert not same_way(route(**told), route(**told, allow_writes=True))
    nobody = told | {"upstream_auth": "none"}
    assert same_way(route(**nobody), route(**nobody, allow_writes=True))


def test_two_words_for_the_same_are_no_change() -> None:
    told = {"upstream": "gs://bucket"}
    assert other_answers([route(**told)], [route(**told, upstream_cache_control="ignore")]) == {}
    fell = {"https://storage.googleapis.com:443": frozenset({"upstream_cache_control"})}
    assert other_answers([route(**told)], [route(**told, upstream_cache_control="obey")]) == fell


@pytest.mark.parametrize("name", AGREED)
def test_what_answers_are_the_same_is_looked_at_where_routes_meet(name: str) -> None:
    value = OTHER_VALUES[name]
    told = {"http://origin:80": frozenset({name})}
    assert other_answers([route()], [route(**{name: value})]) == told
    assert other_answers([route()], [route(upstream="http://origin/", **{name: value})]) == told
    assert other_answers([route()], [route(upstream="http://origin/b", **{name: value})]) == {}
    assert other_answers([route()], [route(upstream="http://other/a", **{name: value})]) == {}


def test_who_lets_bodies_be_shared_is_looked_at_where_they_are() -> None:
    """In `strict` the origin has to say so."""
    own, shared = {"profile": "strict"}, {"client_credentials": "share"}
    assert other_answers([route()], [route(**own)]) == {}
    told = {"http://origin:80": frozenset({"profile"})}
    assert other_answers([route(**shared)], [route(**own, **shared)]) == told


def test_two_settings_of_one_origin_are_told_together() -> None:
    routes = [route(upstream="http://origin/a"), route(upstream="http://origin/b")]
    after = [
        route(upstream="http://origin/a", cookies="forward"),
        route(upstream="http://origin/b", ignored_query="q"),
    ]
    told = {"http://origin:80": frozenset({"cookies", "ignored_query"})}
    assert other_answers(routes, after) == told
    assert other_answers(routes, routes) == {}


def test_a_credential_is_refused_where_the_running_port_is_open_whatever_is_told_of_it(tmp_path):
    """Ports wait for a restart."""
    secret = tmp_path / "token"
    secret.write_text("t")
    own = {"upstream_auth": "bearer", "upstream_auth_file": str(secret)}
    running = load_settings({"upstream": UPSTREAM, "listen": "0.0.0.0:8100"}, {})
    told = load_settings({"upstream": UPSTREAM, "listen": "localhost:8100", **own}, {})
    refuse_open_ports(told)
    settings, _ = taken_up(running, told)
    with pytest.raises(ConfigurationError) as refused:
        refuse_open_ports(settings)
    assert refused.value.setting == "listen"
