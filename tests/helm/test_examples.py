"""The examples that need no Helm, and what `make chart` makes."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from chunkside.settings import load_settings, refuse_open_ports
from scripts import plain_manifests
from tests.plugins.requirements import find_program
from tests.support.charts import BY_NAME, HELM, HELMS, ROOT, Case, rendered, tool

COMPOSE = HELM / "examples" / "compose"


def compose() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load(
        (COMPOSE / "compose.yaml").read_text(encoding="utf-8")
    )["services"]
    return services


def substituted(text: str) -> str:
    """As Compose does it where the user named an origin."""
    text = re.sub(r"\$\{UPSTREAM:\?[^}]*\}", "https://data.example.org/bucket", text)
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


@pytest.mark.charts("helm")
@pytest.mark.parametrize("name", plain_manifests.MANIFESTS)
def test_plain_manifests_are_what_the_charts_give(name: str) -> None:
    written = (plain_manifests.PLAIN / name).read_text(encoding="utf-8")
    assert written == plain_manifests.manifest(tool("helm"), name), "run make chart-values"
    assert "Helm" not in str(yaml.safe_load_all(written))


def test_the_sidecar_on_a_laptop_accepts_what_compose_tells_it() -> None:
    service = compose()["chunkside"]
    told = {name: substituted(value) for name, value in service["environment"].items()}
    settings = load_settings({}, told)
    refuse_open_ports(settings)
    [volume] = service["volumes"]
    assert volume.endswith(f":{settings.cache_dir}")
    stop = int(service["stop_grace_period"].removesuffix("s"))
    assert settings.drain_time + settings.shutdown_timeout < stop


def test_a_laptop_is_not_open_to_its_network() -> None:
    for service in compose().values():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert service["read_only"] and service["cap_drop"] == ["ALL"]


def test_the_image_of_compose_is_of_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert substituted(compose()["chunkside"]["image"]) == f"chunkside:{version}"


@pytest.mark.server("promtool")
def test_prometheus_on_a_laptop_reads_its_configuration(tmp_path: Path) -> None:
    config = tmp_path / "prometheus.yml"
    config.write_text((COMPOSE / "prometheus.yml").read_text(encoding="utf-8"), encoding="utf-8")
    mounts = dict(each.split(":")[:2] for each in compose()["prometheus"]["volumes"])
    [rules] = [here for here, there in mounts.items() if there == "/etc/prometheus/rules"]
    assert (COMPOSE / rules / "chunkside.yaml").resolve().is_file()
    (tmp_path / "rules").symlink_to((COMPOSE / rules).resolve())
    promtool = find_program("promtool")
    assert promtool is not None
    done = subprocess.run(
        [promtool, "check", "config", str(config)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "rules found" in done.stdout
    [job] = yaml.safe_load(config.read_text(encoding="utf-8"))["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["chunkside:8101"]}]


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.charts(*HELMS)
def test_make_chart_packs_charts_that_need_nothing_else(tmp_path: Path) -> None:
    done = make("chart", f"DIST={tmp_path}")
    assert done.returncode == 0, done.stderr
    packed = sorted(tmp_path.glob("*.tgz"))
    assert [re.sub(r"-\d.*", "", each.name) for each in packed] == [
        "chunkside",
        "chunkside-sidecar",
    ]
    case = BY_NAME["monitoring"]
    for helm in HELMS:
        assert rendered(Case("packed", packed[0], case.values), helm=helm) == rendered(
            case, helm=helm
        )


def test_make_chart_says_what_is_missing() -> None:
    done = make("chart", "HELM=no-such-helm")
    assert done.returncode != 0
    assert "make chart-tools" in done.stderr
