"""The Arrow file of what was read, from the admin port of a running sidecar, on either loop."""

import os

import pyarrow as pa

from tests.support.http_client import exchange
from tests.support.origin import Origin
from tests.support.sidecar import Sidecar


def test_any_arrow_reader_opens_what_file_gives(
    own_origin: Origin, sidecar_on_each_loop: Sidecar
) -> None:
    sidecar = sidecar_on_each_loop
    body = os.urandom(5_000_000)
    own_origin.put("/x.zarr/c/0", body)
    exchange(sidecar.url, "/x.zarr/c/0")
    sidecar.wait_idle()
    answer = exchange(sidecar.admin_url, "/file/x.zarr/c/0")
    assert answer.status == 200
    assert answer.value("Content-Type") == "application/vnd.apache.arrow.stream"
    with pa.ipc.open_stream(answer.body) as stream:
        row = stream.read_all().to_pylist()[0]
    assert (row["target"], row["body"]) == (b"/x.zarr/c/0", body)

    exchange(sidecar.url, "/x.zarr/c/1")
    assert exchange(sidecar.admin_url, "/file/x.zarr/c/1").status == 404
    assert exchange(sidecar.admin_url, "/livez").status == 200
