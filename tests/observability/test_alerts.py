"""Each alert fires when it should, is silent when it should be, and leads to what to do."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.plugins.requirements import find_program

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "helm/chunkside/rules/chunkside.yaml"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load(FILE.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
BY_NAME = {rule["alert"]: rule for rule in RULES}
RUNBOOK = (ROOT / "docs/runbook.md").read_text(encoding="utf-8")
PAGES = {"ChunksideErrors", "ChunksideAbsent", "ChunksideAuditWrong"}

POD = {"namespace": "n", "job": "n/chunkside", "pod": "p", "instance": "10.0.0.1:8101"}
OF_ROUTE = {"namespace": "n", "job": "n/chunkside", "route": "/"}


@dataclass(frozen=True, slots=True)
class Case:
    """`series`: name and labels to what `promtool` makes of its notation, a sample a minute. The
    first firing one of an alert has the `summary` that is told, and the `labels`.
    """

    alert: str
    what: str
    series: dict[str, str]
    at: str
    summary: str | None = None
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.alert}: {self.what}"


def series(metric: str, **labels: str) -> str:
    told = ", ".join(f'{name}="{value}"' for name, value in (POD | labels).items())
    return f"{metric}{{{told}}}"


def requests(result: str = "hit", **labels: str) -> str:
    return series("chunkside_requests_total", result=result, **{"route": "/"} | labels)


def responses(code: str) -> str:
    return series("chunkside_responses_total", route="/", code=code)


def evictions(kind: str, reason: str) -> str:
    return series("chunkside_evictions_total", kind=kind, reason=reason)


def removals(kind: str, reason: str) -> str:
    return series("chunkside_removals_total", kind=kind, reason=reason)


WRONG = series("chunkside_audits_total", kind="body", verdict="wrong")
UP = series("up")
BUILD = series("chunkside_build_info", version="1")
STARTED = series("process_start_time_seconds")
LOADED = series("chunkside_config_last_reload_successful")
NO_DIRECTORY = series("chunkside_degraded", cause="directory")
CLOSED = series("chunkside_upstream_breaker", route="/", state="closed")
FAULTS = series("chunkside_store_errors_total", op="write", error="ENOSPC")
BUSY = {requests(): "0+600x200"}
QUIET = {requests(): "0+1x200"}

CASES = [
    Case(
        "ChunksideErrors",
        "one answer in ten",
        {responses("200"): "0+90x30", responses("503"): "0+10x30"},
        "15m",
        "10% of the answers on route / are 5xx",
        OF_ROUTE,
    ),
    Case(
        "ChunksideErrors",
        "one answer in thirty",
        {responses("200"): "0+290x30", responses("503"): "0+10x30"},
        "15m",
    ),
    Case(
        "ChunksideErrors", "404s", {responses("200"): "0+9x30", responses("404"): "0+90x30"}, "15m"
    ),
    Case("ChunksideErrors", "hardly anyone reads", {responses("503"): "0+1x30"}, "15m"),
    Case(
        "ChunksideErrors",
        "not for long",
        {responses("200"): "0+90x30", responses("503"): "0x10 0+300x2 600x20"},
        "14m",
    ),
    Case(
        "ChunksideAbsent",
        "it was there",
        {UP: "1x10 0x30", BUILD: "1x10"},
        "25m",
        "The sidecar at 10.0.0.1:8101 does not answer",
        POD,
    ),
    Case(
        "ChunksideAbsent",
        "it never was",
        {UP: "0x30"},
        "25m",
        "The sidecar at 10.0.0.1:8101 does not answer",
        POD,
    ),
    Case("ChunksideAbsent", "one scrape is lost", {UP: "1x10 0 1x20", BUILD: "1x40"}, "12m"),
    Case(
        "ChunksideAbsent",
        "its pod is gone, and is no target any more",
        {UP: "1x10 stale", BUILD: "1x10 stale"},
        "25m",
    ),
    Case("ChunksideAbsent", "another's job", {series("up", job="nginx"): "0x30"}, "25m"),
    Case(
        "ChunksideAuditWrong",
        "one",
        {WRONG: "0x5 1x30"},
        "10m",
        "Audits at 10.0.0.1:8101 found a body that was served and is wrong",
        POD | {"kind": "body"},
    ),
    Case(
        "ChunksideAuditWrong",
        "what has changed at the origin",
        {
            WRONG: "0x30",
            series("chunkside_audits_total", kind="body", verdict="changed"): "0+5x30",
        },
        "10m",
    ),
    Case(
        "ChunksideLowHitRatio",
        "one request in ten",
        {requests(): "0+60x200", requests("miss"): "0+540x200"},
        "150m",
        "Only 10% of the requests on route / are answered from store",
        OF_ROUTE,
    ),
    Case(
        "ChunksideLowHitRatio",
        "absences are hits",
        {requests("negative_hit"): "0+300x200", requests("miss"): "0+540x200"},
        "150m",
    ),
    Case("ChunksideLowHitRatio", "hardly anyone reads", {requests("miss"): "0+6x200"}, "150m"),
    Case(
        "ChunksideLowHitRatio",
        "what the cache has no say in",
        {requests(): "0+100x200", requests("bypass"): "0+5000x200"},
        "150m",
    ),
    Case("ChunksideLowHitRatio", "a first pass", {requests("miss"): "0+600x40 24000x80"}, "90m"),
    Case(
        "ChunksideDiskFloor",
        "bodies are dropped for it",
        BUSY | {evictions("body", "free_space"): "0+6x60"},
        "50m",
        "The volume of the cache at 10.0.0.1:8101 is down to its floor",
        POD,
    ),
    Case(
        "ChunksideDiskFloor",
        "bodies are dropped for others",
        BUSY | {evictions("body", "free_space"): "0x60", evictions("body", "budget"): "0+60x60"},
        "50m",
    ),
    Case(
        "ChunksideDiskFloor",
        "nobody reads",
        QUIET | {evictions("body", "free_space"): "0+6x60"},
        "50m",
    ),
    Case(
        "ChunksideDegradedToMemory",
        "no directory",
        BUSY | {NO_DIRECTORY: "1x60"},
        "40m",
        "The sidecar at 10.0.0.1:8101 keeps in memory what belongs on its disk (directory)",
        POD | {"cause": "directory"},
    ),
    Case("ChunksideDegradedToMemory", "a directory", BUSY | {NO_DIRECTORY: "0x60"}, "40m"),
    Case("ChunksideDegradedToMemory", "nobody reads", QUIET | {NO_DIRECTORY: "1x60"}, "40m"),
    Case(
        "ChunksideDiskErrors",
        "a disk that is full",
        BUSY | {FAULTS: "0+6x60"},
        "50m",
        "The cache directory at 10.0.0.1:8101 fails: write, ENOSPC",
        POD | {"op": "write", "error": "ENOSPC"},
    ),
    Case("ChunksideDiskErrors", "one fault", BUSY | {FAULTS: "0x5 1x60"}, "50m"),
    Case("ChunksideDiskErrors", "nobody reads", QUIET | {FAULTS: "0+6x60"}, "50m"),
    Case(
        "ChunksideMarkersEvicted",
        "half of them",
        {
            evictions("marker", "marker_cap"): "0+60x120",
            removals("marker", "marker_cap"): "0+60x120",
            removals("marker", "expired"): "0+60x120",
        },
        "90m",
        "50% of the absences that end at 10.0.0.1:8101 are dropped before their time",
        POD,
    ),
    Case(
        "ChunksideMarkersEvicted",
        "nearly all run out by themselves",
        {
            evictions("marker", "marker_cap"): "0+60x120",
            removals("marker", "marker_cap"): "0+60x120",
            removals("marker", "expired"): "0+6000x120",
        },
        "90m",
    ),
    Case(
        "ChunksideMarkersEvicted",
        "hardly any",
        {
            evictions("marker", "marker_cap"): "0+3x120",
            removals("marker", "marker_cap"): "0+3x120",
        },
        "90m",
    ),
    Case(
        "ChunksideOriginLeftAlone",
        "for most of the time",
        BUSY | {CLOSED: "1x5 0x10 1 0x40"},
        "25m",
        "The origin of route / is left alone by 10.0.0.1:8101, since it fails",
        POD | {"route": "/"},
    ),
    Case("ChunksideOriginLeftAlone", "for a minute", BUSY | {CLOSED: "1x10 0 1x40"}, "15m"),
    Case("ChunksideOriginLeftAlone", "nobody reads", QUIET | {CLOSED: "0x60"}, "25m"),
    Case(
        "ChunksideRestarts",
        "three",
        BUSY | {STARTED: "1x10 2x10 3x10 4x40"},
        "40m",
        "The sidecar at 10.0.0.1:8101 was restarted 3 times within an hour",
        POD,
    ),
    Case("ChunksideRestarts", "an upgrade", BUSY | {STARTED: "1x10 2x60"}, "40m"),
    Case("ChunksideRestarts", "of others", {STARTED: "1x10 2x10 3x10 4x40"}, "40m"),
    Case(
        "ChunksideSettingsRefused",
        "for long",
        BUSY | {LOADED: "1x5 0x60"},
        "40m",
        "The sidecar at 10.0.0.1:8101 runs on older settings than it was told",
        POD,
    ),
    Case("ChunksideSettingsRefused", "mended", BUSY | {LOADED: "1x5 0x5 1x60"}, "40m"),
    Case("ChunksideSettingsRefused", "nobody reads", QUIET | {LOADED: "0x60"}, "40m"),
]


def promtool_test(case: Case) -> dict[str, Any]:
    rule = BY_NAME[case.alert]
    alerts = []
    if case.summary is not None:
        annotations = rule["annotations"] | {"summary": case.summary}
        labels = case.labels | rule["labels"]
        alerts = [{"exp_labels": labels, "exp_annotations": annotations}]
    return {
        "name": case.name,
        "interval": "1m",
        "input_series": [
            {"series": name, "values": values} for name, values in case.series.items()
        ],
        "alert_rule_test": [{"eval_time": case.at, "alertname": case.alert, "exp_alerts": alerts}],
    }


@pytest.mark.parametrize("alert", sorted(BY_NAME))
def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_is_silent(alert: str) -> None:
    cases = [case for case in CASES if case.alert == alert]
    assert any(case.summary is not None for case in cases)
    assert any(case.summary is None for case in cases)


@pytest.mark.server("promtool")
def test_alerts_fire_when_they_should_and_are_silent_when_they_should_be(tmp_path: Path) -> None:
    tests = {
        "rule_files": [str(FILE)],
        "evaluation_interval": "1m",
        "tests": [promtool_test(case) for case in CASES],
    }
    file = tmp_path / "test.yaml"
    # JSON is YAML, and this one is read by another library than wrote the rules.
    file.write_text(json.dumps(tests), encoding="utf-8")
    told = promtool("test", "rules", str(file))
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.server("promtool")
def test_the_rules_are_such_as_prometheus_takes() -> None:
    told = promtool("check", "rules", "--lint=all", "--lint-fatal", str(FILE))
    assert told.returncode == 0, told.stdout + told.stderr
    assert f"{len(RULES)} rules found" in told.stdout


def test_only_what_can_not_wait_calls_someone() -> None:
    severities = {rule["alert"]: rule["labels"]["severity"] for rule in RULES}
    assert {name for name, severity in severities.items() if severity == "critical"} == PAGES
    assert set(severities.values()) == {"critical", "warning"}


@pytest.mark.parametrize("rule", RULES, ids=list(BY_NAME))
def test_each_alert_leads_to_its_section_of_the_runbook(rule: dict[str, Any]) -> None:
    """By its path in the repository: there is no host that all who run it have in common."""
    name = rule["alert"]
    assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{name.lower()}"
    section = RUNBOOK.split(f"\n## {name}\n")[1].split("\n## ")[0]
    for part in ("It means", "Look at", "Do"):
        assert re.search(rf"^\*\*{part}[.:]?\*\*", section, re.MULTILINE), part


def test_the_runbook_has_no_alert_that_is_none() -> None:
    assert set(re.findall(r"^## (Chunkside\w+)$", RUNBOOK, re.MULTILINE)) == set(BY_NAME)


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = find_program("promtool")
    assert program is not None
    return subprocess.run([program, *arguments], check=False, capture_output=True, text=True)
