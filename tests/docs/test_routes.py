"""docs/routes.md is held to the settings: its example starts, its list is the one there is."""

from __future__ import annotations

import json
import re
from pathlib import Path

from chunkside.settings import RouteSettings, load_settings, require_routes

PAGE = (Path(__file__).resolve().parents[2] / "docs/routes.md").read_text(encoding="utf-8")


def test_its_example_is_a_configuration(tmp_path: Path) -> None:
    found = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    file = tmp_path / "chunkside.yaml"
    file.write_text(found[1], encoding="utf-8")
    era5, scratch = require_routes(load_settings({}, {}, file))
    assert (era5.prefix, era5.settings.ttl, era5.settings.negative_ttl) == ("/era5", 86400, 600)
    assert (scratch.prefix, scratch.settings.ttl) == ("/scratch", 60)


def test_its_json_is_a_value_of_the_flag() -> None:
    found = re.search(r"`(\[\{.*?\}\])`", PAGE)
    assert found is not None
    [route] = require_routes(load_settings({"routes": found[1]}, {}))
    assert route.settings.negative_ttl == 600


def test_it_lists_every_setting_of_a_route() -> None:
    section = PAGE.partition("## What a route may have of its own")[2].partition("All else")[0]
    named = set(re.findall(r"`([a-z_]+)`", section))
    assert named == {"prefix", "upstream", "routes", *RouteSettings.model_fields}


def test_its_purge_is_one_json_object() -> None:
    found = re.search(r"/purge -d '(.*?)'", PAGE)
    assert found is not None
    assert json.loads(found[1]) == {"route": "/era5"}
