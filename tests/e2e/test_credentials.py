"""`client_credentials` through the whole sidecar, a restart included."""

import pytest

from tests.e2e.conftest import StartSidecar
from tests.support.http_client import exchange
from tests.support.origin import Origin, Script
from tests.support.sidecar import Sidecar

TARGET, HOLE = "/a/c/0", "/a/c/1"
ALICE, BOB = [("Authorization", "Bearer alice")], [("Authorization", "Bearer bob")]
SIGNED = [
    ("Authorization", "AWS4-HMAC-SHA256 Credential=AK/20270115/us-east-1/s3/aws4_request"),
    ("X-Amz-Date", "20270115T000000Z"),
    ("X-Amz-Security-Token", "t"),
]


def is_hit(answer) -> bool:
    return (answer.value("Cache-Status") or "").startswith("chunkside; hit")


def ask(sidecar: Sidecar, target: str, who=()) -> tuple[int, bytes, bool]:
    answer = exchange(sidecar.url, target, headers=list(who))
    sidecar.wait_idle()
    return answer.status, answer.body, is_hit(answer)


def test_what_is_shared_stays_so_and_absences_are_not(
    own_origin: Origin, start_sidecar: StartSidecar
) -> None:
    own_origin.put(TARGET, b"body")
    sidecar = start_sidecar("--client-credentials", "share")
    assert ask(sidecar, TARGET, ALICE) == (200, b"body", False)
    for who in (ALICE, BOB, ()):
        # Often enough for the fast lane, and for whole answers that it knows.
        for _ in range(5):
            assert ask(sidecar, TARGET, who) == (200, b"body", True)
    for who in (ALICE, BOB, ()):
        assert [ask(sidecar, HOLE, who)[2] for _ in range(5)] == [False, *[True] * 4]
    own_origin.put(HOLE, b"new")
    assert exchange(sidecar.url, HOLE, "HEAD", headers=BOB).status == 200
    assert ask(sidecar, HOLE, ALICE) == (200, b"new", False)
    shown = exchange(sidecar.admin_url, f"/file{TARGET}", headers=[("Chunkside-Partition", "*")])
    assert b"body" in shown.body
    assert sidecar.stop() == 0
    own_origin.forget_requests()
    sidecar = start_sidecar("--client-credentials", "share")
    for who in (BOB, ()):
        for target, body in ((TARGET, b"body"), (HOLE, b"new")):
            assert ask(sidecar, target, who) == (200, body, True)
    assert own_origin.count() == 0
    assert sidecar.stop() == 0
    # Lies where nobody looks whose credentials part what is stored.
    sidecar = start_sidecar()
    for who in (ALICE, ()):
        assert not ask(sidecar, TARGET, who)[2]


@pytest.mark.parametrize("who", [ALICE, SIGNED], ids=["a token", "a signature"])
def test_what_clients_bring_reaches_no_origin_where_it_is_removed(
    own_origin: Origin, start_sidecar: StartSidecar, who
) -> None:
    own_origin.put(TARGET, b"body")
    sidecar = start_sidecar("--client-credentials", "strip")
    for each in (who, BOB, who, (), who):
        assert ask(sidecar, TARGET, each)[:2] == (200, b"body")
    for method in ("PUT", "HEAD", "DELETE", "OPTIONS"):
        body = b"new" if method == "PUT" else b""
        exchange(sidecar.url, HOLE, method, headers=list(who), body=body)
    assert own_origin.count("GET") == 1
    for request in own_origin.requests():
        assert not [name for name, _ in who if request.value(name) is not None]


def test_a_field_that_is_meant_for_this_cache_is_obeyed_and_goes_on(
    own_origin: Origin, start_sidecar: StartSidecar
) -> None:
    told = [("CDN-Cache-Control", "max-age=600"), ("Cache-Control", "no-store")]
    own_origin.put(TARGET, b"body", headers=told)
    own_origin.script(HOLE, Script(status=404, headers=(("Chunkside-Cache-Control", "no-cache"),)))
    flags = ("--targeted-cache-control", "CDN-Cache-Control,Chunkside-Cache-Control")
    sidecar = start_sidecar(*flags)
    assert not ask(sidecar, TARGET)[2]
    for _ in range(3):
        answer = exchange(sidecar.url, TARGET)
        assert is_hit(answer)
        assert answer.value("CDN-Cache-Control") == "max-age=600"
        assert answer.value("Cache-Control") == "no-store"
    assert [ask(sidecar, HOLE)[2] for _ in range(2)] == [False, False]
