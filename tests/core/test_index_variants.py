"""Variants: they hang under their key, replace and are evicted one by one, and fall together."""

from dataclasses import replace

import pytest

from chunkside.core.budget import Kind, Limits, Reason, Removal, Tally
from chunkside.core.entry import BodyRef, Held, Part, Partial, Present, Variants, helds
from chunkside.core.index import Index
from tests.core.index_samples import LATER, MARKER, NAMELESS, PLENTY, STAMPS, body, key, mark, put
from tests.core.samples import NOW, earlier, stored

ONE, TWO = 'ETag: "1"', 'ETag: "2"'
# What one costs, here: 1200, twice the key, one field line of 307 bytes; and a place for its file.
HEAD = 1200 + 4 + 307
FILE = 700
_nonces = iter(range(100, 10**6))


def variant(
    name: bytes,
    *lines: str,
    part: tuple[int, int] | None = None,
    asked: float = 0.0,
    length: int = 1000,
    blocks: int = 8,
) -> Held:
    head = stored(
        *(lines or (ONE,)),
        key=key(b"/a"),
        length=length,
        requested_at=earlier(asked),
        variant=name,
    )
    range_ = None if part is None else Part(*part)
    size = length if range_ is None else range_.length
    ref = BodyRef(key(b"/a"), 1, next(_nonces), size, blocks, range_, name)
    if range_ is None:
        return Present(head, ref, STAMPS.token)
    return Partial(head, (ref,), STAMPS.token)


def gone(held: Held, reason: Reason = "replaced") -> list[Removal]:
    kind: Kind = "body" if isinstance(held, Present) else "range"
    return [Removal(kind, reason, each) for each in held.bodies]


def names(index: Index) -> list[bytes]:
    return [held.stored.variant for held in helds(index.look_up(key(b"/a")))]


def test_each_variant_replaces_itself_alone():
    index = Index(PLENTY)
    german, english = variant(b"de"), variant(b"en")
    assert put(index, german) == put(index, english) == []
    newer = variant(b"de", TWO)
    assert put(index, newer) == gone(german)
    assert index.look_up(key(b"/a")) == Variants((english, newer))
    assert index.key_count == 1
    assert list(index.keys()) == [key(b"/a")]


def test_ranges_of_a_variant_join_and_mix_with_no_other():
    index = Index(PLENTY)
    put(index, variant(b"de", part=(0, 99)))
    put(index, variant(b"en", part=(0, 99)))
    assert put(index, variant(b"de", part=(200, 299))) == []
    german, english = helds(index.look_up(key(b"/a")))
    assert [each.first for each in german.bodies] == [0, 200]
    assert [each.first for each in english.bodies] == [0]
    within = variant(b"en", part=(50, 60))
    assert put(index, within) == gone(within)
    whole = variant(b"de")
    assert put(index, whole) == gone(german)
    assert names(index) == [b"en", b"de"]


def test_what_does_not_vary_and_what_does_take_each_others_place():
    index = Index(PLENTY)
    plain, german, english = body(b"/a", ONE), variant(b"de"), variant(b"en")
    put(index, plain)
    assert put(index, german) == [Removal("body", "replaced", plain.body)]
    put(index, english)
    again = body(b"/a", ONE, nonce=2)
    assert put(index, again) == gone(german) + gone(english)
    assert index.look_up(key(b"/a")) == again


def test_an_absence_drops_all_variants_and_a_variant_drops_a_marker():
    index = Index(PLENTY)
    german, english = variant(b"de"), variant(b"en")
    put(index, german)
    put(index, english)
    assert mark(index, b"/a") == gone(german) + gone(english)
    assert put(index, german) == [Removal("marker", "replaced")]
    assert index.markers.count == 0


@pytest.mark.parametrize("drop", ["key", "object", "location", "denied"])
def test_all_variants_fall_together(drop):
    index = Index(PLENTY)
    german, english = variant(b"de"), variant(b"en", part=(0, 9))
    put(index, german)
    put(index, english)
    fallen = {
        "key": lambda: index.drop(key(b"/a"), "replaced"),
        "object": lambda: index.drop_object(key(b"/a").object, "replaced"),
        "location": lambda: index.drop_location(key(b"/a").namespace.location, "replaced"),
        "denied": lambda: index.deny(key(b"/a")),
    }[drop]()
    assert fallen == gone(german) + gone(english)
    index.check_invariants()
    assert index.memory_in_use == index.total_bytes == index.key_count == 0


def test_what_variants_cost():
    index = Index(PLENTY)
    put(index, variant(b"de"))
    put(index, variant(b"en", part=(0, 9)))
    put(index, variant(b"en", part=(20, 29)))
    assert index.bodies == Tally(1, 4096, HEAD + FILE)
    assert index.ranges == Tally(2, 8192, HEAD + 2 * FILE)
    assert index.counts_of(key(b"/a").namespace.location) == {"body": 1, "range": 2, "marker": 0}
    index.make_stale(key(b"/a"), "purged")
    index.check_invariants()
    assert all(held.must_validate for held in helds(index.look_up(key(b"/a"))))


def test_the_least_recently_used_variant_is_evicted_by_itself():
    index = Index(Limits(budget_bytes=3 * 4096))
    german, english = variant(b"de"), variant(b"en")
    put(index, german)
    put(index, english)
    put(index, body(b"/b"))
    index.touch_body(german.bodies[0])
    assert put(index, body(b"/c")) == gone(english, "budget")
    assert names(index) == [b"de"]
    index.touch(key(b"/a"))
    assert put(index, body(b"/d")) == [Removal("body", "budget", body(b"/b").body)]
    assert put(index, body(b"/e")) == gone(german, "budget")
    assert index.look_up(key(b"/a")) is None


def test_a_variant_too_large_is_refused_and_takes_its_own_place_alone():
    index = Index(Limits(budget_bytes=10_000))
    german, english = variant(b"de"), variant(b"en")
    put(index, german)
    put(index, english)
    large = variant(b"de", TWO, blocks=100)
    assert put(index, large) == gone(german) + gone(large, "budget")
    assert names(index) == [b"en"]
    # Its entry fits; with a place for its file it doesn't.
    small = Index(Limits(10**9, memory_bytes=(HEAD + FILE) * 4 // 3 - 4))
    one = variant(b"de")
    assert put(small, one) == gone(one, "index_memory")


def test_a_key_has_eight_variants_at_most():
    index = Index(PLENTY)
    held = [variant(b"%d" % n) for n in range(9)]
    for each in held[:8]:
        assert put(index, each) == []
    assert put(index, held[8]) == gone(held[0])
    assert names(index) == [b"%d" % n for n in range(1, 9)]
    again = variant(b"1", TWO)
    assert put(index, again) == gone(held[1])
    assert len(names(index)) == 8


def test_one_file_of_a_variant_goes_alone():
    index = Index(PLENTY)
    german = variant(b"de")
    first, second = variant(b"en", part=(0, 9)), variant(b"en", part=(20, 29))
    for each in (german, first, second):
        put(index, each)
    stranger = variant(b"de")
    assert index.drop_file(stranger.bodies[0], "corrupt") == []
    assert index.drop_file(first.bodies[0], "corrupt") == gone(first, "corrupt")
    assert names(index) == [b"de", b"en"]
    assert index.drop_file(second.bodies[0], "corrupt") == gone(second, "corrupt")
    assert names(index) == [b"de"]
    assert index.drop_file(german.bodies[0], "corrupt") == gone(german, "corrupt")
    assert index.drop_file(german.bodies[0], "corrupt") == []
    index.check_invariants()
    assert index.key_count == 0


# Leases.


def store(index: Index, lease, what: Held):
    removed = index.store(lease, STAMPS, what, NOW)
    index.check_invariants()
    return removed


def test_another_variant_that_arrives_first_is_in_nobodys_way():
    index = Index(PLENTY)
    one, two = (index.lease(key(b"/a"), STAMPS, NOW) for _ in range(2))
    assert store(index, one, variant(b"de")) == []
    assert store(index, two, variant(b"en")) == []
    assert names(index) == [b"de", b"en"]


def test_of_one_variant_only_more_of_the_same_bytes_may_come_after():
    index = Index(PLENTY)
    one, two, three = (index.lease(key(b"/a"), STAMPS, NOW) for _ in range(3))
    assert store(index, one, variant(b"de", part=(0, 9))) == []
    assert store(index, two, variant(b"de", TWO, part=(20, 29))) is None
    assert store(index, three, variant(b"de", part=(20, 29))) == []


@pytest.mark.parametrize(("first", "second"), [(b"", b"de"), (b"de", b"")])
def test_where_an_origin_begins_to_vary_or_ends_nobody_can_tell_which_is_newer(first, second):
    index = Index(PLENTY)
    one, two = (index.lease(key(b"/a"), STAMPS, NOW) for _ in range(2))
    assert store(index, one, variant(first)) == []
    assert store(index, two, variant(second)) is None


def test_no_absence_is_remembered_after_a_variant_was_stored():
    index = Index(PLENTY)
    one, two = (index.lease(key(b"/a"), STAMPS, NOW) for _ in range(2))
    store(index, one, variant(b"de"))
    assert index.remember(two, STAMPS, NAMELESS, NOW) is None


def test_bytes_that_arrive_drop_other_bytes_of_their_variant_alone():
    index = Index(PLENTY)
    german, english = variant(b"de", asked=5), variant(b"en", asked=5)
    put(index, german)
    put(index, english)
    lease = index.lease(key(b"/a"), STAMPS, NOW)
    seen = variant(b"de", TWO).stored
    assert index.see(lease, seen, is_allowed=True, is_relayed=False) == gone(german)
    assert names(index) == [b"en"]
    plain = stored(ONE, key=key(b"/a"))
    assert index.see(lease, plain, is_allowed=True, is_relayed=False) == gone(english)
    index.check_invariants()


def test_a_variant_is_freshened_by_itself():
    index = Index(PLENTY)
    german, english = variant(b"de", asked=500), variant(b"en", asked=500)
    put(index, german)
    put(index, english)
    lease = index.lease(key(b"/a"), STAMPS, NOW)
    fresh = replace(german.stored, requested_at=NOW)
    assert index.freshen(lease, STAMPS, german, fresh, NOW) == []
    assert index.look_up(key(b"/a")) == Variants((replace(german, stored=fresh), english))
    assert index.freshen(lease, LATER, german, fresh, NOW) is None
    assert index.freshen(lease, STAMPS, variant(b"fr"), fresh, NOW) is None


# Found on disk.


def test_variants_found_on_disk_are_taken_in_beside_each_other():
    index = Index(PLENTY)
    german, english = variant(b"de"), variant(b"en", part=(0, 9))
    assert index.adopt(german) == index.adopt(english) == []
    assert names(index) == [b"de", b"en"]
    # Known already.
    assert index.adopt(english) is None
    assert index.adopt(variant(b"de")) is None
    # Of two files that had one path nobody can say which is there by now.
    assert index.adopt(variant(b"de", TWO)) is None


@pytest.mark.parametrize(("asked", "is_taken"), [(10, False), (0, True)])
def test_of_what_varies_and_what_does_not_the_later_stays(asked, is_taken):
    index = Index(PLENTY)
    old = variant(b"de", asked=5)
    put(index, old)
    found = variant(b"", TWO, asked=asked)
    assert index.adopt(found) == (gone(old) if is_taken else gone(found))
    assert names(index) == ([b""] if is_taken else [b"de"])


def test_a_marker_costs_what_it_did_beside_variants():
    index = Index(PLENTY)
    put(index, variant(b"de"))
    mark(index, b"/b")
    assert index.markers == Tally(1, MARKER, MARKER)
