"""docs/clients.md is held to the clients that the tests run: each is named, as it is locked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.clients.readers import HEAD_OF_ABSENT, LISTING, RANGE_OF_ABSENT, READERS
from tests.e2e.test_clients import NEUROGLANCER, WEB_READERS

ROOT = Path(__file__).resolve().parents[2]
AGAIN = {
    HEAD_OF_ABSENT: "HEAD of what is absent",
    RANGE_OF_ABSENT: "ranges of what is absent",
    LISTING: "listings",
}


def locked() -> dict[str, str]:
    """Versions by package, of Python and of the web."""
    found: dict[str, str] = {}
    # Of what both hold, the clients' own comes last and is told.
    for name in ("moto", "clients", "neuroglancer"):
        lock = (ROOT / f"locks/{name}.txt").read_text(encoding="utf-8")
        found.update(re.findall(r"^([a-z0-9-]+)==(\S+)", lock, re.MULTILINE))
    web = (ROOT / "tests/web_clients/package.json").read_text(encoding="utf-8")
    return found | json.loads(web)["dependencies"]


@pytest.fixture(scope="module")
def rows() -> dict[str, tuple[str, str]]:
    """Of each client: what is said of its versions, and of what it asks for again."""
    page = (ROOT / "docs/clients.md").read_text(encoding="utf-8")
    cells = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return {name: (versions, again) for name, versions, _, again in cells[1:]}


def test_it_names_each_client_with_its_locked_versions_and_what_it_asks_for_again(rows) -> None:
    versions = locked()

    def row(names: tuple[str, ...], asks_again: frozenset[tuple[str, str, str]]) -> tuple[str, str]:
        told = ", ".join(f"{name} {versions[name]}" for name in names)
        return told, ", ".join(AGAIN[kind] for kind in sorted(asks_again)) or "nothing"

    expected = {each.name: row(each.packages, each.asks_again) for each in READERS.values()}
    expected |= {each.name: row((each.package,), each.asks_again) for each in WEB_READERS}
    expected |= {each.name: row(("neuroglancer",), each.asks_again) for each in NEUROGLANCER}
    assert rows == expected
