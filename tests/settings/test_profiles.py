"""A profile is a set of defaults, under whatever is set beside it."""

import math

import pytest

from chunkside.settings import ConfigurationError, cautions, load_settings, require_routes
from chunkside.settings.profiles import PROFILES

ORIGIN = "http://origin.example"


def loaded(**values):
    return load_settings({"upstream": ORIGIN, **values}, {})


def test_the_default_changes_nothing():
    assert loaded(profile="default") == loaded()


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_sets_what_can_be_set(name):
    settings = loaded(profile=name)
    for setting, value in PROFILES[name].items():
        assert getattr(settings, setting) == value


def test_strict_knows_no_lifetimes_but_the_origin_s():
    settings = loaded(profile="Strict")
    assert (settings.ttl, settings.negative_ttl) == (0.0, math.inf)
    assert settings.upstream_cache_control == settings.client_cache_control == "obey"
    assert cautions(settings) == []


def test_archive_is_for_what_seldom_changes():
    settings = loaded(profile="archive")
    days = 86_400.0
    assert (settings.ttl, settings.negative_ttl) == (30 * days, days)
    assert (settings.metadata_ttl, settings.retention) == (3600.0, 90 * days)


def test_what_is_set_beside_a_profile_goes_before_it():
    settings = loaded(profile="archive", ttl="1h", retention="1d")
    assert (settings.ttl, settings.retention, settings.negative_ttl) == (3600.0, 86_400.0, 86_400.0)
    settings = load_settings({"profile": "archive"}, {"CHUNKSIDE_TTL": "1h"})
    assert settings.ttl == 3600.0


def test_a_route_has_its_own_and_it_goes_before_what_is_set_beside_routes():
    routes = [
        {"prefix": "/a", "upstream": ORIGIN, "profile": "archive", "negative_ttl": "1m"},
        {"prefix": "/b", "upstream": "http://other.example"},
    ]
    settings = load_settings({"routes": routes, "ttl": "1h", "profile": "strict"}, {})
    one, other = (route.settings for route in require_routes(settings))
    assert (one.profile, one.ttl, one.negative_ttl) == ("archive", 30 * 86_400.0, 60.0)
    assert (other.profile, other.ttl, other.negative_ttl) == ("strict", 3600.0, math.inf)
    # It holds for the whole sidecar.
    assert settings.retention == 7 * 86_400.0


@pytest.mark.parametrize("value", ["stric", "", 5, None])
def test_one_that_does_not_exist_is_refused(value):
    with pytest.raises(ConfigurationError, match=r"profile.*allowed: "):
        loaded(profile=value)
