"""The Arrow file of what was read, from the admin port of a running sidecar, on either loop."""

import os

import pyarrow as pa

from tests.support.http_client import Connection, exchange
from tests.support.origin import Origin
from tests.support.sidecar import Sidecar


def test_any_arrow_reader_opens_what_file_gives(
    own_origin: Origin, sidecar_on_each_loop: Sidecar
) -> None:
    sidecar = sidecar_on_each_loop
    body = os.urandom(20_000_000)
    own_origin.put("/x.zarr/c/0", body)
    exchange(sidecar.url, "/x.zarr/c/0")
    sidecar.wait_idle()
    answer = exchange(sidecar.admin_url, "/file/x.zarr/c/0")
    assert answer.status == 200
    assert answer.value("Content-Type") == "application/vnd.apache.arrow.stream"
    with pa.ipc.open_stream(answer.body) as stream:
        row = stream.read_all().to_pylist()[0]
    assert (row["target"], row["body"]) == (b"/x.zarr/c/0", body)

    with Connection(sidecar.admin_url) as slow:
        slow.send("GET", "/file/x.zarr/c/0")
        head = slow.head()
        begun = slow.exactly(1_000_000)
        # More is under way than sockets hold, and nobody else has to wait for it.
        assert exchange(sidecar.admin_url, "/livez").status == 200
        assert begun + slow.rest_of(head, len(begun)) == answer.body
        slow.send("GET", "/livez")
        assert slow.response().body == b"ok\n"

    with Connection(sidecar.admin_url) as leaving:
        leaving.send("GET", "/file/x.zarr/c/0")
        leaving.head()
        leaving.exactly(1_000_000)

    exchange(sidecar.url, "/x.zarr/c/1")
    assert exchange(sidecar.admin_url, "/file/x.zarr/c/1").status == 404
    assert exchange(sidecar.admin_url, "/livez").status == 200
    assert sidecar.stop() == 0
