import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkside.core.index import Index
from chunkside.core.key import Namespace, Object
from chunkside.core.subtree import is_beneath, walk
from tests.core.index_samples import HERE, MINE, PLENTY, body, key, mark, put

ALL = Object(HERE, b"/")


@pytest.mark.parametrize(
    ("path", "root", "is_so"),
    [
        pytest.param(b"/a/b", b"/a/b", True, id="itself"),
        pytest.param(b"/a/b/c", b"/a/b", True, id="beneath"),
        pytest.param(b"/a/bc", b"/a/b", False, id="a-longer-name"),
        pytest.param(b"/a", b"/a/b", False, id="above"),
        pytest.param(b"/a/b", b"/a/", True, id="in-a-directory"),
        pytest.param(b"/a", b"/a/", False, id="a-directory-is-not-its-name"),
        pytest.param(b"/a", b"/", True, id="the-root"),
    ],
)
def test_beneath_ends_at_a_slash(path, root, is_so):
    assert is_beneath(path, root) is is_so


def everything(index, root):
    return [found for _, found in walk(index, root, range(index.place_count))]


def test_a_walk_meets_bodies_and_markers_in_all_partitions_and_spellings():
    index = Index(PLENTY)
    put(index, body(b"/a/0"))
    mark(index, b"/a/1")
    mark(index, b"/a/0", MINE)
    mark(index, b"/%61/2?v=1")
    for other in (b"/ab/0", b"/b", b"/a/../b"):
        mark(index, other)
    mark(index, b"/a/0", Namespace("http://elsewhere:80"))
    assert everything(index, Object(HERE, b"/a")) == [
        key(b"/a/0"),
        key(b"/a/1"),
        key(b"/a/0", MINE),
        key(b"/%61/2?v=1"),
    ]


def test_a_walk_looks_at_the_places_it_is_told_and_no_others():
    index = Index(PLENTY)
    for number in range(5):
        mark(index, b"/%d" % number)
    first = next(place for place, _ in walk(index, ALL, range(index.place_count)))
    met = list(walk(index, ALL, range(first + 1, first + 3)))
    assert met == [(first + 1, key(b"/1")), (first + 2, key(b"/2"))]
    assert list(walk(index, ALL, range(first + 4, 10**9))) == [(first + 4, key(b"/4"))]
    assert list(walk(index, ALL, range(10**9, 10**9 + 1))) == []


def test_what_dies_during_a_walk_is_not_met():
    index = Index(PLENTY)
    for number in range(3):
        mark(index, b"/%d" % number)
    met = []
    for _, found in walk(index, ALL, range(index.place_count)):
        met.append(found.target)
        index.drop(key(b"/1"), "purged")
    assert met == [b"/0", b"/2"]


TARGETS = [b"/%d" % number for number in range(8)]
STEPS = st.sampled_from(["walk", "mark", "put", "drop", "touch", "make_stale"])


@settings(deadline=None)
@given(
    held=st.sets(st.sampled_from(TARGETS)),
    steps=st.lists(st.tuples(STEPS, st.sampled_from(TARGETS)), max_size=30),
    page=st.integers(1, 4),
)
def test_what_lives_from_first_to_last_is_met_exactly_once(held, steps, page):
    index = Index(PLENTY)
    for target in sorted(held):
        mark(index, target)
    steady, met, place = set(held), [], 0
    for step, target in [*steps, *[("walk", b"")] * 20]:
        match step:
            case "walk":
                met += [found.target for _, found in walk(index, ALL, range(place, place + page))]
                place += page
            case "mark" | "put":
                mark(index, target) if step == "mark" else put(index, body(target))
                steady.discard(target)
            case "drop":
                index.drop(key(target), "purged")
                steady.discard(target)
            case "touch":
                index.touch(key(target))
            case _:
                # A marker falls.
                if index.make_stale(key(target), "purged"):
                    steady.discard(target)
    assert place >= index.place_count
    assert {target: met.count(target) for target in steady} == dict.fromkeys(steady, 1)


def test_the_keys_of_an_object_are_all_its_spellings_queries_and_partitions():
    index = Index(PLENTY)
    put(index, body(b"/a"))
    mark(index, b"/a", MINE)
    mark(index, b"/%61?v=1")
    mark(index, b"/a/b")
    found = {each for each in index.keys_of(Object(HERE, b"/a")) if index.look_up(each)}
    assert found == {key(b"/a"), key(b"/a", MINE), key(b"/%61?v=1")}
