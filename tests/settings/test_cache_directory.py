"""Which cache directory the settings and the environment mean."""

import os
import stat
from pathlib import Path

import pytest

from chunkside.settings import ConfigurationError, forecast, load_settings, locate_cache, open_cache
from chunkside.settings.cache_directory import default_candidates
from chunkside.store.filesystem import Chosen, MemoryOnly
from tests.support.volume import small_volume

# A developer's temporary directory may well be a tmpfs.
ANYWHERE = {"allow_memory_filesystem": "true"}


def settings_with(**flags):
    return load_settings({**ANYWHERE, **flags}, {})


@pytest.mark.parametrize(
    ("environment", "paths"),
    [
        pytest.param(
            {"XDG_CACHE_HOME": "/x", "HOME": "/h", "TMPDIR": "/t"},
            ["/x/chunkside", "/t/chunkside-7", "/var/tmp/chunkside-7"],
            id="XDG",
        ),
        pytest.param(
            {"HOME": "/h", "TMPDIR": "/t"},
            ["/h/.cache/chunkside", "/t/chunkside-7", "/var/tmp/chunkside-7"],
            id="home",
        ),
        pytest.param({}, ["/var/tmp/chunkside-7"], id="nothing"),
        pytest.param(
            {"XDG_CACHE_HOME": "x", "HOME": "", "TMPDIR": "."},
            ["/var/tmp/chunkside-7"],
            id="relative ones don't count",
        ),
    ],
)
def test_the_default_places_in_order(environment, paths):
    found = [candidate.path for candidate in default_candidates(environment, 7)]
    assert found == [Path(path) for path in paths]


def test_the_named_directory_is_made_owner_only(tmp_path):
    choice = open_cache(settings_with(cache_dir=str(tmp_path / "a" / "b")), {})
    assert isinstance(choice, Chosen)
    assert choice.directory == tmp_path / "a" / "b"
    assert stat.S_IMODE(choice.directory.stat().st_mode) == 0o700
    assert choice.warnings == ()


def test_a_system_that_tells_no_mounts_is_said_to_be_one(tmp_path, monkeypatch):
    monkeypatch.setattr("chunkside.store.filesystem.read_mountinfo", lambda: "")
    choice = locate_cache(settings_with(cache_dir=str(tmp_path / "a")), {})
    assert isinstance(choice, Chosen)
    (warning,) = choice.warnings
    assert f"doesn't tell what {tmp_path}/a is on" in warning
    assert "make sure that it is a local disk" in warning


def test_asking_makes_nothing(tmp_path):
    locate_cache(settings_with(cache_dir=str(tmp_path / "a")), {})
    assert list(tmp_path.iterdir()) == []


def test_a_named_directory_that_is_unfit_stops_the_start(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(ConfigurationError) as refusal:
        open_cache(settings_with(cache_dir=str(file)), {})
    assert str(refusal.value).startswith(
        f"chunkside: cache_dir={str(file)!r}: is not a directory; "
    )


def test_an_unfit_default_means_the_next(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("x")
    environment = {"XDG_CACHE_HOME": str(blocked), "TMPDIR": str(tmp_path)}
    choice = open_cache(settings_with(), environment)
    assert isinstance(choice, Chosen)
    assert choice.directory == tmp_path / f"chunkside-{os.geteuid()}"
    assert len(choice.warnings) == 1
    assert str(blocked) in choice.warnings[0]


@pytest.mark.root
def test_a_default_that_can_t_be_made_after_all_means_memory(tmp_path):
    # Two files: room for the directory, not for the ownership file in it.
    with small_volume(tmp_path / "volume", inodes=2) as volume:
        choice = open_cache(settings_with(), {"XDG_CACHE_HOME": str(volume)})
    assert isinstance(choice, MemoryOnly)
    assert "has no room left" in choice.warnings[0]


@pytest.mark.root
def test_a_named_directory_that_can_t_be_made_after_all_stops_the_start(tmp_path):
    with small_volume(tmp_path / "volume", inodes=2) as volume:
        settings = settings_with(cache_dir=str(volume / "a"))
        with pytest.raises(ConfigurationError, match="has no room left"):
            open_cache(settings, {})


def test_without_a_budget_no_directory_is_used(tmp_path):
    for nothing in ("0", "0%", "0GiB"):
        settings = settings_with(cache_size=nothing, cache_dir=str(tmp_path / "a"))
        assert isinstance(open_cache(settings, {}), MemoryOnly)
    assert list(tmp_path.iterdir()) == []


def test_the_forecast_says_what_would_happen(tmp_path):
    settings = settings_with(
        upstream="http://o:9/p/", cache_dir=str(tmp_path / "a"), cache_size="2Gi"
    )
    outlook = forecast(settings, {})
    text = "\n".join(outlook.lines)
    assert outlook.problems == ()
    assert "upstream: http://o:9/p\n" in text
    assert "readers use: http://localhost:8100/ in place of http://o:9/p/\n" in text
    assert f"cache directory: {tmp_path}/a, since cache_dir names it\n" in text
    assert "byte budget: 2 GiB, 64 MiB of it for markers\n" in text
    assert "larger than 256 MiB: relayed, not stored\n" in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("listen", "shown"),
    [
        ("0.0.0.0:81", "http://localhost:81/"),
        ("[::1]:81", "http://[::1]:81/"),
        ("localhost:0", "http://localhost:PORT/ (the free port that is printed at the start)"),
        ("unix:/run/c", "http://localhost/ (over the socket /run/c)"),
    ],
)
def test_the_forecast_gives_the_url_that_readers_use(tmp_path, listen, shown):
    settings = settings_with(upstream="http://o", listen=listen, cache_dir=str(tmp_path / "a"))
    assert f"readers use: {shown} in place of http://o/" in forecast(settings, {}).lines


def test_the_forecast_warns_of_a_floor_that_lets_nothing_in(tmp_path):
    place = str(tmp_path / "a")
    wide_open = settings_with(upstream="http://o", cache_dir=place, min_free="0")
    assert "free-space floor: off" in forecast(wide_open, {}).lines
    closed = settings_with(upstream="http://o", cache_dir=place, min_free="100%")
    assert "lower min_free" in "\n".join(forecast(closed, {}).lines)


def test_the_forecast_says_that_absences_are_not_remembered():
    settings = settings_with(upstream="http://o", cache_size="0", cache_missing="no")
    assert "absences are not remembered" in forecast(settings, {}).lines[-1]


def test_the_forecast_says_when_a_403_is_an_absence():
    settings = settings_with(upstream="http://o", cache_size="0", absent_statuses="404,403")
    told = [line for line in forecast(settings, {}).lines if "a chunk's 403 as one once" in line]
    assert len(told) == 1


def test_the_forecast_names_every_problem():
    outlook = forecast(load_settings({"cache_dir": "/proc/chunkside"}, {}), {})
    assert [problem.setting for problem in outlook.problems] == ["upstream", "cache_dir"]


def test_the_forecast_of_a_memory_budget_uses_the_cgroup_s_limit(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "sys/fs/cgroup/memory.max").write_text(str(8 * 2**30))
    settings = settings_with(upstream="http://o", cache_size="0")
    text = "\n".join(forecast(settings, {}, cgroup_root=tmp_path).lines)
    assert "cache directory: none, since cache_size is 0; memory is used" in text
    assert "byte budget: 2 GiB" in text
