"""README is held to the code: every setting, every command, every endpoint it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chunkside.cli import COMMANDS
from chunkside.server.admin import INDEX
from chunkside.settings import Settings, settings_reference, settings_table
from scripts.docs_figures import IN_README

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SETTINGS = (ROOT / "docs/settings.md").read_text(encoding="utf-8")


def between_marks(name: str, page: str = README) -> str:
    found = re.search(rf"<!-- {name}: [^>]*-->\n(.*?)<!-- /{name} -->", page, re.DOTALL)
    assert found is not None, f"the page has no marks for {name}"
    return found[1].strip()


def test_the_tables_of_settings_are_those_of_the_model() -> None:
    """Of README, which has those that most people need, and of docs/settings.md, which has all."""
    assert between_marks("settings") == settings_table(IN_README).strip(), "run make docs-figures"
    all_of_them = between_marks("settings", SETTINGS)
    assert all_of_them == settings_reference().strip(), "run make docs-figures"
    assert set(IN_README) <= Settings.model_fields.keys()


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_is_documented(name: str) -> None:
    assert f"| `{name}` |" in SETTINGS


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_is_documented(command: str) -> None:
    assert f"| `chunkside {command}` |" in README


def test_the_demos_output_is_from_a_real_run_with_nothing_asked_twice() -> None:
    shown = between_marks("demo")
    second = next(line for line in shown.splitlines() if line.startswith("sidecar, second pass"))
    assert second.split()[-2:] == ["0", "0"]


@pytest.mark.parametrize("path", re.findall(r"`(/[a-z]+)`", README))
def test_every_endpoint_that_readme_names_exists(path: str) -> None:
    assert path in INDEX


@pytest.mark.parametrize("target", re.findall(r"\]\((?!http)([^)#]+)\)", README))
def test_every_file_that_readme_links_to_exists(target: str) -> None:
    assert (ROOT / target).exists()


@pytest.mark.parametrize("goal", re.findall(r"\bmake ([a-z-]+)", README))
def test_every_make_goal_that_readme_names_exists(goal: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{goal}:", makefile, re.MULTILINE)
