"""The table of docs/metrics.md, from the very families that `/metrics` shows."""

from __future__ import annotations

from prometheus_client.metrics_core import Metric

from chunkside.metrics import CredentialReading, GaugeReading, Metrics

_KINDS = {"body": 0, "range": 0, "marker": 0}
# What is added by the format, and says nothing of its own.
_OF_HISTOGRAMS = {"le"}


def metrics_table() -> str:
    """Markdown: name, type, labels, help; a row for each family of our own, in their order."""
    rows = ["| metric | type | labels | tells |", "|---|---|---|---|"]
    for family in families():
        labels = sorted(
            {label for sample in family.samples for label in sample.labels} - _OF_HISTOGRAMS
        )
        cells = (
            f"`{_shown_name(family)}`",
            "gauge" if family.type == "info" else family.type,
            ", ".join(f"`{label}`" for label in labels) or "\N{EN DASH}",
            family.documentation.replace("|", "\\|"),
        )
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def families() -> list[Metric]:
    """All of our own, with a sample in each."""
    metrics = Metrics("0")
    metrics.watch(_reading)
    route = metrics.of("/")
    route.invalidated("PUT")
    route.fill_ended("stored")
    route.store_failed("write", "ENOSPC")
    return list(metrics.collect())


def _shown_name(family: Metric) -> str:
    """As it is asked for; a histogram's by the name that its samples begin with."""
    return {"counter": f"{family.name}_total", "info": f"{family.name}_info"}.get(
        family.type, family.name
    )


def _reading() -> GaugeReading:
    return GaugeReading(
        index_entries=_KINDS,
        index_memory_bytes=_KINDS,
        index_memory_limit_bytes=0,
        stored_bytes=_KINDS,
        stored_limit_bytes=0,
        disk_free_bytes=0,
        mapped_bytes=0,
        lingering_bytes=0,
        directory_bytes=0,
        degraded={"directory": False, "stamps": False},
        fills_in_flight=0,
        fill_waiters=0,
        partitions=0,
        credentials={"/": CredentialReading(0.0, 0.0)},
    )
