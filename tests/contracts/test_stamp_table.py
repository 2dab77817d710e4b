"""What every stamp table does, in a file or in memory."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkside.core.key import Object
from chunkside.store.stamps import FileStampTable, MemoryStampTable
from tests.store.samples import ManualClock

ONE = Object("http://h:80", b"/a/0")
OTHER = Object("http://h:80", b"/a/1")
FAR = Object("http://h:81", b"/a/0")


@pytest.fixture
def clock():
    return ManualClock(boot=100.25)


@pytest.fixture(params=["file", "memory"])
def table(request, clock, tmp_path):
    if request.param == "memory":
        return MemoryStampTable(lambda: clock.boot)
    return FileStampTable(str(tmp_path), lambda: clock.boot)


def is_open(table, clock, target=ONE):
    return table.read(target).closed_until() <= clock.boot


def test_at_first_everything_is_open_and_reads_alike(table, clock):
    assert is_open(table, clock)
    assert table.read(ONE) == table.read(ONE)
    assert len(table.id) == 16


def test_a_write_closes_its_object_alone_until_it_ends(table, clock):
    before = table.read(ONE), table.read(OTHER), table.read(FAR)
    write = table.close(ONE, 360.0)
    assert table.read(ONE).closed_until() == math.ceil(460.25)
    during = table.read(ONE)
    table.renew(ONE, ends=write)
    assert is_open(table, clock)
    assert len({before[0], during, table.read(ONE)}) == 3
    assert (table.read(OTHER), table.read(FAR)) == before[1:]


def test_a_write_whose_end_is_never_told_ends_with_its_time(table, clock):
    table.close(ONE, 10.0)
    clock.boot = 110.0
    assert not is_open(table, clock)
    clock.boot = 111.0
    assert is_open(table, clock)


def test_a_write_of_unknown_fate_stays_closed_for_as_long_as_it_says(table, clock):
    write = table.close(ONE, 360.0)
    table.close(ONE, 60.0, ends=write)
    clock.boot += 59.0
    assert not is_open(table, clock)
    clock.boot += 2.0
    assert is_open(table, clock)


def test_the_next_write_opens_the_object_again_once_the_unknown_fate_is_past(table, clock):
    table.close(ONE, 60.0, ends=table.close(ONE, 360.0))
    clock.boot += 61.0
    table.renew(ONE, ends=table.close(ONE, 360.0))
    assert is_open(table, clock)


@pytest.mark.parametrize("first_ends", [0, 1])
def test_of_two_overlapping_writes_the_last_to_end_opens(table, clock, first_ends):
    writes = [table.close(ONE, 360.0), table.close(ONE, 20.0)]
    table.renew(ONE, ends=writes[first_ends])
    assert not is_open(table, clock)
    table.renew(ONE, ends=writes[1 - first_ends])
    assert is_open(table, clock)


def test_a_purge_opens_nothing_while_a_write_runs(table, clock):
    write = table.close(ONE, 360.0)
    during = table.read(ONE)
    table.renew(ONE, ends=None)
    assert not is_open(table, clock)
    assert table.read(ONE) != during
    table.renew(ONE, ends=write)
    assert is_open(table, clock)


def test_a_purge_stamps_anew_and_leaves_open(table, clock):
    before = table.read(ONE)
    table.renew(ONE, ends=None)
    assert table.read(ONE) != before
    assert is_open(table, clock)


def test_a_broad_write_reaches_all_of_its_location_and_no_other(table, clock):
    before = table.read(ONE), table.read(OTHER), table.read(FAR)
    write = table.close(ONE, 60.0, whole_location=True)
    assert not is_open(table, clock, OTHER)
    table.renew(ONE, ends=write, whole_location=True)
    assert is_open(table, clock, OTHER)
    assert table.read(ONE) != before[0]
    assert table.read(OTHER) != before[1]
    assert table.read(FAR) == before[2]


def test_what_a_process_remembers_of_its_writes_is_bounded(table, clock):
    for number in range(5000):
        table.close(Object("http://h:80", b"/%d" % number), 1.0)
        clock.boot += 0.01
    assert len(table._writes) < 1300


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 500)),
        st.tuples(st.just("end"), st.integers(0, 9)),
        st.tuples(st.just("unknown"), st.integers(0, 9)),
        st.tuples(st.just("purge"), st.just(0)),
        st.tuples(st.just("wait"), st.integers(0, 200)),
    ),
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(steps=STEPS)
def test_an_object_is_closed_exactly_while_a_write_of_it_runs(steps):
    clock = ManualClock(boot=50.5)
    table = MemoryStampTable(lambda: clock.boot)
    running: dict[int, float] = {}
    seen = {table.read(ONE)}
    for act, number in steps:
        before = table.read(ONE)
        match act:
            case "write":
                running[table.close(ONE, number)] = clock.boot + number
            case "wait":
                clock.boot += number
                continue
            case "purge":
                table.renew(ONE, ends=None)
            case _ if not running:
                continue
            case "end":
                write = list(running)[number % len(running)]
                del running[write]
                table.renew(ONE, ends=write)
            case "unknown":
                write = list(running)[number % len(running)]
                del running[write]
                running[table.close(ONE, 60, ends=write)] = clock.boot + 60
            case _:
                raise AssertionError(act)
        assert table.read(ONE) != before
        seen.add(table.read(ONE))
        closed_until = max([*running.values(), 0.0])
        assert table.read(ONE).closed_until() >= closed_until
        assert table.read(ONE).closed_until() <= math.ceil(max(closed_until, clock.boot))


# Doubts.


def test_a_doubt_is_of_its_name_alone_and_only_grows(table):
    assert (table.doubted_at(ONE), table.newest_doubt()) == (0.0, 0.0)
    table.doubt(ONE, 7.25)
    table.doubt(ONE, 5.0)
    table.doubt(OTHER, 6.0)
    assert (table.doubted_at(ONE), table.doubted_at(OTHER)) == (7.25, 6.0)
    assert (table.doubted_at(FAR), table.newest_doubt()) == (0.0, 7.25)


@given(times=st.lists(st.floats(0, 1e9), min_size=1, max_size=5))
def test_the_latest_doubt_is_told_exactly(times):
    table = MemoryStampTable(lambda: 0.0)
    for boot in times:
        table.doubt(ONE, boot)
    assert table.doubted_at(ONE) == table.newest_doubt() == max(times)


def test_a_doubt_leaves_stamps_alone(table):
    before = table.read(ONE)
    table.doubt(ONE, 7.0)
    assert table.read(ONE) == before


def test_a_token_is_that_of_both_stamps(table, clock):
    for change in (
        lambda: None,
        lambda: table.renew(ONE, ends=None),
        lambda: table.close(FAR, 9.0),
    ):
        change()
        for target in (ONE, OTHER, FAR):
            assert table.token(target.location, target.path) == table.read(target).token


def test_writes_that_have_ended_are_looked_for_now_and_then(table, monkeypatch):
    looked = []
    forget = table._forget_ended

    def look(now):
        looked.append(now)
        forget(now)

    monkeypatch.setattr(table, "_forget_ended", look)
    for number in range(20_000):
        table.close(Object("http://h:80", b"/many/%d" % number), 9.0)
    # Not at each of them, though none has ended: that took four seconds for five thousand.
    assert 1 <= len(looked) <= 5


def test_what_is_known_of_ended_writes_is_forgotten(table, clock):
    for number in range(20_000):
        table.close(Object("http://h:80", b"/many/%d" % number), 9.0)
        clock.boot += 0.1
    assert len(table._writes) < 2_000


@pytest.mark.parametrize(
    ("change", "is_seen"),
    [
        (lambda table: table.renew(ONE, ends=None), True),
        (lambda table: table.close(ONE, 9.0), True),
        (lambda table: table.renew(OTHER, ends=None, whole_location=True), True),
        (lambda table: table.doubt(FAR, 200.0), True),
        (lambda table: table.renew(OTHER, ends=None), False),
        (lambda table: table.renew(FAR, ends=None, whole_location=True), False),
        (lambda table: table.read(ONE), False),
    ],
)
def test_whoever_watches_an_object_sees_what_becomes_of_it(table, change, is_seen):
    watched = table.watch(ONE.location, ONE.path)
    assert table.is_unchanged(watched)
    change(table)
    assert table.is_unchanged(watched) is not is_seen
