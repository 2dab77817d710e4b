"""Sizes, durations, counts and lists as settings spell them."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.settings.errors import NotAllowedError
from chunkside.settings.quantities import (
    Percent,
    choice_parser,
    count_parser,
    format_duration,
    format_percent,
    format_share,
    format_size,
    format_size_rounded,
    parse_boolean,
    parse_duration,
    parse_list,
    parse_share,
    parse_size,
    parse_size_or_share,
    parse_timeout,
    parse_wait,
)


@pytest.mark.parametrize(
    ("spelled", "size_bytes"),
    [
        pytest.param("2GiB", 2 * 2**30, id="binary"),
        pytest.param("2Gi", 2 * 2**30, id="Kubernetes' spelling"),
        pytest.param("512MB", 512_000_000, id="decimal"),
        pytest.param("512 mb", 512_000_000, id="with a space, in lower case"),
        pytest.param("1.5KiB", 1536, id="a fraction"),
        pytest.param("0.1kB", 100, id="a fraction that floats don't hold"),
        pytest.param("1048576", 2**20, id="bytes"),
        pytest.param("17B", 17, id="bytes with their unit"),
        pytest.param(4096, 4096, id="a number from YAML"),
        pytest.param("0", 0, id="zero"),
    ],
)
def test_a_size_is_read(spelled, size_bytes):
    assert parse_size(spelled) == size_bytes


@pytest.mark.parametrize(
    "wrong",
    [
        *("", "GiB", "-1", "2 G", "2M", "1e9", "2GiBs", "10%", "2,5GiB", "0x10", "٣", "nan"),
        *(-1, 1.5, True, None, [], 2**64, "9999999PiB", "9" * 5000),
    ],
)
def test_what_is_not_a_size_is_refused(wrong):
    with pytest.raises(NotAllowedError) as refusal:
        parse_size(wrong)
    assert "2GiB" in refusal.value.allowed


@pytest.mark.parametrize(
    ("spelled", "share"),
    [("10%", 10.0), ("0%", 0.0), ("2.5 %", 2.5), ("100%", 100.0)],
)
def test_a_share_of_the_volume_is_read(spelled, share):
    assert parse_size_or_share(spelled) == Percent(share)


@pytest.mark.parametrize("wrong", ["101%", "-1%", "%", "ten%", "10%%"])
def test_what_is_not_a_share_is_refused(wrong):
    with pytest.raises(NotAllowedError) as refusal:
        parse_size_or_share(wrong)
    assert "10%" in refusal.value.allowed


@pytest.mark.parametrize(
    ("spelled", "share", "shown"),
    [
        pytest.param("0", 0.0, "0", id="none"),
        pytest.param("1", 1.0, "1", id="all"),
        pytest.param("0.01", 0.01, "0.01", id="a fraction"),
        pytest.param("1%", 0.01, "0.01", id="a percentage"),
        pytest.param("100 %", 1.0, "1", id="all, with a space"),
        pytest.param(0.25, 0.25, "0.25", id="a number from YAML"),
        pytest.param(1, 1.0, "1", id="a whole one from YAML"),
        pytest.param(1e-7, 1e-7, "0.0000001", id="a small one from YAML"),
    ],
)
def test_a_share_of_all_is_read_and_shown(spelled, share, shown):
    assert parse_share(spelled) == share
    assert format_share(share) == shown
    assert parse_share(shown) == share


@pytest.mark.parametrize(
    "wrong", ["", "2", "101%", "-1", "all", "nan", "inf", True, None, [1], 1.5]
)
def test_what_is_no_share_of_all_is_refused(wrong):
    with pytest.raises(NotAllowedError) as refusal:
        parse_share(wrong)
    assert "from 0 to 1" in refusal.value.allowed


@pytest.mark.parametrize(
    ("spelled", "seconds"),
    [
        pytest.param("300", 300.0, id="bare"),
        pytest.param("300s", 300.0, id="seconds"),
        pytest.param("250ms", 0.25, id="milliseconds"),
        pytest.param("5m", 300.0, id="minutes"),
        pytest.param("1.5h", 5400.0, id="hours"),
        pytest.param("7d", 604800.0, id="days"),
        pytest.param("infinity", math.inf, id="infinity"),
        pytest.param("Infinity", math.inf, id="infinity, capital"),
        pytest.param(300, 300.0, id="a number from YAML"),
        pytest.param(0.5, 0.5, id="a fraction from YAML"),
        pytest.param(math.inf, math.inf, id="infinity from YAML"),
        pytest.param(0, 0.0, id="zero"),
    ],
)
def test_a_duration_is_read(spelled, seconds):
    assert parse_duration(spelled) == seconds


@pytest.mark.parametrize(
    "wrong",
    [
        *("", "soon", "5 parsecs", "-1", "1e3", "5M", "1h30m", "nan", "∞", "9" * 31),
        *(-1, math.nan, True, None, 10**400, 1e300),
    ],
)
def test_what_is_not_a_duration_is_refused(wrong):
    with pytest.raises(NotAllowedError) as refusal:
        parse_duration(wrong)
    assert "300s" in refusal.value.allowed


def test_a_wait_may_be_nothing_but_not_for_ever():
    assert parse_wait("0") == 0
    with pytest.raises(NotAllowedError):
        parse_wait("infinity")


@pytest.mark.parametrize("wrong", ["0", "0ms", "infinity", 0, math.inf, "soon"])
def test_a_timeout_is_finite_and_above_zero(wrong):
    with pytest.raises(NotAllowedError) as refusal:
        parse_timeout(wrong)
    assert refusal.value.allowed.startswith("a finite duration above zero")


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [(True, True), (False, False), ("true", True), ("NO", False), ("1", True), (0, False)],
)
def test_a_boolean_is_read(spelled, expected):
    assert parse_boolean(spelled) is expected


@pytest.mark.parametrize("wrong", ["", "maybe", 2, None, []])
def test_what_is_neither_true_nor_false_is_refused(wrong):
    with pytest.raises(NotAllowedError):
        parse_boolean(wrong)


@pytest.mark.parametrize("wrong", ["", "0", "-1", "1.0", "many", True, None, 1.0, "9" * 30])
def test_what_is_not_a_count_is_refused(wrong):
    with pytest.raises(NotAllowedError) as refusal:
        count_parser(1)(wrong)
    assert "1 or more" in refusal.value.allowed


def test_a_choice_says_the_nearest():
    assert choice_parser("drop", "forward")(" Drop") == "drop"
    with pytest.raises(NotAllowedError) as refusal:
        choice_parser("drop", "forward")("foward")
    assert refusal.value.remedy == "did you mean forward?"


@pytest.mark.parametrize(
    ("spelled", "items"),
    [
        pytest.param("a, b,c", ("a", "b", "c"), id="commas"),
        pytest.param("", (), id="the empty text is the empty list"),
        pytest.param([], (), id="YAML's empty list"),
        pytest.param(["a", "b,c"], ("a", "b", "c"), id="a flag given twice"),
    ],
)
def test_a_list_is_read(spelled, items):
    assert parse_list(spelled) == items


@pytest.mark.parametrize("wrong", ["a,,b", ",", ["a", ""], ["a", 1], 5, None, {"a": 1}])
def test_what_is_not_a_list_is_refused(wrong):
    with pytest.raises(NotAllowedError):
        parse_list(wrong)


@given(st.integers(0, 2**63 - 1))
def test_a_size_that_is_shown_is_read_back(size_bytes):
    assert parse_size(format_size(size_bytes)) == size_bytes


@given(st.integers(0, 2**20), st.sampled_from(["KiB", "MiB", "GiB", "TiB"]))
def test_the_units_of_kubernetes_mean_the_same(number, unit):
    assert parse_size(f"{number}{unit}") == parse_size(f"{number}{unit.removesuffix('B')}")


@given(st.one_of(st.integers(0, 10**9).map(float), st.integers(1, 10**9).map(lambda n: n / 1000)))
def test_a_duration_that_is_shown_is_read_back(seconds):
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.integers(0, 1000).map(lambda tenths: Percent(tenths / 10)))
def test_a_share_that_is_shown_is_read_back(share):
    assert parse_size_or_share(format_percent(share)) == share


@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none()))
def test_whatever_comes_is_read_or_refused(anything):
    for parse in (
        parse_size_or_share,
        parse_share,
        parse_timeout,
        parse_boolean,
        count_parser(0),
        parse_list,
    ):
        with contextlib.suppress(NotAllowedError):
            parse(anything)


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (2**20, "1 MiB"), (int(1.4 * 2**30), "1.4 GiB")],
)
def test_a_size_is_rounded_for_people(size_bytes, shown):
    assert format_size_rounded(size_bytes) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (5.0, "5s"),
        (300.0, "300s"),
        (3600.0, "1h"),
        (604800.0, "7d"),
        (0.25, "0.25s"),
        (math.inf, "infinity"),
    ],
)
def test_a_duration_is_shown_as_one_writes_it(seconds, shown):
    assert format_duration(seconds) == shown
