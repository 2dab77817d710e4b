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
