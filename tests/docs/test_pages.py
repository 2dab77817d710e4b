"""What all pages have in common: links lead somewhere, what they name exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from chunkside.core.decision import Decision
from chunkside.metrics import REMOVAL_REASONS, RESULTS
from chunkside.metrics.families import HELP
from chunkside.settings import Settings
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
    unknown = {re.sub(ends, "", name) for name in named} - HELP.keys()
    assert unknown <= {"audits"}


def test_the_life_of_a_request_has_all_decisions() -> None:
    text = (DOCS / "how-it-works.md").read_text(encoding="utf-8")
    assert len(get_args(Decision)) == 7
    assert "one of seven" in text
