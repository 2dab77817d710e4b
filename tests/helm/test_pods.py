"""What the charts put into pods, whatever the values."""

from __future__ import annotations

import pytest

from chunkside.core.neighbours import judge_host
from chunkside.settings import Settings, cautions, load_settings, refuse_open_ports, require_routes
from chunkside.settings.quantities import Percent
from tests.support.charts import (
    BY_NAME,
    CASES,
    DASK_WORKER,
    Case,
    bytes_of,
    containers,
    environment_of,
    pod_of,
    refusal,
    sidecar_of,
)

pytestmark = pytest.mark.charts("helm")
MIB = 2**20
DEFAULT = BY_NAME["default"]
PLAIN = BY_NAME["dask-worker-plain"]
NATIVE = BY_NAME["dask-worker"]
every_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def settings_of(case: Case, *more: str) -> Settings:
    return load_settings({}, environment_of(sidecar_of(pod_of(case, *more))))


@every_case
def test_the_sidecar_accepts_what_the_chart_tells_it(case: Case) -> None:
    settings = settings_of(case)
    refuse_open_ports(settings)
    assert require_routes(settings)
    assert cautions(settings) == []


@every_case
def test_no_container_may_more_than_it_needs(case: Case) -> None:
    pod = pod_of(case)
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        assert not pod.get(key)
    for container in containers(pod):
        context = container["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert not context.get("privileged")
        profile = context.get("seccompProfile", pod["securityContext"]["seccompProfile"])
        assert profile == {"type": "RuntimeDefault"}


@every_case
def test_each_container_has_bounds_of_memory_and_of_what_it_writes(case: Case) -> None:
    for container in containers(pod_of(case)):
        limits, requests = container["resources"]["limits"], container["resources"]["requests"]
        for resource in ("memory", "ephemeral-storage"):
            assert bytes_of(limits[resource]) >= bytes_of(requests[resource]) > 0
        assert "cpu" in requests


@every_case
def test_the_cache_stays_far_from_what_the_kubelet_evicts_for(case: Case) -> None:
    pod = pod_of(case)
    settings = settings_of(case)
    if settings.cache_size == 0:
        return
    assert isinstance(settings.cache_size, int)
    [volume] = [each for each in pod["volumes"] if each["name"] == "chunkside-cache"]
    limits = sidecar_of(pod)["resources"]["limits"]
    if "emptyDir" in volume:
        size = bytes_of(volume["emptyDir"]["sizeLimit"])
        assert settings.cache_size <= size * 4 // 5
        if volume["emptyDir"].get("medium") == "Memory":
            assert settings.allow_memory_filesystem
            return
        assert bytes_of(limits["ephemeral-storage"]) >= size + 256 * MIB
    if "emptyDir" in volume or "hostPath" in volume:
        assert isinstance(settings.min_free, Percent)
        # nodefs 10 %, imagefs 15 %: often they are one file system.
        assert settings.min_free.value >= 20


@pytest.mark.parametrize(
    ("size", "budget"), [("1Gi", 858993459), ("512Mi", 429496729), ("1.5Ti", 1319413953331)]
)
def test_cache_size_is_four_fifths_of_the_volume(size: str, budget: int) -> None:
    assert settings_of(DEFAULT, f"cache.size={size}").cache_size == budget


@every_case
def test_what_the_sidecar_keeps_in_memory_leaves_room_under_the_limit(case: Case) -> None:
    pod = pod_of(case)
    settings = settings_of(case)
    limit = bytes_of(sidecar_of(pod)["resources"]["limits"]["memory"])
    assert isinstance(settings.index_memory, int)
    taken = settings.index_memory
    if settings.allow_memory_filesystem:
        [volume] = [each for each in pod["volumes"] if each["name"] == "chunkside-cache"]
        taken += bytes_of(volume["emptyDir"]["sizeLimit"])
        assert taken <= limit * 3 // 4
    else:
        assert taken <= limit // 4


@every_case
def test_the_cache_directory_is_a_volume(case: Case) -> None:
    pod = pod_of(case)
    settings = settings_of(case)
    mounts = {each["mountPath"]: each["name"] for each in sidecar_of(pod).get("volumeMounts", [])}
    volumes = {each["name"] for each in pod.get("volumes", [])}
    assert set(mounts.values()) <= volumes
    assert (settings.cache_dir is None) == (settings.cache_size == 0)
    assert settings.cache_dir is None or mounts[str(settings.cache_dir)] == "chunkside-cache"


@pytest.mark.parametrize("name", ["hostpath", "dask-worker"])
def test_a_directory_of_the_node_is_told_apart_by_namespace_and_service_account(name: str) -> None:
    container = sidecar_of(pod_of(BY_NAME[name]))
    [mount] = [each for each in container["volumeMounts"] if each["name"] == "chunkside-cache"]
    assert mount["subPathExpr"] == "$(POD_NAMESPACE)/$(POD_SERVICE_ACCOUNT)"
    fields = {
        each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"]
        for each in container["env"]
        if "valueFrom" in each
    }
    assert fields == {
        "POD_NAMESPACE": "metadata.namespace",
        "POD_SERVICE_ACCOUNT": "spec.serviceAccountName",
    }


@every_case
def test_probes_ask_the_admin_port_where_the_kubelet_reaches_it(case: Case) -> None:
    container = sidecar_of(pod_of(case))
    [admin] = [each for each in container["ports"] if each["name"] == "chunkside-admin"]
    asked = {
        kind: container[kind]["httpGet"]
        for kind in ("startupProbe", "readinessProbe", "livenessProbe")
    }
    assert {each["port"] for each in asked.values()} == {"chunkside-admin"}
    assert [each["path"] for each in asked.values()] == ["/readyz", "/readyz", "/livez"]
    listens = settings_of(case).admin_listen
    assert {str(each) for each in listens} <= {
        f"0.0.0.0:{admin['containerPort']}",
        f"[::]:{admin['containerPort']}",
    }


@pytest.mark.parametrize("name", ["reader-job", "dask-worker", "dask-worker-plain"])
def test_a_sidecar_reads_for_its_own_pod_alone(name: str) -> None:
    pod = pod_of(BY_NAME[name])
    [listen] = settings_of(BY_NAME[name]).listen
    assert str(listen) == "localhost:8100"
    [reader] = [each for each in pod["containers"] if each["name"] != "chunkside"]
    assert environment_of(reader)["CHUNKSIDE_URL"] == "http://localhost:8100"


def test_a_native_sidecar_starts_before_the_reader_and_ends_after_it() -> None:
    pod = pod_of(NATIVE)
    assert [each["name"] for each in pod["initContainers"]] == ["chunkside"]
    assert pod["initContainers"][0]["restartPolicy"] == "Always"
    assert "chunkside" not in [each["name"] for each in pod["containers"]]
    assert settings_of(NATIVE).drain_time == 0


def test_a_plain_sidecar_stays_until_just_before_its_pod_is_killed() -> None:
    pod = pod_of(PLAIN)
    assert "initContainers" not in pod
    assert "restartPolicy" not in sidecar_of(pod)
    settings = settings_of(PLAIN)
    grace = pod["terminationGracePeriodSeconds"]
    assert settings.drain_time == grace - 5
    assert settings.drain_time + settings.shutdown_timeout < grace


@pytest.mark.parametrize("grace", [10, 30, 60, 600])
def test_behind_a_service_the_drain_fits_into_the_grace_period(grace: int) -> None:
    settings = settings_of(DEFAULT, f"terminationGracePeriodSeconds={grace}")
    assert settings.drain_time >= 3
    assert settings.drain_time + settings.shutdown_timeout + 2 <= grace


def test_a_job_ends_with_its_reader() -> None:
    pod = pod_of(BY_NAME["reader-job"])
    assert pod["restartPolicy"] == "Never"
    assert [each["name"] for each in pod["containers"]] == ["reader"]
    assert sidecar_of(pod)["restartPolicy"] == "Always"


@pytest.mark.parametrize(
    "host",
    [
        "rel-chunkside",
        "rel-chunkside.ns",
        "rel-chunkside.ns.svc",
        "rel-chunkside.ns.svc.cluster.local",
    ],
)
def test_every_name_of_the_service_is_answered(host: str) -> None:
    allowed = frozenset(name.encode() for name in settings_of(DEFAULT).allowed_hosts)
    assert judge_host(f"{host}:8100".encode(), allowed) is None


def test_settings_go_through_as_they_are() -> None:
    settings = settings_of(
        DEFAULT,
        "settings.ttl=1h",
        "settings.negative_ttl=600",
        "settings.max_markers=2000000",
        "settings.upstream_retries=0",
        "settings.cache_missing=false",
        'settings.cors_origins=["http://a.example","http://b.example"]',
    )
    assert (settings.ttl, settings.negative_ttl) == (3600, 600)
    assert (settings.max_markers, settings.upstream_retries) == (2_000_000, 0)
    assert settings.cache_missing is False
    assert settings.cors_origins == ("http://a.example", "http://b.example")


def test_routes_go_through_as_they_are() -> None:
    era5, scratch = require_routes(settings_of(BY_NAME["routes"]))
    assert (era5.prefix, era5.settings.ttl, era5.settings.negative_ttl) == ("/era5", 86400, 600)
    assert (scratch.settings.ttl, scratch.settings.cache_missing) == (60, False)


def test_an_image_is_named_by_its_digest_where_there_is_one() -> None:
    assert sidecar_of(pod_of(BY_NAME["bare"]))["image"].startswith(
        "registry.example.org/chunkside@sha256:"
    )


def test_the_sidecars_values_are_refused_as_the_charts_own_are() -> None:
    case = Case("dask", DASK_WORKER)
    assert "cahce" in refusal(case, "chunkside.cahce.size=1Gi")
    assert "2GB" in refusal(case, "chunkside.cache.size=2GB")
    assert "-1s" in refusal(case, "chunkside.settings.ttl=-1s")
