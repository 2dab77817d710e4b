"""What is allowed and yet seldom meant is told, in words that name the setting."""

import pytest

from chunkside.settings import cautions, forecast, load_settings

OTHER = "http://origin.example"


def told(**values):
    return cautions(load_settings({"upstream": OTHER, **values}, {}))


def test_the_defaults_need_no_caution():
    assert told() == []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"negative_ttl": "infinity"}, "negative_ttl is infinity"),
        ({"metadata_ttl": "infinity"}, "metadata_ttl is infinity"),
        ({"mode": "observe"}, "nothing is saved"),
        ({"upstream": "http://localhost:8100/a"}, "own listen"),
        ({"upstream": "http://127.0.0.1:8100"}, "own listen"),
        ({"upstream": "http://[::1]:8101"}, "own admin_listen"),
        ({"upstream": "http://10.0.0.1:9", "listen": "10.0.0.1:9"}, "own listen"),
        ({"cookies": "forward", "client_credentials": "strip"}, "client_credentials=strip removes"),
    ],
)
def test_what_is_seldom_meant_is_told_once(values, words):
    [line] = told(**values)
    assert words in line


@pytest.mark.parametrize(
    "values",
    [
        {"ttl": "infinity"},
        {"cookies": "forward", "client_credentials": "share"},
        {
            "cookies": "forward",
            "client_credentials": "strip",
            "credential_headers": "Authorization",
        },
        {"negative_ttl": "infinity", "cache_missing": False},
        {"upstream": "http://localhost:8102"},
        {"upstream": "https://localhost:8100"},
        {"upstream": "http://localhost:80", "listen": "unix:/run/a.sock"},
    ],
)
def test_what_may_well_be_meant_is_not(values):
    assert told(**values) == []


def test_the_root_of_the_file_system_is_told():
    [line] = told(upstream="file:///")
    assert "every file that this process may" in line


def test_a_route_s_caution_names_the_route():
    routes = [{"prefix": "/a", "upstream": OTHER, "negative_ttl": "infinity"}]
    [line] = cautions(load_settings({"routes": routes}, {}))
    assert line.startswith("route /a: negative_ttl is infinity")


def test_check_says_it_too(tmp_path):
    values = {"upstream": OTHER, "negative_ttl": "infinity", "cache_dir": str(tmp_path)}
    lines = forecast(load_settings({**values, "cache_size": "900TiB"}, {}), {}).lines
    warnings = [line for line in lines if line.startswith("warning: ")]
    assert any("negative_ttl is infinity" in line for line in warnings)
    assert any("cache_size is more than the volume holds" in line for line in warnings)
