"""Flags over environment over file; everything wrong ends as one line."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from chunkside.settings import (
    ConfigurationError,
    Percent,
    Settings,
    TcpAddress,
    UnixAddress,
    load_settings,
    require_routes,
)
from chunkside.settings.sources import _SERVICE_LINK, environment_name


def refusal_of(flags=None, environment=None, config=None) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as refusal:
        load_settings(flags, environment or {}, config)
    assert "\n" not in str(refusal.value)
    return refusal.value


@pytest.fixture
def config(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "chunkside.yaml"
        path.write_text(text)
        return path

    return write


def test_the_defaults_are_those_of_the_design():
    settings = load_settings({}, {})
    assert settings == Settings()
    assert settings.upstream is None
    assert settings.listen == (TcpAddress("localhost", 8100),)
    assert settings.admin_listen == (TcpAddress("localhost", 8101),)
    assert (settings.ttl, settings.negative_ttl, settings.metadata_ttl) == (300, 300, 5)
    assert (settings.loop, settings.cookies, settings.max_markers) == ("uvloop", "drop", 1_000_000)
    assert settings.ignored_query == ("x-id", "tensorstore")
    assert (settings.allow_writes, settings.cache_missing) == ("auto", True)


def test_the_environment_is_not_read_unless_asked(monkeypatch):
    monkeypatch.setenv("CHUNKSIDE_TTL", "1h")
    assert Settings().ttl == 300
    assert load_settings({}, {}).ttl == 300
    assert load_settings().ttl == 3600


def test_flags_go_over_environment_over_file(config):
    file = config("ttl: 1s\nnegative_ttl: 1s\nmetadata_ttl: 1s\n")
    environment = {"CHUNKSIDE_TTL": "2s", "CHUNKSIDE_NEGATIVE_TTL": "2s"}
    settings = load_settings({"ttl": "3s"}, environment, file)
    assert (settings.ttl, settings.negative_ttl, settings.metadata_ttl) == (3, 2, 1)


def test_a_config_flag_goes_over_the_environment_s(config):
    file = config("ttl: 7d")
    assert load_settings({}, {"CHUNKSIDE_CONFIG": str(file)}).ttl == 604800
    assert load_settings({}, {"CHUNKSIDE_CONFIG": "/nowhere"}, file).ttl == 604800


def test_lists_in_the_environment_are_separated_by_commas():
    settings = load_settings(
        {},
        {
            "CHUNKSIDE_LISTEN": "127.0.0.1:1, [::1]:1,unix:/run/c",
            "CHUNKSIDE_CREDENTIAL_HEADERS": "Authorization,X-Key",
            "CHUNKSIDE_IGNORED_QUERY": "",
            "CHUNKSIDE_METADATA_NAMES": "*.toml, meta/**",
            "CHUNKSIDE_ALLOWED_HOSTS": "Cache.example.org., b",
            "CHUNKSIDE_CORS_ORIGINS": "http://localhost:3000, https://Viewer.example, http://[::1]:8",
        },
    )
    assert settings.listen == (
        TcpAddress("127.0.0.1", 1),
        TcpAddress("::1", 1),
        UnixAddress("/run/c"),
    )
    assert settings.credential_headers == ("Authorization", "X-Key")
    assert settings.allowed_hosts == ("cache.example.org", "b")
    assert settings.cors_origins == (
        "http://localhost:3000",
        "https://viewer.example",
        "http://[::1]:8",
    )
    assert settings.ignored_query == ()
    assert settings.metadata_names == ("*.toml", "meta/**")


def test_a_file_holds_numbers_lists_and_words(config):
    file = config(
        "upstream: http://o:9/\nttl: infinity\ncache_size: 10%\nmin_free: 0\nmax_body_size: auto\n"
        "allow_writes: no\nlisten: [localhost:1, 'unix:/run/c']\nupstream_retries: 0\n"
    )
    settings = load_settings({}, {}, file)
    assert str(settings.upstream) == "http://o:9"
    assert settings.ttl == math.inf
    assert (settings.cache_size, settings.min_free) == (Percent(10.0), 0)
    assert settings.max_body_size == "auto"
    assert settings.allow_writes is False
    assert settings.listen == (TcpAddress("localhost", 1), UnixAddress("/run/c"))
    assert settings.upstream_retries == 0


def test_an_empty_file_sets_nothing(config):
    assert load_settings({}, {}, config("# nothing\n")) == Settings()


def test_settings_don_t_change():
    with pytest.raises(ValidationError):
        setattr(Settings(), "ttl", 5)  # noqa: B010 - the checker refuses the plain form


def test_a_relative_cache_directory_is_one_beneath_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert load_settings({"cache_dir": "cache"}, {}).cache_dir == tmp_path / "cache"


WRONG = [
    pytest.param("ttl", "soon", "not a duration", id="duration"),
    pytest.param("cache_size", "2 parsecs", "not a size", id="size"),
    pytest.param("cache_size", "110%", "more than the whole volume", id="share"),
    pytest.param("max_body_size", "10%", "not a size", id="a share of no volume"),
    pytest.param("max_markers", "-1", "not a count", id="count"),
    pytest.param("upstream_connections", "0", "too few", id="too few"),
    pytest.param("upstream_deadline", "infinity", "for ever", id="timeout"),
    pytest.param("upstream", "gs://bucket", "not supported yet", id="upstream"),
    pytest.param("listen", "8100", "no port", id="listen"),
    pytest.param("listen", "", "empty", id="no listener at all"),
    pytest.param("loop", "trio", "not one of them", id="choice"),
    pytest.param("cookies", "keep", "not one of them", id="cookies"),
    pytest.param("allow_writes", "perhaps", "neither true nor false", id="boolean"),
    pytest.param("credential_headers", "A B", "not header field names", id="header"),
    pytest.param("client_credentials", "keep", "not one of them", id="credentials"),
    pytest.param("targeted_cache_control", "A B", "not header field names", id="no field"),
    pytest.param("targeted_cache_control", "X, cache-control", "not a field that is", id="plain"),
    pytest.param("targeted_cache_control", "Expires", "not a field that is", id="expires"),
    pytest.param("absent_statuses", "401", "not a status that tells", id="unauthorised"),
    pytest.param("absent_statuses", "404,500", "not a status that tells", id="another status"),
    pytest.param("absent_statuses", "4 04", "not a status that tells", id="no status"),
    pytest.param("absent_statuses", "", "empty", id="no status at all"),
    pytest.param("allowed_hosts", "cache:80", "not host names", id="a port"),
    pytest.param("allowed_hosts", "*.example", "not host names", id="all hosts of"),
    pytest.param("cors_origins", "localhost:3000", "not origins of pages", id="no scheme"),
    pytest.param("cors_origins", "http://a.example/", "not origins of pages", id="a slash"),
    pytest.param("cors_origins", "https://a.example:443", "not origins of pages", id="443"),
    pytest.param("cors_origins", "http://a.example:80", "not origins of pages", id="80"),
    pytest.param("cors_origins", "null", "not origins of pages", id="null"),
    pytest.param("cors_origins", "http://*.example", "not origins of pages", id="a pattern"),
    pytest.param("cache_dir", "~/cache", "~ is the shell's", id="a tilde"),
    pytest.param("cache_dir", "", "not a path", id="an empty path"),
]


@pytest.mark.parametrize(("setting", "value", "reason"), WRONG)
def test_a_wrong_value_is_named_with_its_setting_and_what_is_allowed(setting, value, reason):
    name = environment_name(setting)
    line = str(refusal_of(environment={name: value}))
    assert line.startswith(f"chunkside: {setting}={value!r} ({name}): ")
    assert reason in line
    assert "allowed: " in line


@pytest.mark.parametrize(("setting", "value", "reason"), WRONG)
def test_a_wrong_value_says_where_it_was_written(setting, value, reason, config):
    flag = refusal_of(flags={setting: value})
    assert flag.source == "--" + setting.replace("_", "-")
    file = config(f"{setting}: {value!r}\n")
    assert refusal_of(config=file).source == str(file)


def test_a_wrong_value_that_is_long_or_of_several_lines_stays_one_line():
    line = str(refusal_of(environment={"CHUNKSIDE_TTL": "a\nb\x1b[0m\udce4" + "c" * 5000}))
    assert line.isprintable()
    assert len(line) < 500


def test_a_path_with_a_zero_byte_is_refused():
    assert refusal_of(flags={"cache_dir": "/a\0b"}).reason == "not a path"


def test_secrets_in_an_upstream_are_not_shown():
    line = str(refusal_of(environment={"CHUNKSIDE_UPSTREAM": "http://me:hunter2@o/?sig=hunter2"}))
    assert "hunter2" not in line


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("CHUNKSIDE_TLL", "did you mean CHUNKSIDE_TTL?"),
        ("CHUNKSIDE_ttl", "did you mean CHUNKSIDE_TTL?"),
        ("CHUNKSIDE_CONFIGS", "did you mean CHUNKSIDE_CONFIG?"),
        ("CHUNKSIDE_UPSTREAM_RETRY", "did you mean CHUNKSIDE_UPSTREAM_RETRIES?"),
        ("CHUNKSIDE_", None),
        ("CHUNKSIDE_BANANA", None),
    ],
)
def test_an_unknown_environment_name_is_refused_with_the_nearest(name, remedy):
    refusal = refusal_of(environment={name: "hunter2"})
    assert (refusal.setting, refusal.remedy) == (name, remedy)
    assert "hunter2" not in str(refusal)


@pytest.mark.parametrize(
    "name",
    [
        "CHUNKSIDE_URL",
        "CHUNKSIDE_SERVICE_HOST",
        "CHUNKSIDE_SERVICE_PORT",
        "CHUNKSIDE_SERVICE_PORT_HTTP",
        "CHUNKSIDE_PORT",
        "CHUNKSIDE_PORT_8100_TCP",
        "CHUNKSIDE_PORT_8100_TCP_PROTO",
        "CHUNKSIDE_PORT_8100_UDP_ADDR",
        "CHUNKSIDE_ADMIN_SERVICE_HOST",
        "CHUNKSIDE_ADMIN_SERVICE_PORT_METRICS",
        "CHUNKSIDE_MY_RELEASE_PORT",
        "CHUNKSIDE_MY_RELEASE_PORT_8101_TCP_PORT",
    ],
)
def test_what_kubernetes_and_run_put_into_the_environment_is_ignored(name):
    assert load_settings({}, {name: "tcp://10.0.0.1:8100"}) == Settings()


@pytest.mark.parametrize(
    "name",
    [
        *("CHUNKSIDE_URLS", "CHUNKSIDE_SERVICE", "CHUNKSIDE_SERVICE_HOSTS", "CHUNKSIDE_XPORT"),
        *("CHUNKSIDE_PORT_HTTP", "CHUNKSIDE_PORT_80_FOO", "CHUNKSIDE_PORTS", "CHUNKSIDE_HOST"),
    ],
)
def test_what_only_resembles_a_service_link_is_unknown(name):
    assert refusal_of(environment={name: "x"}).setting == name


def test_no_setting_is_called_like_a_service_link():
    names = [environment_name(field) for field in Settings.model_fields]
    assert not [name for name in names if _SERVICE_LINK.fullmatch(name)]
    assert "CHUNKSIDE_URL" not in names


def test_an_unknown_name_in_a_file_is_refused_with_the_nearest(config):
    file = config("cache-dir: /x\n")
    refusal = refusal_of(config=file)
    assert (refusal.setting, refusal.remedy) == ("cache-dir", "did you mean cache_dir?")
    assert refusal.source == str(file)


def test_an_unknown_flag_name_is_refused():
    assert refusal_of(flags={"tll": "1"}).remedy == "did you mean --ttl?"


@pytest.mark.parametrize(
    "text",
    ["- a\n- b\n", "5", "a: [1,", "1: 2\n", "\x00", "ttl: !!python/object:os.system x\n"],
)
def test_a_file_that_is_no_settings_is_refused(text, config):
    file = config(text)
    refusal = refusal_of(config=file)
    assert (refusal.setting, refusal.value) == ("config", str(file))


def test_a_file_of_other_bytes_is_refused(tmp_path):
    file = tmp_path / "config"
    file.write_bytes(b"ttl: \xff\xfe\n")
    assert refusal_of(config=file).setting == "config"


def test_the_line_of_a_mistake_in_a_file_is_named(config):
    assert "in line 3" in str(refusal_of(config=config("ttl: 5\n\nlisten: ]\n")))


def test_a_missing_file_is_refused(tmp_path):
    assert "No such file" in str(refusal_of(config=tmp_path / "none.yaml"))
    assert "directory" in str(refusal_of(config=tmp_path))
    assert refusal_of(environment={"CHUNKSIDE_CONFIG": ""}).setting == "config"


@pytest.mark.parametrize(
    ("listen", "admin_listen"),
    [
        ("localhost:8101", "localhost:8101"),
        ("127.0.0.1:8101", "localhost:8101"),
        ("localhost:1,[::1]:8101", "localhost:8101"),
        ("unix:/run/c", "unix:/run/c"),
    ],
)
def test_the_admin_port_is_never_the_data_port(listen, admin_listen):
    refusal = refusal_of(flags={"listen": listen, "admin_listen": admin_listen})
    assert refusal.setting == "admin_listen"


def test_two_free_ports_are_not_the_same_port():
    load_settings({"listen": "localhost:0", "admin_listen": "localhost:0"}, {})


def test_serving_needs_an_upstream():
    with pytest.raises(ConfigurationError) as refusal:
        require_routes(Settings())
    assert "--upstream" in str(refusal.value)
    [route] = require_routes(load_settings({"upstream": "http://o"}, {}))
    assert (route.prefix, str(route.upstream)) == ("/", "http://o")


def test_files_are_only_read_and_asking_for_more_is_refused():
    [route] = require_routes(load_settings({"upstream": "file:///data"}, {}))
    assert route.settings.allow_writes is False
    load_settings({"upstream": "file:///data", "allow_writes": False}, {})
    with pytest.raises(ConfigurationError) as refusal:
        load_settings({"upstream": "file:///data"}, {"CHUNKSIDE_ALLOW_WRITES": "true"})
    assert str(refusal.value) == (
        "chunkside: allow_writes='true' (CHUNKSIDE_ALLOW_WRITES): files are only read; "
        "allowed: false with file://; leave it out"
    )


@given(
    st.dictionaries(
        st.sampled_from([environment_name(field) for field in Settings.model_fields]),
        st.text(),
        max_size=3,
    )
)
def test_any_environment_gives_settings_or_one_line(environment):
    line = ""
    try:
        load_settings({}, environment)
    except ConfigurationError as refusal:
        line = str(refusal)
    assert line.isprintable()
    assert not line or "allowed: " in line
