"""The way of most hits: no request object, no task, one write.

A header block that was seen before, and that the full parser found plain, is known by its bytes. So
is what the policy makes of it on each route. What is then left of a request is its target, and
maybe a range. Everything that isn't as plain as that is left to aiohttp, byte for byte.

A head that comes again is known as a whole, with its answer, which then only has to hold still.
Once a second it is told anew, for its Date and Age.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import Final

from chunkside.aiohttp_internals.serving import parse_head
from chunkside.core.cache_status import INTEGER_LIMIT, Result
from chunkside.core.decision import Whole
from chunkside.core.entry import Part, Stored
from chunkside.core.fields import Fields
from chunkside.core.freshness import Said
from chunkside.core.heads import head_of, head_of_absence
from chunkside.core.key import class_of_path
from chunkside.core.request import Request
from chunkside.core.route import Route
from chunkside.core.routes import Routes
from chunkside.gateway.at_once import Absence, AtOnce, Bytes, Sitting
from chunkside.gateway.ports import Clock
from chunkside.server.answers import JOINED_BYTES, Answer, Answers, cost_of
from chunkside.server.head import Begun, begin_head, end_head, head_from_store
from chunkside.server.observer import RequestObserver, TargetObserver, Unwatched
from chunkside.server.plain_target import is_plain_path, known_by
from chunkside.server.request_lines import RequestLines

_RANGE: Final = re.compile(
    rb"(?:^|(?<=\r\n))range: (bytes=(?:[0-9]{1,18}-[0-9]{0,18}|-[0-9]{1,18}))\r\n", re.IGNORECASE
)
# What differs in every request of a client that is traced, and nothing is decided by.
_ID_NAMES: Final = frozenset({b"traceparent", b"tracestate", b"x-request-id"})
_IDS: Final = re.compile(
    rb"(?:^|(?<=\r\n))(?:" + b"|".join(sorted(_ID_NAMES)) + rb"): [!-~][ -~]{0,511}\r\n(?![ \t])",
    re.IGNORECASE,
)
_LINE_END: Final = b" HTTP/1.1\r\n"
_MOST_BLOCKS: Final = 256
_MOST_HEADS: Final = 4096
# A client that asks again before it has read so much is answered at its own pace. (The last bytes
# of an answer count for a moment after they have gone.)
_MOST_QUEUED_BYTES: Final = 1 << 20
# Which targets are asked for is told by samples. A prime: readers go round in grids of other sizes.
_TOLD_EVERY: Final = 31

_Seats = dict[str, Sitting | None]


class FastLane:
    """`is_welcome`: whether a GET with these fields may ask at all, whatever its target.
    `boot_clock`: the one of `clock` that never steps, alone and so quicker.

    `lines`: where requests are told of. `answered` counts what it took upon itself.
    """

    def __init__(
        self,
        routes: Iterable[tuple[Route, AtOnce]],
        is_welcome: Callable[[Fields], bool],
        observer: RequestObserver,
        via: bytes,
        clock: Clock,
        boot_clock: Callable[[], float],
        lines: RequestLines | None = None,
    ) -> None:
        self.answered = 0
        self._lines = RequestLines() if lines is None else lines
        # Hears what is asked for, by samples.
        self.targets: TargetObserver = Unwatched()
        self._is_welcome = is_welcome
        self._observer = observer
        self._via = via
        self._clock = clock
        self._boot_clock = boot_clock
        self._met_once: set[bytes] = set()
        self._absences: dict[tuple[int, bool, Said], tuple[Begun, bytes]] = {}
        self._heads: dict[tuple[int, int], tuple[Stored, Begun, Begun]] = {}
        self.take(routes)

    def take(self, routes: Iterable[tuple[Route, AtOnce]]) -> None:
        """Answers by these from now on, and forgets what was judged by others, and who was to be
        told.
        """
        self._at_once = {route.name: at_once for route, at_once in routes}
        self._routes = Routes(route for route, _ in routes)
        only = next(iter(self._routes))
        self._only_route = only if len(self._at_once) == 1 and not only.at else None
        # Where they tell clients apart each of them has to be looked at.
        self._overlooks_ids = all(
            route.credential_names.isdisjoint(_ID_NAMES) for route in self._routes
        )
        self._has_other_names = any(route.is_googles for route in self._routes)
        # By header block; None for what the full parser has to see each time.
        self._known: dict[bytes, _Seats | None] = {}
        self._answers = Answers()

    def recall(self, data: bytes, transport: asyncio.Transport) -> bool:
        """Answers a head whose answer is known and still holds; else leaves everything as it is."""
        known = self._answers.held.get(data)
        if known is None or transport.get_write_buffer_size() > _MOST_QUEUED_BYTES:
            return False
        started = self._boot_clock()
        is_true = known.at_once.holds(known.kept)
        if not is_true or (started >= known.until and not self._renew(data, known)):
            self._answers.forget(data)
            return False
        sampler = known.at_once.sampler
        if sampler is not None and not sampler.passes():
            return False
        transport.write(known.content)
        self.answered += 1
        known.series.ended(_size(known.found), self._boot_clock() - started)
        if not self.answered % _TOLD_EVERY:
            self._tell(data[4 : data.find(b" ", 4)], known.found)
        return True

    def answer(self, head: bytes, transport: asyncio.Transport) -> bool:
        started = self._boot_clock()
        end = head.find(b" ", 4)
        if head[:5] != b"GET /" or head[end : end + 11] != _LINE_END:
            return False
        target, block, range_value = head[4:end], head[end + 11 :], b""
        if b"ange: bytes=" in block and (found := _RANGE.search(block)):
            range_value = found[1]
            block = block[: found.start()] + block[found.end() :]
        seats, is_traced = self._known.get(block), False
        if seats is None and self._overlooks_ids:
            bare = _IDS.sub(b"", block)
            is_traced = len(bare) < len(block)
            seats, block = self._known.get(bare), bare
        if seats is None:
            self._meet(block)
            return False
        if transport.get_write_buffer_size() > _MOST_QUEUED_BYTES or transport.is_closing():
            return False
        return self._answer(
            *(seats, target, range_value, transport, head, started), is_traced=is_traced
        )

    def _answer(
        self,
        seats: _Seats,
        target: bytes,
        range_value: bytes,
        transport: asyncio.Transport,
        head: bytes,
        started: float,
        *,
        is_traced: bool,
    ) -> bool:
        is_plain = is_plain_path(target)
        if not is_plain and not self._has_other_names:
            return False
        route = self._only_route or self._routes.choose(target)
        sitting = seats.get(route.name) if isinstance(route, Route) else None
        if sitting is None or not isinstance(route, Route):
            return False
        asked = known_by(route, target, is_plain=is_plain)
        if asked is None:
            return False
        key_class, now = class_of_path(asked, route.metadata_names), self._clock.now()
        found = self._at_once[route.name].find(sitting, asked, key_class, range_value, now)
        if found is None or (is_traced and isinstance(found, Bytes) and found.stored.variant):
            # It may vary by what was overlooked.
            return False
        second = int(now.wall)
        content = self._write(found, transport, second)
        status = _status(found)
        result: Result = "negative_hit" if isinstance(found, Absence) else "hit"
        series = self._observer.series(route.name, key_class, "GET", result, status)
        if self._lines.share:
            series = self._lines.series(
                *(head, series), route=route.name, key_class=key_class, result=result, status=status
            )
        self.answered += 1
        series.ended(_size(found), self._boot_clock() - started)
        if not self.answered % _TOLD_EVERY:
            self._tell(target, found)
        answers = self._answers
        if answers.comes_again(head) and answers.has_room(cost := cost_of(head, _size(found)), now):
            at_once = self._at_once[route.name]
            kept = at_once.keep(found, sitting.space.location, asked)
            copied = found if content is not None else at_once.copied(found)
            if kept is not None and copied is not None:
                known = Answer(at_once, kept, key_class, series, cost)
                known.say(copied, content or self._whole(copied, second), now)
                answers.keep(head, known)
        return True

    def _tell(self, target: bytes, found: Absence | Bytes) -> None:
        result: Result = "negative_hit" if isinstance(found, Absence) else "hit"
        self.targets.saw(target, result, _status(found), _TOLD_EVERY)

    def _write(
        self, found: Absence | Bytes, transport: asyncio.Transport, second: int
    ) -> bytes | None:
        """Gives what was written where that is short."""
        if isinstance(found, Bytes) and len(found.content) > JOINED_BYTES:
            transport.writelines((self._head_of_bytes(found, second), found.content))
            return None
        whole = self._whole(found, second)
        transport.write(whole)
        return whole

    def _whole(self, found: Absence | Bytes, second: int) -> bytes:
        if isinstance(found, Absence):
            return self._absence(found, second)
        return b"".join((self._head_of_bytes(found, second), found.content))

    def _renew(self, head: bytes, known: Answer) -> bool:
        """Has a known answer tell the present second; False where it is fresh no longer."""
        now = self._clock.now()
        found = known.at_once.again(known.found, known.key_class, now)
        if found is None:
            return False
        known.say(found, self._whole(found, int(now.wall)), now)
        self._answers.asked_for(head)
        return True

    # Heads.

    def _absence(self, found: Absence, second: int) -> bytes:
        absent = found.absent
        kind = absent.told_status, absent.allows_any_origin, found.said
        known = self._absences.get(kind)
        if known is None:
            said = found.said
            selected = head_of_absence(absent, said)
            begun = begin_head(selected.status, selected.fields)
            ended = end_head(self._via, len(said.body)) + said.body
            known = self._absences[kind] = begun, ended
        told = b"chunkside; hit%b; detail=negative" % _told_ttl(found.ttl)
        return head_from_store(known[0], second, found.elapsed, told, known[1])

    def _head_of_bytes(self, found: Bytes, second: int) -> bytes:
        stored, part = found.stored, found.part
        known = self._heads.get(found.file.name)
        if known is None or known[0] is not stored:
            known = self._learn_head(found)
        _, begun, of_part = known
        if part is not None:
            told = b"Content-Range: bytes %d-%d/%d\r\n" % (part.first, part.last, stored.length)
            begun = Begun(of_part.lines + told, of_part.has_date)
        told = b"chunkside; hit" + _told_ttl(found.ttl)
        ended = end_head(self._via, len(found.content))
        return head_from_store(begun, second, found.elapsed, told, ended)

    def _learn_head(self, found: Bytes) -> tuple[Stored, Begun, Begun]:
        stored = found.stored
        if len(self._heads) >= _MOST_HEADS:
            self._heads.clear()
        whole = begin_head(200, head_of(stored, Whole()).fields)
        # Where a part begins and ends is told last of all fields.
        of_part = head_of(stored, Part(0, 0)).fields.without(frozenset({b"content-range"}))
        known = self._heads[found.file.name] = stored, whole, begin_head(206, of_part)
        return known

    # Header blocks.

    def _meet(self, block: bytes) -> None:
        """Judges a block that comes a second time: one that never comes again, such as that of a
        client who signs, takes no other's place.
        """
        if block in self._known:
            return
        if block not in self._met_once:
            if len(self._met_once) >= _MOST_BLOCKS:
                self._met_once.clear()
            self._met_once.add(block)
            return
        self._met_once.discard(block)
        if len(self._known) >= _MOST_BLOCKS:
            del self._known[next(iter(self._known))]
        self._known[block] = self._judge(block)

    def _judge(self, block: bytes) -> _Seats | None:
        lines = parse_head(b"GET / HTTP/1.1\r\n" + block)
        fields = None if lines is None else Fields(lines)
        if fields is None or not self._is_welcome(fields):
            return None
        return {route.name: self._seat(route, fields) for route in self._routes}

    def _seat(self, route: Route, fields: Fields) -> Sitting | None:
        if route.pages is not None:
            # Its answers tell each page another thing.
            return None
        admitted = route.at + (route.admits or b"") + b"/c/0"
        request = route.request("GET", admitted, fields, has_body=False)
        if not isinstance(request, Request):
            return None
        return self._at_once[route.name].sit(request)


def _told_ttl(ttl: float) -> bytes:
    return b"; ttl=%d" % ttl if ttl < INTEGER_LIMIT else b""


def _size(found: Absence | Bytes) -> int:
    """How much of an answer is body."""
    return len(found.content if isinstance(found, Bytes) else found.said.body)


def _status(found: Absence | Bytes) -> int:
    if isinstance(found, Absence):
        return found.absent.told_status
    return 200 if found.part is None else 206
