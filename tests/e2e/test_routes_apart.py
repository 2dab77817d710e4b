"""Routes fail by themselves: what one origin does is no other route's business."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import ANY_DISK
from tests.support.deadline import wait_for
from tests.support.http_client import Connection, exchange
from tests.support.nginx import free_port
from tests.support.origin import Origin
from tests.support.sidecar import Sidecar


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as entered:
        yield entered


@pytest.fixture
def near() -> Iterator[Origin]:
    with Origin({"/c/0": b"near", "/deep/c/0": b"near, deep"}) as origin:
        yield origin


def sidecar(stack: ExitStack, cache_dir: Path, **routes: dict[str, Any]) -> Sidecar:
    listed = [{"prefix": f"/{name.replace('__', '/')}", **told} for name, told in routes.items()]
    flags = (*ANY_DISK, "--routes", json.dumps(listed))
    return stack.enter_context(Sidecar(None, cache_dir, flags))


@pytest.mark.parametrize("host", ["127.0.0.1", "nowhere.invalid"])
def test_one_that_is_down_at_the_start_stops_no_other(stack, cache_dir, near, host):
    port = free_port()
    running = sidecar(
        stack,
        cache_dir,
        near={"upstream": near.url},
        far={"upstream": f"http://{host}:{port}", "upstream_retries": 0},
    )
    assert exchange(running.admin_url, "/readyz").status == 200
    assert exchange(running.url, "/near/c/0").body == b"near"
    answer = exchange(running.url, "/far/c/0")
    assert (answer.status, answer.value("Retry-After") is not None) == (503, True)
    assert exchange(running.url, "/near/c/1").status == 404
    if host == "127.0.0.1":
        with Origin({"/c/0": b"far"}, port):
            wait_for(lambda: exchange(running.url, "/far/c/0").body == b"far", "the other origin")
    assert exchange(running.url, "/near/c/0").value("Cache-Status") is not None
    assert near.count() == 2


def test_one_that_hangs_takes_its_own_connections_and_time_alone(stack, cache_dir, near):
    with Origin({"/c/0": b"far"}) as far:
        running = sidecar(
            stack,
            cache_dir,
            near={"upstream": near.url},
            far={
                "upstream": far.url,
                "upstream_connections": 2,
                "upstream_queue": 1,
                "upstream_first_byte_timeout": "1s",
                "upstream_deadline": "2s",
                "upstream_retries": 0,
            },
        )
        gates = [far.hold(f"/c/{number}") for number in range(2)]
        clients = [stack.enter_context(Connection(running.url)) for _ in gates]
        for number, (client, gate) in enumerate(zip(clients, gates, strict=True)):
            client.send("GET", f"/far/c/{number}")
            gate.wait_held()
        assert exchange(running.url, "/near/c/0").body == b"near"
        assert exchange(running.url, "/near/c/1").status == 404
        assert {client.response().status for client in clients} == {504}
        for gate in gates:
            gate.release()
        assert exchange(running.url, "/far/c/0").body == b"far"


def test_the_breaker_of_one_opens_for_it_alone(stack, cache_dir, near):
    running = sidecar(
        stack,
        cache_dir,
        near={"upstream": near.url},
        far={"upstream": f"http://127.0.0.1:{free_port()}", "upstream_retries": 0},
    )

    def is_open(route: str) -> bool:
        return running.metric(f'chunkside_upstream_breaker{{route="{route}",state="open"}}') == 1

    def one_more() -> bool:
        assert exchange(running.url, "/far/c/0").status == 503
        return is_open("/far")

    wait_for(one_more, "the breaker of the route that is down")
    assert not is_open("/near")
    assert exchange(running.url, "/near/c/0").body == b"near"


def test_the_longest_prefix_wins_each_with_its_own_settings(stack, cache_dir, near):
    with Origin({"/c/0": b"far"}) as far:
        running = sidecar(
            stack,
            cache_dir,
            near={"upstream": near.url, "ttl": "1h", "cors_origins": ["http://page"]},
            near__deep={"upstream": far.url, "ttl": 0, "allow_writes": False},
        )
        page = [("Origin", "http://page")]
        for _ in range(2):
            outer = exchange(running.url, "/near/c/0", headers=page)
            inner = exchange(running.url, "/near/deep/c/0", headers=page)
            assert (outer.body, inner.body) == (b"near", b"far")
            assert outer.value("Access-Control-Allow-Origin") == "http://page"
            assert inner.value("Access-Control-Allow-Origin") is None
            running.wait_idle()
        assert exchange(running.url, "/near/deepest/c/0").status == 404
        assert exchange(running.url, "/near/deep/c/1", "PUT", body=b"x").status == 405
        assert exchange(running.url, "/near/c/1", "PUT", body=b"x").status == 201
        assert exchange(running.url, "/nearer").status == 421
        assert near.count("GET", "/c/0") == 1
        assert near.count(path="/deep/c/0") == 0
        assert [each.status for each in far.requests("GET")] == [200, 304]
