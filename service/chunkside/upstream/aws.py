"""AWS's own chain of credentials, by botocore: environment, profile, roles, single sign-on, what
containers and instances are given. Refreshed off the loop, ahead of expiry.

Nothing of a secret is logged: botocore tells answers of its own at DEBUG, and is kept from it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass
from importlib.util import find_spec
from secrets import token_hex
from typing import Any, Final, Protocol

from chunkside.gateway.errors import OriginNotAsked

log = logging.getLogger(__name__)

# As botocore has it for its own clients.
_AHEAD_SECONDS: Final = 900
# What is signed is judged some time later, by another clock.
_TOO_LATE_SECONDS: Final = 30
_LOOK_AGAIN_SECONDS: Final = 5.0
_LONGEST_WAIT_SECONDS: Final = 20.0
_IN_FILES: Final = frozenset({"shared-credentials-file", "config-file"})


@dataclass(frozen=True, slots=True, repr=False)
class Keys:
    """`access_key` is no secret; the others are."""

    access_key: str
    secret_key: str
    token: str | None


class Source(Protocol):
    """Credentials as botocore gives them, which may block."""

    method: str

    def get_frozen_credentials(self) -> Any: ...


class Chain:
    """What the chain finds. `identity`: what names it in configuration, never a rotating secret.

    `found`: what was found at the start; None where that is looked for once it is needed. What is
    found later counts only if it is the same identity's: what is stored is kept apart by it.
    """

    def __init__(self, found: Found | None) -> None:
        self._is_known = found is not None
        # What nobody knows yet is nobody else's.
        self.identity = f"aws {token_hex(8)}" if found is None else found.identity
        self._found: Source | None = None if found is None else found.source
        self._keys: Keys | None = None if found is None else found.keys
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = float("-inf")
        self._is_told = False

    async def keys(self) -> Keys:
        """Raises OriginNotAsked where there are none that are of use."""
        if self._keys is None or self._expires_within(_AHEAD_SECONDS):
            self._look(is_anew=False)
        if self._keys is None or self._expires_within(_TOO_LATE_SECONDS):
            await self._wait()
        if self._keys is None or self._expires_within(0):
            raise OriginNotAsked(
                "AWS's chain of credentials gives none just now, so that nothing can be signed. "
                "The log says why.",
                reason="credentials",
            )
        return self._keys

    async def keys_after(self, refused: Keys) -> Keys | None:
        """What the chain finds in the place of what a store refused; None if nothing else."""
        if self._keys == refused:
            self._look(is_anew=True)
            await self._wait()
        return None if self._keys == refused else self._keys

    def _expires_within(self, seconds: int) -> bool:
        needs_refresh = getattr(self._found, "refresh_needed", None)
        return needs_refresh is not None and bool(needs_refresh(seconds))

    def _look(self, *, is_anew: bool) -> None:
        """Has a thread look, unless one does or did a moment ago."""
        now = asyncio.get_running_loop().time()
        is_running = self._looking is not None and not self._looking.done()
        if is_running or (now - self._looked_at < _LOOK_AGAIN_SECONDS and self._keys is not None):
            return
        self._looked_at = now
        self._looking = asyncio.create_task(self._bring(is_anew=is_anew))

    async def _wait(self) -> None:
        if self._looking is not None:
            await asyncio.wait({self._looking}, timeout=_LONGEST_WAIT_SECONDS)

    async def _bring(self, *, is_anew: bool) -> None:
        source = None if is_anew or self._found is None else self._found
        try:
            found = await asyncio.to_thread(_look_up, source)
        except _errors() as error:
            # What an error says may hold what was asked with.
            self._say(f"AWS's chain of credentials failed: {type(error).__name__}")
            return
        if found is None:
            self._say("AWS's chain of credentials finds none")
        elif self._is_known and found.identity != self.identity:
            self._say(f"AWS's chain finds {found.identity} now: restart to read with that")
        else:
            self._found, self._keys, self._is_told = found.source, found.keys, False

    def _say(self, what: str) -> None:
        if not self._is_told:
            log.warning("%s", what)
        self._is_told = True


@dataclass(frozen=True, slots=True, repr=False)
class Found:
    source: Source
    keys: Keys
    identity: str


def is_installed() -> bool:
    return find_spec("botocore") is not None


def find(*, is_required: bool) -> Chain | None:
    """Looks for credentials, which may ask a metadata service and take a second or two. None where
    there are none, or botocore isn't installed; `is_required`: then they are looked for again when
    they are needed.
    """
    if not is_installed():
        return None
    try:
        found = _look_up(None)
    except _errors() as error:
        log.warning("AWS's chain of credentials failed: %s", type(error).__name__)
        found = None
    if found is None:
        return Chain(None) if is_required else None
    return Chain(found)


def region() -> str | None:
    """What AWS's configuration says."""
    if not is_installed():
        return None
    told = _session().get_config_variable("region")
    return told if isinstance(told, str) else None


def _look_up(source: Source | None) -> Found | None:
    """What `source` gives by now, or the chain where that is None. Blocks."""
    session = _session()
    source = source or session.get_credentials()
    if source is None:
        return None
    frozen = source.get_frozen_credentials()
    keys = Keys(frozen.access_key, frozen.secret_key, frozen.token)
    return Found(source, keys, _identity_of(session, source.method, keys))


def _identity_of(session: Any, method: str, keys: Keys) -> str:
    """By what names it: a static key's id, else the profile and the role that lead to it."""
    if method == "env" or (method in _IN_FILES and keys.token is None):
        return f"aws {method} {keys.access_key}"
    profile = session.get_config_variable("profile") or "default"
    role = session.full_config.get("profiles", {}).get(profile, {}).get("role_arn")
    if method == "assume-role-with-web-identity":
        role = os.environ.get("AWS_ROLE_ARN") or role  # environment: as botocore's chain does
    return " ".join(("aws", method, profile, *filter(None, (role,))))


def _session() -> Any:
    from botocore.session import Session  # noqa: PLC0415 - an extra

    logging.getLogger("botocore").setLevel(logging.WARNING)
    return Session()


def _errors() -> tuple[type[Exception], ...]:
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - an extra

    return BotoCoreError, ClientError, OSError, RuntimeError, ValueError, KeyError
