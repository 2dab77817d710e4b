"""A real Prometheus that scrapes what it is told, each second, and answers queries."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.plugins.requirements import find_program
from tests.support.deadline import DEADLINE_SECONDS, wait_for
from tests.support.http_client import exchange
from tests.support.nginx import answers, free_port

CONFIG = """
global: {{ scrape_interval: 1s, scrape_timeout: 1s }}
scrape_configs:
  - job_name: chunkside
    static_configs: {targets}
"""
# As far as a query looks back where Grafana chooses that by the screen.
VARIABLES = {
    "__rate_interval": "60s",
    "__range": "60s",
    "namespace": ".*",
    "pod": ".*",
    "route": ".*",
}


@dataclass(frozen=True, slots=True)
class Series:
    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Prometheus:
    url: str

    def query(self, expr: str) -> list[Series]:
        """What holds now; AssertionError where the expression is none."""
        found = self._get(f"/api/v1/query?query={quote(expr)}")
        assert found["resultType"] == "vector"
        return [Series(each["metric"], float(each["value"][1])) for each in found["result"]]

    def label_values(self, metric: str, label: str) -> list[str]:
        path = f"/api/v1/label/{label}/values?match[]={quote(metric)}"
        values: list[str] = self._get(path)
        return values

    def wait_scraped_again(self) -> None:
        """Returns once every target has been asked after now."""
        [now] = [each.value for each in self.query("vector(time())")]

        def is_later() -> bool:
            scraped = self.query("timestamp(up)")
            return bool(scraped) and min(each.value for each in scraped) > now

        wait_for(is_later, "a scrape")

    def _get(self, path: str) -> Any:
        answer = json.loads(exchange(self.url, path).body)
        assert answer["status"] == "success", answer
        return answer["data"]


def substituted(expr: str) -> str:
    """With values for the variables of the dashboard; a KeyError tells of another."""
    return re.sub(r"\$\{?(\w+)\}?", lambda found: VARIABLES[found[1]], expr)


@contextmanager
def prometheus(home: Path, targets: Mapping[str, Mapping[str, str]]) -> Iterator[Prometheus]:
    """Scrapes each address of `targets`, and gives what comes these labels."""
    port = free_port()
    listed = [{"targets": [address], "labels": labels} for address, labels in targets.items()]
    config = home / "prometheus.yml"
    config.write_text(CONFIG.format(targets=json.dumps(listed)), encoding="utf-8")
    program = find_program("prometheus")
    assert program is not None
    command = [
        *(program, f"--config.file={config}", f"--storage.tsdb.path={home / 'data'}"),
        *(f"--web.listen-address=127.0.0.1:{port}", "--log.level=error", "--web.cors.origin=.*"),
    ]
    with subprocess.Popen(command) as process:
        try:
            wait_for(lambda: answers(port), "Prometheus to listen")
            yield Prometheus(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            process.wait(DEADLINE_SECONDS)
