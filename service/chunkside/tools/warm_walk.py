"""Asks for many targets through the data port, a bounded number at a time, and counts answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import aiohttp
from yarl import URL

from chunkside.settings.addresses import ListenAddress, UnixAddress
from chunkside.tools.admin_client import Field

_ABSENT: Final = frozenset({404, 410})
_KEPT: Final = frozenset({"hit", "stored", "collapsed"})
_SHOWN_ERRORS: Final = 10
ERRORS_IN_A_ROW: Final = 50
_TIMES: Final = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=120)
_USER_AGENT: Final = "chunkside-warm"


@dataclass(slots=True)
class Tally:
    """`size`: bytes of bodies. `from_cache`: answered without a request to the origin. `unkept`:
    answered well, but neither from store nor stored. `has_given_up`: too many errors in a row.
    """

    present: int = 0
    absent: int = 0
    errors: int = 0
    size: int = 0
    from_cache: int = 0
    unkept: int = 0
    first_errors: list[str] = field(default_factory=list)
    first_unkept: str | None = None
    has_given_up: bool = False
    _in_a_row: int = 0

    @property
    def done(self) -> int:
        return self.present + self.absent + self.errors

    def answered(self, target: str, status: int, cache_status: str, size: int) -> None:
        """A whole answer."""
        if status == 200:
            self.present += 1
        elif status in _ABSENT:
            self.absent += 1
        else:
            self.failed(target, f"{status}")
            return
        self._in_a_row = 0
        self.size += size if status == 200 else 0
        told = _told(cache_status)
        self.from_cache += "hit" in told
        if not _KEPT & told:
            self.unkept += 1
            self.first_unkept = self.first_unkept or target

    def failed(self, target: str, reason: str) -> None:
        self.errors += 1
        self._in_a_row += 1
        if len(self.first_errors) < _SHOWN_ERRORS:
            self.first_errors.append(f"{target}: {reason}")
        self.has_given_up = self._in_a_row >= ERRORS_IN_A_ROW


def _told(cache_status: str) -> set[str]:
    """The parameters of the sidecar's own member, which is the last."""
    name, *parameters = cache_status.rpartition(",")[2].split(";")
    return {each.strip() for each in parameters} if name.strip() == "chunkside" else set()


async def walk(
    address: ListenAddress,
    targets: Iterator[str],
    fields: Sequence[Field],
    concurrency: int,
    tally: Tally,
    shown: Callable[[], None],
) -> None:
    """Asks for all of `targets`, which is read as it goes. `shown` is called after each answer."""
    connector = (
        aiohttp.UnixConnector(address.path, limit=concurrency)
        if isinstance(address, UnixAddress)
        else aiohttp.TCPConnector(limit=concurrency)
    )
    root = "http://localhost" if isinstance(address, UnixAddress) else address.url

    async def ask(session: aiohttp.ClientSession) -> None:
        for target in targets:
            await _ask(session, root, target, tally)
            shown()
            if tally.has_given_up:
                return

    # Whatever was brought encoded is kept as it came: none of it is looked at.
    async with (
        aiohttp.ClientSession(
            connector=connector,
            timeout=_TIMES,
            headers=[("User-Agent", _USER_AGENT), *fields],
            skip_auto_headers=("Accept", "Accept-Encoding"),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        ) as session,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(concurrency):
            group.create_task(ask(session))


async def _ask(session: aiohttp.ClientSession, root: str, target: str, tally: Tally) -> None:
    try:
        url = URL(root + target, encoded=True)
        async with session.get(url, allow_redirects=False) as answer:
            size = 0
            async for part in answer.content.iter_any():
                size += len(part)
            told = ", ".join(answer.headers.getall("Cache-Status", ()))
            tally.answered(target, answer.status, told, size)
    except TimeoutError:
        tally.failed(target, "no answer in time")
    except (aiohttp.ClientError, OSError) as error:
        tally.failed(target, str(error) or type(error).__name__)
