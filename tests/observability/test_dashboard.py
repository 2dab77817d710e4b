"""The dashboard: as its script makes it, of Grafana's schema, and no query without data."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from chunkside.metrics import RESULTS
from scripts import dashboard
from tests.support.every_result import disk_fails, everything_happens, flags
from tests.support.origin import Origin
from tests.support.prometheus import Prometheus, prometheus, substituted
from tests.support.sidecar import Sidecar

ROOT = Path(__file__).resolve().parents[2]
TEXT = dashboard.FILE.read_text(encoding="utf-8")
BOARD: dict[str, Any] = json.loads(TEXT)
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
RULES = yaml.safe_load((ROOT / "helm/chunkside/rules/chunkside.yaml").read_text(encoding="utf-8"))
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
# A ConfigMap holds 1 MiB, and `kubectl apply` keeps a copy of at most 256 KiB.
MOST_BYTES = 200_000


def queries() -> list[tuple[str, str]]:
    return [(panel["title"], each["expr"]) for panel in PANELS for each in panel["targets"]]


def test_the_file_is_what_its_script_makes() -> None:
    assert dashboard.text() == TEXT, "run make dashboard"


def test_a_config_map_holds_it() -> None:
    assert len(TEXT.encode()) < MOST_BYTES


def test_it_is_of_grafanas_schema() -> None:
    """What the schema doesn't know is lost on the way through it."""
    register_default_plugins()
    again = JSONEncoder(sort_keys=True).encode(Dashboard.from_json(json.loads(TEXT)))
    assert json.loads(again) == BOARD


@pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
def test_each_panel_says_what_it_shows_and_in_which_unit(panel: dict[str, Any]) -> None:
    assert len(panel["description"]) > 10
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"]["uid"] == "${datasource}"
    assert panel["targets"]
    titles = [each["title"] for each in PANELS]
    assert titles.count(panel["title"]) == 1


@pytest.mark.parametrize(("title", "expr"), queries(), ids=[f"{t}" for t, _ in queries()])
def test_each_query_is_of_the_pods_that_are_chosen(title: str, expr: str) -> None:
    selectors = re.findall(r"(?:chunkside|process)_\w+(\{.*?\})?", expr)
    assert selectors
    for selector in selectors:
        assert 'namespace=~"$namespace",pod=~"$pod"' in selector
    for counter in re.findall(r"(\w*)\(\w+_total\{", expr):
        assert counter in {"rate", "increase"}


def test_panels_lie_beside_each_other_and_not_on_top() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        fields = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not fields & taken
        assert place["x"] + place["w"] <= dashboard.COLUMNS
        taken |= fields


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Has scraped a sidecar to which everything happened, some of it between two scrapes."""
    home = tmp_path_factory.mktemp("prometheus")
    cache_dir = home / "cache"
    with Origin() as origin, Sidecar(None, cache_dir, flags(origin)) as sidecar:
        address = sidecar.admin_url.removeprefix("http://")
        labels = {"namespace": "readers", "pod": "reader-0"}
        with prometheus(home, {address: labels}) as found:
            everything_happens(origin, sidecar, "first")
            found.wait_scraped_again()
            everything_happens(origin, sidecar, "second")
            disk_fails(cache_dir, sidecar, origin, "/kept/late/c/0")
            found.wait_scraped_again()
            yield found


@pytest.mark.server("prometheus")
def test_the_load_made_everything_happen(watched: Prometheus) -> None:
    """So that a query which returns a zero is not one that can't return anything else."""

    def risen(metric: str, *by: str) -> set[tuple[str, ...]]:
        found = watched.query(f"sum by ({', '.join(by)}) (increase(chunkside_{metric}[60s])) > 0")
        return {tuple(each.labels[label] for label in by) for each in found}

    assert risen("requests_total", "result") == {(result,) for result in RESULTS}
    assert {("body", "budget"), ("marker", "marker_cap")} <= risen(
        "evictions_total", "kind", "reason"
    )
    assert risen("requests_total", "route") == {("/kept",), ("/brief",), ("none",)}
    assert {("chunk",), ("metadata",), ("listing",)} <= risen("upstream_requests_total", "class")
    assert risen("upstream_retries_total", "route") == {("/kept",), ("/brief",)}
    assert watched.query("chunkside_store_errors_total > 0")
    assert watched.query('chunkside_invalidations_total{cause="PUT"} > 0')


@pytest.mark.server("prometheus")
def test_each_query_of_the_dashboard_has_data(watched: Prometheus) -> None:
    def has_data(expr: str) -> bool:
        return any(not math.isnan(each.value) for each in watched.query(substituted(expr)))

    without = [f"{title}: {expr}" for title, expr in queries() if not has_data(expr)]
    assert without == []


@pytest.mark.server("prometheus")
def test_each_variable_has_values(watched: Prometheus) -> None:
    found = {}
    for each in BOARD["templating"]["list"]:
        if each["type"] == "query":
            asked = re.fullmatch(r"label_values\((.*), (\w+)\)", each["query"]["query"])
            assert asked is not None
            found[each["name"]] = watched.label_values(substituted(asked[1]), asked[2])
    assert found == {
        "namespace": ["readers"],
        "pod": ["reader-0"],
        "route": ["/brief", "/kept", "none"],
    }


def documented() -> list[str]:
    """Each line of PromQL on our pages is one expression."""
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    blocks = re.findall(r"```promql\n(.*?)```", pages, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if not line.startswith("#")]


def selectors(expr: str) -> set[str]:
    """Of each metric that an alert looks at: its name and what it wants of labels."""
    return set(re.findall(r"\b(?:chunkside_\w+|up\b|process_\w+)(?:\{.*?\})?", expr))


@pytest.mark.server("prometheus")
def test_alerts_and_pages_look_at_what_is_there(watched: Prometheus) -> None:
    """An alert whose metric or label is misspelt is silent for ever."""
    exprs = [*(alert["expr"] for alert in ALERTS), *documented()]
    looked_at = {each for expr in exprs for each in selectors(expr)}
    without = [each for each in sorted(looked_at) if not watched.query(each)]
    assert without == []
    for expr in exprs:
        watched.query(expr)
