"""`chunkside warm`: brings an array's chunks into the cache, and the absent ones to its memory.

Killed and started again it goes on where it was: what a sidecar holds and would answer by itself is
not asked for again. It keeps no list of its own, which could tell of what has been evicted since.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from chunkside.core.printable import printable
from chunkside.settings.addresses import ListenAddress
from chunkside.settings.quantities import format_size_rounded
from chunkside.tools.admin_client import AdminClient, Field, NotAnswered
from chunkside.tools.errors import ToolFailed
from chunkside.tools.progress import Progress
from chunkside.tools.tables import aligned, tabbed
from chunkside.tools.warm_plan import (
    Plan,
    WarmArray,
    held_of,
    lifetimes_of,
    partition_of,
    plan_of,
)
from chunkside.tools.warm_walk import Tally, walk

EXIT_DONE: Final = 0
EXIT_WITH_ERRORS: Final = 1
EXIT_INTERRUPTED: Final = 130
_ALL: Final = "Without it all chunks are asked for; what is held answers all the same"
# More than anybody's cache holds: most likely the shape is not what it is thought to be.
MOST_CHUNKS: Final = 2**31


@dataclass(frozen=True, slots=True)
class Order:
    """What to warm, by which ports. `admin`: None where it isn't known to be of the same sidecar.
    `elements`: the block that is wanted, () for all.
    """

    target: str
    data: ListenAddress
    admin: AdminClient | None
    fields: Sequence[Field] = ()
    elements: Sequence[slice] = ()
    concurrency: int = 16
    is_dry_run: bool = False
    as_json: bool = False


@dataclass(slots=True)
class _Work:
    """One array, and the ordinals of its chunks that need no request."""

    array: WarmArray
    held: frozenset[int]

    @property
    def requests(self) -> int:
        return self.array.chunks - len(self.held)

    @property
    def most_bytes(self) -> int | None:
        """None where elements have no one size."""
        size = self.array.array.chunk_bytes
        return None if size is None else size * self.requests


@dataclass(slots=True)
class _Report:
    order: Order
    plan: Plan
    works: list[_Work]
    tally: Tally = field(default_factory=Tally)
    seconds: float = 0.0

    def members(self) -> dict[str, object]:
        sizes = [each.most_bytes for each in self.works]
        known = [size for size in sizes if size is not None]
        tally = self.tally
        asked: dict[str, object] = {
            "target": self.order.target,
            "arrays": len(self.works),
            "chunks": sum(each.array.chunks for each in self.works),
            "held": sum(len(each.held) for each in self.works),
            "requests": sum(each.requests for each in self.works),
            "uncompressed_bytes": sum(known) if len(known) == len(sizes) else None,
            "left_out": dict(self.plan.left_out),
        }
        if self.order.is_dry_run:
            return asked
        return asked | {
            "present": tally.present,
            "absent": tally.absent,
            "errors": tally.errors,
            "bytes": tally.size,
            "answered_by_cache": tally.from_cache,
            "not_stored": tally.unkept,
            "seconds": round(self.seconds, 3),
        }


def run_order(order: Order) -> int:
    """Gives the exit code. Raises ToolFailed."""
    data = AdminClient(order.data, "data")
    plan = plan_of(data, order.target, order.fields, order.elements)
    for path, reason in plan.left_out:
        print(printable(f"{path} is left out. {reason}"), file=sys.stderr)
    _refuse_too_many(plan)
    report = _Report(order, plan, _works(order, plan))
    if order.is_dry_run:
        _print_plan(report)
        return EXIT_DONE
    return _run(order, report)


def _refuse_too_many(plan: Plan) -> None:
    count = sum(each.chunks for each in plan.arrays)
    if count > MOST_CHUNKS:
        raise ToolFailed(
            f"{plan.document} tells of {count:,} chunks, more than can be warmed: name a part "
            "of it with --slice"
        )


def _works(order: Order, plan: Plan) -> list[_Work]:
    admin = order.admin
    if admin is None:
        print(f"no admin port is known to be this sidecar's (--admin URL). {_ALL}", file=sys.stderr)
        return [_Work(each, frozenset()) for each in plan.arrays]
    try:
        partition = partition_of(admin, plan.document, order.fields)
        return [_Work(each, held_of(admin, each, partition)) for each in plan.arrays]
    except NotAnswered as error:
        print(f"{error}. {_ALL}", file=sys.stderr)
        return [_Work(each, frozenset()) for each in plan.arrays]


def _run(order: Order, report: _Report) -> int:
    total = sum(each.requests for each in report.works)
    tally, progress = report.tally, Progress(sys.stderr, total)

    def shown() -> None:
        progress.show(tally.done, _so_far(tally, total, progress.seconds))

    try:
        asyncio.run(
            walk(order.data, _targets(report), order.fields, order.concurrency, tally, shown)
        )
    except KeyboardInterrupt:
        progress.make_way()
        print(
            f"given up: {_so_far(tally, total, progress.seconds)}; start it again to go on",
            file=sys.stderr,
        )
        return EXIT_INTERRUPTED
    progress.make_way()
    report.seconds = progress.seconds
    _print_end(report)
    warn_of_lifetimes(order, report.seconds)
    return EXIT_WITH_ERRORS if tally.errors else EXIT_DONE


def warn_of_lifetimes(order: Order, seconds: float) -> None:
    """Says so where a run took longer than what it brought stays fresh."""
    if order.admin is None:
        return
    lifetimes = lifetimes_of(order.admin, order.target)
    short = [f"{name}={value:g}s" for name, value in lifetimes.items() if value < seconds]
    if short:
        print(
            f"it took longer than {' and '.join(short)}: of what came first some is stale by now, "
            "unless the origin gave it a longer life. Raise these settings to keep it",
            file=sys.stderr,
        )


def _targets(report: _Report) -> Iterator[str]:
    return chain.from_iterable(each.array.targets(each.held) for each in report.works)


def _so_far(tally: Tally, total: int, seconds: float) -> str:
    rate = tally.done / seconds if seconds > 0 else 0.0
    errors = f", {tally.errors:,} errors" if tally.errors else ""
    return (
        f"{tally.done:,}/{total:,} chunks: {tally.present:,} present, {tally.absent:,} absent"
        f"{errors}, {format_size_rounded(tally.size)}, {rate:,.0f}/s"
    )


def _print_plan(report: _Report) -> None:
    if report.order.as_json:
        print(json.dumps(report.members()))
        return
    is_terminal = sys.stdout.isatty()
    rows: list[tuple[str, ...]] = [
        ("array", "chunks", "held", "requests", "bytes at most, uncompressed")
    ]
    rows += [
        (
            each.array.base or "/",
            *(str(n) for n in (each.array.chunks, len(each.held), each.requests)),
            _bytes(each.most_bytes, is_terminal=is_terminal),
        )
        for each in report.works
    ]
    print("\n".join(aligned(rows) if is_terminal else tabbed(rows)))


def _bytes(size: int | None, *, is_terminal: bool) -> str:
    if size is None:
        return "unknown"
    return format_size_rounded(size) if is_terminal else str(size)


def _print_end(report: _Report) -> None:
    tally = report.tally
    for line in tally.first_errors:
        print(printable(line), file=sys.stderr)
    if tally.has_given_up:
        print("nothing but errors came of late, so the rest is not asked for", file=sys.stderr)
    if tally.unkept:
        print(
            f"{tally.unkept:,} answers are not kept, such as that of {tally.first_unkept}: "
            "`chunkside why` says what holds for it",
            file=sys.stderr,
        )
    members = report.members()
    if report.order.as_json:
        print(json.dumps(members))
        return
    rows = [
        (name.replace("_", " "), str(members[name]))
        for name in ("chunks", "held", "present", "absent", "errors", "bytes", "seconds")
    ]
    print("\n".join(aligned(rows) if sys.stdout.isatty() else tabbed(rows)))
