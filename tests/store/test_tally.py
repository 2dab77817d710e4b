"""The tally of several processes: what they may put into one directory together."""

import os
import tempfile
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.store.tally import Tally

BUDGET = 1000
sizes = st.integers(1, 100_000)


@pytest.fixture
def open_tally(tmp_path):
    def open_another() -> Tally:
        tally = Tally(str(tmp_path), BUDGET, lambda *fault: faults.append(fault))
        tally.take()
        return tally

    faults: list[object] = []
    return open_another


@pytest.fixture
def two(open_tally):
    """Both have written something that was removed again."""
    first, second = open_tally(), open_tally()
    assert write(first, 1)
    assert write(second, 1)
    first.begin_count()
    first.end_count(0)
    return first, second


def fail(*fault: str) -> None:
    raise AssertionError(fault)


def write(tally, size, *, is_index_whole=True):
    """As a fill does that isn't disturbed; whether it may."""
    if not tally.set_aside(size, is_index_whole=is_index_whole):
        return False
    tally.wrote(size)
    tally.give_back(size)
    return True


def test_processes_fill_the_budget_together_and_no_further(two):
    written = 0
    while write(two[written // 100 % 2], 100):
        written += 100
    assert written == BUDGET
    assert not write(two[0], 1)
    assert not write(two[1], 1)


def test_a_process_alone_is_refused_nothing_once_it_has_read_the_directory(open_tally):
    first = open_tally()
    assert all(write(first, 50) for _ in range(30))
    assert not first.set_aside(1, is_index_whole=False)
    # Whoever joins knows what it has written, and has to read the directory, too.
    second = open_tally()
    assert not second.set_aside(1, is_index_whole=False)
    assert write(second, 1)
    assert not write(first, 1)


def test_what_others_wrote_is_not_forgotten_when_they_are_gone(two):
    first, second = two
    second.release()
    assert first.have_others_written
    assert [write(first, 250) for _ in range(5)] == [True] * 4 + [False]


def test_who_begins_when_others_are_gone_is_alone(two, open_tally):
    first, second = two
    first.release()
    second.release()
    third = open_tally()
    assert not third.have_others_written
    assert all(write(third, 250) for _ in range(10))


def test_what_is_on_its_way_is_a_quarter_of_the_budget_at_most_of_all_together(two):
    first, second = two
    assert first.set_aside(150, is_index_whole=True)
    assert not second.set_aside(101, is_index_whole=True)
    assert second.set_aside(100, is_index_whole=True)
    assert first.set_aside_bytes == second.set_aside_bytes == 250
    first.give_back(150)
    assert second.set_aside(150, is_index_whole=True)


def test_a_count_makes_room_and_misses_nothing_that_is_written_meanwhile(two):
    first, second = two
    for _ in range(9):
        assert write(first, 100)
    second.begin_count()
    assert write(first, 100)
    assert not write(first, 1)
    # Most was swept; whether what came meanwhile was seen nobody knows.
    second.end_count(300)
    assert [write(first, 200) for _ in range(4)] == [True, True, True, False]


def test_a_count_sees_what_is_on_its_way(two):
    first, second = two
    assert first.set_aside(200, is_index_whole=True)
    second.begin_count()
    second.end_count(700)
    assert second.set_aside(50, is_index_whole=True)
    assert not second.set_aside(51, is_index_whole=True)
    first.wrote(200)
    assert not second.set_aside(51, is_index_whole=True)
    first.give_back(200)
    assert second.set_aside(50, is_index_whole=True)


def test_what_a_process_that_is_gone_had_on_its_way_is_given_back_by_the_next_count(two):
    first, second = two
    assert write(first, 100)
    assert first.set_aside(200, is_index_whole=True)
    first.release()
    assert second.set_aside_bytes == 200
    second.begin_count()
    second.end_count(100)
    assert second.set_aside_bytes == 0
    assert [write(second, 225) for _ in range(5)] == [True] * 4 + [False]


def test_what_a_process_that_is_gone_may_have_written_keeps_others_from_being_alone(tmp_path):
    """It told of it as set aside."""
    budget = 1 << 24
    gone, left = (Tally(str(tmp_path), budget, fail) for _ in range(2))
    gone.take()
    left.take()
    assert write(gone, 5000)
    # It is killed: nothing is told any more, and its lock is gone.
    gone._put = lambda slack: None  # type: ignore[method-assign]
    gone.release()
    left.begin_count()
    left.end_count(5000)
    assert left.have_others_written
    assert left.set_aside_bytes == 0
    assert not left.set_aside((budget >> 2) + 1, is_index_whole=True)


def test_whoever_takes_the_place_of_one_that_is_gone_goes_on_from_its_numbers(two, open_tally):
    first, second = two
    for _ in range(4):
        assert write(first, 200)
    assert first.set_aside(50, is_index_whole=True)
    first.release()
    third = open_tally()
    assert second.set_aside_bytes == 0
    assert not write(third, 201, is_index_whole=False)
    assert write(third, 200, is_index_whole=False)


def test_a_file_that_can_not_be_written_is_told_once_and_refuses_nothing(tmp_path):
    faults: list[tuple[str, str]] = []
    tally = Tally(str(tmp_path), BUDGET, lambda *fault: faults.append(fault))
    tally.take()
    assert tally._file is not None
    reader = os.open(tmp_path / ".tally", os.O_RDONLY)
    os.dup2(reader, tally._file.fd)
    os.close(reader)
    for _ in range(3):
        assert tally.set_aside(BUDGET, is_index_whole=True)
    assert faults == [("tally", "EBADF")]


def test_a_file_that_was_truncated_is_told_once_and_refuses_nothing(tmp_path):
    faults: list[tuple[str, str]] = []
    tally = Tally(str(tmp_path), BUDGET, lambda *fault: faults.append(fault))
    tally.take()
    os.truncate(tmp_path / ".tally", 0)
    for _ in range(3):
        assert tally.set_aside(BUDGET, is_index_whole=True)
    assert faults == [("tally", "EIO")]


def test_it_takes_all_of_its_blocks_and_is_ours_alone(tmp_path, open_tally):
    open_tally()
    status = (tmp_path / ".tally").stat()
    assert status.st_blocks * 512 >= status.st_size > 4000
    assert status.st_mode & 0o777 == 0o600


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from(["begin", "end", "drop", "count"]), sizes),
        max_size=60,
    )
)
def test_what_is_told_is_never_less_than_what_is_there_nor_much_more(steps):
    """Whatever two processes do."""
    with tempfile.TemporaryDirectory() as root, ExitStack() as held:
        both = [Tally(root, 1 << 24, fail) for _ in range(2)]
        for tally in both:
            tally.take()
            held.callback(tally.release)
        slack, lying = 2 * (1 << 14), 0
        begun: tuple[list[int], list[int]] = [], []
        for number, step, size in steps:
            tally, on_way = both[number], begun[number]
            if step == "begin" and tally.set_aside(size, is_index_whole=True):
                on_way.append(size)
            elif step == "count":
                tally.begin_count()
                tally.end_count(lying)
            elif step == "drop" and on_way:
                tally.give_back(on_way.pop())
            elif step == "end" and on_way:
                lying += on_way[-1]
                tally.wrote(on_way[-1])
                tally.give_back(on_way.pop())
            for each, other in ((0, 1), (1, 0)):
                told = both[each].set_aside_bytes
                true = sum(begun[0]) + sum(begun[1])
                assert true <= told <= true + 2 * slack
                others = both[each]._others()
                needed = lying + sum(begun[other])
                assert (
                    others.base + others.written + others.set_aside + both[each]._written >= needed
                )


def calls_of(monkeypatch, name):
    calls = []
    real = getattr(os, name)

    def call(*given):
        calls.append(given)
        return real(*given)

    monkeypatch.setattr(os, name, call)
    return calls


def test_what_was_let_in_is_taken_back_where_the_budget_is_used_up(tmp_path):
    """By others, while something is still free of what this one told of."""
    budget = 1 << 24
    with ExitStack() as held:
        first, second = (Tally(str(tmp_path), budget, fail) for _ in range(2))
        for tally in (first, second):
            tally.take()
            held.callback(tally.release)
            assert write(tally, 1)
        lying = 0
        while write(first, 10_000) and write(second, 10_000):
            lying += 20_000
        # Neither more than all, nor much less.
        assert budget - 4 * (budget >> 10) - 40_000 <= lying <= budget


def test_small_files_are_told_of_many_at_a_time(tmp_path, monkeypatch):
    tally = Tally(str(tmp_path), 1 << 40, fail)
    tally.take()
    told, looked = calls_of(monkeypatch, "pwrite"), calls_of(monkeypatch, "pread")
    for _ in range(1000):
        assert write(tally, 10_000)
    # Ten million bytes, by the MiB.
    assert 9 <= len(told) <= 11
    assert len(looked) <= len(told)
    # What was large on its way is given back at once.
    assert tally.set_aside(8 << 20, is_index_whole=True)
    tally.give_back(8 << 20)
    assert 11 <= len(told) <= 13
