"""What stands around the pods: the Service, policies, monitoring, identities."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.support.charts import (
    BY_NAME,
    NODE_WIDE,
    Document,
    bytes_of,
    of_kind,
    pod_of,
    refusal,
    rendered,
    run_helm,
    sidecar_of,
)

pytestmark = pytest.mark.charts("helm")
DEFAULT = BY_NAME["default"]
DEPLOYMENT = BY_NAME["deployment"]
MONITORING = BY_NAME["monitoring"]
OPTIONAL = {"PodDisruptionBudget", "PodMonitor", "PrometheusRule", "ConfigMap"}


def service_of(kind: str, kubernetes: str) -> Document:
    case = BY_NAME[kind]
    spec: Document = of_kind(rendered(case, kubernetes=kubernetes), "Service")["spec"]
    return spec


@pytest.mark.parametrize("kubernetes", ["1.34", "1.35", "1.37"])
@pytest.mark.parametrize("kind", ["default", "deployment"])
def test_readers_are_led_to_their_own_node_first(kind: str, kubernetes: str) -> None:
    service = service_of(kind, kubernetes)
    assert service["trafficDistribution"] == "PreferSameNode"
    assert "internalTrafficPolicy" not in service


@pytest.mark.parametrize("kubernetes", ["1.29", "1.33"])
def test_before_that_could_be_said_they_are_led_to_their_own_node_alone(kubernetes: str) -> None:
    service = service_of("default", kubernetes)
    assert service["internalTrafficPolicy"] == "Local"
    assert "trafficDistribution" not in service


@pytest.mark.parametrize(("kubernetes", "told"), [("1.29", None), ("1.31", "PreferClose")])
def test_no_reader_is_left_alone_where_not_every_node_has_a_cache(
    kubernetes: str, told: str | None
) -> None:
    service = service_of("deployment", kubernetes)
    assert "internalTrafficPolicy" not in service
    assert service.get("trafficDistribution") == told


@pytest.mark.parametrize("case", [DEFAULT, DEPLOYMENT], ids=["DaemonSet", "Deployment"])
def test_the_service_leads_to_the_data_port_alone(case) -> None:
    documents = rendered(case)
    service = of_kind(documents, "Service")["spec"]
    assert [each["targetPort"] for each in service["ports"]] == ["chunkside"]
    [workload] = [each for each in documents if each["kind"] in ("DaemonSet", "Deployment")]
    labels = workload["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()
    ports = {each["name"]: each["containerPort"] for each in sidecar_of(pod_of(case))["ports"]}
    assert ports == {"chunkside": 8100, "chunkside-admin": 8101}


def test_the_new_pod_is_there_before_the_old_one_goes() -> None:
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert of_kind(rendered(DEFAULT), "DaemonSet")["spec"]["updateStrategy"] == update
    assert of_kind(rendered(DEPLOYMENT), "Deployment")["spec"]["strategy"] == update
    claim = of_kind(rendered(BY_NAME["claim"]), "Deployment")["spec"]
    assert (claim["strategy"], claim["replicas"]) == ({"type": "Recreate"}, 1)


def test_a_cache_is_wherever_a_reader_may_be() -> None:
    assert pod_of(DEFAULT)["tolerations"] == [{"operator": "Exists", "effect": "NoSchedule"}]


def test_what_needs_more_than_kubernetes_is_off_until_it_is_asked_for() -> None:
    assert OPTIONAL.isdisjoint(each["kind"] for each in rendered(DEFAULT))
    assert {each["kind"] for each in rendered(MONITORING)} >= OPTIONAL - {"PodDisruptionBudget"}


def test_a_network_policy_is_there_unless_it_is_switched_off() -> None:
    policy = of_kind(rendered(DEFAULT), "NetworkPolicy")["spec"]
    assert policy["podSelector"]["matchLabels"]["app.kubernetes.io/name"] == "chunkside"
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    readers, monitoring = policy["ingress"]
    assert readers["from"] == [{"podSelector": {}}]
    assert [each["port"] for each in readers["ports"]] == ["chunkside"]
    assert [each["port"] for each in monitoring["ports"]] == ["chunkside-admin"]
    assert "NetworkPolicy" not in {each["kind"] for each in rendered(BY_NAME["bare"])}


def egress_ports(*sets: str) -> list[int]:
    policy = of_kind(rendered(DEFAULT, *sets), "NetworkPolicy")["spec"]
    return [port["port"] for rule in policy["egress"] for port in rule.get("ports", [])]


@pytest.mark.parametrize(
    ("upstream", "port"),
    [
        ("https://data.example.org/x", 443),
        ("http://data.example.org/x", 80),
        ("https://data.example.org:8443", 8443),
        ("http://192.0.2.7:9000/x", 9000),
        ("https://[2001:db8::1]:9443/x", 9443),
        ("s3://bucket", 443),
        ("az://account/container", 443),
        ("s3://", 443),
    ],
)
def test_the_origins_port_is_open(upstream: str, port: int) -> None:
    clients = "settings.allowed_clients={10.0.0.0/8}"
    assert egress_ports(f"upstream={upstream}", clients) == [53, 53, port]


@pytest.mark.parametrize("upstream", ["s3://bucket", "az://account"])
def test_a_stores_endpoint_is_open_and_not_the_cloud(upstream: str) -> None:
    bucket = (f"upstream={upstream}", "settings.allowed_clients={10.0.0.0/8}")
    elsewhere = "settings.upstream_endpoint=https://store.example.org:8333"
    assert egress_ports(*bucket, elsewhere) == [53, 53, 8333]
    within = "settings.upstream_endpoint=http://minio.data.svc:9000"
    policy = of_kind(rendered(DEFAULT, *bucket, within), "NetworkPolicy")["spec"]
    assert {"to": [{"namespaceSelector": {}}]} in policy["egress"]


@pytest.mark.parametrize("host", ["minio", "minio.data.svc", "minio.data.svc.cluster.local"])
def test_an_origin_in_the_cluster_is_open_whatever_its_pods_port(host: str) -> None:
    policy = of_kind(rendered(DEFAULT, f"upstream=http://{host}:9000"), "NetworkPolicy")["spec"]
    assert {"to": [{"namespaceSelector": {}}]} in policy["egress"]


def test_nobody_is_let_in_where_no_peer_is_named() -> None:
    documents = rendered(DEFAULT, "networkPolicy.clients=[]", "networkPolicy.monitoring=[]")
    assert of_kind(documents, "NetworkPolicy")["spec"]["ingress"] == []


def test_each_cloud_finds_its_identity() -> None:
    documents = rendered(BY_NAME["credential"])
    account = of_kind(documents, "ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    annotations = account["metadata"]["annotations"]
    assert annotations["eks.amazonaws.com/role-arn"] == "arn:aws:iam::123456789012:role/reader"
    assert annotations["iam.gke.io/gcp-service-account"] == "reader@project.iam.gserviceaccount.com"
    assert annotations["azure.workload.identity/client-id"].endswith("1")
    assert annotations["azure.workload.identity/tenant-id"].endswith("2")
    pod = of_kind(documents, "DaemonSet")["spec"]["template"]
    assert pod["metadata"]["labels"]["azure.workload.identity/use"] == "true"
    assert pod["spec"]["serviceAccountName"] == account["metadata"]["name"]
    assert "annotations" not in of_kind(rendered(DEFAULT), "ServiceAccount")["metadata"]


def test_the_secret_is_a_file_and_never_in_the_environment() -> None:
    pod = pod_of(BY_NAME["credential"])
    container = sidecar_of(pod)
    assert not any("secretKeyRef" in str(each) for each in container["env"])
    [mount] = [each for each in container["volumeMounts"] if each["name"] == "chunkside-auth"]
    assert mount == {"name": "chunkside-auth", "mountPath": "/etc/chunkside/auth", "readOnly": True}
    [volume] = [each for each in pod["volumes"] if each["name"] == "chunkside-auth"]
    assert volume["secret"] == {
        "secretName": "origin-token",
        "items": [{"key": "token", "path": "secret"}],
    }


def test_an_existing_service_account_is_taken_where_none_is_made() -> None:
    documents = rendered(BY_NAME["bare"], "serviceAccount.name=reader")
    assert "ServiceAccount" not in {each["kind"] for each in documents}
    assert (
        of_kind(documents, "DaemonSet")["spec"]["template"]["spec"]["serviceAccountName"]
        == "reader"
    )


def test_a_budget_of_disruptions_is_for_deployments() -> None:
    assert of_kind(rendered(DEPLOYMENT), "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert "DaemonSet" in refusal(DEFAULT, "podDisruptionBudget.enabled=true")


def test_the_rules_are_those_of_the_file() -> None:
    rule = of_kind(rendered(MONITORING), "PrometheusRule")
    file = yaml.safe_load((NODE_WIDE / "rules/chunkside.yaml").read_text(encoding="utf-8"))
    assert rule["spec"] == file
    assert rule["metadata"]["labels"]["release"] == "prometheus"


def test_the_dashboard_is_that_of_the_file_byte_for_byte() -> None:
    configured = of_kind(rendered(MONITORING), "ConfigMap")
    text = (NODE_WIDE / "dashboards/chunkside.json").read_text(encoding="utf-8")
    assert configured["data"]["chunkside.json"] == text.strip()
    assert json.loads(configured["data"]["chunkside.json"])["title"]
    assert configured["metadata"]["labels"]["grafana_dashboard"] == "1"
    # kubectl apply keeps a copy in an annotation, which holds this much.
    assert len(json.dumps(configured)) < bytes_of("256Ki")


def test_prometheus_keeps_the_sidecars_container_alone() -> None:
    own = of_kind(rendered(DEFAULT, "podMonitor.enabled=true"), "PodMonitor")["spec"]
    assert own["selector"]["matchLabels"]["app.kubernetes.io/name"] == "chunkside"
    everywhere = of_kind(rendered(MONITORING), "PodMonitor")["spec"]
    assert (everywhere["selector"], everywhere["namespaceSelector"]) == ({}, {"any": True})
    for spec in (own, everywhere):
        [endpoint] = spec["podMetricsEndpoints"]
        assert (endpoint["port"], endpoint["path"]) == ("chunkside-admin", "/metrics")
        [kept] = endpoint["relabelings"]
        assert (kept["action"], kept["regex"]) == ("keep", "chunkside")


@pytest.mark.parametrize("url", ["", "https://wiki.example.org/chunkside/runbook.md"])
def test_alerts_lead_to_where_the_runbook_is_published(url: str) -> None:
    """Left out, they name its path in the repository."""
    given = (f"prometheusRule.runbook={url}",) if url else ()
    told = rendered(DEFAULT, "prometheusRule.enabled=true", *given)
    [group] = of_kind(told, "PrometheusRule")["spec"]["groups"]
    urls = {rule["annotations"]["runbook_url"].partition("#")[0] for rule in group["rules"]}
    assert urls == {url or "docs/runbook.md"}


@pytest.mark.parametrize(
    ("values", "file"),
    [
        ("prometheusRule.enabled=true", "rules/chunkside.yaml"),
        ("dashboard.enabled=true", "dashboards/chunkside.json"),
    ],
)
def test_a_chart_without_the_file_says_which_one_is_missing(
    tmp_path: Path, values: str, file: str
) -> None:
    chart = tmp_path / "chunkside"
    shutil.copytree(NODE_WIDE, chart)
    (chart / file).unlink()
    told = refusal(dataclasses.replace(DEFAULT, chart=chart), values)
    assert f"{file} is missing from this chart" in told


@pytest.mark.parametrize("name", ["hostpath", "routes"])
def test_the_notes_tell_where_readers_go_and_how_to_look(name: str) -> None:
    case = BY_NAME[name]
    where = ("--namespace", "ns", "--values", str(case.values))
    done = run_helm("helm", "install", "--dry-run=client", "rel", str(case.chart), *where)
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("NOTES:")[2]
    told = {
        "hostpath": [
            "https://data.example.org/bucket  ->  http://rel-chunkside.ns.svc:8100/",
            "install -d -m 1777 /var/cache/chunkside",
        ],
        "routes": ["https://era5.example.org/zarr  ->  http://arrays.ns.svc:8100/era5"],
    }
    for text in (*told[name], "port-forward daemonset/", "cache-status", "never a node's or pod's"):
        assert text in notes
