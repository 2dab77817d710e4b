"""Real S3 clients that sign for themselves, each of which writes, reads and deletes.

The tests import this for the list. Run by the interpreter that has the client,
`python -m tests.clients.signers NAME BUCKET URL [HOST]` goes through all of it at one URL, by the
keys in the environment, and prints, as JSON, what happened. HOST: what to sign for, where a client
can be told.
"""

# ruff: noqa: PLC0415 - the list is read where none of the clients is installed

import asyncio
import json
import sys
from collections.abc import Callable
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

REGION = "us-east-1"
BODY = bytes(range(256)) * 40
LARGE = BODY * 600
"""Two parts, of which the store wants 5 MiB at least in each but the last."""
PART = 5 << 20
STORY = {
    "whole": True,
    "range": True,
    "suffix": True,
    "length": len(BODY),
    "not modified": True,
    "another version": "refused",
    "absent": True,
    "odd name": True,
    "in parts": True,
    "deleted": True,
}
"""What each comes to, in so far as it can say it."""

Sign = Callable[[str, str, str], dict[str, Any]]
SIGNERS: dict[str, tuple[str, Sign]] = {}
ODD = "x/a b+c=(1)~/é,@.bin"


def signer(name: str, module: str) -> Callable[[Sign], Sign]:
    def add(sign: Sign) -> Sign:
        SIGNERS[name] = module, sign
        return sign

    return add


@signer("boto3", "boto3")
def _boto3(bucket: str, url: str, host: str) -> dict[str, Any]:
    return _by_boto3(bucket, url, addressing_style="path")


@signer("boto3, bucket in the host", "boto3")
def _boto3_virtual(bucket: str, url: str, host: str) -> dict[str, Any]:
    # The name leads nowhere: it is asked for by way of a proxy.
    return _by_boto3(bucket, f"http://{host}", {"http": url}, addressing_style="virtual")


def _by_boto3(
    bucket: str, url: str, proxies: dict[str, str] | None = None, **s3: str
) -> dict[str, Any]:
    import boto3
    from boto3.s3.transfer import TransferConfig
    from botocore.config import Config
    from botocore.exceptions import ClientError

    config = Config(s3=s3, proxies=proxies, retries={"max_attempts": 1})
    client = boto3.client("s3", endpoint_url=url, config=config, region_name=REGION)

    def get(key: str, **options: Any) -> bytes:
        return client.get_object(Bucket=bucket, Key=key, **options)["Body"].read()

    def code(key: str, **options: Any) -> str:
        try:
            get(key, **options)
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return "none"

    client.put_object(Bucket=bucket, Key="x/k", Body=BODY)
    client.put_object(Bucket=bucket, Key=ODD, Body=BytesIO(BODY))
    told = client.head_object(Bucket=bucket, Key="x/k")
    in_parts = TransferConfig(multipart_threshold=PART, multipart_chunksize=PART)
    client.upload_fileobj(BytesIO(LARGE), bucket, "x/large", Config=in_parts)
    large = BytesIO()
    client.download_fileobj(bucket, "x/large", large, Config=in_parts)
    another = code("x/k", IfMatch='"0"')
    story = {
        "whole": get("x/k") == BODY,
        "range": get("x/k", Range="bytes=3-9") == BODY[3:10],
        "suffix": get("x/k", Range="bytes=-5") == BODY[-5:],
        "length": told["ContentLength"],
        "not modified": code("x/k", IfNoneMatch=told["ETag"]) == "304",
        "another version": "refused" if another in ("412", "PreconditionFailed") else another,
        "absent": code("x/absent") == "NoSuchKey",
        "odd name": get(ODD) == BODY,
        "in parts": large.getvalue() == LARGE,
    }
    names = [{"Key": key} for key in ("x/k", "x/large", ODD)]
    client.delete_objects(Bucket=bucket, Delete={"Objects": names})
    return story | {"deleted": code("x/k") == "NoSuchKey"}


@signer("s3fs", "s3fs")
def _s3fs(bucket: str, url: str, host: str) -> dict[str, Any]:
    import s3fs

    options: dict[str, Any] = {"endpoint_url": url, "client_kwargs": {"region_name": REGION}}
    files = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False, **options)
    files.pipe(f"{bucket}/x/k", BODY)
    files.pipe(f"{bucket}/{ODD}", BODY)
    with files.open(f"{bucket}/x/large", "wb", block_size=PART) as file:
        file.write(LARGE)
    story = {
        "whole": files.cat(f"{bucket}/x/k") == BODY,
        "range": files.cat_file(f"{bucket}/x/k", start=3, end=10) == BODY[3:10],
        "suffix": files.cat_file(f"{bucket}/x/k", start=-5) == BODY[-5:],
        "length": files.info(f"{bucket}/x/k")["size"],
        "absent": not files.exists(f"{bucket}/x/absent"),
        "odd name": files.cat(f"{bucket}/{ODD}") == BODY,
        "in parts": files.cat(f"{bucket}/x/large") == LARGE,
    }
    files.rm([f"{bucket}/x/k", f"{bucket}/x/large", f"{bucket}/{ODD}"])
    return story | {"deleted": not files.exists(f"{bucket}/x/k")}


@signer("obstore", "obstore")
def _obstore(bucket: str, url: str, host: str) -> dict[str, Any]:
    import obstore
    from obstore.exceptions import NotModifiedError, PreconditionError
    from obstore.store import S3Store

    store = S3Store(bucket, endpoint=url, region=REGION, client_options={"allow_http": True})

    def get(key: str, **options: Any) -> bytes:
        told: Any = options
        return bytes(obstore.get(store, key, options=told).bytes())

    def is_refused(kind: type[Exception], key: str, **options: Any) -> bool:
        try:
            get(key, **options)
        except kind:
            return True
        return False

    obstore.put(store, "x/k", BODY)
    obstore.put(store, ODD, BODY)
    obstore.put(store, "x/large", LARGE, use_multipart=True, chunk_size=PART)
    told = obstore.head(store, "x/k")
    is_another = is_refused(PreconditionError, "x/k", if_match='"0"')
    story = {
        "whole": get("x/k") == BODY,
        "range": bytes(obstore.get_range(store, "x/k", start=3, end=10)) == BODY[3:10],
        "suffix": get("x/k", range={"suffix": 5}) == BODY[-5:],
        "length": told["size"],
        "not modified": is_refused(NotModifiedError, "x/k", if_none_match=told["e_tag"]),
        "another version": "refused" if is_another else "given",
        "absent": is_refused(FileNotFoundError, "x/absent"),
        "odd name": get(ODD) == BODY,
        "in parts": get("x/large") == LARGE,
    }
    obstore.delete(store, ["x/k", "x/large", ODD])
    return story | {"deleted": is_refused(FileNotFoundError, "x/k")}


@signer("TensorStore", "tensorstore")
def _tensorstore(bucket: str, url: str, host: str) -> dict[str, Any]:
    return asyncio.run(_by_tensorstore(bucket, url))


@signer("TensorStore, for the store's own name", "tensorstore")
def _tensorstore_host(bucket: str, url: str, host: str) -> dict[str, Any]:
    return asyncio.run(_by_tensorstore(bucket, url, host_header=host))


async def _by_tensorstore(bucket: str, url: str, **options: str) -> dict[str, Any]:
    import tensorstore

    spec = {"driver": "s3", "bucket": bucket, "endpoint": url, "aws_region": REGION, **options}
    store: Any = await tensorstore.KvStore.open(spec)
    written = await store.write("x/k", BODY)
    other = await store.write("x/other", b"other")
    await store.write(ODD, BODY)
    unchanged = await store.read("x/k", if_not_equal=written.generation)
    another = await store.write("x/k", b"other", if_equal=other.generation)
    story = {
        "whole": (await store.read("x/k")).value == BODY,
        "range": await _part_of_a_shard(spec | {"path": "x/array.zarr/"}),
        "not modified": unchanged.state == "unspecified",
        "another version": "given" if another.generation else "refused",
        "absent": (await store.read("x/absent")).state == "missing",
        "odd name": (await store.read(ODD)).value == BODY,
    }
    await store.delete_range(tensorstore.KvStore.KeyRange("x/", "x0"))
    return story | {"deleted": (await store.read("x/k")).state == "missing"}


async def _part_of_a_shard(kvstore: dict[str, str]) -> bool:
    """Whether a chunk of it, which is asked for by range, is what was written."""
    import numpy as np
    import tensorstore

    index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
    inner = {"chunk_shape": [8], "codecs": [{"name": "bytes"}], "index_codecs": index}
    metadata = {
        "shape": [64],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [64]}},
        "codecs": [{"name": "sharding_indexed", "configuration": inner}],
    }
    spec = {"driver": "zarr3", "kvstore": kvstore}
    array: Any = await tensorstore.open(spec | {"metadata": metadata}, create=True)
    await array.write(np.arange(64, dtype=np.uint8))
    again: Any = await tensorstore.open(spec, open=True)
    return (await again[8:16].read()).tolist() == list(range(8, 16))


@signer("pyarrow", "pyarrow")
def _pyarrow(bucket: str, url: str, host: str) -> dict[str, Any]:
    import os

    import pyarrow.fs

    files = pyarrow.fs.S3FileSystem(
        access_key=os.environ["AWS_ACCESS_KEY_ID"],
        secret_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        endpoint_override=urlsplit(url).netloc,
        scheme="http",
        region=REGION,
    )
    for key, body in (("x/k", BODY), ("x/large", LARGE)):
        with files.open_output_stream(f"{bucket}/{key}") as stream:
            stream.write(body)
    with files.open_input_file(f"{bucket}/x/k") as file:
        story = {"whole": file.readall() == BODY, "range": file.read_at(7, 3) == BODY[3:10]}
    with files.open_input_file(f"{bucket}/x/large") as file:
        story["in parts"] = file.readall() == LARGE

    def is_there(key: str) -> bool:
        [told] = files.get_file_info([f"{bucket}/{key}"])
        return bool(told.type != pyarrow.fs.FileType.NotFound)

    story["length"] = files.get_file_info([f"{bucket}/x/k"])[0].size
    story["absent"] = not is_there("x/absent")
    for key in ("x/k", "x/large"):
        files.delete_file(f"{bucket}/{key}")
    return story | {"deleted": not is_there("x/k")}


def main(name: str, bucket: str, url: str, host: str = "") -> None:
    print(json.dumps(SIGNERS[name][1](bucket, url, host)))


if __name__ == "__main__":
    main(*sys.argv[1:])
