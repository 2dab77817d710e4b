"""The status page: one HTML document that needs nothing else, and no script for its figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from chunkside.core.foresight import duration
from chunkside.server.status_page.chart import LEGEND, chart, shown_span
from chunkside.server.status_page.markup import (
    NOTHING,
    asset_of,
    bar,
    count,
    share,
    size,
    source_hash,
    table,
    text,
)

Status = Mapping[str, Any]

STYLE: Final = asset_of(__package__ or "", "style.css")
_SCRIPT: Final = asset_of(__package__ or "", "script.js")
PAGE_POLICY: Final = (
    f"default-src 'none'; style-src {source_hash(STYLE)}; script-src {source_hash(_SCRIPT)}; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a browser lets the page do: its own style and script, and requests to where it came from."""
_KINDS: Final = {"body": "body", "range": "range", "marker": "remembered absence"}
_REASONS: Final = {
    "budget": "cache_size is used up",
    "index_memory": "index_memory is used up",
    "marker_cap": "max_markers are held",
    "free_space": "the volume has no more than min_free",
}
_ESTIMATED: Final = (
    "Estimated: hits and remembered absences, times the origin's mean time to a first byte, less "
    "the time they took. Summed over all readers."
)


def render(status: Status) -> str:
    """The whole document, of what the console's `status` gives."""
    parts = (
        _live("saved", "section", "What is saved", _saved(status["saved"])),
        _live("traffic", "section", "Requests", _traffic(status["window"])),
        _live("holding", "section", "Held and asked", _holding(status)),
        _live("prefixes", "section", "Prefixes", _prefixes(status["prefixes"])),
        _live("trouble", "section", "Evictions and errors", _trouble(status)),
        _configuration(status["configuration"]),
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="robots" content="noindex">'
        f'<title>Chunkside</title><link rel="icon" href="data:,"><style>{STYLE}</style></head>'
        f'<body>{_header(status)}<main class="page">{"".join(parts)}</main>{_FOOTER}'
        f"<script>{_SCRIPT}</script></body></html>"
    )


_FOOTER: Final = (
    '<footer><nav class="page" aria-label="Other pages of this port"><span>Also here:</span>'
    '<a href="/status.json">/status.json</a><a href="/stats">/stats</a><a href="/info">/info</a>'
    '<a href="/entries">/entries</a><a href="/metrics">/metrics</a>'
    "<span>/why/… and /map/… before a path of the data port</span></nav></footer>"
)


def _live(name: str, tag: str, label: str, content: str) -> str:
    """What the script takes over from a newer page."""
    return f'<{tag} id="{name}" aria-label="{label}" data-live>{content}</{tag}>'


def _header(status: Status) -> str:
    routes = status["routes"]
    where = text(routes[0]["upstream"]) if len(routes) == 1 else f"{len(routes)} routes"
    obstacle = status["obstacle"]
    state = "ready" if obstacle is None else f"not ready: {text(obstacle)}"
    if obstacle is None and status["is_scanning"]:
        state = "ready, still reading its directory"
    kind = "state" if obstacle is None else "state bad"
    told = (
        f'<span class="{kind}">{state}</span> <span class="soft">version '
        f"{text(status['version'])}, up {duration(status['uptime_seconds'] or 0)}</span>"
    )
    return (
        f'<header><div class="page"><h1>Chunkside</h1><div class="where mono">{where}</div>'
        f'<div id="state" data-live>{told}</div>'
        '<span id="freshness" class="bad" role="status"></span>'
        '<button id="pause" type="button" hidden>Pause</button></div></header>'
    )


def _saved(saved: Status) -> str:
    seconds = saved["seconds"]
    requests, without = saved["requests"], saved["requests_without_origin"]
    answered = (
        f"of {count(requests)}; {count(saved['absences'])} of them were remembered absences. "
        f"The origin was asked {count(saved['origin_requests'])} times."
    )
    figures = (
        (
            "Requests answered without the origin",
            count(without),
            share(without, requests),
            answered,
        ),
        (
            "Bytes from store",
            size(saved["bytes_from_store"]),
            "",
            f"{size(saved['bytes_from_origin'])} came from the origin.",
        ),
        ("Waiting saved", NOTHING if seconds is None else duration(seconds), "", _ESTIMATED),
    )
    shown = "".join(
        f'<div><dt>{name}</dt><dd class="figure">{figure}'
        f"{f'<span class=share>{part}</span>' if part else ''}</dd>"
        f'<dd class="soft">{more}</dd></div>'
        for name, figure, part, more in figures
    )
    return (
        '<div class="heading"><h2>Saved</h2><span class="soft">since the start</span></div>'
        f'<dl class="saved">{shown}</dl>'
    )


def _traffic(window: Status) -> str:
    totals = window["totals"]
    whole = sum(totals.values())
    legend = "".join(
        f'<li><svg class="swatch f-{name}" viewBox="0 0 1 1" aria-hidden="true">'
        f'<rect width="1" height="1"/></svg>{label} <b>{count(totals[name])}</b> '
        f'<span class="soft">{share(totals[name], whole)}</span></li>'
        for name, label in LEGEND.items()
    )
    return (
        f'<div class="heading"><h2>Requests, last {shown_span(window)}</h2>'
        f'<span class="soft">{count(whole)} answered</span></div>'
        f'{chart(window)}<ul class="legend">{legend}</ul>'
    )


def _holding(status: Status) -> str:
    held = status["held"]
    stored = held["bytes"]
    used = sum(stored.values())
    rows = [
        ("Bodies", count(held["bodies"]), size(stored["body"])),
        ("Ranges of bodies", count(held["ranges"]), size(stored["range"])),
        ("Remembered absences", count(held["markers"]), size(stored["marker"])),
        ("Byte budget", share(used, held["limit_bytes"]), f"of {size(held['limit_bytes'])}"),
        (
            "Index in memory",
            share(held["memory_bytes"], held["memory_limit_bytes"]),
            f"of {size(held['memory_limit_bytes'])}",
        ),
    ]
    if held["disk_free_bytes"] is not None:
        rows.append(("Free on the volume", "", size(held["disk_free_bytes"])))
    rows.append(("Fills under way", count(held["fills_in_flight"]), ""))
    columns = (("What", ""), ("Count", "n"), ("Bytes", "n"))
    return f'<div class="two">{table("Held", columns, rows, "")}{_origins(status)}</div>'


def _origins(status: Status) -> str:
    columns = (("Route", ""), ("Asked", "n"), ("Faults", "n"), ("First byte", "n"), ("State", "t"))
    rows = [
        (
            f'<span class="mono">{text(route["route"])}</span>',
            count(route["origin_requests"]),
            _alarming(route["origin_faults"]),
            _milliseconds(route["origin_seconds"]),
            _breaker(route["breaker"]),
        )
        for route in status["routes"]
    ]
    told = "<small>first byte: the mean since the start</small>"
    return f"<div>{table('Origins' + told, columns, rows, '')}{_audits(status['audits'])}</div>"


def _audits(audits: Iterable[Status]) -> str:
    columns = (("Kind", ""), ("Verdict", ""), ("Count", "n"))
    rows = [
        (
            text(audit["kind"]),
            text(audit["verdict"]),
            _alarming(audit["count"]) if audit["verdict"] == "wrong" else count(audit["count"]),
        )
        for audit in audits
        if audit["count"]
    ]
    return (
        f'<div class="below">{table("Audits", columns, rows, "No answer was audited yet.")}</div>'
    )


def _alarming(number: int) -> str:
    return f'<b class="bad">{count(number)}</b>' if number else "0"


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.1f} ms"


def _breaker(state: str | None) -> str:
    match state:
        case None | "closed":
            return "in use"
        case "open":
            return '<b class="bad">failing, left alone</b>'
        case _:
            return '<b class="bad">being tried</b>'


def _prefixes(prefixes: Status) -> str:
    hits = _ranking("Most read from store", prefixes["hits"], "Nothing was read from store yet.")
    absences = _ranking(
        "Most often absent", prefixes["absences"], "Nothing that was asked for was absent yet."
    )
    return f'<div class="two"><div>{hits}</div><div>{absences}</div></div>'


def _ranking(caption: str, ranked: list[Status], empty: str) -> str:
    most = max((each["count"] for each in ranked), default=0)
    rows = [
        (_map_link(each["prefix"]), bar(each["count"], most), f"≈ {count(each['count'])}")
        for each in ranked
    ]
    columns = (("Prefix", ""), ("Compared", "bar"), ("Requests", "n"))
    return table(f"{caption}<small>since the start, from samples</small>", columns, rows, empty)


def _map_link(prefix: str) -> str:
    """To its chunk map; the path is as it was sent, so that only what HTML minds is in the way."""
    href = "/map" + quote(prefix, safe="/%:@!$&'()*+,;=~")
    return f'<a class="mono" href="{text(href)}">{text(prefix)}</a>'


def _trouble(status: Status) -> str:
    now = _read_time(status["at"])
    evictions = [
        (
            text(_KINDS.get(event["kind"], event["kind"])),
            text(_REASONS.get(event["reason"], event["reason"])),
            count(event["count"]),
            _ago(event["last"], now),
        )
        for event in status["evictions"]
    ]
    columns = (("What", ""), ("To make room, since", ""), ("Count", "n"), ("Last", "n t"))
    shown = table("Evictions", columns, evictions, "Nothing had to make room.")
    return f'<div class="two"><div>{shown}</div><div>{_errors(status, now)}</div></div>'


def _errors(status: Status, now: datetime) -> str:
    rows = [
        (
            f'<span class="mono">{text(event["prefix"])}</span>',
            "no answer" if event["status"] is None else text(event["status"]),
            count(event["count"]),
            _ago(event["last"], now),
        )
        for event in status["errors"]
    ]
    columns = (("Prefix", ""), ("Status", "n"), ("Count", "n"), ("Last", "n t"))
    shown = table("Errors told to readers", columns, rows, "No reader was told of an error.")
    faults = [
        (
            text(event["operation"]),
            text(event["error"]),
            count(event["count"]),
            _ago(event["last"], now),
        )
        for event in status["store_errors"]
    ]
    if faults:
        columns = (("Doing", ""), ("Error", ""), ("Count", "n"), ("Last", "n t"))
        shown += f'<div class="below">{table("Faults of the disk", columns, faults, "")}</div>'
    return shown


def _read_time(told: str) -> datetime:
    return datetime.fromisoformat(told)


def _ago(told: str, now: datetime) -> str:
    seconds = (now - _read_time(told)).total_seconds()
    shown = "now" if seconds < 1 else f"{duration(seconds)} ago"
    return f'<time datetime="{text(told)}" title="{text(told)}">{shown}</time>'


def _configuration(configuration: Status) -> str:
    """Folded, since it doesn't change; without secrets, as /info has it."""
    routes = [each for each in configuration.get("routes", ()) if isinstance(each, Mapping)]
    alone = {name: value for name, value in configuration.items() if name != "routes"}
    tables = [_settings("The sidecar", alone)]
    tables += [_settings(f"Route {text(route.get('prefix'))}", route) for route in routes]
    return (
        '<section id="configuration" aria-label="Configuration"><details><summary>Configuration'
        f"</summary>{''.join(tables)}</details></section>"
    )


def _settings(caption: str, members: Status) -> str:
    rows = [(text(name), _value(value)) for name, value in members.items()]
    shown = table(caption, (("Name", ""), ("Value", "")), rows, "")
    return f'<div class="config">{shown}</div>'


def _value(value: object) -> str:
    match value:
        case True:
            return "yes"
        case False:
            return "no"
        case list() | tuple():
            return text(", ".join(map(str, value))) if value else NOTHING
        case _:
            return text(value)
