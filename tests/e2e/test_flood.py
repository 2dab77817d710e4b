"""Keys that are asked for once must not wash out those that are asked for again."""

from tests.e2e.conftest import StartSidecar
from tests.support.http_client import Connection
from tests.support.origin import Origin

USEFUL = [f"/useful/c/{number}" for number in range(40)]
RANDOM = [f"/random/c/{number}" for number in range(3000)]


def test_useful_markers_outlive_a_flood_of_absent_keys(
    own_origin: Origin, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar("--max-markers", "200")
    with Connection(sidecar.url) as client:

        def ask(targets: list[str]) -> None:
            for target in targets:
                client.send("GET", target)
                assert client.response().status == 404

        ask(USEFUL * 2)
        ask(RANDOM)
        before = own_origin.count()
        ask(USEFUL)
    assert own_origin.count() == before
    assert sidecar.metric('chunkside_index_entries{kind="marker"}') == 200
    made = len(USEFUL) + len(RANDOM)
    evicted = sidecar.metric('chunkside_evictions_total{kind="marker",reason="marker_cap"}')
    assert evicted == made - 200
