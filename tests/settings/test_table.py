"""Settings as README and docs show them."""

import re

import pytest

from chunkside.settings import Settings, load_settings, settings_reference, settings_table
from chunkside.settings.table import shape_of, shown_default


def test_the_table_has_a_row_for_every_setting():
    rows = settings_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == list(Settings.model_fields)
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)


def test_a_table_may_be_of_some():
    rows = settings_table(("ttl", "upstream")).splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == ["upstream", "ttl"]


def test_the_reference_has_every_setting_once_and_says_what_it_takes():
    rows = [line for line in settings_reference().splitlines() if line.startswith("| `")]
    assert sorted(row.split("`")[1] for row in rows) == sorted(Settings.model_fields)
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 6 for row in rows)
    by_name = {row.split("`")[1]: row for row in rows}
    assert "| `DURATION` | `300s` | SIGHUP |" in by_name["ttl"]
    assert "| true or false | `true` | SIGHUP |" in by_name["cache_missing"]
    assert "| a restart |" in by_name["cache_dir"]


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_has_a_meaning(name):
    description = Settings.model_fields[name].description
    assert description
    assert not description.endswith(".")


@pytest.mark.parametrize(
    "name", [n for n, f in Settings.model_fields.items() if f.default is not None]
)
def test_a_default_that_is_shown_can_be_written(name):
    field = Settings.model_fields[name]
    flags = {name: shown_default(field)}
    if name == "admin_listen":
        flags["listen"] = "localhost:1"
    assert getattr(load_settings(flags, {}), name) == field.default


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_has_a_shape(name):
    shape = shape_of(Settings.model_fields[name])
    assert shape.metavar or shape.is_flag
