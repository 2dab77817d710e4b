"""docs/metrics.md is held to the code, and its queries to what Prometheus makes of them."""

import json
import re
import subprocess

import pytest

from chunkside.metrics import KINDS, METHODS, RESULTS
from scripts.metrics_reference import metrics_table
from tests.docs.named_tests import page
from tests.plugins.requirements import find_program
from tests.test_metrics import FAMILIES

PAGE = page("metrics.md")
QUERIES = dict(re.findall(r"<!-- ([a-z ]+) -->\n```promql\n(.+)\n```", PAGE))
FIRST_CELLS = re.findall(r"(?m)^\| `(chunkside_\w+)` \|", PAGE)
LABELS = re.findall(r"(?m)^\| `(chunkside_\w+)` \| \w+ \| (.+?) \|", PAGE)

# Counts by minutes: of these the origin was asked 3 times of 20, and 200 of 1000 bytes came anew.
SERIES = {
    'chunkside_requests_total{result="hit"}': 10,
    'chunkside_requests_total{result="negative_hit"}': 6,
    'chunkside_requests_total{result="collapsed"}': 1,
    'chunkside_requests_total{result="miss"}': 3,
    'chunkside_upstream_requests_total{code="200"}': 3,
    'chunkside_response_bytes_total{result="hit"}': 800,
    'chunkside_response_bytes_total{result="miss"}': 200,
}
EXPECTED = {"hit ratio": 16 / 20, "avoided": 17 / 60, "byte ratio": 0.8}


def test_the_table_is_that_of_the_code() -> None:
    found = re.search(r"<!-- metrics: [^>]*-->\n(.*?)<!-- /metrics -->", PAGE, re.DOTALL)
    assert found is not None
    assert found[1].strip() == metrics_table().strip(), "run make docs-figures ARGS=--tables"


def test_every_metric_of_the_contract_is_in_it_with_its_labels() -> None:
    shown = {
        name.removesuffix("_total"): set(re.findall(r"`(\w+)`", labels)) for name, labels in LABELS
    }
    assert shown == {name: labels for name, (_, labels) in FAMILIES.items()}


def test_the_values_of_labels_are_all_there() -> None:
    assert all(f"`{result}`" in PAGE for result in RESULTS)
    assert all(re.search(rf"\b{method}\b", PAGE) for method in METHODS)
    assert all(f"`{kind}`" in PAGE for kind in KINDS)


def test_every_metric_that_the_page_names_exists() -> None:
    table = set(FIRST_CELLS)
    assert set(re.findall(r"\b(chunkside_\w+)", PAGE)) <= table


def test_every_query_is_one_line_and_has_an_expected_value() -> None:
    assert QUERIES.keys() == EXPECTED.keys()


@pytest.mark.server("promtool")
def test_prometheus_makes_of_the_queries_what_they_are_said_to_be(tmp_path) -> None:
    promtool = find_program("promtool")
    assert promtool is not None
    tests = {
        "rule_files": [],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": series, "values": f"0+{step}x10"} for series, step in SERIES.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": f"round({QUERIES[name]}, 0.000001)",
                        "eval_time": "10m",
                        "exp_samples": [{"labels": "{}", "value": round(value, 6)}],
                    }
                    for name, value in EXPECTED.items()
                ],
            }
        ],
    }
    file = tmp_path / "queries.json"
    # JSON is YAML.
    file.write_text(json.dumps(tests))
    ran = subprocess.run(
        [promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
