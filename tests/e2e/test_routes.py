"""One sidecar before two origins, by path prefix: settings and counts by route."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import ANY_DISK
from tests.support.http_client import Connection, exchange
from tests.support.origin import Origin
from tests.support.sidecar import Sidecar

# Far beyond what any test takes, and at once over.
LONG, OVER = "1h", "0s"


class Street:
    """`/near` leads to a directory of `near`, read-only; `/far` to all of `far`; `/twin` to the
    same directory as `/near`, and writes.
    """

    def __init__(self, stack: ExitStack, cache_dir: Path) -> None:
        self.near = stack.enter_context(Origin())
        self.far = stack.enter_context(Origin())
        routes = [
            {
                "prefix": "/near",
                "upstream": f"{self.near.url}/data",
                "ttl": LONG,
                "negative_ttl": LONG,
                "metadata_ttl": LONG,
                "allow_writes": False,
            },
            {"prefix": "/far/", "upstream": self.far.url, "ttl": OVER, "negative_ttl": OVER},
            {"prefix": "/twin", "upstream": f"{self.near.url}/data", "absent_statuses": [404]},
        ]
        config = cache_dir.with_suffix(".yaml")
        # JSON is YAML.
        config.write_text(json.dumps({"routes": routes}))
        flags = (*ANY_DISK, "--config", str(config))
        self.sidecar = stack.enter_context(Sidecar(None, cache_dir, flags))

    def get(self, target: str, method: str = "GET") -> tuple[int, bytes, str]:
        """Status, body, and what `Cache-Status` says. Whatever is to be stored then is."""
        answer = exchange(self.sidecar.url, target, method)
        self.sidecar.wait_idle()
        return answer.status, answer.body, answer.value("Cache-Status") or ""

    def admin(self, target: str, purge: dict[str, Any] | None = None) -> tuple[int, Any]:
        body = None if purge is None else json.dumps(purge).encode()
        answer = exchange(
            self.sidecar.admin_url, target, "GET" if purge is None else "POST", (), body
        )
        return answer.status, json.loads(answer.body)

    def is_hit(self, target: str) -> bool:
        return "; hit" in self.get(target)[2]


@pytest.fixture(scope="module")
def shared_street(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    with ExitStack() as stack:
        yield Street(stack, tmp_path_factory.mktemp("street") / "cache")


@pytest.fixture
def street(shared_street: Street) -> Street:
    """Holds nothing, and its origins have seen nothing."""
    shared_street.near.reset()
    shared_street.far.reset()
    shared_street.admin("/purge", {"all": True})
    return shared_street


def test_each_path_goes_to_its_origin_and_lives_by_its_route_s_settings(street: Street) -> None:
    street.near.put("/data/c/0", b"near")
    street.far.put("/c/0", b"far")
    for _ in range(2):
        assert street.get("/near/c/0")[:2] == (200, b"near")
        assert street.get("/far/c/0")[:2] == (200, b"far")
        assert street.get("/near/c/1")[0] == street.get("/far/c/1")[0] == 404
    # One keeps both for an hour; the other asks each time, and never remembers the absence.
    assert [exchange.target for exchange in street.near.requests()] == [b"/data/c/0", b"/data/c/1"]
    assert [exchange.target for exchange in street.far.requests()] == [b"/c/0", b"/c/1"] * 2


def test_scopes_and_writes_are_each_route_s_own(street: Street) -> None:
    for _ in range(2):
        assert street.get("/near/c/1", "HEAD")[0] == street.get("/far/c/1", "HEAD")[0] == 404
    # A HEAD and the full GET that proves it on the read-only route; on the other each HEAD.
    assert [each.method for each in street.near.requests()] == ["HEAD", "GET"]
    assert [each.method for each in street.far.requests()] == ["HEAD", "HEAD"]
    assert exchange(street.sidecar.url, "/near/c/1", "PUT", body=b"x").status == 405
    assert exchange(street.sidecar.url, "/far/c/1", "PUT", body=b"x").status == 201
    assert street.far.objects["/c/1"].body == b"x"


def test_a_write_through_one_route_is_seen_through_another_to_the_same_origin(
    street: Street,
) -> None:
    street.near.put("/data/c/0", b"old")
    for target in ("/near/c/0", "/twin/c/0"):
        assert street.get(target)[:2] == (200, b"old")
    assert street.get("/near/c/1")[0] == 404
    assert street.near.count("GET") == 2
    for target, status in (("/twin/c/0", 204), ("/twin/c/1", 201)):
        assert exchange(street.sidecar.url, target, "PUT", body=b"new").status == status
    for target in ("/near/c/0", "/near/c/1", "/twin/c/0"):
        assert street.get(target)[:2] == (200, b"new")


def test_a_read_under_way_on_one_route_never_shadows_a_write_through_another(
    street: Street,
) -> None:
    street.near.put("/data/c/0", b"old")
    gate = street.near.hold("/data/c/0")
    with Connection(street.sidecar.url) as older:
        older.send("GET", "/near/c/0")
        gate.wait_held()
        assert exchange(street.sidecar.url, "/twin/c/0", "PUT", body=b"new").status == 204
        gate.release()
        assert older.response().body == b"old"
    assert street.get("/near/c/0")[:2] == (200, b"new")


@pytest.mark.parametrize("target", ["/", "/nearby/c/0", "/%6eear/c/0", "/x?y=/near"])
def test_an_unknown_prefix_is_421_and_told_the_routes(street: Street, target: str) -> None:
    counted = 'chunkside_requests_total{route="none",result="error"}'
    before = street.sidecar.metric(counted)
    status, body, _ = street.get(target)
    assert status == 421
    assert json.loads(body)["detail"].endswith("/near, /far, /twin.")
    assert street.sidecar.metric(counted) == before + 1
    assert not street.near.requests() + street.far.requests()


@pytest.mark.parametrize("target", ["/near/../far/x", "/near/%2E%2e", "/near/a/../../far"])
def test_dot_segments_that_leave_a_route_are_refused(street: Street, target: str) -> None:
    assert street.get(target)[0] == 400
    assert not street.near.requests() + street.far.requests()


def test_metrics_are_told_by_route(street: Street) -> None:
    names = (
        "chunkside_requests_total",
        "chunkside_upstream_requests_total",
        "chunkside_upstream_received_bytes_total",
        "chunkside_invalidations_total",
    )

    def read() -> dict[tuple[str, str], float]:
        return {
            (name, route): street.sidecar.metric(f'{name}{{route="{route}"}}')
            for name in names
            for route in ("/near", "/far", "/twin")
        }

    before = read()
    street.near.put("/data/c/0", b"12345")
    for target in ("/near/c/0", "/near/c/0", "/twin/c/0"):
        street.get(target)
    exchange(street.sidecar.url, "/twin/c/0", "PUT", body=b"x")
    street.get("/far/c/1")
    more = {key: value - before[key] for key, value in read().items()}
    assert [more[names[0], route] for route in ("/near", "/far", "/twin")] == [2, 1, 2]
    assert [more[names[1], route] for route in ("/near", "/far", "/twin")] == [1, 1, 1]
    assert more[names[2], "/near"] == 5
    assert [more[names[3], route] for route in ("/near", "/far", "/twin")] == [0, 0, 1]


@pytest.mark.parametrize("is_soft", [False, True], ids=["hard", "soft"])
def test_a_purge_of_one_route_leaves_another_alone(street: Street, is_soft: bool) -> None:
    street.near.put("/data/c/0", b"near")
    street.near.put("/c/0", b"beside")
    street.far.put("/data/c/0", b"far", headers=[("Cache-Control", "max-age=600")])
    for target in ("/near/c/0", "/far/data/c/0"):
        street.get(target)
        assert street.is_hit(target)
    status, report = street.admin("/purge", {"route": "/near", "soft": is_soft})
    assert (status, report["bodies"]) == (200, 1)
    assert street.is_hit("/far/data/c/0")
    assert not street.is_hit("/near/c/0")
    assert bool(street.near.requests()[-1].values("If-None-Match")) is is_soft


@pytest.mark.parametrize(
    ("purge", "is_held"),
    [
        ({"target": "/near/c/0"}, {"/near/c/1": True, "/far/c/0": True}),
        ({"prefix": "/near/"}, {"/near/c/1": False, "/far/c/0": True}),
        ({"prefix": "/"}, {"/near/c/1": False, "/far/c/0": False}),
        ({"route": "/far"}, {"/near/c/0": True, "/near/c/1": True, "/far/c/0": False}),
        ({"all": True}, {"/near/c/1": False, "/far/c/0": False}),
    ],
)
def test_a_purge_goes_where_the_data_port_would(
    street: Street, purge: dict[str, Any], is_held: dict[str, bool]
) -> None:
    street.near.put("/data/c/0", b"near")
    street.far.put("/c/0", b"far", headers=[("Cache-Control", "max-age=600")])
    for target in ("/near/c/0", "/near/c/1", "/far/c/0"):
        street.get(target)
    assert street.admin("/purge", purge)[0] == 200
    assert {target: street.is_hit(target) for target in is_held} == is_held


@pytest.mark.parametrize(
    "purge", [{"route": "/nowhere"}, {"prefix": "/nowhere"}, {"target": "/nowhere/x"}]
)
def test_a_purge_of_no_route_is_told_what_routes_there_are(
    street: Street, purge: dict[str, Any]
) -> None:
    status, problem = street.admin("/purge", purge)
    assert (status, problem["status"]) == (404, 404)
    assert "/near, /far, /twin" in problem["detail"]


def test_entries_info_and_stats_tell_of_all_routes(street: Street) -> None:
    street.near.put("/data/c/0", b"near")
    street.get("/near/c/0")
    street.get("/near/c/1")
    found: list[tuple[str, str, str]] = []
    cursor: str | None = ""
    while cursor is not None:
        status, page = street.admin(f"/entries?prefix=/&limit=1{cursor}")
        assert status == 200
        found += [(each["route"], each["target"], each["kind"]) for each in page["entries"]]
        cursor = None if page["next"] is None else f"&after={page['next']}"
    assert sorted(found) == [
        ("/near", "/near/c/0", "body"),
        ("/near", "/near/c/1", "marker"),
        ("/twin", "/twin/c/0", "body"),
        ("/twin", "/twin/c/1", "marker"),
    ]
    info = street.admin("/info")[1]
    assert info["tracked_keys"] == 2
    shown = {route["prefix"]: route for route in info["routes"]}
    assert list(shown) == ["/near", "/far", "/twin"]
    assert (shown["/near"]["ttl"], shown["/near"]["negative_scope"]) == (3600.0, "all")
    assert (shown["/far"]["ttl"], shown["/far"]["negative_scope"]) == (0.0, "get")
    assert shown["/twin"]["absent_statuses"] == [404]
    assert street.admin("/stats")[1]["bodies"] == 1


def test_the_start_says_where_each_route_is(street: Street) -> None:
    printed = street.sidecar.stdout().splitlines()
    assert [line for line in printed if line.startswith("route: ")] == [
        f"route: {street.sidecar.url}/near/ -> {street.near.url}/data/",
        f"route: {street.sidecar.url}/far/ -> {street.far.url}/",
        f"route: {street.sidecar.url}/twin/ -> {street.near.url}/data/",
    ]


def test_bodies_of_all_routes_outlive_a_restart(tmp_path: Path) -> None:
    with ExitStack() as stack:
        first = Street(stack, tmp_path / "cache")
        first.near.put("/data/c/0", b"near")
        first.far.put("/c/0", b"far", headers=[("Cache-Control", "max-age=600")])
        for target in ("/near/c/0", "/far/c/0"):
            first.get(target)
        assert first.sidecar.stop() == 0
        flags = (*ANY_DISK, "--config", str(tmp_path / "cache.yaml"))
        first.sidecar = stack.enter_context(Sidecar(None, tmp_path / "cache", flags))
        for target in ("/near/c/0", "/far/c/0", "/twin/c/0"):
            assert first.is_hit(target)
        assert first.near.count() == first.far.count() == 1
