"""How many clients may be connected at once, and who goes where there are too many."""

from __future__ import annotations

from typing import Protocol


class Guest(Protocol):
    @property
    def is_quiet(self) -> bool:
        """Whether it is owed nothing and has said nothing that waits for an answer."""
        ...

    def ask_to_leave(self) -> None: ...


class Crowd:
    """The connections there are, the oldest first, at most `most`.

    A process that runs out of descriptors can neither open files nor reach its origin.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._guests: dict[Guest, None] = {}

    def __len__(self) -> int:
        return len(self._guests)

    def admit(self, guest: Guest) -> bool:
        """Whether it may stay. A connection that is kept for nothing makes room for it."""
        if len(self._guests) >= self._most:
            quiet = next((each for each in self._guests if each.is_quiet), None)
            if quiet is None:
                return False
            self.leave(quiet)
            quiet.ask_to_leave()
        self._guests[guest] = None
        return True

    def leave(self, guest: Guest) -> None:
        """Whoever has left already may leave again."""
        self._guests.pop(guest, None)
