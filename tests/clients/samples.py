"""Makes one file or tree per format beneath a folder, and says what a reader must find in each.

Run by the interpreter that has the clients: `python samples.py FOLDER` prints, as JSON, the digest
of what each sample holds.
"""

# ruff: noqa: PLC0415 - nothing of this is imported where the tests themselves run

import json
import sys
from pathlib import Path
from typing import Any

SIDE = 160
CHUNK = 16
SHARD = 64
IMAGE_SIDE = 1024
ROWS = 100_000


def sparse_values() -> Any:
    """10 x 10 chunks, of which every seventh differs from the fill value, but none of the first
    shard.
    """
    import numpy as np

    values = np.zeros((SIDE, SIDE), np.float32)
    block = np.arange(CHUNK**2, dtype=np.float32).reshape(CHUNK, CHUNK)
    for number in range(0, (SIDE // CHUNK) ** 2, 7):
        row, column = (CHUNK * part for part in divmod(number, SIDE // CHUNK))
        if max(row, column) >= SHARD:
            values[row : row + CHUNK, column : column + CHUNK] = block + number + 1
    return values


def image_values() -> Any:
    """Noise, so that its tiles don't shrink to nothing and each is a range of its own."""
    import numpy as np

    return np.random.default_rng(6).integers(0, 4096, (IMAGE_SIDE, IMAGE_SIDE), np.uint16)


def table_columns() -> dict[str, Any]:
    import numpy as np

    noise = np.random.default_rng(7)
    numbers = np.arange(ROWS, dtype=np.int64)
    return {
        "number": numbers,
        "value": noise.normal(size=ROWS),
        "left_out": noise.normal(size=ROWS),
    }


def write_zarr(folder: Path) -> None:
    import xarray
    import zarr

    values = sparse_values()
    chunks: dict[str, Any] = {"chunks": (CHUNK, CHUNK), "fill_value": 0.0}
    for name, options in {
        "sparse.zarr": chunks,
        "sparse2.zarr": {**chunks, "zarr_format": 2},
        "sharded.zarr": {**chunks, "shards": (SHARD, SHARD)},
    }.items():
        stored: Any = zarr.create_array(
            folder / name, shape=values.shape, dtype=values.dtype, **options
        )
        stored[:] = values
    dataset = xarray.Dataset({"t": (("y", "x"), values)})
    encoding = {"t": {"chunks": (CHUNK, CHUNK), "fill_value": 0.0}}
    dataset.to_zarr(
        folder / "dataset.zarr", encoding=encoding, zarr_format=3, write_empty_chunks=False
    )


def write_with_tensorstore(folder: Path) -> None:
    import tensorstore

    values = sparse_values()
    kvstore = {"driver": "file", "path": f"{folder}/"}
    n5 = tensorstore.open(
        {"driver": "n5", "kvstore": {**kvstore, "path": f"{folder}/sparse.n5/"}},
        create=True,
        dtype=tensorstore.float32,
        shape=values.shape,
        chunk_layout=tensorstore.ChunkLayout(chunk_shape=(CHUNK, CHUNK)),
    ).result()
    precomputed = tensorstore.open(
        {
            "driver": "neuroglancer_precomputed",
            "kvstore": {**kvstore, "path": f"{folder}/sparse.precomputed/"},
            "multiscale_metadata": {"data_type": "float32", "num_channels": 1, "type": "image"},
            "scale_metadata": {
                "size": [SIDE, SIDE, 1],
                "encoding": "raw",
                "chunk_size": [CHUNK, CHUNK, 1],
                "resolution": [1, 1, 1],
            },
        },
        create=True,
    ).result()
    n5.write(values).result()
    precomputed.write(values[:, :, None, None]).result()


def write_hdf5(folder: Path) -> None:
    import h5py

    with h5py.File(folder / "sparse.h5", "w") as file:
        file.create_dataset("t", data=sparse_values(), chunks=(CHUNK, CHUNK))


def write_cog(folder: Path) -> None:
    import rasterio

    profile: dict[str, Any] = {"driver": "COG", "compress": "deflate", "blocksize": 256}
    values = image_values()
    with rasterio.open(
        folder / "image.tif",
        "w",
        width=values.shape[1],
        height=values.shape[0],
        count=1,
        dtype="uint16",
        crs="EPSG:3857",
        transform=rasterio.transform.from_origin(0, 0, 1, 1),
        **profile,
    ) as image:
        image.write(values, 1)


def write_parquet(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(table_columns())
    pq.write_table(table, folder / "table.parquet", row_group_size=20_000)
    with pa.ipc.new_file(folder / "table.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=20_000)


def write_icechunk(folder: Path) -> None:
    import icechunk
    import zarr

    storage = icechunk.local_filesystem_storage(str(folder / "sparse.icechunk"))
    repository = icechunk.Repository.create(storage)
    session = repository.writable_session("main")
    stored: Any = zarr.create_array(
        session.store, name="t", shape=(SIDE, SIDE), chunks=(CHUNK, CHUNK), dtype="float32"
    )
    stored[:] = sparse_values()
    session.commit("all of it")


def main(folder: Path) -> None:
    from tests.clients.digests import digest

    folder.mkdir(parents=True)
    for write in (
        write_zarr,
        write_with_tensorstore,
        write_hdf5,
        write_cog,
        write_parquet,
        write_icechunk,
    ):
        write(folder)
    columns = table_columns()
    held = {
        "sparse": digest(sparse_values()),
        "image": digest(image_values()),
        "table": digest(columns["number"], columns["value"]),
        "file": digest((folder / "table.parquet").read_bytes()),
    }
    print(json.dumps(held))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
