"""What all pages have in common: links lead somewhere, what they name exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from chunkside.core.decision import Decision
from chunkside.metrics import REMOVAL_REASONS, RESULTS
from chunkside.metrics.families import HELP
from chunkside.server.admin import _OPEN_TO_ALL
from chunkside.settings import RouteSettings, Settings, load_settings, require_routes
from tests.docs.named_tests import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
NAMES = [page.name for page in PAGES]
WITH_LINKS = [*PAGES, ROOT / "README.md"]


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", WITH_LINKS, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), target


def test_the_index_has_every_page() -> None:
    listed = re.findall(r"^\| \[([^\]]+)\]\(\1\)", (DOCS / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == [name for name in NAMES if name != "README.md"]


@pytest.mark.parametrize("name", ["operations", "runbook", "faq", "security", "how-it-works"])
def test_every_name_is_one_of_a_setting_or_a_label(name: str) -> None:
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)(?:=[^`]*)?`", text))
    labels = {*RESULTS, *REMOVAL_REASONS, "runbook_url", "not_stored"}
    others = {each for each in named if not each.startswith("chunkside_")}
    assert others - labels <= Settings.model_fields.keys()


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_metric_exists(page: Path) -> None:
    named = re.findall(r"chunkside_([a-z_]+)\b(?!\w*\.)", page.read_text(encoding="utf-8"))
    ends = r"_(total|bucket|sum|count|info)$"
    assert {re.sub(ends, "", name) for name in named} <= HELP.keys()


@pytest.mark.parametrize("name", ["credentials", "routes"])
def test_every_configuration_that_is_shown_is_one(name: str, tmp_path: Path) -> None:
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    shown = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert shown
    for number, each in enumerate(shown):
        file = tmp_path / f"{number}.yaml"
        file.write_text(each, encoding="utf-8")
        upstream = {} if "routes:" in each else {"upstream": "https://data.example.org/bucket"}
        assert require_routes(load_settings(upstream, {}, file))


def test_the_security_model_names_what_the_admin_port_answers_to_all() -> None:
    text = (DOCS / "security.md").read_text(encoding="utf-8")
    [told] = re.findall(r"Off loopback the admin port answers (.*?) alone", text, re.DOTALL)
    assert set(re.findall(r"`(/\w+)`", told)) == _OPEN_TO_ALL


def test_the_questions_that_come_up_have_todays_defaults() -> None:
    text = (DOCS / "faq.md").read_text(encoding="utf-8")
    defaults = RouteSettings()
    assert (defaults.negative_ttl, defaults.metadata_ttl) == (300, 5)
    assert "after `negative_ttl` (five minutes)" in text
    assert "after `metadata_ttl` (five seconds)" in text


def test_the_life_of_a_request_has_all_decisions() -> None:
    text = (DOCS / "how-it-works.md").read_text(encoding="utf-8")
    assert len(get_args(Decision)) == 7
    assert "one of seven" in text
