"""docs/metrics.md is held to the code."""

import re

from chunkside.metrics import KINDS, METHODS, RESULTS
from scripts.metrics_reference import metrics_table
from tests.docs.named_tests import page
from tests.test_metrics import FAMILIES

PAGE = page("metrics.md")
FIRST_CELLS = re.findall(r"(?m)^\| `(chunkside_\w+)` \|", PAGE)
LABELS = re.findall(r"(?m)^\| `(chunkside_\w+)` \| \w+ \| (.+?) \|", PAGE)


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
