"""A real Prometheus finds the pods that the charts give, as a PodMonitor has it, and asks them."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.charts import (
    BY_NAME,
    Document,
    environment_of,
    of_kind,
    pod_of,
    rendered,
    sidecar_of,
    tool,
)
from tests.support.deadline import DEADLINE_SECONDS, wait_for
from tests.support.http_client import exchange
from tests.support.kubernetes_api import api_with, running_pod
from tests.support.nginx import answers, free_port
from tests.support.sidecar import Sidecar


def scrape_config(monitor: Document, api: str) -> dict[str, Any]:
    """What the operator makes of a PodMonitor, as far as ours goes."""
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    by_port = {
        "action": "keep",
        "source_labels": ["__meta_kubernetes_pod_container_port_name"],
        "regex": endpoint["port"],
    }
    labels = [
        {"source_labels": [f"__meta_kubernetes_{source}"], "target_label": label}
        for source, label in (
            ("namespace", "namespace"),
            ("pod_name", "pod"),
            ("pod_container_name", "container"),
            ("pod_container_init", "init"),
        )
    ]
    own = [
        {
            re.sub("[A-Z]", lambda each: f"_{each[0].lower()}", name): value
            for name, value in rule.items()
        }
        for rule in endpoint["relabelings"]
    ]
    return {
        "job_name": monitor["metadata"]["name"],
        "metrics_path": endpoint["path"],
        "kubernetes_sd_configs": [
            {"role": "pod", "api_server": api, "namespaces": {"names": ["ns"]}}
        ],
        "relabel_configs": [by_port, *labels, *own],
    }


@contextmanager
def prometheus_with(config: dict[str, Any], home: Path) -> Iterator[str]:
    port = free_port()
    file = home / "prometheus.yml"
    file.write_text(
        yaml.safe_dump(
            {
                "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
                "scrape_configs": [config],
            }
        ),
        encoding="utf-8",
    )
    command = [
        *(
            tool("kubernetes-prometheus"),
            f"--config.file={file}",
            f"--storage.tsdb.path={home / 'data'}",
        ),
        *(f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"),
    ]
    with subprocess.Popen(command) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            ready = partial(is_ready, url, port)
            wait_for(ready, "Prometheus to be ready")
            yield url
        finally:
            process.terminate()
            process.wait(DEADLINE_SECONDS)


def is_ready(url: str, port: int) -> bool:
    return answers(port) and exchange(url, "/-/ready").status == 200


def look_at(config: dict[str, Any], home: Path, pods: int) -> tuple[list[Any], list[Any]]:
    """The labels of what was scraped, once all pods were, and all targets that there are."""
    with prometheus_with(config, home) as url:

        def scraped() -> list[Any] | None:
            found = exchange(url, "/api/v1/query?query=chunkside_build_info").body
            series = json.loads(found)["data"]["result"]
            return [each["metric"] for each in series] if len(series) >= pods else None

        labels = wait_for(scraped, "a scrape of each pod")
        active = json.loads(exchange(url, "/api/v1/targets?state=active").body)
        return labels, active["data"]["activeTargets"]


@pytest.mark.charts("helm", "kubernetes-prometheus")
async def test_prometheus_finds_each_sidecar_and_asks_nothing_else(tmp_path: Path) -> None:
    node_wide, native = BY_NAME["default"], BY_NAME["dask-worker"]
    monitor = of_kind(rendered(BY_NAME["monitoring"]), "PodMonitor")
    told = environment_of(sidecar_of(pod_of(node_wide)))
    with Sidecar(None, tmp_path / "cache", env=told) as sidecar:
        # Both pods have this one behind their address.
        port = sidecar.admin_url.rpartition(":")[2]
        pods = [
            running_pod(of_kind(rendered(case, value), kind)["spec"]["template"], name, "ns")
            for case, kind, value, name in (
                (node_wide, "DaemonSet", f"ports.admin={port}", "node-wide"),
                (native, "Deployment", f"chunkside.ports.admin={port}", "native"),
            )
        ]
        async with api_with(pods) as api:
            config = scrape_config(monitor, api)
            scraped, asked = await asyncio.to_thread(look_at, config, tmp_path, len(pods))
    known = {(each["namespace"], each["pod"], each["container"], each["init"]) for each in scraped}
    assert known == {
        ("ns", "node-wide", "chunkside", "false"),
        ("ns", "native", "chunkside", "true"),
    }
    assert [each["health"] for each in asked] == ["up", "up"]
