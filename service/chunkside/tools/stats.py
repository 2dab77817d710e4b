"""`chunkside stats`: what the sidecar did, and what that saved; once, or again and again."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from chunkside.settings.quantities import format_size_rounded
from chunkside.tools.admin_client import AdminClient
from chunkside.tools.tables import aligned, tabbed

_SAMPLE: Final = re.compile(r"(chunkside_[a-z_]+)(?:\{(.*)\})? ([-+.0-9eE]+)(?: .*)?")
_RESULT: Final = re.compile(r'(?:^|,)result="([a-z_]*)"')
_WRITE: Final = re.compile(r'(?:^|,)method="(?:PUT|POST|DELETE)"')
# Results in the order in which README and metrics have them, in words.
_RESULTS: Final = {
    "hit": "answered with stored bytes",
    "negative_hit": "answered with a remembered absence",
    "revalidated": "stored bytes that the origin confirmed",
    "stale": "stale bytes in place of a failing origin",
    "miss": "brought from the origin",
    "collapsed": "by way of another's request to the origin",
    "bypass": "relayed to the origin",
    "error": "answered with an error",
}


@dataclass(slots=True)
class Totals:
    """Since the sidecar's start. `stats`: as `/stats` has it; bytes are those of bodies.
    `fills_in_flight`: that run now. `failed_writes`: what the sidecar itself answered with
    an error.
    """

    stats: dict[str, object]
    requests: dict[str, int] = field(default_factory=dict)
    upstream_requests: int = 0
    response_bytes: int = 0
    upstream_received_bytes: int = 0
    fills_in_flight: int = 0
    failed_writes: int = 0

    @property
    def total_requests(self) -> int:
        return sum(self.requests.values())

    @property
    def saved_requests(self) -> int:
        """Negative where validations and probes cost more than was saved."""
        return self.total_requests - self.upstream_requests

    @property
    def saved_bytes(self) -> int:
        return self.response_bytes - self.upstream_received_bytes

    def counters(self) -> dict[str, int]:
        """What only grows, by names for JSON."""
        return {
            "requests": self.total_requests,
            **{f"requests_{name}": count for name, count in self.requests.items()},
            "upstream_requests": self.upstream_requests,
            "response_bytes": self.response_bytes,
            "upstream_received_bytes": self.upstream_received_bytes,
        }

    def members(self) -> dict[str, object]:
        return {
            **self.stats,
            "requests": self.requests,
            "upstream_requests": self.upstream_requests,
            "saved_requests": self.saved_requests,
            "response_bytes": self.response_bytes,
            "upstream_received_bytes": self.upstream_received_bytes,
            "saved_bytes": self.saved_bytes,
        }


def totals_of(stats: dict[str, object], exposition: str) -> Totals:
    """`exposition`: a page of `/metrics`."""
    totals = Totals(stats, dict.fromkeys(_RESULTS, 0))
    for line in exposition.splitlines():
        found = _SAMPLE.fullmatch(line)
        if found is None:
            continue
        name, labels, value = found[1], found[2] or "", int(float(found[3]))
        if name == "chunkside_requests_total" and (told := _RESULT.search(labels)) is not None:
            totals.requests[told[1]] = totals.requests.get(told[1], 0) + value
            if told[1] == "error" and _WRITE.search(labels):
                totals.failed_writes += value
        elif name == "chunkside_upstream_requests_total":
            totals.upstream_requests += value
        elif name == "chunkside_response_bytes_total":
            totals.response_bytes += value
        elif name == "chunkside_upstream_received_bytes_total":
            totals.upstream_received_bytes += value
        elif name == "chunkside_fills_in_flight":
            totals.fills_in_flight = value
    return totals


@dataclass(frozen=True, slots=True)
class Interval:
    """`seconds` passed between two totals. After a restart all counts from zero."""

    seconds: float
    before: Totals

    def rates(self, now: Totals) -> dict[str, float]:
        """Per second, by the names of `counters`."""
        earlier = self.before.counters()
        is_restarted = any(now.counters().get(name, 0) < count for name, count in earlier.items())
        seconds = max(self.seconds, 1e-9)
        return {
            name: round((count - (0 if is_restarted else earlier.get(name, 0))) / seconds, 3)
            for name, count in now.counters().items()
        }


def show_stats(
    client: AdminClient,
    *,
    as_json: bool,
    watch_seconds: float | None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Prints once; with `watch_seconds` until it is interrupted. Raises ToolFailed."""
    totals, at = _read(client), time.monotonic()
    drawn = _print(totals, None, as_json=as_json, drawn=0)
    if watch_seconds is None:
        return
    try:
        while True:
            sleep(watch_seconds)
            now, later = _read(client), time.monotonic()
            interval = Interval(later - at, totals)
            drawn = _print(now, interval, as_json=as_json, drawn=drawn)
            totals, at = now, later
    except KeyboardInterrupt:
        # That is how one ends to watch.
        return


def _read(client: AdminClient) -> Totals:
    return totals_of(client.members("/stats"), client.text("/metrics"))


def _print(totals: Totals, interval: Interval | None, *, as_json: bool, drawn: int) -> int:
    """Gives the number of lines that stand on the terminal, to be overwritten."""
    rates = None if interval is None else interval.rates(totals)
    if as_json:
        members = totals.members()
        if interval is not None:
            members |= {"seconds": round(interval.seconds, 3), "per_second": rates}
        print(json.dumps(members), flush=True)
        return 0
    is_terminal = sys.stdout.isatty()
    rows = stats_rows(totals, rates, is_terminal=is_terminal)
    lines = aligned(rows) if is_terminal else tabbed(rows)
    if drawn:
        print(f"\x1b[{drawn}F\x1b[J", end="")
    if not is_terminal and interval is not None:
        print()
    print("\n".join(lines), flush=True)
    return len(lines) if is_terminal else 0


def stats_rows(
    totals: Totals, rates: dict[str, float] | None, *, is_terminal: bool
) -> list[tuple[str, ...]]:
    """Rows of what, total, share, and where there are rates, per second."""
    whole = totals.total_requests
    heads = ("", "total", "share", *(("per second",) if rates is not None else ()))
    rows: list[tuple[str, ...]] = [heads]

    def row(words: str, count: int, counter: str | None = None, *, of: int = 0) -> None:
        is_bytes = words.startswith("bytes")
        total = _number(count, is_bytes=is_bytes, is_terminal=is_terminal)
        cells = [words, total, _share(count, of)]
        if rates is not None:
            rate = rates.get(counter or "", 0.0)
            number = _number(round(rate, 1), is_bytes=is_bytes, is_terminal=is_terminal)
            cells.append(number if counter else "")
        rows.append(tuple(cells))

    row("requests", whole, "requests")
    for name, words in _RESULTS.items():
        row(f"  {words}", totals.requests.get(name, 0), f"requests_{name}", of=whole)
    row("requests at the origin", totals.upstream_requests, "upstream_requests", of=whole)
    row("requests saved", totals.saved_requests, of=whole)
    answered = totals.response_bytes
    row("bytes to readers", answered, "response_bytes")
    row("bytes from the origin", totals.upstream_received_bytes, "upstream_received_bytes")
    row("bytes saved", totals.saved_bytes, of=answered)
    stats = totals.stats
    for name, words in (
        ("bodies", "bodies held"),
        ("ranges", "ranges held"),
        ("markers", "absences remembered"),
        ("evictions", "evictions"),
    ):
        row(words, _int(stats.get(name)))
    row("bytes held", _int(stats.get("current_size")), of=_int(stats.get("max_size")))
    return rows


def _share(count: int, whole: int) -> str:
    return f"{count / whole:.1%}" if whole else ""


def _number(count: float, *, is_bytes: bool, is_terminal: bool) -> str:
    if not is_terminal:
        return f"{count:.12g}"
    if is_bytes and count >= 1024:
        return format_size_rounded(int(count))
    return f"{count:,}"


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0
