"""A large body that is still on its way: who joins late is served from what has arrived."""

import os

import pytest

from tests.support.deadline import wait_for
from tests.support.http_client import Connection, exchange
from tests.support.origin import Origin, Script
from tests.support.sidecar import Sidecar

MIB = 1024 * 1024


def test_a_late_reader_gets_what_has_arrived_and_memory_stays_flat(
    own_origin: Origin, sidecar_on_each_loop: Sidecar, target: str
) -> None:
    sidecar = sidecar_on_each_loop
    body = os.urandom(64 * MIB)
    own_origin.put(target, body)
    own_origin.put("/small/c/0", b"warm up")
    exchange(sidecar.url, "/small/c/0")
    exchange(sidecar.url, "/small/c/0")
    before = sidecar.rss_anon_bytes()
    at_32, at_40 = own_origin.hold(target, 32 * MIB), own_origin.hold(target, 40 * MIB)

    with Connection(sidecar.url) as early, Connection(sidecar.url) as late:
        early.send("GET", target)
        at_32.wait_held()
        assert early.head().value("Content-Length") == str(len(body))
        early_part = early.exactly(32 * MIB)

        late.send("GET", target)
        late_head = late.head()
        assert late_head.status == 200
        assert "chunkside" in (late_head.value("Cache-Status") or "")
        late_part = late.exactly(32 * MIB)
        at_32.release()
        at_40.wait_held()
        late_part += late.exactly(8 * MIB)
        grown = [sidecar.rss_anon_bytes() - before]

        # The early reader has stopped reading, which holds up nobody else.
        at_40.release()
        late_part += late.exactly(24 * MIB)
        grown.append(sidecar.rss_anon_bytes() - before)
        assert late_part == body
        early_part += early.exactly(32 * MIB)
        assert early_part == body

    hit = exchange(sidecar.url, target)
    grown.append(sidecar.rss_anon_bytes() - before)
    assert hit.body == body
    assert "hit" in (hit.value("Cache-Status") or "")
    assert own_origin.count("GET", target) == 1
    assert max(grown) < 16 * MIB, [round(each / MIB, 1) for each in grown]


def test_a_fill_outlives_the_client_that_started_it(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    body = os.urandom(4 * MIB)
    origin.put(target, body)
    gate = origin.hold(target, MIB)
    with Connection(sidecar.url) as impatient:
        impatient.send("GET", target)
        gate.wait_held()
        impatient.head()
        impatient.exactly(MIB // 2)
    gate.release()
    wait_for(lambda: origin.requests("GET", target)[0].is_done, "the whole body being sent")
    assert exchange(sidecar.url, target).body == body
    assert origin.count("GET", target) == 1


def test_many_readers_of_one_key_cost_one_request(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    origin.put(target, b"body")
    gate = origin.hold(target)
    connections = [Connection(sidecar.url) for _ in range(20)]
    try:
        for connection in connections:
            connection.send("GET", target)
        gate.wait_held()
        wait_for(lambda: sidecar.metric("chunkside_fill_waiters") >= 19, "all readers waiting")
        gate.release()
        assert [each.response().body for each in connections] == [b"body"] * 20
    finally:
        for connection in connections:
            connection.close()
    assert origin.count("GET", target) == 1


@pytest.mark.parametrize("status", [404, 501], ids=["absence", "error"])
def test_an_answer_without_a_body_reaches_all_who_wait(
    origin: Origin, sidecar: Sidecar, status: int, target: str
) -> None:
    origin.script(target, Script(status=status, body=b"no"), times=1)
    gate = origin.hold(target)
    connections = [Connection(sidecar.url) for _ in range(5)]
    try:
        for connection in connections:
            connection.send("GET", target)
        gate.wait_held()
        wait_for(lambda: sidecar.metric("chunkside_fill_waiters") >= 4, "all readers waiting")
        gate.release()
        assert [each.response().status for each in connections] == [status] * 5
    finally:
        for connection in connections:
            connection.close()
    assert origin.count("GET", target) == 1
