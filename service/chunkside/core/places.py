"""Which key lies at which place: dicts by namespace, and every spelling of an object."""

from __future__ import annotations

from collections.abc import Iterator

from chunkside.core.key import CacheKey, Namespace, Object, is_plain


class _Space:
    __slots__ = ("namespace", "number", "places")

    def __init__(self, namespace: Namespace, number: int) -> None:
        self.namespace = namespace
        self.number = number
        self.places: dict[bytes, int] = {}


class Places:
    """A key has one place or none. Namespaces are numbered, so that a place can name its own."""

    def __init__(self) -> None:
        self.count = 0
        self._spaces: dict[Namespace, _Space] = {}
        self._numbered: list[_Space | None] = []
        self._free_numbers: list[int] = []
        # Keys that are not their object's plain path, by object, so that a write finds them.
        self._spellings: dict[Object, set[CacheKey]] = {}

    @property
    def namespace_count(self) -> int:
        """How many namespaces something lies in."""
        return len(self._spaces)

    def find(self, key: CacheKey) -> int | None:
        return self.place(key.namespace, key.target)

    def place(self, namespace: Namespace, target: bytes) -> int | None:
        space = self._spaces.get(namespace)
        return None if space is None else space.places.get(target)

    def number(self, namespace: Namespace) -> int:
        """The namespace's number. Something must then be put in it."""
        space = self._spaces.get(namespace)
        if space is not None:
            return space.number
        if self._free_numbers:
            number = self._free_numbers.pop()
        else:
            number = len(self._numbered)
            self._numbered.append(None)
        self._numbered[number] = self._spaces[namespace] = _Space(namespace, number)
        return number

    def namespace(self, number: int) -> Namespace:
        space = self._numbered[number]
        assert space is not None
        return space.namespace

    def put(self, key: CacheKey, place: int) -> None:
        """Gives a key that has none its place."""
        self._spaces[key.namespace].places[key.target] = place
        self.count += 1
        if not is_plain(key.target):
            self._spellings.setdefault(key.object, set()).add(key)

    def take(self, key: CacheKey) -> int | None:
        """The place that the key had; it has none any more."""
        space = self._spaces.get(key.namespace)
        place = space.places.pop(key.target, None) if space is not None else None
        if space is None or place is None:
            return None
        self.count -= 1
        if not space.places:
            del self._spaces[key.namespace]
            self._numbered[space.number] = None
            self._free_numbers.append(space.number)
        if not is_plain(key.target):
            self._forget_spelling(key)
        return place

    def _forget_spelling(self, key: CacheKey) -> None:
        spellings = self._spellings[key.object]
        spellings.discard(key)
        if not spellings:
            del self._spellings[key.object]

    def keys(self) -> Iterator[CacheKey]:
        """A snapshot of every key that has a place."""
        for space in list(self._spaces.values()):
            for target in list(space.places):
                yield CacheKey(space.namespace, target)

    def keys_of(self, target: Object) -> set[CacheKey]:
        """Every key, with a place or none, under which something of an object may lie."""
        keys = set(self._spellings.get(target, ()))
        # A path that holds a decoded `?` or `%` is no target of this object, but maybe of another.
        if is_plain(target.path):
            keys |= {
                CacheKey(space.namespace, target.path)
                for space in self._spaces.values()
                if space.namespace.location == target.location
            }
        return keys

    def check_invariants(self) -> None:
        """Raises AssertionError where the books don't agree. For tests; O(n)."""
        spelled = {key for keys in self._spellings.values() for key in keys}
        assert spelled == {key for key in self.keys() if not is_plain(key.target)}
        assert all(space.places for space in self._spaces.values()), "an empty namespace is kept"
        assert self.count == sum(len(space.places) for space in self._spaces.values())
        numbers = len(self._spaces) + len(self._free_numbers)
        assert len(self._numbered) == numbers, "a namespace's number is lost"
