"""docs/faults.md is held to what runs: its table has every fault, its numbers are the code's."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from chunkside.metrics import BREAKER_STATES, SPARED_REASONS
from chunkside.settings import RouteSettings
from chunkside.upstream import breaker, retries
from tests.support.fault_matrix import KINDS
from tests.support.faulty_origin import FAULTS, SCHEDULES

PAGE = (Path(__file__).resolve().parents[2] / "docs/faults.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())


def test_its_table_has_every_fault_and_every_kind() -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    assert rows[0] == ["fault", "how often", *KINDS]
    assert [tuple(row[:2]) for row in rows[1:]] == list(product(FAULTS, SCHEDULES))
    assert {len(row) for row in rows} == {2 + len(KINDS)}


@pytest.mark.parametrize(
    "sentence",
    [
        f"for {breaker.SECONDS_TO_OPEN:g} s, five at least",
        f"After {breaker.FIRST_REST_SECONDS:g} s one request",
        f"then every {breaker.LONGEST_REST_SECONDS:g} s",
        f"`upstream_retries` ({RouteSettings().upstream_retries})",
        f"`upstream_connections` ({RouteSettings().upstream_connections})",
        f"`upstream_queue` ({RouteSettings().upstream_queue:,})",
        f"`upstream_first_byte_timeout` ({RouteSettings().upstream_first_byte_timeout:g} s)",
        f"`upstream_deadline` ({RouteSettings().upstream_deadline:g} s)",
        ", ".join(map(str, sorted(retries.RETRIED_STATUSES)[:-1])) + " or 504",
    ],
)
def test_its_numbers_are_the_codes(sentence: str) -> None:
    assert sentence in WORDS
    assert breaker.FAILURES_TO_OPEN == 5
    assert retries.RETRIES_PER_REQUEST == 1 / 5


def test_it_names_the_labels_there_are() -> None:
    assert BREAKER_STATES == breaker.BREAKER_STATES
    for word in (*BREAKER_STATES, *SPARED_REASONS):
        assert re.search(rf"`{word}`", PAGE), word
