"""The admin port of a running sidecar: what it holds, and a soft purge of it."""

import json
from typing import Any

from tests.e2e.conftest import StartSidecar
from tests.support.http_client import exchange
from tests.support.origin import Origin
from tests.support.sidecar import Sidecar


def read(sidecar: Sidecar, target: str) -> Any:
    answer = exchange(sidecar.admin_url, target)
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


def test_entries_and_info_tell_what_was_read(origin: Origin, sidecar: Sidecar, target: str) -> None:
    array = target.removesuffix("/c/0")
    origin.put(target, b"body")
    exchange(sidecar.url, target)
    exchange(sidecar.url, f"{array}/c/1")
    sidecar.wait_idle()
    shown = []
    cursor: str | None = ""
    while cursor is not None:
        page = read(sidecar, f"/entries?prefix={array}&limit=1{cursor}")
        shown += [(entry["target"], entry["kind"], entry["bytes"]) for entry in page["entries"]]
        cursor = None if page["next"] is None else f"&after={page['next']}"
    assert sorted(shown) == [(target, "body", 4), (f"{array}/c/1", "marker", 0)]
    info = read(sidecar, "/info")
    assert info["tracked_keys"] == info["cached_keys"] + info["missing_keys"] >= 2
    assert info["uptime_seconds"] > 0
    assert exchange(sidecar.admin_url, "/entries?after=nonsense").status == 400


def test_a_soft_purge_has_bodies_validated_and_absences_asked_for(
    own_origin: Origin, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar()
    own_origin.put("/a/c/0", b"body")
    for target in ("/a/c/0", "/a/c/1"):
        exchange(sidecar.url, target)
    sidecar.wait_idle()
    purge = b'{"prefix": "/a", "soft": true}'
    answer = exchange(sidecar.admin_url, "/purge", "POST", (), purge)
    report = json.loads(answer.body)
    assert (report["bodies"], report["markers"]) == (1, 1)
    before = len(own_origin.requests())
    assert exchange(sidecar.url, "/a/c/0").body == b"body"
    assert exchange(sidecar.url, "/a/c/1").status == 404
    asked = own_origin.requests()[before:]
    assert [bool(request.values("If-None-Match")) for request in asked] == [True, False]
