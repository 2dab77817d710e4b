"""A load that makes every kind of result happen, and whatever else metrics tell of."""

import json
import threading
from pathlib import Path

from tests.support.http_client import exchange
from tests.support.origin import Origin, Script
from tests.support.sidecar import Sidecar

BODY_BYTES = 48 * 1024
MOST_MARKERS = 16
_FAILS = Script(status=503, body=b"")


def flags(origin: Origin) -> tuple[str, ...]:
    """Of a sidecar without an upstream: little room, and a route whose bodies are stale at once."""
    routes = [
        {"prefix": "/kept", "upstream": f"{origin.url}/kept"},
        {"prefix": "/brief", "upstream": f"{origin.url}/brief", "ttl": 0},
    ]
    return (
        *("--routes", json.dumps(routes), "--cache-size", "1MiB"),
        *("--max-markers", str(MOST_MARKERS), "--upstream-retries", "1"),
        *("--min-free", "0", "--allow-memory-filesystem", "--audit-share", "5%"),
    )


def everything_happens(origin: Origin, sidecar: Sidecar, turn: str) -> None:
    """One turn; names tell turns apart, so that each of them has its misses."""
    base = f"/kept/{turn}"

    def get(target: str, *headers: tuple[str, str]) -> int:
        return exchange(sidecar.url, target, headers=headers).status

    _reads(origin, sidecar, base)
    get(f"{base}/absent/0", ("Chunkside-Control", "bypass"))
    get(f"{base}/")
    _stale_bodies(origin, sidecar, f"/brief/{turn}/c/0")
    _crowd(origin, sidecar, f"{base}/crowd/0")
    origin.script(f"{base}/broken/0", Script(reset_before_head=True))
    assert get(f"{base}/broken/0") == 503
    assert exchange(sidecar.url, f"{base}/c/0", "PUT", body=b"x" * 1000).status in (200, 201, 204)
    purge = json.dumps({"target": f"{base}/zarr.json"}).encode()
    assert exchange(sidecar.admin_url, "/purge", "POST", body=purge).status == 200
    assert get("/neither/of/them") == 421


def _reads(origin: Origin, sidecar: Sidecar, base: str) -> None:
    """Misses and hits of both kinds, whole and in part; more of each than there is room for."""
    origin.put(f"{base}/zarr.json", b"{}")
    for number in range(30):
        origin.put(f"{base}/c/{number}", bytes(BODY_BYTES))
    targets = [f"{base}/zarr.json"]
    targets += [f"{base}/c/{number}" for number in range(30)]
    targets += [f"{base}/absent/{number}" for number in range(MOST_MARKERS + 4)]
    for target in targets:
        for _ in range(2):
            assert exchange(sidecar.url, target).status == (404 if "/absent/" in target else 200)
        sidecar.wait_idle()
    origin.put(f"{base}/shard/0", bytes(BODY_BYTES))
    for _ in range(2):
        part = exchange(sidecar.url, f"{base}/shard/0", headers=[("Range", "bytes=0-9999")])
        assert part.status == 206


def _stale_bodies(origin: Origin, sidecar: Sidecar, target: str) -> None:
    """One that still holds, and then stands in for an origin that fails."""
    origin.put(target, bytes(BODY_BYTES))
    for _ in range(2):
        assert exchange(sidecar.url, target).status == 200
        sidecar.wait_idle()
    origin.script(target, _FAILS)
    assert exchange(sidecar.url, target).status == 200


def _crowd(origin: Origin, sidecar: Sidecar, target: str) -> None:
    """Several who want one body, brought once."""
    origin.put(target, bytes(BODY_BYTES))
    gate = origin.hold(target)
    readers = [threading.Thread(target=exchange, args=(sidecar.url, target)) for _ in range(3)]
    for reader in readers:
        reader.start()
    gate.wait_held()
    gate.release()
    for reader in readers:
        reader.join()
    assert origin.count("GET", target) == 1


def disk_fails(cache_dir: Path, sidecar: Sidecar, origin: Origin, target: str) -> None:
    """A file stands where bodies have their directories."""
    bodies = cache_dir / "v1"
    bodies.rename(cache_dir / "away")
    bodies.write_text("in the way")
    origin.put(target, bytes(BODY_BYTES))
    assert exchange(sidecar.url, target).status == 200
    sidecar.wait_idle()
