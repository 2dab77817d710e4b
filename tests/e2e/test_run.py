"""`chunkside run -- CMD`: unchanged scripts, a private bucket, and what it says at the end."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from chunkside.settings.quantities import format_size_rounded
from tests.plugins.requirements import find_client_program, find_python_with
from tests.support import azurite
from tests.support.counting_proxy import CountingProxy, counting_proxy
from tests.support.gcs import NOBODY, fake_gcs, make_bucket, put
from tests.support.seaweedfs import ENVIRONMENT, seaweedfs, upload
from tests.support.sidecar import run_command

# What is in the bucket: an array of which each chunk is there, one of which a quarter is, a table.
MAKE = """
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet, zarr
values = np.arange(1, 1601, dtype=np.float32).reshape(40, 40)
options = {"shape": (40, 40), "chunks": (10, 10), "dtype": "float32", "fill_value": 0.0}
zarr.create_array(f"{sys.argv[1]}/dense.zarr", **options)[:] = values
zarr.create_array(f"{sys.argv[1]}/sparse.zarr", **options)[:20, :20] = values[:20, :20]
noise = np.random.default_rng(7).normal(size=(2, 100_000))
table = pa.table({"number": np.arange(100_000), "a": noise[0], "b": noise[1]})
pyarrow.parquet.write_table(table, f"{sys.argv[1]}/table.parquet", row_group_size=20_000)
"""
CHUNKS = 16
# What scripts hold that know nothing of a sidecar.
S3FS = """
import sys, zarr
print(int(zarr.open_array(f"s3://era5/{sys.argv[1]}.zarr", mode="r", zarr_format=3)[:].sum()))
"""
OBSTORE = """
import sys, zarr
from obstore.store import S3Store
from zarr.storage import ObjectStore
store = ObjectStore(S3Store("era5", prefix=f"{sys.argv[1]}.zarr", region="us-east-1"))
print(int(zarr.open_array(store, mode="r", zarr_format=3)[:].sum()))
"""
BOTO3 = """
import sys, boto3
get = boto3.client("s3").get_object
keys = [f"{sys.argv[1]}.zarr/c/{number // 4}/{number % 4}" for number in range(16)]
print(sum(len(get(Bucket="era5", Key=key)["Body"].read()) for key in keys) > 1600)
"""
POLARS = """
import sys, polars as pl
print(pl.scan_parquet(f"s3://era5/{sys.argv[1]}.parquet").select("number").sum().collect().item())
"""
HEARS = "import os; print(os.environ['CHUNKSIDE_URL'] == os.environ['AWS_ENDPOINT_URL_S3'])"


@dataclass(frozen=True)
class Script:
    text: str
    module: str
    name: str
    prints: str
    chunk_requests: int
    """In the first run, at least."""


SCRIPTS = {
    "s3fs": Script(S3FS, "s3fs", "dense", "1280800", CHUNKS),
    "obstore": Script(OBSTORE, "obstore", "dense", "1280800", CHUNKS),
    "boto3": Script(BOTO3, "boto3", "dense", "True", CHUNKS),
    "polars": Script(POLARS, "polars", "table", "4999950000", 2),
}


@pytest.fixture(scope="module")
def store(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[CountingProxy]:
    """A private bucket, and what stands before it and counts."""
    home = tmp_path_factory.mktemp("store")
    root = pytestconfig.rootpath
    program, python = find_client_program("weed", root), find_python_with("icechunk", root)
    assert program is not None
    assert python is not None
    (home / "files").mkdir()
    subprocess.run([python, "-c", MAKE, home / "files"], check=True)
    with seaweedfs(program, home / "store") as url, counting_proxy(url) as proxy:
        upload(url, "era5", home / "files")
        yield proxy


def run(
    python: str,
    script: str,
    store: CountingProxy,
    home: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
) -> str:
    """What a script prints. What is told of it at the end is what the store was asked for.
    `environment`: what says where the store is.
    """
    file = home / "script.py"
    file.write_text(script)
    flags = ("--cache-dir", str(home / "cache"), "--min-free", "0")
    place = {"AWS_ENDPOINT_URL": store.url} if environment is None else environment
    whole = {**ENVIRONMENT, "AWS_DEFAULT_REGION": "us-east-1", **place}
    store.forget()
    done = run_command("run", *flags, "--", python, str(file), *arguments, env=whole)
    assert done.returncode == 0, done.stderr
    told = re.search(r"chunkside: (\d+) requests .* asked (\d+) times?, for (.*)", done.stderr)
    assert told is not None, done.stderr
    assert int(told[2]) == len(store.asked)
    assert told[3] == format_size_rounded(store.body_bytes)
    return done.stdout.strip()


def of_chunks(store: CountingProxy, *statuses: int) -> list[str]:
    """What was asked for beside metadata documents and listings."""
    of_metadata = ("zarr.json", ".zarray", ".zattrs")
    return [
        each
        for each in store.targets(*statuses)
        if not each.endswith(of_metadata) and "?" not in each
    ]


@pytest.mark.client("weed", "icechunk")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.client(SCRIPTS[name].module)) for name in SCRIPTS]
)
def test_a_second_run_of_an_unchanged_script_asks_the_store_for_no_chunk(
    name: str, store: CountingProxy, tmp_path: Path, python_with: Callable[[str], str]
) -> None:
    script = SCRIPTS[name]
    python = python_with(script.module if script.module == "boto3" else "icechunk")
    assert run(python, script.text, store, tmp_path, script.name) == script.prints
    assert len(of_chunks(store)) >= script.chunk_requests
    assert run(python, script.text, store, tmp_path, script.name) == script.prints
    assert of_chunks(store) == []


@pytest.mark.client("weed", "icechunk", "s3fs")
def test_the_store_is_where_the_configuration_of_aws_has_it(
    store: CountingProxy, tmp_path: Path, python_with: Callable[[str], str]
) -> None:
    file = tmp_path / "config"
    file.write_text(
        f"[profile lab]\nservices = lab\n[services lab]\ns3 =\n  endpoint_url = {store.url}\n"
    )
    place = {"AWS_CONFIG_FILE": str(file), "AWS_PROFILE": "lab"}
    python = python_with("icechunk")
    assert run(python, S3FS, store, tmp_path, "dense", environment=place) == "1280800"
    assert len(of_chunks(store)) >= CHUNKS


@pytest.mark.client("weed", "boto3")
def test_writes_that_are_refused_are_told_of_with_what_passes_them_on(
    store: CountingProxy, tmp_path: Path, python_with: Callable[[str], str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import boto3\nboto3.client('s3').put_object(Bucket='era5', Key='made', Body=b'made')\n"
    )
    flags = ("--cache-dir", str(tmp_path / "cache"), "--min-free", "0")
    environment = {**ENVIRONMENT, "AWS_ENDPOINT_URL": store.url, "AWS_DEFAULT_REGION": "us-east-1"}
    command = ("--", python_with("boto3"), str(script))
    refused = run_command("run", *flags, *command, env=environment)
    assert refused.returncode == 1
    told = refused.stderr.splitlines()
    assert "writes are refused here, and 1 came: --allow-writes passes them on" in told[-2]
    assert run_command("run", *flags, "--allow-writes", *command, env=environment).returncode == 0


@pytest.mark.client("weed", "icechunk", "s3fs", "obstore")
@pytest.mark.parametrize("script", [S3FS, OBSTORE], ids=["s3fs", "obstore"])
def test_absences_are_asked_for_in_each_run_and_bodies_in_the_first(
    script: str, store: CountingProxy, tmp_path: Path, python_with: Callable[[str], str]
) -> None:
    python = python_with("icechunk")
    found = [run(python, script, store, tmp_path, "sparse")]
    assert len(set(of_chunks(store, 200))) == CHUNKS // 4
    found.append(run(python, script, store, tmp_path, "sparse"))
    assert found == ["156200"] * 2
    assert of_chunks(store, 200, 206, 304) == []
    assert len(set(of_chunks(store, 404))) == CHUNKS - CHUNKS // 4


@pytest.mark.client("weed", "icechunk")
def test_a_command_finds_where_the_sidecar_is(store: CountingProxy, tmp_path: Path) -> None:
    assert run(sys.executable, HEARS, store, tmp_path) == "True"
    assert store.asked == []


ADLFS = """
import fsspec
fs = fsspec.filesystem("az", account_name="devstoreaccount1")
assert fs.cat("era5/x/c/0") == b"body of the chunk"
assert fs.cat(["era5/x/c/1", "era5/x/c/2"], on_error="omit") == {}
print("read True")
"""
AZURE_OBSTORE = """
import obstore
from obstore.store import AzureStore
store = AzureStore("era5")
assert bytes(obstore.get(store, "x/c/0").bytes()) == b"body of the chunk"
try:
    obstore.get(store, "x/c/1")
except FileNotFoundError:
    print("read True")
"""


@pytest.mark.client("azurite-blob", "adlfs", "obstore")
@pytest.mark.parametrize("script", [ADLFS, AZURE_OBSTORE], ids=["adlfs", "obstore"])
def test_so_does_one_that_reads_azure_s_store(
    script: str, tmp_path: Path, pytestconfig: pytest.Config, python_with: Callable[[str], str]
) -> None:
    program = find_client_program("azurite-blob", pytestconfig.rootpath)
    assert program is not None
    with azurite.azurite(program, tmp_path / "store") as url:
        azurite.make_container(url, "era5")
        azurite.put(url, "/era5/x/c/0", b"body of the chunk")
        flags = ["--upstream", f"az://{azurite.ACCOUNT}/era5", "--upstream-endpoint", url]
        flags += ["--cache-dir", str(tmp_path / "cache"), "--min-free", "0"]
        command = ("--", python_with("icechunk"), "-c", script)
        for _ in range(2):
            ran = run_command("run", *flags, *command, env=azurite.ENVIRONMENT)
            assert ran.returncode == 0, ran.stderr
            assert ran.stdout == "read True\n"
            assert re.search(r"chunkside: [2-9] requests read", ran.stderr), ran.stderr


GCSFS = """
import gcsfs
fs = gcsfs.GCSFileSystem(token="anon", skip_instance_cache=True)
assert fs.cat("era5/x/c/0") == b"body of the chunk"
assert fs.cat(["era5/x/c/1", "era5/x/c/2"], on_error="omit") == {}
print("read True")
"""
TENSORSTORE = """
import tensorstore
store = tensorstore.KvStore.open({"driver": "gcs", "bucket": "era5"}).result()
assert store["x/c/0"] == b"body of the chunk"
assert store.read("x/c/1").result().state == "missing"
print("read True")
"""


@pytest.mark.client("fake-gcs-server", "gcsfs", "tensorstore")
@pytest.mark.parametrize("script", [GCSFS, TENSORSTORE], ids=["gcsfs", "tensorstore"])
def test_so_does_one_that_reads_google_s_store(
    script: str,
    tmp_path: Path,
    python_with: Callable[[str], str],
    pytestconfig: pytest.Config,
) -> None:
    file = tmp_path / "script.py"
    file.write_text(script)
    program = find_client_program("fake-gcs-server", pytestconfig.rootpath)
    assert program is not None
    with fake_gcs(program, tmp_path / "store") as url:
        make_bucket(url, "era5")
        put(url, "era5", "x/c/0", b"body of the chunk")
        flags = ("--cache-dir", str(tmp_path / "cache"), "--min-free", "0", "--upstream", "gs://")
        environment = NOBODY | {"STORAGE_EMULATOR_HOST": url}
        asked = []
        for _ in range(2):
            command = (*flags, "--", python_with("icechunk"), str(file))
            done = run_command("run", *command, env=environment)
            assert (done.returncode, done.stdout) == (0, "read True\n"), done.stderr
            told = re.search(r"chunkside: (\d+) requests .* asked (\d+) times", done.stderr)
            assert told is not None, done.stderr
            asked.append(int(told[2]))
            assert int(told[1]) >= 2
        assert 0 < asked[1] < asked[0]


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ((sys.executable, "-c", "raise SystemExit(7)"), 7, "0 requests"),
        (
            (sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"),
            137,
            "0 requests",
        ),
        (("no-such-command-here",), 127, "no command no-such-command-here"),
        ((), 2, "chunkside run [flags] -- CMD"),
    ],
    ids=["code", "signal", "unknown", "none"],
)
def test_its_exit_code_is_the_commands(
    command: tuple[str, ...], code: int, words: str, tmp_path: Path
) -> None:
    environment = {"AWS_EC2_METADATA_DISABLED": "true"}
    flags = ("--cache-dir", str(tmp_path / "cache"), "--min-free", "0", "--log-format", "json")
    done = run_command("run", *flags, "--", *command, env=environment)
    assert done.returncode == code, done.stderr
    assert words in done.stderr


def test_beside_a_store_of_azures_nothing_is_led_or_taken_from_where_s3_is() -> None:
    # It would stop the start if it were taken for where Azure's store is.
    of_s3 = {"AWS_ENDPOINT_URL": "http://minio:9000/path"}
    script = "import os; print(os.environ['AWS_ENDPOINT_URL'], 'AWS_ALLOW_HTTP' in os.environ)"
    flags = ("--upstream", "az://account/data", "--upstream-auth", "none", "--cache-size", "0")
    ran = run_command("run", *flags, "--", sys.executable, "-c", script, env=of_s3)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "http://minio:9000/path False\n"
