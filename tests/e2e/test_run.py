"""`chunkside run -- CMD`: unchanged scripts, a private bucket, and what it says at the end."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.plugins.requirements import find_client_program
from tests.support.gcs import NOBODY, fake_gcs, make_bucket, put
from tests.support.seaweedfs import ENVIRONMENT, ask, seaweedfs
from tests.support.sidecar import run_command

# What a script holds that knows nothing of a sidecar; the sidecar's own flags lie beside it.
S3FS = """
import os, s3fs
fs = s3fs.S3FileSystem(skip_instance_cache=True)
assert fs.cat("era5/x/c/0") == b"body of the chunk"
for name in ("1", "2", "3"):
    assert not fs.exists(f"era5/x/c/{name}")
print("read", os.environ["CHUNKSIDE_URL"] == os.environ["AWS_ENDPOINT_URL_S3"])
"""
OBSTORE = """
import obstore
from obstore.store import S3Store
store = S3Store("era5", region="us-east-1")
assert bytes(obstore.get(store, "x/c/0").bytes()) == b"body of the chunk"
for name in ("1", "2", "3"):
    try:
        obstore.get(store, f"x/c/{name}")
    except FileNotFoundError:
        continue
    raise AssertionError(name)
print("read True")
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[str]:
    program = find_client_program("weed", pytestconfig.rootpath)
    assert program is not None
    with seaweedfs(program, tmp_path_factory.mktemp("store")) as url:
        assert ask(url, "PUT", "/era5").status == 200
        assert ask(url, "PUT", "/era5/x/c/0", b"body of the chunk").status == 200
        yield url


@pytest.mark.client("weed", "s3fs", "obstore")
@pytest.mark.parametrize("script", [S3FS, OBSTORE], ids=["s3fs", "obstore"])
def test_an_unchanged_script_reads_by_it_and_its_bodies_only_once(
    script: str, store: str, tmp_path: Path, python_with: Callable[[str], str]
) -> None:
    file = tmp_path / "script.py"
    file.write_text(script)
    flags = ("--cache-dir", str(tmp_path / "cache"), "--min-free", "0")
    environment = ENVIRONMENT | {"AWS_ENDPOINT_URL": store, "AWS_REGION": "us-east-1"}
    asked = []
    for _ in range(2):
        done = run_command("run", *flags, "--", python_with("icechunk"), str(file), env=environment)
        assert (done.returncode, done.stdout) == (0, "read True\n"), done.stderr
        told = re.search(r"chunkside: (\d+) requests .* asked (\d+) times", done.stderr)
        assert told is not None, done.stderr
        asked.append(int(told[2]))
        assert int(told[1]) >= 4
    # A restart forgets absences, and nothing else.
    assert 0 < asked[1] < asked[0]


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
