"""Which tries an origin is burdened with, and when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.fields import Fields
from chunkside.upstream.retries import (
    FEWEST_RETRIES,
    RETRIES_PER_REQUEST,
    RETRIES_PER_SECOND,
    RetryBudget,
    pause_before_retry,
    told_pause,
)

WALL = 1_780_000_000.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        (b"7", 7.0),
        (b"0", 0.0),
        (b"-1", None),
        (b"1.5", None),
        (b"soon", None),
        (b"Thu, 28 May 2026 20:26:50 GMT", 10.0),
        (b"Thu, 28 May 2026 20:26:30 GMT", 0.0),
    ],
)
def test_retry_after_is_read_in_both_its_forms(value, seconds):
    fields = Fields(() if value is None else ((b"Retry-After", value),))
    assert told_pause(fields, WALL) == seconds


def test_pauses_grow_and_no_two_are_the_same():
    pauses = [pause_before_retry(retries, None, 0.5) for retries in range(6)]
    assert pauses == [0.05, 0.2, 0.8, 3.2, 5.0, 5.0]
    assert pause_before_retry(1, None, 0.0) == 0.1
    assert pause_before_retry(1, None, 1.0) == pytest.approx(0.3)


@given(retries=st.integers(0, 20), told=st.floats(0, 1e6), chance=st.floats(0, 1))
def test_nothing_is_taken_off_what_the_origin_asked_for(retries, told, chance):
    assert pause_before_retry(retries, told, chance) >= told


@given(
    most=st.integers(1, 50),
    steps=st.lists(st.tuples(st.booleans(), st.floats(0, 3)), max_size=300),
)
def test_retries_are_a_share_of_requests_and_a_few_beside(most, steps):
    now = 0.0
    budget = RetryBudget(most, now)
    requests = retries = 0
    for is_request, seconds in steps:
        now += seconds
        if is_request:
            budget.requested()
            requests += 1
        else:
            retries += budget.allows_retry(now)
        allowed = max(most, FEWEST_RETRIES)
        allowed += requests * RETRIES_PER_REQUEST + now * RETRIES_PER_SECOND
        assert retries <= allowed + 1e-6


def test_a_budget_holds_no_more_than_it_began_with():
    budget = RetryBudget(12, 0.0)
    for _ in range(1000):
        budget.requested()
    assert [budget.allows_retry(0.0) for _ in range(13)] == [True] * 12 + [False]
    assert [budget.allows_retry(1e6) for _ in range(13)] == [True] * 12 + [False]
