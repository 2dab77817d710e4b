"""Reads are fenced by writes: after a PUT or DELETE no reader sees what was before."""

import numpy as np
import pytest

from tests.support.arrays import opened, sparse_array
from tests.support.deadline import wait_for
from tests.support.http_client import Connection, exchange
from tests.support.origin import Origin, Script
from tests.support.sidecar import Sidecar


def get(sidecar: Sidecar, target: str) -> tuple[int, bytes]:
    response = exchange(sidecar.url, target)
    return response.status, response.body


def put(sidecar: Sidecar, target: str, body: bytes) -> int:
    return exchange(sidecar.url, target, "PUT", body=body).status


def test_a_put_over_a_held_body_is_seen_at_once(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    origin.put(target, b"old")
    assert [get(sidecar, target), get(sidecar, target)] == [(200, b"old")] * 2
    assert put(sidecar, target, b"new") == 204
    assert [get(sidecar, target), get(sidecar, target)] == [(200, b"new")] * 2
    assert origin.count("GET") == 2


def test_a_put_over_a_marker_is_seen_at_once(origin: Origin, sidecar: Sidecar, target: str) -> None:
    assert [get(sidecar, target)[0], get(sidecar, target)[0]] == [404, 404]
    assert origin.count("GET") == 1
    assert put(sidecar, target, b"new") == 201
    assert get(sidecar, target) == (200, b"new")


def test_a_delete_is_seen_at_once(origin: Origin, sidecar: Sidecar, target: str) -> None:
    origin.put(target, b"old")
    assert get(sidecar, target) == (200, b"old")
    assert exchange(sidecar.url, target, "DELETE").status == 204
    assert get(sidecar, target)[0] == 404


@pytest.mark.parametrize(
    ("old", "new"),
    [("c/0", "c/%30"), ("c/0", "c%2F0"), ("c/0", "c/0?version=7"), ("/array", "/%61rray")],
)
def test_a_write_by_another_spelling_invalidates_too(
    origin: Origin, sidecar: Sidecar, old: str, new: str, target: str
) -> None:
    origin.put(target, b"old")
    assert get(sidecar, target) == (200, b"old")
    put(sidecar, target.replace(old, new), b"new")
    assert get(sidecar, target) == (200, b"new")


@pytest.mark.parametrize("method", ["POST", "PATCH", "PROPPATCH"])
def test_any_method_that_is_not_safe_invalidates(
    origin: Origin, sidecar: Sidecar, method: str, target: str
) -> None:
    origin.put(target, b"old")
    assert get(sidecar, target) == (200, b"old")
    origin.put(target, b"new")
    origin.script(target, Script(status=200), method=method)
    assert exchange(sidecar.url, target, method, body=b"").status == 200
    assert get(sidecar, target) == (200, b"new")


@pytest.mark.parametrize("old", [b"old", None], ids=["body", "absence"])
def test_an_older_get_in_flight_never_shadows_a_put(
    origin: Origin, sidecar: Sidecar, old: bytes | None, target: str
) -> None:
    if old is not None:
        origin.put(target, old)
    gate = origin.hold(target)
    with Connection(sidecar.url) as older:
        older.send("GET", target)
        gate.wait_held()
        put(sidecar, target, b"new")
        # The older GET still stands at the gate, and must not be joined.
        assert get(sidecar, target) == (200, b"new")
        gate.release()
        assert older.response().status == (404 if old is None else 200)
    assert [get(sidecar, target), get(sidecar, target)] == [(200, b"new")] * 2
    # Nor did what it brought push out the newer body.
    assert origin.count("GET") == 2


@pytest.mark.parametrize("after", ["head", 500_000])
def test_a_body_that_is_half_way_never_shadows_a_put(
    origin: Origin, sidecar: Sidecar, after: int | str, target: str
) -> None:
    old, new = b"o" * 1_000_000, b"n" * 1_000_000
    origin.put(target, old)
    gate = origin.hold(target, after if isinstance(after, int) else "head")
    with Connection(sidecar.url) as older:
        older.send("GET", target)
        gate.wait_held()
        put(sidecar, target, new)
        assert get(sidecar, target) == (200, new)
        gate.release()
        answer = older.response()
        assert answer.body == old[: len(answer.body)]
    assert [get(sidecar, target), get(sidecar, target)] == [(200, new)] * 2
    assert origin.count("GET") == 2


@pytest.mark.parametrize("old", [b"old", None], ids=["body", "absence"])
def test_a_get_that_ends_while_a_put_runs_is_not_kept(
    origin: Origin, sidecar: Sidecar, old: bytes | None, target: str
) -> None:
    if old is not None:
        origin.put(target, old)
    get_gate, put_gate = origin.hold(target), origin.hold(target, method="PUT")
    with Connection(sidecar.url) as older, Connection(sidecar.url) as writer:
        older.send("GET", target)
        get_gate.wait_held()
        writer.send("PUT", target, body=b"new")
        put_gate.wait_held()
        get_gate.release()
        older.response()
        assert get(sidecar, target) == (200, b"new")
        put_gate.release()
        writer.response()
    assert get(sidecar, target) == (200, b"new")


def test_nothing_is_stored_while_a_put_runs(origin: Origin, sidecar: Sidecar, target: str) -> None:
    gate = origin.hold(target, method="PUT")
    with Connection(sidecar.url) as writer:
        writer.send("PUT", target, body=b"new")
        gate.wait_held()
        origin.put(target, b"half-written")
        assert get(sidecar, target) == (200, b"half-written")
        origin.put(target, b"new")
        assert get(sidecar, target) == (200, b"new")
        gate.release()
        writer.response()
    assert get(sidecar, target) == (200, b"new")


@pytest.mark.parametrize("script", [Script(reset_before_head=True), Script(status=500)])
def test_a_write_whose_fate_is_unknown_keeps_the_object_out_of_the_store(
    origin: Origin, sidecar: Sidecar, script: Script, target: str
) -> None:
    origin.put(target, b"old")
    assert get(sidecar, target) == (200, b"old")
    origin.script(target, script, method="PUT")
    assert put(sidecar, target, b"new") >= 500
    assert get(sidecar, target) == (200, origin.objects[target].body)
    # What the origin does with that write may still come.
    origin.put(target, b"newer")
    assert get(sidecar, target) == (200, b"newer")


def test_a_write_counts_although_its_client_has_gone(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    origin.put(target, b"old")
    assert get(sidecar, target) == (200, b"old")
    gate = origin.hold(target, method="PUT")
    with Connection(sidecar.url) as writer:
        writer.send("PUT", target, body=b"new")
        gate.wait_held()
    assert get(sidecar, target) == (200, b"new")
    gate.release()
    wait_for(lambda: origin.requests("PUT", target)[0].is_done, "the answer to the PUT")
    assert get(sidecar, target) == (200, b"new")


@pytest.mark.client("zarr", "obstore")
def test_zarr_reads_back_what_it_wrote(origin: Origin, sidecar: Sidecar) -> None:
    array = sparse_array()
    for path, body in array.objects.items():
        origin.put(path, body)
    with opened(sidecar.url, "obstore", mode="r+") as writer:
        np.testing.assert_array_equal(writer[:], array.values)
        # One chunk that was there and three that were not, each in part.
        writer[8:24, 8:24] = 42.0
        expected = array.values.copy()
        expected[8:24, 8:24] = 42.0
        np.testing.assert_array_equal(writer[:], expected)
    with opened(sidecar.url, "fsspec") as reader:
        np.testing.assert_array_equal(reader[:], expected)
