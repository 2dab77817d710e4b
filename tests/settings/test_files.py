"""Files that settings name are looked at before anything starts."""

import pytest

from chunkside.settings import ConfigurationError, forecast, load_settings, refuse_unfit_files

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


def test_without_any_nothing_is_looked_at():
    refuse_unfit_files(load_settings({"upstream": "https://host"}, {}))
