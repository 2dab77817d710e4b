"""The fills under way: at most one for each key, `Origin` and range."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from chunkside.core.decision import Fill as FillDecision
from chunkside.core.decision import Forward
from chunkside.core.entry import StampPair
from chunkside.core.key import CacheKey
from chunkside.core.request import Request
from chunkside.gateway.edges import Edges
from chunkside.gateway.errors import OriginUnreachable, OwnFault
from chunkside.gateway.fill import TOO_LARGE, Fill
from chunkside.gateway.outcomes import Failed

_APART_SECONDS: Final = 60.0
# A disk that takes longer is not waited for.
COMMIT_SECONDS: Final = 1.0
_MOST_APART: Final = 1024

_Name = tuple[CacheKey, bytes | None, bytes | None]


class Fills:
    """The fills under way, and the keys that are better asked for apart. `hid_absence`: whether the
    refusal of a request, just arrived, is proved to be for its key's absence, within so many
    seconds.
    """

    def __init__(
        self, edges: Edges, hid_absence: Callable[[Request, float], Awaitable[bool]]
    ) -> None:
        self._edges = edges
        self._hid_absence = hid_absence
        self._running: dict[_Name, Fill] = {}
        # Of bodies that all credentials share: each of them asks for itself until one arrives.
        self._shared: dict[_Name, list[Fill]] = {}
        self._tasks: dict[Fill, asyncio.Task[None]] = {}
        self._apart: OrderedDict[tuple[CacheKey, bytes | None], float] = OrderedDict()

    @property
    def in_flight(self) -> int:
        return len(self._running)

    @property
    def waiters(self) -> int:
        return sum(fill.waiters for fill in self._running.values())

    def is_running(self, request: Request, range_value: bytes | None) -> bool:
        return _name(request, range_value) in self._running

    def running(
        self, request: Request, stamps: StampPair, range_value: bytes | None
    ) -> Fill | None:
        """The fill of the whole, or of a range, that this request may join."""
        own = self._running.get(_name(request, range_value))
        if own is not None and own.is_open_to(request, stamps):
            return own
        # Before there are bytes an absence may be what is coming, and is another credential's.
        shared = self._shared.get(_shared_name(request, range_value), ())
        growing = (fill for fill in shared if fill.growing() is not None)
        return next((fill for fill in growing if fill.is_open_to(request, stamps)), None)

    async def until_committed(self, request: Request) -> bool:
        """Waits until a whole body that has arrived is stored, where it is too stale to be shared:
        then it can be validated, and need not come again. False where none is stored soon.
        """
        fill = self._running.get(_name(request, None))
        if fill is None or not fill.will_be_validated:
            return False
        done, _ = await asyncio.wait({self._tasks[fill]}, timeout=COMMIT_SECONDS)
        return bool(done)

    def prove_absence(self, request: Request) -> None:
        """Asks for the whole of a key that seems to be absent. A body that comes is not read,
        unless somebody wants it meanwhile.
        """
        if not self.is_running(request, None):
            self.start(request, FillDecision(Forward.URI_MISS), is_for_absence=True)

    def start(self, request: Request, asked: FillDecision, *, is_for_absence: bool = False) -> Fill:
        lease = self._edges.lease(request.key)
        fill = Fill(
            self._edges,
            request,
            asked,
            lease,
            is_for_absence=is_for_absence,
            on_orphaned=self._limit_orphans,
            hid_absence=self._hid_absence,
        )
        self._running[_name(request, asked.range_value)] = fill
        self._edges.visits.enter()
        if request.own_space is not None:
            name = _shared_name(request, asked.range_value)
            self._shared.setdefault(name, []).append(fill)
        self._tasks[fill] = self._edges.tasks.start(self._run(fill), "a fill")
        return fill

    def _limit_orphans(self, orphan: Fill) -> None:
        """Gives up what nobody waits for any more where that takes too many connections."""
        orphans = sum(each.is_orphan for each in self._tasks)
        if orphan in self._tasks and orphans > self._edges.most_orphans:
            # Nobody may join what is about to end.
            self._forget(orphan)
            self._tasks[orphan].cancel()

    def _forget(self, fill: Fill) -> None:
        name = _name(fill.request, fill.range_value)
        if self._running.get(name) is fill:
            del self._running[name]
        name = _shared_name(fill.request, fill.range_value)
        sharing = self._shared.get(name, [])
        if fill in sharing:
            sharing.remove(fill)
            if not sharing:
                del self._shared[name]

    async def _run(self, fill: Fill) -> None:
        outcome = "given_up"
        try:
            outcome = await fill.run()
            if outcome == TOO_LARGE:
                # Another fill would write as much in vain.
                self.keep_apart(fill.request, fill.range_value)
        except Exception:
            if not fill.outcome.done():
                fill.outcome.set_result(Failed(OwnFault("Its log tells more. Please report it.")))
            raise
        finally:
            if not fill.outcome.done():
                fill.outcome.set_result(Failed(OriginUnreachable("The fill was given up.")))
            self._forget(fill)
            del self._tasks[fill]
            self._edges.index.end(fill.lease)
            self._edges.observer.fill_ended(outcome)
            self._edges.visits.leave()

    def keep_apart(self, request: Request, range_value: bytes | None) -> None:
        """Answers to this can't be shared: for a while nobody waits for another's."""
        name = request.absence_key, range_value
        self._apart[name] = self._edges.now().boot + _APART_SECONDS
        self._apart.move_to_end(name)
        if len(self._apart) > _MOST_APART:
            self._apart.popitem(last=False)

    def is_apart(self, request: Request, range_value: bytes | None) -> bool:
        name = request.absence_key, range_value
        until = self._apart.get(name)
        if until is None:
            return False
        if until <= self._edges.now().boot:
            del self._apart[name]
            return False
        return True


def _name(request: Request, range_value: bytes | None) -> _Name:
    """Names what only those share who would be told the same absence."""
    return request.absence_key, request.fields.get(b"origin"), range_value


def _shared_name(request: Request, range_value: bytes | None) -> _Name:
    return request.key, request.fields.get(b"origin"), range_value
