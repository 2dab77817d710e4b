"""When an origin is left alone, and how it is found to be back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.upstream.breaker import (
    FAILURES_TO_OPEN,
    FIRST_REST_SECONDS,
    LONGEST_REST_SECONDS,
    SECONDS_TO_OPEN,
    Admitted,
    Breaker,
    Refused,
)

PROBE_SECONDS = 25.0


def opened(at=100.0):
    """A breaker that opened at that moment."""
    breaker = Breaker(PROBE_SECONDS)
    for _ in range(FAILURES_TO_OPEN):
        assert not breaker.failed(at - SECONDS_TO_OPEN, None, is_probe=False)
    assert breaker.failed(at, None, is_probe=False)
    assert breaker.state == "open"
    return breaker


def test_a_burst_at_one_moment_opens_nothing():
    breaker = Breaker(PROBE_SECONDS)
    for _ in range(1000):
        breaker.failed(5.0, None, is_probe=False)
    assert breaker.admit(5.0) == Admitted(is_probe=False)


def test_few_failures_open_nothing_however_long_they_take():
    breaker = Breaker(PROBE_SECONDS)
    for moment in range(FAILURES_TO_OPEN - 1):
        assert not breaker.failed(100.0 * moment, None, is_probe=False)
    assert breaker.state == "closed"


def test_one_answer_between_failures_keeps_it_closed():
    breaker = Breaker(PROBE_SECONDS)
    for moment in range(100):
        breaker.failed(float(moment), None, is_probe=False)
        if moment % (FAILURES_TO_OPEN - 1) == 0:
            assert not breaker.succeeded()
    assert breaker.state == "closed"


@pytest.mark.parametrize(
    ("targets", "state"),
    [
        ([b"/a"], "closed"),
        ([b"/a", b"/b"], "open"),
        ([b"/a", None], "open"),
        ([None], "open"),
    ],
    ids=["one alone", "several", "one, and no connection", "no connection"],
)
def test_what_fails_by_itself_is_no_failing_origin(targets, state):
    breaker = Breaker(PROBE_SECONDS)
    for moment in range(50):
        breaker.failed(float(moment), targets[moment % len(targets)], is_probe=False)
    assert breaker.state == state


def test_an_answer_makes_broad_failures_forgotten_and_one_target_alone_opens_nothing():
    breaker = Breaker(PROBE_SECONDS)
    for moment, target in enumerate([b"/a", b"/b", None]):
        breaker.failed(float(moment), target, is_probe=False)
    breaker.succeeded()
    for moment in range(3, 50):
        breaker.failed(float(moment), b"/a", is_probe=False)
    assert breaker.state == "closed"


def test_while_it_rests_all_are_refused_and_told_for_how_long():
    breaker = opened(at=100.0)
    assert breaker.admit(100.0) == Refused(FIRST_REST_SECONDS)
    assert breaker.admit(100.0 + FIRST_REST_SECONDS / 2) == Refused(FIRST_REST_SECONDS / 2)


def test_after_its_rest_one_at_a_time_finds_out():
    breaker = opened(at=100.0)
    now = 100.0 + FIRST_REST_SECONDS
    assert breaker.admit(now) == Admitted(is_probe=True)
    assert breaker.state == "half_open"
    assert isinstance(breaker.admit(now), Refused)
    assert breaker.succeeded()
    assert breaker.state == "closed"
    assert breaker.admit(now) == Admitted(is_probe=False)


def test_probes_that_fail_rest_longer_each_time_and_never_too_long():
    breaker, now, rests = opened(at=0.0), 0.0, []
    for _ in range(8):
        refused = breaker.admit(now)
        assert isinstance(refused, Refused)
        rests.append(refused.seconds)
        now += refused.seconds
        assert breaker.admit(now) == Admitted(is_probe=True)
        assert not breaker.failed(now, b"/a", is_probe=True)
    assert rests == [1.0, 2.0, 4.0, 8.0, *[LONGEST_REST_SECONDS] * 4]
    breaker.succeeded()
    for moment in range(FAILURES_TO_OPEN):
        breaker.failed(now + moment, None, is_probe=False)
    assert breaker.admit(now + FAILURES_TO_OPEN - 1) == Refused(FIRST_REST_SECONDS)


def test_late_failures_of_what_was_sent_before_lengthen_no_rest():
    breaker = opened(at=100.0)
    for _ in range(100):
        assert not breaker.failed(100.5, None, is_probe=False)
    assert breaker.admit(101.0) == Admitted(is_probe=True)
    breaker.failed(101.0, None, is_probe=False)
    assert breaker.state == "half_open"


def test_a_probe_that_tells_nothing_lets_the_next_one_go_at_once():
    breaker = opened(at=100.0)
    assert breaker.admit(101.0) == Admitted(is_probe=True)
    breaker.withdrew(101.5)
    assert breaker.admit(101.5) == Admitted(is_probe=True)


def test_a_probe_that_hangs_holds_up_no_other_for_ever():
    breaker = opened(at=100.0)
    breaker.admit(101.0)
    assert isinstance(breaker.admit(101.0 + PROBE_SECONDS - 1), Refused)
    assert breaker.admit(101.0 + PROBE_SECONDS) == Admitted(is_probe=True)


@given(
    st.lists(
        st.tuples(
            st.floats(0, 4), st.sampled_from(["admit", "fails", "answers", "withdraws", "stray"])
        ),
        max_size=200,
    )
)
def test_from_any_state_an_origin_that_is_back_is_asked_within_the_longest_rest(steps):
    breaker, now, is_probe = Breaker(PROBE_SECONDS), 0.0, False
    for seconds, act in steps:
        now += seconds
        match act:
            case "admit":
                admission = breaker.admit(now)
                is_probe = is_probe or (isinstance(admission, Admitted) and admission.is_probe)
            case "fails":
                breaker.failed(now, None, is_probe=is_probe)
                is_probe = False
            case "answers":
                breaker.succeeded()
                is_probe = False
            case "withdraws" if is_probe:
                breaker.withdrew(now)
                is_probe = False
            case _:
                breaker.failed(now, b"/a", is_probe=False)
    if is_probe:
        breaker.withdrew(now)
    assert isinstance(breaker.admit(now + LONGEST_REST_SECONDS), Admitted)
