"""Credentials that lie unused: told once, by name, with what to do about it."""

import logging
from pathlib import Path

import pytest

from chunkside.upstream import unused
from chunkside.upstream.clouds import CLOUDS, Cloud
from chunkside.upstream.unused import find_unused

SECRET = "s3cr3t-v4lu3"
AWS = CLOUDS["s3"]
UNHEARD_OF = Cloud("ours", "ours", "chunkside.no_such_module", "", ("OUR_KEY",), (".ours/key",))


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for cloud in CLOUDS.values():
        for name in cloud.variables:
            monkeypatch.delenv(name, raising=False)
    return tmp_path


def said(caplog, cloud=AWS, *, is_off=False):
    found = find_unused(cloud, "/era5", is_off=is_off)
    if found is None:
        return None
    with caplog.at_level(logging.WARNING, unused.__name__):
        found.refused()
        found.refused()
    [line] = caplog.messages
    assert SECRET not in line
    return line


@pytest.mark.parametrize(
    ("cloud", "name"), [(cloud, name) for cloud in CLOUDS.values() for name in cloud.variables]
)
def test_a_variable_is_named_and_not_what_is_in_it(home, monkeypatch, caplog, cloud, name):
    monkeypatch.setenv(name, SECRET)
    line = said(caplog, cloud, is_off=True)
    assert "route /era5: " in line and f"({name})" in line
    assert line.endswith(f"set upstream_auth to auto or {cloud.auth}")


def test_a_file_is_named(home, caplog):
    (home / ".aws").mkdir()
    (home / ".aws" / "credentials").write_text(SECRET)
    assert "(~/.aws/credentials)" in said(caplog, is_off=True)


def test_a_home_that_is_nowhere_or_can_t_be_looked_at_has_none(home, monkeypatch, caplog):
    def fails(_):
        raise PermissionError

    monkeypatch.setattr(Path, "is_file", fails)
    assert said(caplog) is None
    monkeypatch.delenv("HOME")
    assert said(caplog) is None


def test_what_isn_t_installed_is_named(home, monkeypatch, caplog):
    monkeypatch.setenv("OUR_KEY", SECRET)
    assert said(caplog, UNHEARD_OF).endswith("pip install 'chunkside[ours]', and restart")


def test_what_was_of_no_use_is_told(home, monkeypatch, caplog):
    monkeypatch.setenv("AWS_PROFILE", SECRET)
    assert "of no use at the start" in said(caplog)


def test_where_nothing_lies_nothing_is_said(home, monkeypatch, caplog):
    monkeypatch.setenv("AWS_PROFILE", "")
    assert said(caplog) is None
