"""Whose certificates an origin may show: the system's authorities, or those of a file."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

# A file is looked at again after so long, where a connection may be needed.
LOOK_AGAIN_SECONDS: Final = 5.0

_Mark = tuple[int, int, int]


class UnfitAuthorities(Exception):
    """A file holds no certificates that can be used; the text says why."""


def context_of(ca_file: Path) -> ssl.SSLContext:
    """Believes the authorities in `ca_file` and no other. Raises UnfitAuthorities."""
    try:
        context = ssl.create_default_context(cafile=str(ca_file))
    except ssl.SSLError as error:
        raise UnfitAuthorities("no certificates in PEM") from error
    except OSError as error:
        raise UnfitAuthorities(error.strerror or str(error)) from error
    # Whoever speaks HTTP/2 as well must be told that this doesn't.
    context.set_alpn_protocols(["http/1.1"])
    return context


class Authorities:
    """Those in `ca_file`, also after it was exchanged; without one the system's. Raises
    UnfitAuthorities.

    A file that became useless is said so once, and what was read before goes on counting.
    """

    def __init__(self, ca_file: Path | None) -> None:
        self._ca_file = ca_file
        self._context: ssl.SSLContext | None = None
        self._mark: _Mark | None = None
        self._looked_at = float("-inf")
        self._is_useless = False
        if ca_file is not None:
            self._mark, self._context = _mark_of(ca_file), context_of(ca_file)

    async def context(self) -> ssl.SSLContext | bool:
        """What aiohttp takes for `ssl`."""
        if self._ca_file is None or self._context is None:
            return True
        now = asyncio.get_running_loop().time()
        if now - self._looked_at >= LOOK_AGAIN_SECONDS:
            self._looked_at = now
            await self._look(self._ca_file)
        return self._context

    async def _look(self, ca_file: Path) -> None:
        try:
            mark = await asyncio.to_thread(_mark_of, ca_file)
            if mark == self._mark:
                return
            self._context = await asyncio.to_thread(context_of, ca_file)
        except UnfitAuthorities as error:
            if not self._is_useless:
                log.warning("upstream_ca_file %s can't be used any more: %s", ca_file, error)
            self._is_useless = True
            return
        self._mark, self._is_useless = mark, False
        log.info("upstream_ca_file %s was read again", ca_file)


def _mark_of(ca_file: Path) -> _Mark:
    """Differs once another file is there, or other bytes."""
    try:
        found = os.stat(ca_file)
    except OSError as error:
        raise UnfitAuthorities(error.strerror or str(error)) from error
    return found.st_ino, found.st_mtime_ns, found.st_size
