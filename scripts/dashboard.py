"""Writes the Grafana dashboard of the chart; what is on it stands in the tables below.

`make dashboard` writes it. tests/observability holds the file to this script, each query to a real
Prometheus, and the whole to Grafana's own schema.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

FILE: Final = Path(__file__).resolve().parent.parent / "helm/chunkside/dashboards/chunkside.json"
COLUMNS: Final = 24
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    """`expr` may have `$pods`, which stands for the pods that are chosen, and `$routes`."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """`width` in columns of which a row has 24. `most`: the end of its axis."""

    title: str
    tells: str
    unit: str
    queries: tuple[Query, ...]
    width: int = 8
    kind: Literal["timeseries", "stat"] = "timeseries"
    is_stacked: bool = False
    most: float | None = None
    bad_above: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


def stat(
    title: str, tells: str, unit: str, expr: str, *, bad_above: float | None = None, width: int = 4
) -> Panel:
    return Panel(title, tells, unit, (Query(expr),), width, "stat", bad_above=bad_above)


def rate(metric: str, by: str, of: str = "$routes") -> str:
    return f"sum by ({by}) (rate(chunkside_{metric}{{{of}}}[$__rate_interval]))"


def total(metric: str, of: str = "$routes", over: str = "$__range") -> str:
    return f"sum(increase(chunkside_{metric}{{{of}}}[{over}]))"


def quantiles(metric: str, *by: str, of: str = "$routes") -> tuple[Query, ...]:
    labels = ", ".join(("le", *by))
    legend = " ".join(f"{{{{{label}}}}}" for label in by)
    return tuple(
        Query(
            f"histogram_quantile({q}, {rate(f'{metric}_bucket', labels, of)})",
            f"{legend} {name}".strip(),
        )
        for q, name in ((0.5, "median"), (0.99, "99 %"))
    )


def gauge(metric: str, by: str = "") -> str:
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} (chunkside_{metric}{{$pods}})"


def or_none(expr: str, label: str) -> str:
    """A zero where nothing of the kind has happened yet: such counters begin with their first."""
    return f'{expr} or on() label_replace(vector(0), "{label}", "none", "", "")'


def of_the_process(metric: str) -> str:
    """Metrics of any process: only those of the sidecars."""
    return f"{metric}{{$pods}} and on (job, instance) chunkside_build_info{{$pods}}"


HITS: Final = '$routes,result=~"hit|negative_hit"'
SERVER_ERRORS: Final = '$routes,code=~"5.."'
NEGATIVE_HITS: Final = '$routes,result="negative_hit"'
ASKED: Final = total("requests_total")
SPARED: Final = f"{ASKED} - {total('upstream_requests_total')}"

OVERVIEW: Final = Row(
    "Overview",
    (
        stat(
            "Requests saved",
            "Requests that clients sent, less those that the origin got; of the time shown. Below"
            " zero the sidecar asks more than it is asked: retries, validation, audits.",
            "short",
            SPARED,
        ),
        stat(
            "Share saved",
            "Requests saved, as a share of what clients sent.",
            "percentunit",
            f"({SPARED}) / {ASKED}",
        ),
        stat(
            "Hit ratio",
            "Requests answered from store without asking the origin, remembered absences among"
            " them, as a share of all.",
            "percentunit",
            f"{total('requests_total', HITS)} / {ASKED}",
        ),
        stat(
            "Negative-hit ratio",
            "Requests answered by a remembered 404 or 410, as a share of all. Of a sparse array"
            " that is read again it is the share of absent chunks.",
            "percentunit",
            f"{total('requests_total', NEGATIVE_HITS)} / {ASKED}",
        ),
        stat(
            "Errors",
            "Answers with a 5xx status, the origin's own among them, as a share of all.",
            "percentunit",
            f"{total('responses_total', SERVER_ERRORS)} / {total('responses_total')}",
            bad_above=0.05,
        ),
        stat(
            "Audits: wrong",
            "Answers from store that an audit found to be wrong: neither the origin's now, nor"
            " explained by a change there. Must be 0.",
            "short",
            total("audits_total", '$pods,verdict="wrong"'),
            bad_above=0.5,
        ),
        Panel(
            "Requests by result",
            "What clients asked for, by how it was answered.",
            "reqps",
            (Query(rate("requests_total", "result"), "{{result}}"),),
            is_stacked=True,
        ),
        Panel(
            "Hit ratios",
            "Shares of all requests: answered from store, and of those by a remembered absence.",
            "percentunit",
            (
                Query(
                    f"{rate('requests_total', '', HITS)} / {rate('requests_total', '')}",
                    "hit ratio",
                ),
                Query(
                    f"{rate('requests_total', '', NEGATIVE_HITS)} / {rate('requests_total', '')}",
                    "negative-hit ratio",
                ),
            ),
            most=1,
        ),
        Panel(
            "Upstream latency",
            "From a request to the origin to its answer's head.",
            "s",
            quantiles("upstream_request_duration_seconds"),
        ),
        Panel(
            "Latency by result",
            "From a request's head to the last byte of its answer, median, as clients see it.",
            "s",
            quantiles("request_duration_seconds", "result")[:1],
        ),
        Panel(
            "Errors by code",
            "Answers with a 4xx or 5xx status other than 404 and 410, which are absences. `none`:"
            " the client left before the head.",
            "reqps",
            (
                Query(
                    rate("responses_total", "code", '$routes,code=~"[45]..|none",code!~"404|410"'),
                    "{{code}}",
                ),
            ),
            is_stacked=True,
        ),
        Panel(
            "Audits",
            "Hits that were asked for again in the background and compared: `agree` is the same,"
            " `changed` differs since the origin did, `wrong` was never so. Needs audit_share.",
            "short",
            (
                Query(
                    "sum by (kind, verdict)"
                    " (increase(chunkside_audits_total{$pods}[$__rate_interval]))",
                    "{{kind}} {{verdict}}",
                ),
            ),
            is_stacked=True,
        ),
    ),
)

INDEX: Final = Row(
    "Index",
    (
        Panel(
            "Entries",
            "What is held. A marker is a remembered absence.",
            "short",
            (Query(gauge("index_entries", "kind"), "{{kind}}"),),
        ),
        Panel(
            "Memory of entries",
            "What entries are charged of memory, and what they may take (index_memory).",
            "bytes",
            (
                Query(gauge("index_memory_bytes", "kind"), "{{kind}}"),
                Query(gauge("index_memory_limit_bytes"), "limit"),
            ),
        ),
        Panel(
            "Evictions",
            "Entries dropped to make room, by kind and what ran short: the byte budget, the index's"
            " memory, the count of markers, or free space on the volume.",
            "ops",
            (Query(rate("evictions_total", "kind, reason", "$pods"), "{{kind}} {{reason}}"),),
            is_stacked=True,
        ),
        Panel(
            "Ends of entries",
            "Entries that left the index, by what ended them; evictions are among them.",
            "ops",
            (Query(rate("removals_total", "kind, reason", "$pods"), "{{kind}} {{reason}}"),),
            width=12,
            is_stacked=True,
        ),
        Panel(
            "Invalidations",
            "Writes, purges and rewritten metadata documents that made what was held invalid.",
            "ops",
            (
                Query(
                    or_none(rate("invalidations_total", "route, cause"), "cause"),
                    "{{route}} {{cause}}",
                ),
            ),
            width=12,
            is_stacked=True,
        ),
    ),
)

DISK: Final = Row(
    "Disk",
    (
        Panel(
            "Stored",
            "What is charged to the byte budget (cache_size): blocks on disk, not lengths. Where"
            " bodies are kept in memory, memory.",
            "bytes",
            (
                Query(gauge("stored_bytes", "kind"), "{{kind}}"),
                Query(gauge("stored_limit_bytes"), "limit"),
            ),
        ),
        Panel(
            "Beside the budget",
            "Mapped: body files mapped into memory, page cache that the kernel takes back."
            " Lingering: files that are gone and still being read. Directories: what they take by"
            " themselves.",
            "bytes",
            (
                Query(gauge("mapped_bytes"), "mapped"),
                Query(gauge("lingering_bytes"), "lingering"),
                Query(gauge("directory_bytes"), "directories"),
            ),
        ),
        Panel(
            "Free on the volume",
            "What the volume of the cache directory has left. At min_free bodies are dropped.",
            "bytes",
            (Query("min by (pod, instance) (chunkside_disk_free_bytes{$pods})", "{{pod}}"),),
        ),
        Panel(
            "Faults of the disk",
            "What the cache directory refused, by operation and error. Readers get their answers"
            " from the origin then.",
            "ops",
            (
                Query(
                    or_none(rate("store_errors_total", "op, error", "$pods"), "op"),
                    "{{op}} {{error}}",
                ),
            ),
            is_stacked=True,
        ),
        Panel(
            "Memory in place of the disk",
            "Sidecars that keep bodies in memory since no directory is fit, or stamps since they"
            " can't be written. Should be 0.",
            "short",
            (Query(gauge("degraded", "cause"), "{{cause}}"),),
        ),
        Panel(
            "Sweeps",
            "How long a sweep of the cache directory takes, on average.",
            "s",
            (
                Query(
                    "sum by (pod, instance) (chunkside_sweep_duration_seconds_sum{$pods})"
                    " / sum by (pod, instance) (chunkside_sweep_duration_seconds_count{$pods})",
                    "{{pod}}",
                ),
            ),
        ),
    ),
)

FILLS: Final = Row(
    "Fills",
    (
        Panel(
            "Fills in flight",
            "Answers that are being brought from the origin now.",
            "short",
            (Query("sum by (pod, instance) (chunkside_fills_in_flight{$pods})", "{{pod}}"),),
        ),
        Panel(
            "Readers of fills",
            "Requests that those fills serve now. Several to one fill were collapsed.",
            "short",
            (Query("sum by (pod, instance) (chunkside_fill_waiters{$pods})", "{{pod}}"),),
        ),
        Panel(
            "Ends of fills",
            "How bringing an answer to be stored ended.",
            "ops",
            (Query(or_none(rate("fills_total", "outcome", "$pods"), "outcome"), "{{outcome}}"),),
            is_stacked=True,
        ),
    ),
)

UPSTREAM: Final = Row(
    "Upstream",
    (
        Panel(
            "Requests to the origin by class",
            "All tries, by class of key: chunks, metadata documents, listings.",
            "reqps",
            (Query(rate("upstream_requests_total", "class"), "{{class}}"),),
            is_stacked=True,
        ),
        Panel(
            "Requests to the origin by route",
            "All tries, by route.",
            "reqps",
            (Query(rate("upstream_requests_total", "route"), "{{route}}"),),
            is_stacked=True,
        ),
        Panel(
            "Requests to the origin by pod",
            "All tries, by pod.",
            "reqps",
            (Query(rate("upstream_requests_total", "pod, instance"), "{{pod}}"),),
            is_stacked=True,
        ),
        Panel(
            "Answers of the origin",
            "All tries, by status; `none`: no head came.",
            "reqps",
            (Query(rate("upstream_requests_total", "code"), "{{code}}"),),
            is_stacked=True,
        ),
        Panel(
            "Latency by route",
            "From a request to the origin to its answer's head.",
            "s",
            quantiles("upstream_request_duration_seconds", "route"),
        ),
        Panel(
            "Retried, and not asked",
            "Requests sent again; and requests that the origin was spared since it has failed for"
            " some time (breaker), or too many waited for a connection (queue).",
            "reqps",
            (
                Query(rate("upstream_retries_total", "route"), "{{route}} retried"),
                Query(
                    rate("upstream_spared_total", "route, reason"),
                    "{{route}} not asked: {{reason}}",
                ),
            ),
        ),
        Panel(
            "Origins that are left alone",
            "Sidecars whose breaker is not closed, by route: the origin fails and is not asked, or"
            " one request finds out whether it is back.",
            "short",
            (
                Query(
                    'sum by (route, state) (chunkside_upstream_breaker{$routes,state!="closed"})',
                    "{{route}} {{state}}",
                ),
            ),
        ),
        Panel(
            "Bytes",
            "Body bytes: sent to clients, and to and from the origin.",
            "Bps",
            (
                Query(rate("response_bytes_total", ""), "to clients"),
                Query(rate("upstream_received_bytes_total", ""), "from the origin"),
                Query(rate("upstream_sent_bytes_total", ""), "to the origin"),
            ),
        ),
        Panel(
            "Requests by class",
            "What clients asked for, by class of key. The first panel: what each costs.",
            "reqps",
            (Query(rate("requests_total", "class"), "{{class}}"),),
            is_stacked=True,
        ),
    ),
)

PROCESS: Final = Row(
    "Process",
    (
        Panel(
            "Resident memory",
            "Page cache of mapped bodies is in it, and goes when the kernel wants it.",
            "bytes",
            (Query(of_the_process("process_resident_memory_bytes"), "{{pod}}"),),
            width=6,
        ),
        Panel(
            "CPU",
            "Of one core: the sidecar is one process with one loop.",
            "percentunit",
            (
                Query(
                    "rate(process_cpu_seconds_total{$pods}[$__rate_interval])"
                    " and on (job, instance) chunkside_build_info{$pods}",
                    "{{pod}}",
                ),
            ),
            width=6,
        ),
        Panel(
            "Uptime",
            "Since the process started. A saw means restarts.",
            "s",
            (Query(f"time() - {of_the_process('process_start_time_seconds')}", "{{pod}}"),),
            width=6,
        ),
        Panel(
            "Settings in force",
            "1 where the settings were good when they were read last.",
            "short",
            (
                Query(
                    "min by (pod, instance) (chunkside_config_last_reload_successful{$pods})",
                    "{{pod}}",
                ),
            ),
            width=6,
            most=1,
        ),
    ),
)

ROWS: Final = (OVERVIEW, INDEX, DISK, FILLS, UPSTREAM, PROCESS)


# Grafana's own defaults, which its encoder writes out.
VARIABLE: Final = {
    "allowCustomValue": True,
    "auto": False,
    "auto_count": 30,
    "auto_min": "10s",
    "options": [],
    "skipUrlSync": False,
}


def variable(name: str, label: str, query: str) -> Json:
    return VARIABLE | {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "includeAll": True,
        # Also where there is no such label, as outside Kubernetes.
        "allValue": ".*",
        "multi": True,
        "refresh": 2,
        "sort": 1,
    }


def variables() -> list[Json]:
    chosen = 'namespace=~"$namespace"'
    return [
        VARIABLE
        | {
            "type": "datasource",
            "name": "datasource",
            "label": "Data source",
            "query": "prometheus",
            "current": {"selected": False, "text": "default", "value": "default"},
            "multi": False,
            "includeAll": False,
        },
        variable("namespace", "Namespace", "label_values(chunkside_build_info, namespace)"),
        variable("pod", "Pod", f"label_values(chunkside_build_info{{{chosen}}}, pod)"),
        variable(
            "route",
            "Route",
            f'label_values(chunkside_requests_total{{{chosen},pod=~"$pod"}}, route)',
        ),
    ]


def expression(expr: str) -> str:
    pods = 'namespace=~"$namespace",pod=~"$pod"'
    grouped = expr.replace("sum by () (", "sum (")
    return grouped.replace("$routes", f'{pods},route=~"$route"').replace("$pods", pods)


def targets(panel: Panel) -> list[Json]:
    is_instant = panel.kind == "stat"
    return [
        {
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": expression(query.expr),
            "legendFormat": query.legend,
            "instant": is_instant,
            "range": not is_instant,
            "refId": chr(ord("A") + number),
        }
        for number, query in enumerate(panel.queries)
    ]


def thresholds(panel: Panel) -> Json:
    steps: list[Json] = [{"color": "green", "value": None}]
    if panel.bad_above is not None:
        steps.append({"color": "red", "value": panel.bad_above})
    return {"mode": "absolute", "steps": steps}


def defaults(panel: Panel) -> Json:
    found: Json = {"unit": panel.unit, "thresholds": thresholds(panel)}
    if panel.kind == "stat":
        return found
    found["min"] = 0
    if panel.most is not None:
        found["max"] = panel.most
    found["custom"] = {
        "drawStyle": "line",
        "fillOpacity": 30 if panel.is_stacked else 8,
        "lineWidth": 1,
        "showPoints": "never",
        "stacking": {"group": "A", "mode": "normal" if panel.is_stacked else "none"},
    }
    return found


def options(panel: Panel) -> Json:
    if panel.kind == "stat":
        return {
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "orientation": "auto",
            "percentChangeColorMode": "standard",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "showPercentChange": False,
            "textMode": "value",
            "wideLayout": True,
        }
    return {
        "legend": {
            "calcs": ["lastNotNull", "max"],
            "displayMode": "table",
            "placement": "bottom",
            "showLegend": True,
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def panels() -> Iterator[Json]:
    number = y = 0
    for row in ROWS:
        number += 1
        yield {
            "type": "row",
            "id": number,
            "title": row.title,
            "collapsed": False,
            "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": y},
            "panels": [],
        }
        y += 1
        x = height = 0
        for panel in row.panels:
            number += 1
            if x + panel.width > COLUMNS:
                x, y = 0, y + height
            height = 4 if panel.kind == "stat" else 8
            yield {
                "type": panel.kind,
                "id": number,
                "title": panel.title,
                "description": panel.tells,
                "datasource": DATASOURCE,
                "gridPos": {"h": height, "w": panel.width, "x": x, "y": y},
                "targets": targets(panel),
                "fieldConfig": {"defaults": defaults(panel), "overrides": []},
                "options": options(panel),
                "repeatDirection": "h",
                "transparent": False,
            }
            x += panel.width
        y += height


def dashboard() -> Json:
    return {
        "uid": "chunkside",
        "title": "Chunkside",
        "description": "What the caching sidecars save, hold, and ask of their origins.",
        "tags": ["chunkside"],
        "editable": False,
        "fiscalYearStartMonth": 0,
        "graphTooltip": 1,
        "schemaVersion": 39,
        "timezone": "browser",
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": variables()},
        "annotations": {"list": []},
        "links": [],
        "panels": list(panels()),
    }


def text() -> str:
    """The file: one line for each line of a panel, so that changes can be read."""
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
