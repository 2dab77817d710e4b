"""Settings as README shows them."""

import re

import pytest

from chunkside.settings import Settings, load_settings, settings_table
from chunkside.settings.table import shape_of, shown_default


def test_the_table_has_a_row_for_every_setting():
    rows = settings_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == list(Settings.model_fields)
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)


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
