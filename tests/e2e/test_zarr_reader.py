"""zarr-python reading a sparse array through the sidecar: what the origin is asked for."""

import numpy as np
import pytest

from tests.e2e.conftest import StartSidecar
from tests.support.arrays import (
    SHARDED,
    Client,
    chunk_slices,
    opened,
    read_all,
    read_all_at_once,
    sharded_array,
    sparse_array,
)
from tests.support.origin import Origin
from tests.support.sidecar import Sidecar

pytestmark = pytest.mark.client("zarr")

over_each_client = pytest.mark.parametrize(
    "client",
    [
        pytest.param("fsspec", marks=pytest.mark.client("fsspec")),
        pytest.param("obstore", marks=pytest.mark.client("obstore")),
    ],
)


@pytest.fixture
def origin_with_array(own_origin: Origin) -> Origin:
    for path, body in sparse_array().objects.items():
        own_origin.put(path, body)
    return own_origin


def chunk_requests(origin: Origin) -> dict[str, int]:
    """Requests of any method for chunks, by path."""
    return {
        path: count
        for path in sparse_array().chunks
        if (count := origin.count(method=None, path=path))
    }


@over_each_client
@pytest.mark.parametrize("readers", [1, 8], ids=["one reader", "eight readers"])
def test_each_chunk_is_asked_for_once_and_never_again(
    origin_with_array: Origin, sidecar_on_each_loop: Sidecar, client: Client, readers: int
) -> None:
    url = sidecar_on_each_loop.url
    for values in read_all_at_once(url, client, readers):
        np.testing.assert_array_equal(values, sparse_array().values)
    assert chunk_requests(origin_with_array) == dict.fromkeys(sparse_array().chunks, 1)

    origin_with_array.forget_requests()
    for values in read_all_at_once(url, client, readers):
        np.testing.assert_array_equal(values, sparse_array().values)
    assert chunk_requests(origin_with_array) == {}


@over_each_client
def test_shards_are_read_by_ranges_once_and_never_whole(
    own_origin: Origin, own_sidecar: Sidecar, client: Client
) -> None:
    values, objects = sharded_array()
    for path, body in objects.items():
        own_origin.put(path, body)
    asked_for = []
    for _ in range(2):
        own_origin.forget_requests()
        with opened(own_sidecar.url, client, name=SHARDED) as array:
            for row, column in ((0, 0), (0, 5), (3, 3), (6, 1), (7, 7)):
                part = chunk_slices(row, column)
                np.testing.assert_array_equal(array[part], values[part])
        own_sidecar.wait_idle()
        asked_for.append([each for each in own_origin.requests() if "/c/" in each.path])
    first, second = asked_for
    # Of each shard its index, of each chunk its bytes: none twice, and the absent shard once.
    absent = [each for each in first if each.status == 404]
    assert {each.path for each in absent} == {f"/{SHARDED}/c/1/1"}
    present = [(each.path, *each.values("Range")) for each in first if each.status != 404]
    assert len(set(present)) == len(present) == 7
    assert all(len(each) == 2 for each in present)
    assert [each for each in second if each.status != 404] == []
    assert own_sidecar.metric('chunkside_index_entries{kind="range"}') == 7


def test_both_clients_share_what_is_held(origin_with_array: Origin, own_sidecar: Sidecar) -> None:
    read_all(own_sidecar.url, "fsspec")
    origin_with_array.forget_requests()
    np.testing.assert_array_equal(read_all(own_sidecar.url, "obstore"), sparse_array().values)
    assert chunk_requests(origin_with_array) == {}


def test_absences_are_asked_for_again_where_they_are_not_remembered(
    origin_with_array: Origin, start_sidecar: StartSidecar
) -> None:
    url = start_sidecar("--no-cache-missing").url
    read_all(url, "fsspec")
    origin_with_array.forget_requests()
    np.testing.assert_array_equal(read_all(url, "fsspec"), sparse_array().values)
    assert chunk_requests(origin_with_array) == dict.fromkeys(sparse_array().absent, 1)


def test_metrics_tell_what_was_saved(origin_with_array: Origin, own_sidecar: Sidecar) -> None:
    array = sparse_array()
    read_all(own_sidecar.url, "obstore")
    read_all(own_sidecar.url, "obstore")
    chunk = 'chunkside_requests_total{class="chunk"'
    assert own_sidecar.metric(f"{chunk}}}") == 2 * len(array.chunks)
    assert own_sidecar.metric(f'{chunk},result="hit"}}') == len(array.present)
    assert own_sidecar.metric(f'{chunk},result="negative_hit"}}') == len(array.absent)
    upstream = own_sidecar.metric('chunkside_upstream_requests_total{class="chunk"}')
    assert upstream == len(array.chunks)
    assert own_sidecar.metric('chunkside_index_entries{kind="marker"}') == len(array.absent)
