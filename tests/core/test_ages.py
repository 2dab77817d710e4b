"""Which files a sweep takes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.ages import Ages

NOW = 1_000_000.0
DAY = 86_400.0


def taken(files, retention, excess, now=NOW):
    """What a sweep takes of (age, size): by verdict."""
    ages = Ages(now)
    for age, size in files:
        ages.add(now - age, size)
    plan = ages.plan(retention, excess)
    gone: dict[str, list[float]] = {"expired": [], "oldest": [], "keep": []}
    for age, size in files:
        gone[plan.judge(ages.as_used(now - age), size)].append(age)
    return gone


def test_what_nobody_used_for_too_long_goes_whatever_room_there_is():
    gone = taken([(8 * DAY, 10), (7 * DAY, 10), (1.0, 10)], 7 * DAY, 0)
    assert gone == {"expired": [8 * DAY], "oldest": [], "keep": [7 * DAY, 1.0]}


def test_the_oldest_go_first_until_enough_has_gone():
    files = [(age * 3600.0, 10) for age in (5, 1, 4, 2, 3)]
    gone = taken(files, math.inf, 15)
    assert sorted(gone["oldest"]) == [4 * 3600.0, 5 * 3600.0]


def test_what_expires_counts_towards_what_must_go():
    files = [(9 * DAY, 10), (3 * DAY, 10), (2 * DAY, 10)]
    assert taken(files, 7 * DAY, 10)["oldest"] == []
    assert taken(files, 7 * DAY, 11)["oldest"] == [3 * DAY]


def test_a_future_time_counts_as_now():
    gone = taken([(-5 * DAY, 10), (600.0, 10)], 7 * DAY, 10)
    assert gone == {"expired": [], "oldest": [600.0], "keep": [-5 * DAY]}
    assert taken([(-5 * DAY, 10)], 7 * DAY, 10)["oldest"] == [-5 * DAY]


def test_an_infinite_retention_keeps_everything():
    assert taken([(10_000 * DAY, 10)], math.inf, 0, now=1e9)["keep"] == [10_000 * DAY]


@pytest.mark.parametrize("excess", [0, -5])
def test_nothing_goes_where_nothing_must(excess):
    assert taken([(600.0, 10), (0.0, 10)], math.inf, excess)["oldest"] == []


@given(
    st.lists(st.tuples(st.floats(-1e4, 1e6), st.integers(1, 100)), max_size=40),
    st.integers(0, 2000),
)
def test_enough_goes_and_nothing_is_kept_that_is_older_by_a_minute(files, excess):
    numbered = {age + number * 1e-6: size for number, (age, size) in enumerate(files)}
    gone = taken(list(numbered.items()), math.inf, excess)
    freed = sum(numbered[age] for age in gone["oldest"])
    assert freed >= min(excess, sum(numbered.values()))
    if gone["oldest"] and gone["keep"]:
        youngest = min(max(age, 0.0) for age in gone["oldest"])
        assert max(max(age, 0.0) for age in gone["keep"]) <= youngest + 60.0
    if gone["oldest"]:
        # No file too many.
        assert freed - max(numbered[age] for age in gone["oldest"]) < excess


@pytest.mark.parametrize(
    ("ages_of_files", "excess", "takes"),
    [([], 0, False), ([60.0], 0, False), ([60.0], 1, True), ([8 * DAY], 0, True)],
)
def test_a_plan_that_takes_nothing_says_so(ages_of_files, excess, takes):
    ages = Ages(NOW)
    for each in ages_of_files:
        ages.add(NOW - each, 10)
    assert ages.plan(7 * DAY, excess).takes_any(ages) is takes
