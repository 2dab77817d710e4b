"""Requests over time, by where their answers came from, as stacked columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from chunkside.server.status_page.markup import text

LEGEND: Final = {
    "store": "From store",
    "absence": "Remembered absence",
    "origin": "From the origin",
    "error": "No usable answer",
}
_HEIGHT: Final = 100.0
_LEAST_STEPS: Final = 24
_FACTORS: Final = (1, 1.2, 1.6, 2, 3, 4, 6, 8, 10)


def shown_steps(window: Mapping[str, Any]) -> int:
    """As many as there are, and not too few: the first minutes shall be readable, too."""
    return max(_LEAST_STEPS, len(window["points"]) - 1)


def shown_span(window: Mapping[str, Any]) -> str:
    minutes = shown_steps(window) * window["step_seconds"] / 60
    return f"{minutes:.0f} minutes"


def chart(window: Mapping[str, Any]) -> str:
    """A column for each step, the newest at the right. What it shows stands beside it in words."""
    seconds = float(window["step_seconds"])
    # The step that is being made would always look like a fall.
    points = window["points"][:-1]
    steps = shown_steps(window)
    most = max((sum(point[name] for name in LEGEND) for point in points), default=0)
    top = _round_up(most / seconds)
    first = steps - len(points)
    columns = "".join(
        _columns(name, points, first, top * seconds) for name in LEGEND if _any(points, name)
    )
    told = f"Requests per second by where their answers came from; at most {most / seconds:,.1f}."
    return (
        '<figure class="chart"><div class="y soft" aria-hidden="true">'
        f"<span>{_rate(top)}/s</span><span>{_rate(top / 2)}</span><span>0</span></div>"
        f'<svg viewBox="0 0 {steps} 100" preserveAspectRatio="none" role="img" '
        f'aria-label="{text(told)}"><path class="rule" d="M0 50H{steps}"/>{columns}</svg>'
        f'<div class="x soft" aria-hidden="true"><span>{shown_span(window)} ago</span>'
        "<span>now</span></div></figure>"
    )


def _any(points: list[Mapping[str, Any]], name: str) -> bool:
    return any(point[name] for point in points)


def _columns(name: str, points: list[Mapping[str, Any]], first: int, top: float) -> str:
    """One path for all columns of a colour; those of the names before it are beneath it."""
    below = list(LEGEND)[: list(LEGEND).index(name)]
    drawn = []
    for number, point in enumerate(points, first):
        if not point[name]:
            continue
        base = sum(point[other] for other in below) / top * _HEIGHT
        height = point[name] / top * _HEIGHT
        drawn.append(f"M{number} {_HEIGHT - base:.2f}v-{height:.2f}h.86v{height:.2f}z")
    return f'<path class="f-{name}" d="{"".join(drawn)}"/>'


def _round_up(rate: float) -> float:
    """The next number of few digits that halves well."""
    if rate <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rate))
    return next(factor * power for factor in _FACTORS if factor * power >= rate)


def _rate(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:,.0f}k"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
