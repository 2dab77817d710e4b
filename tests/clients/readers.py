"""Real clients, each reading its own format: what it needs, and how it is pointed at a server.

The tests import this for the list. Run by the interpreter that has the client,
`python -m tests.clients.readers NAME URL…` reads from each URL in turn and prints, as JSON, the
digests of what was found and the versions of what read it.
"""

# ruff: noqa: PLC0415 - the list of readers is read where none of them is installed

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from io import BytesIO
from typing import Any, Literal
from urllib.parse import urlsplit

from tests.clients.digests import digest

BUCKET = "data"

Origin = Literal["files", "s3", "gcs", "az"]
Sample = Literal["sparse", "image", "table", "file"]
# A list of arrays is told from an array with a first axis.
Read = Callable[[str], Any]


@dataclass(frozen=True)
class Reader:
    """`packages`: distributions whose versions are told; `module`: what it can't do without.

    `asks_again` names what a second reading costs the origin beside a look after metadata, as the
    sidecar's metrics have it: class, method, code.
    """

    name: str
    module: str
    packages: tuple[str, ...]
    origin: Origin
    sample: Sample
    asks_again: frozenset[tuple[str, str, str]]
    read: Read


READERS: dict[str, Reader] = {}


def reader(
    name: str,
    *packages: str,
    module: str = "",
    origin: Origin = "files",
    sample: Sample = "sparse",
    asks_again: tuple[tuple[str, str, str], ...] = (),
) -> Callable[[Read], Read]:
    """Lists a function that reads beneath a URL with no slash at its end."""

    def add(read: Read) -> Read:
        READERS[name] = Reader(
            name,
            module or packages[0],
            packages,
            origin,
            sample,
            frozenset(asks_again),
            read,
        )
        return read

    return add


# What isn't remembered: an absence answers full GETs alone where writes pass through.
HEAD_OF_ABSENT = ("chunk", "HEAD", "404")
RANGE_OF_ABSENT = ("chunk", "GET", "404")
LISTING = ("listing", "GET", "200")
S3_REGION = "us-east-1"
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "bm90IHRoZSBlbXVsYXRvcidzIHdlbGwta25vd24ga2V5"


@reader("zarr over fsspec", "zarr", "fsspec", "aiohttp", module="zarr")
def _zarr_fsspec(url: str) -> Any:
    import zarr

    return _all(zarr.open_array(f"{url}/{BUCKET}/sparse.zarr", mode="r"))


@reader("zarr v2 over fsspec", "zarr", "fsspec", "aiohttp", module="zarr")
def _zarr_v2_fsspec(url: str) -> Any:
    import zarr

    return _all(zarr.open_array(f"{url}/{BUCKET}/sparse2.zarr", mode="r", zarr_format=2))


@reader(
    "zarr shards over fsspec",
    "zarr",
    "fsspec",
    "aiohttp",
    module="zarr",
    asks_again=(RANGE_OF_ABSENT,),
)
def _zarr_shards(url: str) -> Any:
    import zarr

    return _by_rows(zarr.open_array(f"{url}/{BUCKET}/sharded.zarr", mode="r", zarr_format=3))


@reader("zarr over obstore", "zarr", "obstore", module="obstore")
def _zarr_obstore(url: str) -> Any:
    import zarr

    store = zarr.storage.ObjectStore(_http_store(f"{url}/{BUCKET}/sparse.zarr"), read_only=True)
    return _all(zarr.open_array(store, mode="r", zarr_format=3))


@reader(
    "zarr over s3fs",
    "zarr",
    "s3fs",
    origin="s3",
    module="s3fs",
    asks_again=(HEAD_OF_ABSENT, LISTING),
)
def _zarr_s3fs(url: str) -> Any:
    return _zarr_over_s3fs(url)


@reader("zarr over s3fs, one at a time", "zarr", "s3fs", origin="s3", module="s3fs")
def _zarr_s3fs_gets(url: str) -> Any:
    return _zarr_over_s3fs(url, max_concurrency=1)


def _zarr_over_s3fs(url: str, **options: Any) -> Any:
    import zarr

    options = {"anon": True, "endpoint_url": url, **options}
    array = f"s3://{BUCKET}/sparse.zarr"
    return _all(zarr.open_array(array, mode="r", zarr_format=3, storage_options=options))


@reader("zarr over obstore, S3", "zarr", "obstore", origin="s3", module="obstore")
def _zarr_obstore_s3(url: str) -> Any:
    return _zarr_on(_s3_store(url, "sparse.zarr"))


@reader("zarr over obstore, GCS", "zarr", "obstore", origin="gcs", module="obstore")
def _zarr_obstore_gcs(url: str) -> Any:
    import obstore.store

    account = {
        "type": "service_account",
        "private_key": "x",
        "private_key_id": "",
        "client_email": "",
        "gcs_base_url": url,
        "disable_oauth": True,
    }
    store = obstore.store.GCSStore(
        BUCKET,
        prefix="sparse.zarr",
        service_account_key=json.dumps(account),
        client_options={"allow_http": True},
    )
    return _zarr_on(store)


@reader("zarr over obstore, Azure", "zarr", "obstore", origin="az", module="obstore")
def _zarr_obstore_azure(url: str) -> Any:
    import obstore.store

    store = obstore.store.AzureStore(
        BUCKET,
        prefix="sparse.zarr",
        account_name=AZURE_ACCOUNT,
        endpoint=url,
        skip_signature=True,
        client_options={"allow_http": True},
    )
    return _zarr_on(store)


@reader("zarr over adlfs", "zarr", "adlfs", "azure-storage-blob", origin="az", module="adlfs")
def _zarr_adlfs(url: str) -> Any:
    return _zarr_over_adlfs(_azure_at(url))


@reader(
    "zarr over adlfs, with a key",
    *("zarr", "adlfs", "azure-storage-blob"),
    origin="az",
    module="adlfs",
)
def _zarr_adlfs_key(url: str) -> Any:
    return _zarr_over_adlfs(f"{_azure_at(url)};AccountKey={AZURE_KEY}")


def _azure_at(url: str) -> str:
    return f"BlobEndpoint={url};AccountName={AZURE_ACCOUNT}"


def _zarr_over_adlfs(connection_string: str) -> Any:
    import zarr

    options = {"connection_string": connection_string}
    array = f"az://{BUCKET}/sparse.zarr"
    return _all(zarr.open_array(array, mode="r", zarr_format=3, storage_options=options))


@reader("zarr over obstore, Azure with a key", "zarr", "obstore", origin="az", module="obstore")
def _zarr_obstore_azure_key(url: str) -> Any:
    import obstore.store

    store = obstore.store.AzureStore(
        BUCKET,
        prefix="sparse.zarr",
        account_name=AZURE_ACCOUNT,
        account_key=AZURE_KEY,
        endpoint=url,
        client_options={"allow_http": True},
    )
    return _zarr_on(store)


def _one_after_the_other(file: Any) -> Any:
    """Of several threads the one that comes first says what fsspec reads ahead, and which ranges
    that are.
    """
    from pyarrow.parquet import ParquetFile

    table = ParquetFile(file, pre_buffer=False)
    return _columns(table.read(columns=["number", "value"], use_threads=False))


@reader("pyarrow over adlfs", "pyarrow", "adlfs", module="adlfs", sample="table", origin="az")
def _pyarrow_adlfs(url: str) -> Any:
    import adlfs

    store = adlfs.AzureBlobFileSystem(connection_string=_azure_at(url))
    with store.open(f"{BUCKET}/table.parquet") as file:
        return _one_after_the_other(file)


@reader("zarr over gcsfs", "zarr", "gcsfs", origin="gcs", module="gcsfs")
def _zarr_gcsfs(url: str) -> Any:
    import zarr

    options = _anonymous_gcsfs(url)
    array = f"gs://{BUCKET}/sparse.zarr"
    return _all(zarr.open_array(array, mode="r", zarr_format=3, storage_options=options))


@reader("xarray over gcsfs", "xarray", "zarr", "gcsfs", origin="gcs", module="gcsfs")
def _xarray_gcsfs(url: str) -> Any:
    import xarray

    options = _anonymous_gcsfs(url)
    dataset = f"gs://{BUCKET}/dataset.zarr"
    return xarray.open_zarr(dataset, chunks=None, storage_options=options)["t"].to_numpy()


@reader("gcsfs", "gcsfs", origin="gcs", sample="file")
def _gcsfs(url: str) -> Any:
    import gcsfs

    return gcsfs.GCSFileSystem(**_anonymous_gcsfs(url)).cat_file(f"{BUCKET}/table.parquet")


def _anonymous_gcsfs(url: str) -> dict[str, Any]:
    import os

    # Else it asks by gRPC what kind of a bucket it is, for up to a minute.
    os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
    return {"token": "anon", "endpoint_url": url}


@reader("xarray", "xarray", "zarr", "fsspec")
def _xarray(url: str) -> Any:
    import xarray

    return xarray.open_zarr(f"{url}/{BUCKET}/dataset.zarr", chunks=None)["t"].to_numpy()


@reader(
    "xarray over s3fs",
    "xarray",
    "zarr",
    "s3fs",
    origin="s3",
    module="s3fs",
    asks_again=(HEAD_OF_ABSENT, LISTING),
)
def _xarray_s3fs(url: str) -> Any:
    import xarray

    options = {"anon": True, "endpoint_url": url}
    dataset = f"s3://{BUCKET}/dataset.zarr"
    return xarray.open_zarr(dataset, chunks=None, storage_options=options)["t"].to_numpy()


@reader("xarray over obstore, S3", "xarray", "zarr", "obstore", origin="s3", module="obstore")
def _xarray_obstore(url: str) -> Any:
    import xarray
    import zarr

    store = zarr.storage.ObjectStore(_s3_store(url, "dataset.zarr"), read_only=True)
    return xarray.open_zarr(store, chunks=None)["t"].to_numpy()


@reader("xarray over dask", "xarray", "dask", "zarr", "fsspec", module="dask")
def _xarray_dask(url: str) -> Any:
    import xarray

    # Chunk by chunk, in threads.
    return xarray.open_zarr(f"{url}/{BUCKET}/dataset.zarr", chunks={})["t"].to_numpy()


@reader("xarray, netCDF-4", "xarray", "h5netcdf", "h5py", "fsspec", module="h5netcdf")
def _h5netcdf(url: str) -> Any:
    import fsspec
    import xarray

    with (
        fsspec.open(f"{url}/{BUCKET}/sparse.h5") as file,
        xarray.open_dataset(file, engine="h5netcdf", phony_dims="access") as dataset,
    ):
        return dataset["t"].to_numpy()


@reader("h5py over fsspec", "h5py", "fsspec")
def _h5py(url: str) -> Any:
    import fsspec
    import h5py

    # Small blocks, so that it takes several.
    target = f"{url}/{BUCKET}/sparse.h5"
    with fsspec.open(target, block_size=1 << 14) as file, h5py.File(file) as opened:
        return opened["t"][:]


@reader("kerchunk", "kerchunk", "zarr", "fsspec")
def _kerchunk(url: str) -> Any:
    import fsspec
    import zarr
    from kerchunk.hdf import SingleHdf5ToZarr

    target = f"{url}/{BUCKET}/sparse.h5"
    with fsspec.open(target) as file:
        references = SingleHdf5ToZarr(file, target, inline_threshold=0).translate()
    options = {"fo": references, "remote_protocol": "http", "asynchronous": True}
    group = zarr.open_group(
        "reference://",
        mode="r",
        zarr_format=2,
        storage_options=options | {"remote_options": {"asynchronous": True}},
    )
    return _all(group["t"])


@reader("virtualizarr", "virtualizarr", "obstore", "xarray")
def _virtualizarr(url: str) -> Any:
    import zarr
    from obspec_utils.registry import ObjectStoreRegistry
    from virtualizarr.parsers import HDFParser

    target = f"{url}/{BUCKET}/sparse.h5"
    registry = ObjectStoreRegistry({url: _http_store(url)})
    store = HDFParser()(target, registry)
    return _all(zarr.open_group(store, mode="r", zarr_format=3)["t"])


@reader("TensorStore", "tensorstore")
def _tensorstore(url: str) -> Any:
    return _open_tensorstore("zarr3", _over_http(url, "sparse.zarr"))


@reader("TensorStore, shards", "tensorstore", asks_again=(RANGE_OF_ABSENT,))
def _tensorstore_shards(url: str) -> Any:
    import numpy as np

    array = _tensorstore_array("zarr3", _over_http(url, "sharded.zarr"))
    return np.concatenate([array[row : row + 16].read().result() for row in range(0, 160, 16)])


@reader("TensorStore, zarr v2", "tensorstore")
def _tensorstore_zarr2(url: str) -> Any:
    return _open_tensorstore("zarr", _over_http(url, "sparse2.zarr"))


@reader("TensorStore, N5", "tensorstore")
def _tensorstore_n5(url: str) -> Any:
    return _open_tensorstore("n5", _over_http(url, "sparse.n5"))


@reader("TensorStore, Neuroglancer precomputed", "tensorstore")
def _tensorstore_precomputed(url: str) -> Any:
    found = _open_tensorstore("neuroglancer_precomputed", _over_http(url, "sparse.precomputed"))
    return found[:, :, 0, 0]


@reader("TensorStore, S3", "tensorstore", origin="s3")
def _tensorstore_s3(url: str) -> Any:
    kvstore = {
        "driver": "s3",
        "bucket": BUCKET,
        "path": "sparse.zarr/",
        "endpoint": url,
        "aws_region": S3_REGION,
        "aws_credentials": {"type": "anonymous"},
    }
    return _open_tensorstore("zarr3", kvstore)


@reader("TensorStore, GCS", "tensorstore", origin="gcs")
def _tensorstore_gcs(url: str) -> Any:
    import os

    os.environ["TENSORSTORE_GCS_HTTP_URL"] = url
    kvstore = {"driver": "gcs", "bucket": BUCKET, "path": "sparse.zarr/"}
    return _open_tensorstore("zarr3", kvstore)


@reader("Icechunk, S3", "icechunk", "zarr", origin="s3")
def _icechunk(url: str) -> Any:
    import icechunk

    return _icechunk_array(
        icechunk.s3_storage(
            bucket=BUCKET,
            prefix="sparse.icechunk",
            endpoint_url=url,
            allow_http=True,
            force_path_style=True,
            region=S3_REGION,
            anonymous=True,
        )
    )


def _icechunk_array(storage: Any) -> Any:
    import icechunk
    import zarr

    store = icechunk.Repository.open(storage).readonly_session("main").store
    return _all(zarr.open_array(store, path="t", mode="r", zarr_format=3))


@reader("GDAL, COG", "rasterio", sample="image")
def _gdal_cog(url: str) -> Any:
    return _gdal(f"/vsicurl/{url}/{BUCKET}/image.tif", GDAL_DISABLE_READDIR_ON_OPEN="EMPTY_DIR")


@reader("GDAL, COG, default options", "rasterio", sample="image", asks_again=(LISTING,))
def _gdal_cog_defaults(url: str) -> Any:
    return _gdal(f"/vsicurl/{url}/{BUCKET}/image.tif")


@reader("GDAL, COG on S3", "rasterio", sample="image", origin="s3")
def _gdal_cog_s3(url: str) -> Any:
    return _gdal(
        f"/vsis3/{BUCKET}/image.tif",
        AWS_S3_ENDPOINT=urlsplit(url).netloc,
        AWS_HTTPS="NO",
        AWS_VIRTUAL_HOSTING="FALSE",
        AWS_NO_SIGN_REQUEST="YES",
        GDAL_DISABLE_READDIR_ON_OPEN="EMPTY_DIR",
    )


@reader("GDAL, Zarr v2", "rasterio", asks_again=(HEAD_OF_ABSENT, LISTING))
def _gdal_zarr(url: str) -> Any:
    return _gdal(
        f'ZARR:"/vsicurl/{url}/{BUCKET}/sparse2.zarr"', GDAL_DISABLE_READDIR_ON_OPEN="EMPTY_DIR"
    )


def _gdal(name: str, **options: str) -> Any:
    import rasterio

    # What GDAL holds in memory is by name, and /vsis3 names neither server.
    with (
        rasterio.Env(VSI_CACHE=False, CPL_VSIL_CURL_NON_CACHED="/vsis3/", **options),
        rasterio.open(name) as image,
    ):
        return image.read(1)


@reader("async-tiff", "async-tiff", "obstore", module="async_tiff", sample="image")
def _async_tiff(url: str) -> Any:
    return asyncio.run(_read_tiff(_http_store(f"{url}/{BUCKET}")))


async def _read_tiff(store: Any) -> Any:
    import numpy as np
    from async_tiff import TIFF

    tiff = await TIFF.open("image.tif", store=store)
    image = tiff.ifds[0]
    side = image.tile_width
    across = range(image.image_width // side)
    rows = []
    for y in across:
        tiles = [await tiff.fetch_tile(x, y, 0) for x in across]
        decoded = [np.asarray(await tile.decode()) for tile in tiles]
        rows.append(np.concatenate([each.reshape(side, side) for each in decoded], axis=1))
    return np.concatenate(rows)


@reader("pyarrow over fsspec", "pyarrow", "fsspec", sample="table")
def _pyarrow_fsspec(url: str) -> Any:
    import fsspec

    with fsspec.open(f"{url}/{BUCKET}/table.parquet") as file:
        return _one_after_the_other(file)


@reader("pyarrow over fsspec, Arrow file", "pyarrow", "fsspec", sample="table")
def _arrow_fsspec(url: str) -> Any:
    import fsspec
    import pyarrow as pa

    with fsspec.open(f"{url}/{BUCKET}/table.arrow") as file, pa.ipc.open_file(file) as opened:
        return _columns(opened.read_all())


@reader("pyarrow, S3", "pyarrow", sample="table", origin="s3")
def _pyarrow_s3(url: str) -> Any:
    import pyarrow.fs
    import pyarrow.parquet

    store = pyarrow.fs.S3FileSystem(
        anonymous=True, endpoint_override=urlsplit(url).netloc, scheme="http", region=S3_REGION
    )
    with store.open_input_file(f"{BUCKET}/table.parquet") as file:
        return _columns(pyarrow.parquet.read_table(file, columns=["number", "value"]))


@reader("Polars", "polars", sample="table")
def _polars(url: str) -> Any:
    import polars as pl

    table = pl.scan_parquet(f"{url}/{BUCKET}/table.parquet")
    return _columns(table.select("number", "value").collect().to_arrow())


@reader("Polars, S3", "polars", sample="table", origin="s3")
def _polars_s3(url: str) -> Any:
    import polars as pl

    options = {
        "aws_endpoint_url": url,
        "aws_skip_signature": "true",
        "aws_region": S3_REGION,
        "aws_allow_http": "true",
    }
    table = pl.scan_parquet(f"s3://{BUCKET}/table.parquet", storage_options=options)
    return _columns(table.select("number", "value").collect().to_arrow())


@reader("DuckDB", "duckdb", "duckdb-extension-httpfs", sample="table")
def _duckdb(url: str) -> Any:
    return _query(f"{url}/{BUCKET}/table.parquet")


@reader("DuckDB, S3", "duckdb", "duckdb-extension-httpfs", sample="table", origin="s3")
def _duckdb_s3(url: str) -> Any:
    endpoint = urlsplit(url).netloc
    secret = (
        f"CREATE SECRET (TYPE s3, PROVIDER config, ENDPOINT '{endpoint}', URL_STYLE 'path', "
        f"USE_SSL false, REGION '{S3_REGION}')"
    )
    return _query(f"s3://{BUCKET}/table.parquet", secret)


def _query(target: str, *before: str) -> Any:
    from pathlib import Path

    import duckdb
    import duckdb_extension_httpfs

    folder = Path(duckdb_extension_httpfs.__path__[0])
    (extension,) = folder.rglob("httpfs.duckdb_extension")
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension}'")
        for statement in before:
            connection.execute(statement)
        found = connection.execute(f"SELECT number, value FROM '{target}' ORDER BY number")
        columns = found.fetchnumpy()
    return [columns["number"], columns["value"]]


@reader("boto3", "boto3", sample="file", origin="s3")
def _boto3(url: str) -> Any:
    import boto3
    from boto3.s3.transfer import TransferConfig
    from botocore import UNSIGNED
    from botocore.config import Config

    config = Config(signature_version=UNSIGNED, s3={"addressing_style": "path"})
    client = boto3.client("s3", endpoint_url=url, config=config, region_name=S3_REGION)
    in_parts = TransferConfig(multipart_threshold=1 << 20, multipart_chunksize=1 << 20)
    whole = BytesIO()
    client.download_fileobj(BUCKET, "table.parquet", whole, Config=in_parts)
    return whole.getvalue()


def _http_store(url: str) -> Any:
    import obstore.store

    return obstore.store.HTTPStore(url, client_options={"allow_http": True})


def _s3_store(url: str, prefix: str) -> Any:
    import obstore.store

    return obstore.store.S3Store(
        BUCKET,
        prefix=prefix,
        endpoint=url,
        skip_signature=True,
        region=S3_REGION,
        client_options={"allow_http": True},
    )


def _zarr_on(store: Any) -> Any:
    import zarr

    wrapped = zarr.storage.ObjectStore(store, read_only=True)
    return _all(zarr.open_array(wrapped, mode="r", zarr_format=3))


def _all(array: Any) -> Any:
    return array[:]


def _by_rows(array: Any) -> Any:
    """Of each shard a part at a time, so that its index and its chunks are asked for by range."""
    import numpy as np

    return np.concatenate([array[row : row + 16] for row in range(0, array.shape[0], 16)])


def _over_http(url: str, name: str) -> dict[str, Any]:
    return {"driver": "http", "base_url": url, "path": f"/{BUCKET}/{name}/"}


def _tensorstore_array(driver: str, kvstore: dict[str, Any]) -> Any:
    import tensorstore

    return tensorstore.open({"driver": driver, "kvstore": kvstore}, open=True).result()


def _open_tensorstore(driver: str, kvstore: dict[str, Any]) -> Any:
    return _tensorstore_array(driver, kvstore).read().result()


def _columns(table: Any) -> list[Any]:
    return [table[name].to_numpy() for name in ("number", "value")]


def main(name: str, urls: list[str]) -> None:
    chosen = READERS[name]
    digests = []
    for url in urls:
        found = chosen.read(url)
        digests.append(digest(*found) if isinstance(found, list) else digest(found))
    versions = {package: version(package) for package in chosen.packages}
    print(json.dumps({"digests": digests, "versions": versions}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
