"""What is seen of a key and not stored: bytes that arrive, and an absence that proves nothing."""

from dataclasses import replace

import pytest

from chunkside.core.budget import Removal
from chunkside.core.entry import Absent
from chunkside.core.index import Index
from tests.core.index_samples import LATER, NAMELESS, PLENTY, STAMPS, body, key, mark, put
from tests.core.samples import NOW, earlier, stored

ONE, TWO, WEAK = 'ETag: "1"', 'ETag: "2"', 'ETag: W/"1"'


def head(*lines, length=10, asked=0.0):
    return stored(*lines, key=key(b"/a"), length=length, requested_at=earlier(asked))


def see(index, lease, what, *, is_allowed=True, is_relayed=False):
    return index.see(lease, what, is_allowed=is_allowed, is_relayed=is_relayed)


@pytest.fixture
def index():
    return Index(PLENTY)


def lease_of(index):
    return index.lease(key(b"/a"), STAMPS, NOW)


@pytest.mark.parametrize(
    ("held", "seen", "falls"),
    [
        pytest.param([ONE], [ONE], False, id="the-same"),
        pytest.param([ONE], [TWO], True, id="another"),
        pytest.param([WEAK], [WEAK], False, id="surely-not-another"),
        pytest.param([WEAK], ['ETag: W/"2"'], True, id="another-weak-one"),
        pytest.param([ONE], ["X-Nothing: 1"], False, id="who-knows"),
    ],
)
def test_what_is_held_falls_when_bytes_of_another_arrive(index, held, seen, falls):
    old = body(b"/a", *held)
    put(index, old)
    expected = [Removal("body", "replaced", old.body)] if falls else []
    assert see(index, lease_of(index), head(*seen)) == expected


def test_a_marker_is_left_to_those_who_know_that_the_key_exists(index):
    mark(index, b"/a")
    assert see(index, lease_of(index), head(ONE)) == []
    assert isinstance(index.look_up(key(b"/a")), Absent)


def test_other_fills_are_held_to_the_bytes_that_arrive(index):
    lease, other = lease_of(index), lease_of(index)
    see(index, lease, head(TWO))
    assert index.store(other, STAMPS, body(b"/a", ONE), NOW) is None
    assert index.store(other, STAMPS, body(b"/a", TWO), NOW) is not None


def test_but_not_to_what_is_relayed_and_can_not_be_told_apart(index):
    lease, other = lease_of(index), lease_of(index)
    see(index, lease, head(WEAK), is_relayed=True)
    assert index.store(other, STAMPS, body(b"/a", ONE), NOW) is not None


@pytest.mark.parametrize("is_older", [True, False])
def test_where_other_bytes_were_seen_meanwhile_only_what_is_older_falls(index, is_older):
    lease, other = lease_of(index), lease_of(index)
    held = body(b"/a", TWO)
    held = replace(held, stored=replace(held.stored, requested_at=earlier(9 if is_older else 1)))
    index.store(other, STAMPS, held, NOW)
    told = see(index, lease, head(ONE, asked=5.0))
    assert told == ([Removal("body", "replaced", held.body)] if is_older else [])


def test_what_a_write_came_between_says_nothing_of_what_is_newer(index):
    lease = lease_of(index)
    fresh = index.lease(key(b"/a"), LATER, NOW)
    new = replace(body(b"/a", TWO), token=LATER.token)
    index.store(fresh, LATER, new, NOW)
    assert see(index, lease, head(ONE, asked=5.0), is_allowed=False) == []
    assert index.look_up(key(b"/a")) == new


def test_an_absence_that_proves_nothing_denies_bytes_and_not_a_marker(index):
    old = body(b"/a", ONE)
    put(index, old)
    lease, other = lease_of(index), lease_of(index)
    assert index.deny(key(b"/a")) == [Removal("body", "replaced", old.body)]
    assert index.store(lease, STAMPS, body(b"/a", ONE), NOW) is None
    assert index.remember(other, STAMPS, NAMELESS, NOW) == []


def test_what_is_set_aside_is_told(index):
    index.reserve(100)
    assert index.reserved_bytes == 100
