"""Files that settings name are looked at before anything starts."""

import pytest

from chunkside.settings import (
    ConfigurationError,
    forecast,
    load_settings,
    refuse_cache_beneath,
    refuse_unfit_files,
    require_routes,
)
from tests.support.certificates import Authority

ROUTE = {"prefix": "/a", "upstream": "https://host/a"}


@pytest.mark.parametrize("is_there", [False, True], ids=["missing", "no certificates"])
def test_authorities_that_can_t_be_read_stop_the_start_in_one_line(tmp_path, is_there):
    ca_file = tmp_path / "ca.pem"
    if is_there:
        ca_file.write_text("none")
    settings = load_settings({"upstream": "https://host", "upstream_ca_file": str(ca_file)}, {})
    with pytest.raises(ConfigurationError) as refused:
        refuse_unfit_files(settings)
    line = str(refused.value)
    assert line.startswith(f"chunkside: upstream_ca_file={str(ca_file)!r}: ")
    assert ("no certificates" if is_there else "No such file") in line
    assert "a file of certificates in PEM" in line
    problems = forecast(settings, {"XDG_CACHE_HOME": str(tmp_path)}).problems
    assert [problem.setting for problem in problems] == ["upstream_ca_file"]


def test_those_of_a_route_are_told_with_its_name(tmp_path):
    own = ROUTE | {"upstream_ca_file": str(tmp_path / "ca.pem")}
    settings = load_settings({"routes": [own]}, {})
    with pytest.raises(ConfigurationError) as refused:
        refuse_unfit_files(settings)
    assert refused.value.setting == "routes[/a].upstream_ca_file"


@pytest.mark.parametrize(
    ("upstream", "cache", "is_refused"),
    [
        ("data", "data/cache", True),
        ("data", "data", True),
        ("data", "data/to/be/made", True),
        ("link", "data/cache", True),
        ("data", "link/cache", True),
        ("data", "cache", False),
        ("data", "data-cache", False),
        ("data/cache", "data", False),
        ("nothing", "nothing/cache", False),
    ],
)
def test_a_cache_that_an_upstream_leads_to_is_refused(tmp_path, upstream, cache, is_refused):
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    settings = load_settings(
        {"routes": [ROUTE, {"prefix": "/f", "upstream": f"file://{tmp_path}/{upstream}"}]}, {}
    )
    upstreams = [route.upstream for route in require_routes(settings)]
    if not is_refused:
        refuse_cache_beneath(upstreams, tmp_path / cache)
        return
    with pytest.raises(ConfigurationError) as refused:
        refuse_cache_beneath(upstreams, tmp_path / cache)
    assert refused.value.setting == "cache_dir"


def test_check_finds_a_cache_that_an_upstream_leads_to(tmp_path):
    values = {"upstream": f"file://{tmp_path}", "cache_dir": str(tmp_path / "cache")}
    outlook = forecast(load_settings(values, {}), {})
    assert [problem.setting for problem in outlook.problems] == ["cache_dir"]
    assert "writes: refused with 405" in outlook.lines


def test_without_any_nothing_is_looked_at():
    refuse_unfit_files(load_settings({"upstream": "https://host"}, {}))


SECRET = "s3cr3t"


def refused(values):
    with pytest.raises(ConfigurationError) as told:
        refuse_unfit_files(load_settings(values, {}))
    return str(told.value)


@pytest.mark.parametrize("kind", ["bearer", "basic", "header"])
@pytest.mark.parametrize(
    ("held", "why"),
    [(None, "No such file"), ("", "empty"), (f"{SECRET} :{SECRET}\x01", "a control character")],
    ids=["missing", "empty", "control"],
)
def test_a_secret_that_is_none_stops_the_start_in_one_line_without_it(tmp_path, kind, held, why):
    file = tmp_path / "secret"
    if held is not None:
        file.write_text(held)
    values = {"upstream": "https://host", "upstream_auth": kind, "upstream_auth_file": str(file)}
    line = refused(values)
    assert line.startswith(f"chunkside: upstream_auth_file={str(file)!r}: {why}")
    assert "\n" not in line and SECRET not in line
    problems = forecast(load_settings(values, {}), {"XDG_CACHE_HOME": str(tmp_path)}).problems
    assert [problem.setting for problem in problems] == ["upstream_auth_file"]


def test_auth_without_a_file_and_a_file_without_auth_are_refused(tmp_path):
    (tmp_path / "secret").write_text(SECRET)
    file = {"upstream_auth_file": str(tmp_path / "secret")}
    assert "upstream_auth_file: not set" in refused(
        {"upstream": "https://host", "upstream_auth": "bearer"}
    )
    assert "upstream_auth='auto': upstream_auth_file is set; allowed: bearer, basic" in refused(
        {"upstream": "https://host", **file}
    )
    own = ROUTE | {"upstream_auth": "basic"}
    assert "routes[/a].upstream_auth_file: not set" in refused({"routes": [own]})
    # A route may do without what stands beside it.
    bare = ROUTE | {"upstream_auth": "none"}
    beside = {"upstream_auth": "bearer", **file}
    refuse_unfit_files(load_settings({"routes": [bare], **beside}, {}))


@pytest.mark.client("openssl")
def test_a_certificate_is_looked_at_with_its_key(tmp_path):
    authority = Authority(tmp_path)
    cert, key = map(str, authority.certificate("DNS:a"))
    home = {"upstream": "https://host"}
    refuse_unfit_files(
        load_settings({**home, "upstream_cert_file": cert, "upstream_key_file": key}, {})
    )
    assert "upstream_cert_file" in refused({**home, "upstream_cert_file": cert})
    assert "upstream_cert_file: not set" in refused({**home, "upstream_key_file": key})
    missing = {**home, "upstream_cert_file": cert, "upstream_key_file": f"{key}x"}
    assert "No such file" in refused(missing)
