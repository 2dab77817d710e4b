"""A cloud's own chain of credentials, by that cloud's own library: looked for in a thread, renewed
ahead of expiry, never waited for while what is held will do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from secrets import token_hex
from typing import Final, Generic, TypeVar

from chunkside.gateway.errors import OriginNotAsked
from chunkside.upstream.workers import in_thread

log = logging.getLogger(__name__)

# As botocore has it for its own clients.
_AHEAD_SECONDS: Final = 900
# What is signed is judged some time later, by another clock.
_TOO_LATE_SECONDS: Final = 30
_LOOK_AGAIN_SECONDS: Final = 5.0
_LONGEST_WAIT_SECONDS: Final = 20.0
_TELL_AGAIN_SECONDS: Final = 600.0
_LONGEST_CODE: Final = 64

T = TypeVar("T")


def hush(*loggers: str) -> None:
    """Keeps what libraries log of credentials from the log, whatever its level: it quotes what they
    asked with and were answered. What of it matters LookupFailed tells.
    """
    for name in loggers:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


class LookupFailed(Exception):
    """The text names the kind of fault alone: what a library says may hold what it asked with."""


@dataclass(frozen=True, slots=True, repr=False)
class Found(Generic[T]):
    """`secret`: what requests are signed with. `identity`: what names it in configuration, never a
    rotating secret. `source`: what the library renews it by. `expires_within`: some seconds.
    """

    secret: T
    identity: str
    source: object
    expires_within: Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Library(Generic[T]):
    """A cloud's own, as its chain is asked. `whose`: as in "AWS's". `look_up`, which may block,
    gives what there is by now: of what was found before, or all anew. Raises LookupFailed.
    """

    name: str
    whose: str
    look_up: Callable[[Found[T] | None], Found[T] | None]
    _told: set[str] = field(default_factory=set, compare=False)

    def chain(self, *, is_required: bool) -> Chain[T] | None:
        """Looks for credentials, which may ask a metadata service and take its time. None where
        there are none. `is_required`: then, and wherever it failed to give what there may be, they
        are looked for again when they are needed.
        """
        try:
            found = self.find(None)
        except LookupFailed as error:
            return Chain(self, None, self._say(f"failed: {error}"))
        if found is not None:
            self._told.clear()
            return Chain(self, found)
        return Chain(self, None, self._say("finds none")) if is_required else None

    def find(self, held: Found[T] | None) -> Found[T] | None:
        """As `look_up`, whatever a library makes of a file or an answer that nobody meant for it:
        if that were no failure to look, nobody would look again.
        """
        try:
            return self.look_up(held)
        except LookupFailed:
            raise
        except Exception as error:
            raise LookupFailed(type(error).__name__) from error

    def _say(self, what: str) -> str:
        """Once, for as long as nothing is found. Gives what it says."""
        told = f"{self.whose} chain of credentials {what}"
        if what not in self._told:
            log.warning("%s", told)
        self._told.add(what)
        return told


class Chain(Generic[T]):
    """What a cloud's chain finds.

    `found`: what was found at the start; None where that is looked for once it is needed. What is
    found later counts only if it is the same identity's: what is stored is kept apart by it.
    `is_known`: whether that is the chain's own, and not one made up in its place; if not, `trouble`
    says why.
    """

    def __init__(
        self, library: Library[T], found: Found[T] | None, trouble: str | None = None
    ) -> None:
        self.trouble = trouble
        self._library = library
        self._found = found
        self.is_known = found is not None
        # What nobody knows yet is nobody else's.
        self.identity = f"{library.name} {token_hex(8)}" if found is None else found.identity
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = {False: float("-inf"), True: float("-inf")}
        # Until it finds something.
        self._told: set[str] = set()
        self._tells_refusals_from = 0.0

    async def secret(self) -> T:
        """Raises OriginNotAsked where there is none that is of use."""
        was_of_use = not self._expires_within(0)
        await self._renew()
        if was_of_use and self._expires_within(0):
            # It ended this very moment.
            await self._renew()
        if self._found is None or self._expires_within(0):
            raise OriginNotAsked(
                f"{self._library.whose} chain of credentials gives none just now, so that nothing "
                "can be signed. The log says why.",
                reason="credentials",
            )
        return self._found.secret

    async def _renew(self) -> None:
        """Has it renewed ahead of its end, and waits for that once it is due."""
        if self._expires_within(_AHEAD_SECONDS):
            self._look(is_anew=False)
        if self._expires_within(_TOO_LATE_SECONDS):
            await self._wait()

    async def secret_after(self, refused: T, why: bytes | None) -> T | None:
        """What the chain finds in the place of what a store refused; None if nothing else. `why`:
        the store's own code, where it has told one that is of the credential alone.
        """
        if self.held() == refused:
            # What runs may bring others, or the same once more.
            await self._wait()
        if self.held() == refused:
            self._look(is_anew=True)
            await self._wait()
        if self.held() != refused:
            return self.held()
        now = asyncio.get_running_loop().time()
        if why is not None and now >= self._tells_refusals_from:
            # Keys may be others each time they are looked for.
            self._tells_refusals_from = now + _TELL_AGAIN_SECONDS
            told = self._library.whose, self.identity, why[:_LONGEST_CODE].decode("latin-1")
            log.warning("the store refuses what %s chain of credentials finds (%s): %s", *told)
        return None

    def held(self) -> T | None:
        """What there is by now, be it of use or not."""
        return None if self._found is None else self._found.secret

    def _expires_within(self, seconds: int) -> bool:
        """Also of what isn't there."""
        return self._found is None or self._found.expires_within(seconds)

    def _look(self, *, is_anew: bool) -> None:
        """Has a thread look, unless one does, or did a moment ago and what is held is of use."""
        now = asyncio.get_running_loop().time()
        is_running = self._looking is not None and not self._looking.done()
        is_recent = now - self._looked_at[is_anew] < _LOOK_AGAIN_SECONDS
        if is_running or (is_recent and not self._expires_within(0)):
            return
        self._looked_at[is_anew] = now
        self._looking = asyncio.create_task(self._bring(is_anew=is_anew))

    async def _wait(self) -> None:
        if self._looking is not None:
            await asyncio.wait({self._looking}, timeout=_LONGEST_WAIT_SECONDS)

    async def _bring(self, *, is_anew: bool) -> None:
        was_of_use = not self._expires_within(0)
        await self._bring_once(None if is_anew else self._found)
        if was_of_use and self._expires_within(0):
            # It ended while others were looked for, and these may have ended with it.
            await self._bring_once(self._found)

    async def _bring_once(self, held: Found[T] | None) -> None:
        whose = self._library.whose
        try:
            found = await in_thread("credentials", partial(self._library.find, held))
        except LookupFailed as error:
            self._say(f"{whose} chain of credentials failed: {error}")
            return
        if found is None:
            self._say(f"{whose} chain of credentials finds none")
        elif self.is_known and found.identity != self.identity:
            self._say(f"{whose} chain finds {found.identity} now: restart to read with that")
        else:
            self._found = found
            self._told.clear()

    def _say(self, what: str) -> None:
        if what not in self._told:
            log.warning("%s", what)
        self._told.add(what)
