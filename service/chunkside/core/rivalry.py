"""What bytes that arrive do to those that are held: which of them they take the place of."""

from __future__ import annotations

from chunkside.core.entry import BodyRef, Entry, Held, Partial, Present, Stored, Variants, helds
from chunkside.core.ranges import generation_of, is_changed


def rivals_of(entry: Entry | None, new: Stored) -> tuple[Held, ...]:
    """What bytes under a head take the place of: all, but for other variants than theirs."""
    if isinstance(entry, Variants) and new.variant:
        return tuple(held for held in entry.of if held.stored.variant == new.variant)
    return helds(entry)


def is_of_another(held: Held, new: Stored) -> bool:
    """Whether what is held is surely not of the representation that `new` is the head of."""
    generation = generation_of(new)
    if held.stored.variant != new.variant:
        return True
    if generation is None:
        return is_changed(held, new) is True
    return generation != generation_of(held.stored)


def has_its_path(entry: Entry | None, body: BodyRef) -> bool:
    """Whether a file is held that has, or had, the path of `body`."""
    if not isinstance(entry, Partial) or body.part is None:
        return isinstance(entry, Present) and body.part is None
    known = entry.body_for(body.part)
    return known is not None and known.part == body.part


def is_same_generation(one: Entry | None, other: Held) -> bool:
    """Whether both are bytes of one representation, under the same stamps."""
    if not isinstance(one, Present | Partial) or one.token != other.token:
        return False
    generation = generation_of(one.stored)
    return generation is not None and generation == generation_of(other.stored)
