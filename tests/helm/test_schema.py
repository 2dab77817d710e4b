"""What `helm install` refuses: what the sidecar would refuse, and what can't be together."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from chunkside.settings import RouteSettings, Settings
from chunkside.settings.kinds import Shape
from scripts import chart_values
from tests.support.charts import (
    BY_NAME,
    HELM,
    HELMS,
    NODE_WIDE,
    ROOT,
    UPSTREAM,
    Case,
    refusal,
    rendered,
)

DEFAULT = BY_NAME["default"]
BARE = Case("bare", NODE_WIDE)
CHARTS = pytest.mark.parametrize("chart", chart_values.CHARTS)
with_each_helm = pytest.mark.parametrize("helm", HELMS)


@pytest.mark.charts(*HELMS)
@with_each_helm
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("cahce.size=1Gi", "cahce"),
        ("cache.sizeLimit=1Gi", "sizeLimit"),
        ("settings.negativ_ttl=5s", "negativ_ttl"),
        ("settings.cache_size=2GiB", "cache_size"),
        ("cache.size=2GB", "2GB|cache.size"),
        ("cache.size=400m", "400m|cache.size"),
        ("cache.size=-1Gi", "-1Gi|cache.size"),
        ("cache.size=0Gi", "0Gi|cache.size"),
        ("resources.limits.memory=512MB", "512MB|memory"),
        ("resources.limits.ephemeral-storage=400m", "400m|ephemeral-storage"),
        ("settings.ttl=-5s", "ttl"),
        ("settings.ttl=-5", "ttl"),
        ("settings.ttl=5 weeks", "ttl"),
        ("settings.negative_ttl=-1", "negative_ttl"),
        ("settings.upstream_deadline=0", "upstream_deadline"),
        ("settings.upstream_deadline=0s", "upstream_deadline"),
        ("settings.profile=fast", "profile"),
        ("settings.max_markers=many", "max_markers"),
        ("upstream=ftp://data.example.org", "upstream"),
        ("upstream=data.example.org", "upstream"),
        ("upstream=https://user:secret@data.example.org", "upstream"),
        ("upstream=https://data.example.org/x?y", "upstream"),
        ('routes=[{"prefix":"/a"}]', "upstream"),
        ('routes=[{"prefix":"/a","upstream":"https://a","tll":"5s"}]', "tll"),
        ('routes=[{"prefix":"/a","upstream":"https://a","listen":"x:1"}]', "listen"),
        ("cache.type=nfs", "cache.type|cache/type"),
        ("kind=StatefulSet", "kind"),
        ("ports.admin=80", "admin"),
        ("ipFamilies=[]", "ipFamilies"),
        ("image.digest=sha256:12", "digest"),
        ("workloadIdentity.aws.roleArn=reader", "roleArn"),
    ],
)
def test_a_wrong_value_is_refused_by_name(helm: str, value: str, told: str) -> None:
    assert re.search(told, refusal(DEFAULT, value, helm=helm))


@pytest.mark.charts("helm")
@pytest.mark.parametrize(
    ("values", "told"),
    [
        ((), "Which origin"),
        ((UPSTREAM, 'routes=[{"prefix":"/a","upstream":"https://a"}]'), "both set"),
        ((UPSTREAM, "cache.size=64Mi"), "at least 128Mi"),
        ((UPSTREAM, "resources.limits.memory=255Mi"), "at least 256Mi"),
        ((UPSTREAM, "cache.emptyDir.medium=Memory"), "at most half"),
        ((UPSTREAM, "auth.enabled=true"), "auth.secretName"),
        ((UPSTREAM, "auth.enabled=true", "auth.secretName=x"), "settings.allowed_clients"),
        (("upstream=s3://bucket",), "settings.allowed_clients"),
        (("upstream=az://acct/box",), "settings.allowed_clients"),
        (("upstream=gs://bucket",), "settings.allowed_clients"),
        ((UPSTREAM, "ports.admin=8100"), "the same"),
        ((UPSTREAM, "settings.drain_time=29s"), "terminationGracePeriodSeconds"),
        ((UPSTREAM, "cache.type=persistentVolumeClaim"), "one volume for one pod"),
        (
            (UPSTREAM, "serviceAccount.enabled=false", "workloadIdentity.gcp.enabled=true"),
            "annotates",
        ),
        ((UPSTREAM, "workloadIdentity.aws.enabled=true"), "roleArn"),
        (("chunkside-sidecar.upstream=http://a", UPSTREAM), "stand at the top"),
    ],
)
def test_values_that_do_not_go_together_are_refused_in_words(
    values: tuple[str, ...], told: str
) -> None:
    assert told in refusal(BARE, *values)


@pytest.mark.charts("helm")
@pytest.mark.parametrize("name", ["reader-job", "dask-worker"])
def test_a_sidecar_without_an_origin_is_refused(name: str) -> None:
    assert "Which origin" in refusal(BY_NAME[name], "chunkside.upstream=")


@pytest.mark.charts("helm")
def test_a_job_with_a_plain_sidecar_is_refused() -> None:
    assert "never ends" in refusal(BY_NAME["reader-job"], "chunkside.native=false")


@pytest.mark.charts("helm")
@pytest.mark.parametrize("size", ["128Mi", "1Gi", "1.5Ti", "0.5Gi", "512M", "10G"])
def test_sizes_of_kubernetes_are_taken(size: str) -> None:
    assert rendered(DEFAULT, f"cache.size={size}")


@CHARTS
def test_the_schema_is_written_from_the_settings(chart: str) -> None:
    written = (HELM / chart / "values.schema.json").read_text(encoding="utf-8")
    assert written == chart_values.schema_text(chart), "run make chart-values"


@CHARTS
def test_the_table_of_values_is_written_from_the_same(chart: str) -> None:
    readme = (HELM / chart / "README.md").read_text(encoding="utf-8")
    assert readme == chart_values.with_table(readme, chart), "run make chart-values"


@CHARTS
def test_every_value_is_described_and_has_a_default(chart: str) -> None:
    defaults = yaml.safe_load((HELM / chart / "values.yaml").read_text(encoding="utf-8"))
    described = chart_values.described(chart)
    hidden = {name for name, node in described.items() if node.get("is_hidden")}
    assert described.keys() - hidden == defaults.keys()
    for path, node in chart_values.leaves(described):
        assert node["description"], path
    for path in paths_of(defaults):
        assert described_at(described, path), path


def paths_of(values: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from paths_of(value, (*above, name))
        else:
            yield (*above, name)


def described_at(described: dict[str, Any], path: tuple[str, ...]) -> bool:
    """Whether the value is described, or lies in one that is described as a whole."""
    for name in path:
        if name not in described:
            return False
        node = described[name]
        if node.get("is_leaf") or "properties" not in node or "required" in node:
            return True
        described = node["properties"]
    return True


def test_every_setting_is_a_value_or_derived_from_others() -> None:
    schema = chart_values.schema("chunkside")["properties"]
    assert (
        schema["settings"]["properties"].keys()
        == Settings.model_fields.keys() - chart_values.DERIVED
    )
    own = schema["routes"]["items"]["properties"].keys() - {"prefix", "upstream"}
    assert own == RouteSettings.model_fields.keys()


DURATIONS = ["300", "300s", "1.5h", "250ms", "7d", "infinity", "0", "0s", 0, 5, 1.5]
NO_DURATIONS = [-1, "-1", "-1s", "1w", "", "s", "1e3", True, None]
SIZES = ["auto", "2GiB", "2Gi", "512MB", "1073741824", 0, 5, "0"]
NO_SIZES = [-1, "-1", "2XB", "", None, "101%", "-1%", "%"]
SAMPLES: dict[str, list[object]] = {
    "DURATION": [*DURATIONS, *NO_DURATIONS],
    "auto|SIZE": [*SIZES, "10%", *NO_SIZES],
    "auto|SIZE|PERCENT": [*SIZES, "10%", "100%", "0.5%", *NO_SIZES],
    "SHARE": [
        0,
        1,
        0.5,
        "0",
        "1",
        "0.01",
        "1%",
        "100%",
        2,
        -0.1,
        "2",
        "101%",
        "-1%",
        "x",
        "",
        None,
    ],
    "N": [0, 1, 2_000_000, -1, "x", 1.5, True, None],
    "URL": ["http://store:8333", "https://s3.example.org/", "http://o/bucket", "s3://b", "", None],
    "NAME": ["eu-west-1", "a b", "", None],
}


@pytest.mark.parametrize("name", sorted(Settings.model_fields.keys() - chart_values.DERIVED))
def test_the_schema_takes_what_the_setting_takes(name: str) -> None:
    field = Settings.model_fields[name]
    shape = next(each for each in field.metadata if isinstance(each, Shape))
    schema = chart_values.setting_schema(field)
    choices: list[object] = [*shape.metavar.split("|")] if "|" in shape.metavar else []
    samples = SAMPLES.get(shape.metavar, [*choices, "no such choice"] if choices else [])
    for sample in [True, False, "perhaps"] if shape.is_flag else samples:
        assert takes(schema, sample) == chart_values.is_allowed(field, sample), sample


def takes(schema: dict[str, Any], value: object) -> bool:
    """Whether a value passes, as far as the schemas of settings go."""
    if "not" in schema and takes(schema["not"], value):
        return False
    if "anyOf" in schema:
        return any(takes(each, value) for each in schema["anyOf"])
    if "enum" in schema:
        return any(value == each and type(value) is type(each) for each in schema["enum"])
    if "const" in schema:
        return value == schema["const"] and not isinstance(value, bool)
    if schema["type"] == "string":
        return isinstance(value, str) and re.search(schema["pattern"], value) is not None
    kinds = (int,) if schema["type"] == "integer" else (int, float)
    if not isinstance(value, kinds) or isinstance(value, bool):
        return False
    least, most = schema.get("minimum", value), schema.get("maximum", value)
    return least <= value <= most and value > schema.get("exclusiveMinimum", value - 1)


@pytest.mark.parametrize("chart", ["chunkside", "chunkside-sidecar"])
def test_the_charts_are_of_this_version_of_the_sidecar(chart: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    told = yaml.safe_load((HELM / chart / "Chart.yaml").read_text(encoding="utf-8"))
    assert told["appVersion"] == project["version"]


def test_every_chart_is_of_one_version() -> None:
    files = sorted(HELM.glob("**/Chart.yaml"))
    charts = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]
    asked = [each["version"] for chart in charts for each in chart.get("dependencies", [])]
    [library] = [each for each in charts if each.get("type") == "library"]
    assert set(asked) == {library["version"]}
