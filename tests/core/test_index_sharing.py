"""Bodies that all credentials share, and absences that none does."""

from dataclasses import replace

import pytest

from chunkside.core.entry import Absent, Partial, Present, StampPair
from chunkside.core.index import Index
from chunkside.core.key import ALL_CREDENTIALS, CacheKey, Namespace, Object
from tests.core.index_samples import HERE, NAMELESS, PLENTY, STAMPS
from tests.core.samples import NOW, partial, present, stored

ALL = Namespace(HERE, "", ALL_CREDENTIALS)
ALICE, BOB = Namespace(HERE, "", b"alice"), Namespace(HERE, "", b"bob")
NOBODY = Namespace(HERE)
A, SPELLED, OTHER = b"/a", b"/%61", b"/b"
SHARED = CacheKey(ALL, A)


@pytest.fixture
def index():
    made = Index(PLENTY)
    yield made
    made.check_invariants()


def body(key=SHARED, tag='ETag: "1"'):
    return replace(present(stored(tag, key=key)), token=STAMPS.token)


def part(key=SHARED):
    return replace(partial(stored('ETag: "1"', key=key), (0, 9)), token=STAMPS.token)


def see_absent(index, space, target=A):
    lease = index.lease(CacheKey(ALL, target), STAMPS, NOW)
    removed = index.remember(lease, STAMPS, NAMELESS, NOW, CacheKey(space, target))
    index.end(lease)
    return removed


def bring(index, what):
    lease = index.lease(what.stored.key, STAMPS, NOW)
    removed = index.store(lease, STAMPS, what, NOW)
    index.end(lease)
    return removed


def is_absent(index, space, target=A):
    return isinstance(index.look_up(CacheKey(space, target)), Absent)


def test_an_absence_lies_with_who_saw_it(index):
    assert see_absent(index, ALICE) == []
    assert is_absent(index, ALICE)
    assert not is_absent(index, BOB)
    assert index.look_up(SHARED) is None


def test_an_absence_never_lies_where_all_would_see_it(index):
    lease = index.lease(SHARED, STAMPS, NOW)
    with pytest.raises(AssertionError, match="one credential"):
        index.remember(lease, STAMPS, NAMELESS, NOW)


@pytest.mark.parametrize("what", [body(), part()], ids=["a body", "a range"])
def test_an_absence_drops_what_all_share(index, what):
    bring(index, what)
    removed = see_absent(index, BOB)
    assert [each.reason for each in removed] == ["replaced"]
    assert index.look_up(SHARED) is None


@pytest.mark.parametrize("what", [body(), part()], ids=["a body", "a range"])
def test_bytes_drop_the_markers_of_all_in_every_spelling(index, what):
    for space in (ALICE, BOB, NOBODY):
        see_absent(index, space)
    see_absent(index, BOB, SPELLED)
    see_absent(index, BOB, OTHER)
    removed = bring(index, what)
    assert [each.kind for each in removed] == ["marker"] * 4
    assert is_absent(index, BOB, OTHER)
    assert isinstance(index.look_up(SHARED), Present | Partial)


def test_evidence_drops_the_markers_of_all(index):
    for space in (ALICE, BOB):
        see_absent(index, space)
    lease = index.lease(SHARED, STAMPS, NOW)
    assert len(index.refute(SHARED)) == 2
    # What one of them is still to be told is older.
    assert index.remember(lease, STAMPS, NAMELESS, NOW, CacheKey(ALICE, A)) is None


def test_bytes_on_their_way_are_older_than_an_absence_and_other_absences_are_not(index):
    fill, absence = index.lease(SHARED, STAMPS, NOW), index.lease(SHARED, STAMPS, NOW)
    see_absent(index, ALICE)
    assert index.store(fill, STAMPS, body(), NOW) is None
    assert index.remember(absence, STAMPS, NAMELESS, NOW, CacheKey(BOB, A)) == []
    assert is_absent(index, ALICE)
    assert is_absent(index, BOB)


@pytest.mark.parametrize(("what", "removed"), [(body(), 0), (part(), 1)], ids=["body", "range"])
def test_a_file_that_is_found_is_older_than_an_absence_of_anybody(index, what, removed):
    see_absent(index, BOB)
    assert len(index.adopt(what) or []) == removed
    assert index.look_up(SHARED) is None
    assert is_absent(index, BOB)


def test_a_file_that_is_found_is_taken_in_beside_absences_of_other_targets(index):
    see_absent(index, BOB, SPELLED)
    assert index.adopt(body()) == []
    assert isinstance(index.look_up(SHARED), Present)


def test_a_write_drops_both(index):
    see_absent(index, ALICE)
    bring(index, body(CacheKey(ALL, SPELLED)))
    see_absent(index, BOB)
    assert len(index.drop_object(Object(HERE, A), "invalidated")) == 2
    assert index.key_count == 0


def test_a_stamp_forbids_an_absence_too(index):
    lease = index.lease(SHARED, STAMPS, NOW)
    current = StampPair(object=9, location=2)
    assert index.remember(lease, current, NAMELESS, NOW, CacheKey(BOB, A)) is None
