"""Real clients, each in a process of its own: what they read through the sidecar, cold and warm."""

import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.clients.readers import AZURE_ACCOUNT, BUCKET, HEAD_OF_ABSENT, READERS, Reader
from tests.e2e.conftest import ANY_DISK
from tests.plugins.clients import PROPERTY
from tests.plugins.requirements import find_client_program
from tests.support.azurite import ENVIRONMENT as AZURE_ENVIRONMENT
from tests.support.azurite import PUBLIC, azurite
from tests.support.azurite import upload as azure_upload
from tests.support.browser import Page, chromium_version
from tests.support.gcs import NOBODY, fake_gcs
from tests.support.gcs import upload as google_upload
from tests.support.google import PrivateStore, Tokens
from tests.support.google_credentials import service_account
from tests.support.http_client import exchange
from tests.support.moto import moto, upload
from tests.support.nginx import nginx
from tests.support.seaweedfs import ENVIRONMENT, seaweedfs
from tests.support.seaweedfs import upload as seaweed_upload
from tests.support.sidecar import Sidecar, run_command

ROOT = Path(__file__).resolve().parents[2]
WEB_CLIENTS = ROOT / "tests/web_clients"
# As in a bundler's place: what each package says that it exports, less what isn't for pages.
IMPORTS = {
    "zarrita": "zarrita/dist/src/index.js",
    "@zarrita/storage": "@zarrita/storage/dist/src/index.js",
    "@zarrita/storage/fetch": "@zarrita/storage/dist/src/fetch.js",
    "numcodecs/blosc": "numcodecs/dist/blosc.js",
    "numcodecs/lz4": "numcodecs/dist/lz4.js",
    "numcodecs/zstd": "numcodecs/dist/zstd.js",
    "fflate": "fflate/esm/browser.js",
    "reference-spec-reader": "reference-spec-reader/dist/index.js",
    "unzipit": "unzipit/dist/unzipit.module.js",
    "geotiff": "geotiff/dist-browser/geotiff.js",
}
SCRIPT = """
try {
  const { readers } = await import("/files/readers.mjs");
  found.digest = await readers[%(name)s](%(url)s);
} catch (error) {
  found.error = String(error && error.stack || error);
}
"""
Record = Callable[[str, object], None]
Asked = Counter[tuple[str, str, str]]
"""Requests to the origin by class, method and code."""

pytestmark = [
    pytest.mark.timeout(180),
    # They make the samples.
    pytest.mark.client("h5py", "icechunk", "rasterio", "tensorstore", "xarray"),
]


@dataclass(frozen=True)
class Samples:
    """`folder` is what both origins hold, `digests` what is to be found in it."""

    root: Path
    folder: Path
    digests: dict[str, str]


@dataclass(frozen=True)
class Pair:
    origin: str
    sidecar: Sidecar

    def forget(self) -> None:
        self.sidecar.wait_idle()
        answer = exchange(self.sidecar.admin_url, "/purge", "POST", body=b'{"all": true}')
        assert answer.status == 200

    def asked(self) -> Asked:
        """What the origin was asked for since the sidecar began."""
        self.sidecar.wait_idle()
        page = exchange(self.sidecar.admin_url, "/metrics").body.decode()
        found: Asked = Counter()
        for labels, value in re.findall(
            r"^chunkside_upstream_requests_total\{(.*)\} (\S+)$", page, re.MULTILINE
        ):
            of = dict(re.findall(r'(\w+)="(.*?)"', labels))
            found[of["class"], of["method"], of["code"]] += int(float(value))
        return found


def is_a_check(key_class: str, method: str, code: str) -> bool:
    """Whether a metadata document was looked after, as is due every few seconds; none was sent."""
    return key_class == "metadata" and (method == "HEAD" or code in ("304", "404"))


def assert_warm(cold: Asked, warm: Asked, asks_again: frozenset[tuple[str, str, str]]) -> None:
    """All went through the sidecar, and what it holds cost its origin nothing more."""
    assert cold.total() > 0
    assert {each for each in warm if not is_a_check(*each)} == asks_again, (cold, warm)


def without_proofs(warm: Asked) -> Asked:
    """Less what the emulator of Google's store is asked beside a document that isn't there: its 404
    says nothing by itself.
    """
    if not warm["metadata", "GET", "404"]:
        return warm
    proofs = {("listing", "GET", "404"), ("listing", "GET", "200")}
    return Counter({each: count for each, count in warm.items() if each not in proofs})


def slug(name: str) -> str:
    return re.sub(r"\W+", "-", name).lower()


def run(*command: Any) -> Any:
    """The JSON in the last line of what a client's own process printed."""
    done = subprocess.run(
        [str(each) for each in command],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory, python_with: Callable[[str], str]) -> Samples:
    root = tmp_path_factory.mktemp("samples")
    folder = root / BUCKET
    digests = run(python_with("icechunk"), "-m", "tests.clients.samples", folder)
    return Samples(root, folder, digests)


@pytest.fixture(scope="module")
def running() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def _pair(origin: str, running: ExitStack, home: Path) -> Pair:
    return Pair(origin, running.enter_context(Sidecar(origin, home / "cache", ANY_DISK)))


@pytest.fixture(scope="module")
def files(samples: Samples, running: ExitStack, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """nginx, and a sidecar in front of it."""
    home = tmp_path_factory.mktemp("files")
    return _pair(running.enter_context(nginx(samples.root, home)), running, home)


@pytest.fixture(scope="module")
def s3(
    samples: Samples,
    running: ExitStack,
    tmp_path_factory: pytest.TempPathFactory,
    python_with: Callable[[str], str],
) -> Pair:
    """An S3 emulator, and a sidecar in front of it."""
    url = running.enter_context(moto(python_with("moto")))
    upload(url, BUCKET, samples.folder)
    return _pair(url, running, tmp_path_factory.mktemp("s3"))


@pytest.fixture(scope="module")
def az(
    samples: Samples,
    running: ExitStack,
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Pair:
    """A public container of Azure's emulator, and a sidecar that reads it without a credential."""
    program = find_client_program("azurite-blob", pytestconfig.rootpath)
    assert program is not None
    home = tmp_path_factory.mktemp("az")
    url = running.enter_context(azurite(program, home / "store"))
    azure_upload(url, BUCKET, samples.folder, PUBLIC)
    flags = (*ANY_DISK, "--upstream-endpoint", url, "--upstream-auth", "none")
    sidecar = Sidecar(f"az://{AZURE_ACCOUNT}/{BUCKET}", home / "cache", flags)
    return Pair(f"{url}/{AZURE_ACCOUNT}", running.enter_context(sidecar))


@pytest.fixture(scope="module")
def google(
    samples: Samples,
    running: ExitStack,
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> str:
    """An emulator of Google's store."""
    program = find_client_program("fake-gcs-server", pytestconfig.rootpath)
    assert program is not None
    url = running.enter_context(fake_gcs(program, tmp_path_factory.mktemp("google")))
    google_upload(url, BUCKET, samples.folder)
    return url


@pytest.fixture(scope="module")
def gcs(google: str, running: ExitStack, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """It, and a sidecar that asks it as a store. It answers no condition with 304."""
    flags = (*ANY_DISK, "--upstream-endpoint", google, "--metadata-ttl", "1h")
    home = tmp_path_factory.mktemp("gcs")
    sidecar = Sidecar("gs://", home / "cache", flags, NOBODY)
    return Pair(google, running.enter_context(sidecar))


_NEEDS = {
    "files": pytest.mark.server("nginx"),
    "s3": pytest.mark.client("moto"),
    "az": pytest.mark.client("azurite-blob"),
    "gcs": pytest.mark.client("fake-gcs-server"),
}


def _parameter(reader: Reader) -> Any:
    marks = [_NEEDS[reader.origin], pytest.mark.client(reader.module)]
    return pytest.param(reader, id=slug(reader.name), marks=marks)


@pytest.mark.parametrize("reader", [_parameter(each) for each in READERS.values()])
def test_a_client_reads_the_same_straight_cold_and_warm(
    reader: Reader,
    samples: Samples,
    python_with: Callable[[str], str],
    request: pytest.FixtureRequest,
    record_property: Record,
) -> None:
    pair: Pair = request.getfixturevalue(reader.origin)
    # Some could run here, too, but all that can be are in one environment, with one lock.
    python = python_with(reader.module if reader.module == "boto3" else "icechunk")
    command = (python, "-m", "tests.clients.readers", reader.name)
    pair.forget()
    before = pair.asked()
    first = run(*command, pair.origin, pair.sidecar.url)
    cold = pair.asked() - before
    # In a new process: what a client remembers by itself is not what is looked at.
    again = run(*command, pair.sidecar.url)
    warm = pair.asked() - before - cold
    record_property(PROPERTY, (reader.name, first["versions"], cold.total(), warm.total()))
    assert first["digests"] + again["digests"] == [samples.digests[reader.sample]] * 3
    assert_warm(cold, without_proofs(warm) if reader.origin == "gcs" else warm, reader.asks_again)


@pytest.mark.client("moto", "s3fs")
def test_a_second_pass_of_s3fs_costs_nothing_where_absences_answer_all(
    s3: Pair, samples: Samples, tmp_path: Path, python_with: Callable[[str], str]
) -> None:
    """It asks HEAD and a listing for each absent chunk. Writes are refused, so that the scope is
    `all`.
    """
    flags = (*ANY_DISK, "--no-allow-writes", "--metadata-ttl", "1h")
    with Sidecar(s3.origin, tmp_path / "cache", flags) as sidecar:
        pair = Pair(s3.origin, sidecar)
        command = (python_with("icechunk"), "-m", "tests.clients.readers", "zarr over s3fs")
        digests = run(*command, sidecar.url)["digests"]
        cold = pair.asked()
        digests += run(*command, sidecar.url)["digests"]
        assert digests == [samples.digests["sparse"]] * 2
        # For each absent chunk its HEAD, the GET that proves it, and the listing.
        absent = cold["chunk", "HEAD", "404"]
        assert absent > 0
        assert cold["chunk", "GET", "404"] == cold["listing", "GET", "200"] == absent
        assert pair.asked() == cold
        page = exchange(sidecar.admin_url, "/metrics").body.decode()
        [listed] = re.findall(
            r'requests_total\{class="listing",method="GET",result="negative_hit",route="/"\} (\S+)',
            page,
        )
        assert float(listed) == absent
        # Another process on the directory writes beneath a chunk that is absent.
        held = json.loads(exchange(sidecar.admin_url, "/entries?prefix=/&limit=1000").body)
        targets = [each["target"] for each in held["entries"] if each["kind"] == "marker"]
        directory = next(each for each in targets if each.endswith("/"))
        bucket, _, prefix = directory.removeprefix("/").partition("/")
        asked = f"/{bucket}?list-type=2&prefix={quote(prefix, '')}&delimiter=%2F&max-keys=1"
        assert b"<KeyCount>0<" in exchange(sidecar.url, asked).body
        with Sidecar(s3.origin, tmp_path / "cache", ANY_DISK) as writer:
            assert exchange(writer.url, f"{directory}x", "PUT", body=b"x").status == 200
            assert b"<KeyCount>1<" in exchange(sidecar.url, asked).body
            assert pair.asked() - cold == {("listing", "GET", "200"): 1}
            assert exchange(writer.url, f"{directory}x", "DELETE").status == 204


@pytest.fixture(scope="module")
def bucket(
    samples: Samples,
    running: ExitStack,
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Pair:
    """A private bucket, and a sidecar that signs for everybody."""
    home = tmp_path_factory.mktemp("bucket")
    program = find_client_program("weed", pytestconfig.rootpath)
    assert program is not None
    url = running.enter_context(seaweedfs(program, home / "store"))
    seaweed_upload(url, BUCKET, samples.folder)
    flags = (*ANY_DISK, "--upstream-endpoint", url, "--metadata-ttl", "1h")
    sidecar = Sidecar(f"s3://{BUCKET}", home / "cache", flags, ENVIRONMENT)
    return Pair(url, running.enter_context(sidecar))


OF_A_BUCKET = (
    "zarr over fsspec",
    "zarr over obstore",
    "zarr over s3fs",
    "zarr over obstore, S3",
    "xarray",
    "xarray over dask",
    "xarray over s3fs",
    "xarray over obstore, S3",
    "TensorStore",
    "TensorStore, S3",
    "DuckDB",
    "DuckDB, S3",
)


def costs_of(
    name: str, pair: Pair, samples: Samples, python: str, *, readings: int = 2
) -> list[Asked]:
    """What each reading cost the origin, of several that all find what is there."""
    command = (python, "-m", "tests.clients.readers", name)
    pair.forget()
    costs = []
    for _ in range(readings):
        before = pair.asked()
        assert run(*command, pair.sidecar.url)["digests"] == [samples.digests[READERS[name].sample]]
        costs.append(pair.asked() - before)
    return costs


@pytest.mark.client("weed")
@pytest.mark.parametrize("name", OF_A_BUCKET, ids=slug)
def test_a_private_bucket_is_read_without_a_credential_and_once(
    name: str, bucket: Pair, samples: Samples, python_with: Callable[[str], str]
) -> None:
    python = python_with("icechunk")
    cold, warm, warmer = costs_of(name, bucket, samples, python, readings=3)
    # The first sight of a document made what was absent beside it doubtful.
    assert_warm(cold, warm, frozenset())
    assert not warmer
    assert exchange(bucket.origin, f"/{BUCKET}/sparse.zarr/zarr.json").status == 403


@pytest.fixture(scope="module")
def container(
    samples: Samples,
    running: ExitStack,
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Pair:
    """A private container, and a sidecar that signs for everybody."""
    home = tmp_path_factory.mktemp("container")
    program = find_client_program("azurite-blob", pytestconfig.rootpath)
    assert program is not None
    url = running.enter_context(azurite(program, home / "store"))
    azure_upload(url, BUCKET, samples.folder)
    flags = (*ANY_DISK, "--upstream-endpoint", url, "--metadata-ttl", "1h")
    upstream = f"az://{AZURE_ACCOUNT}/{BUCKET}"
    sidecar = Sidecar(upstream, home / "cache", flags, AZURE_ENVIRONMENT)
    return Pair(url, running.enter_context(sidecar))


OF_A_CONTAINER = (
    "zarr over fsspec",
    "zarr shards over fsspec",
    "zarr over obstore",
    "zarr over obstore, Azure",
    "zarr over obstore, Azure with a key",
    "zarr over adlfs",
    "zarr over adlfs, with a key",
    "pyarrow over adlfs",
    "xarray",
    "TensorStore",
    "TensorStore, shards",
    "DuckDB",
)


@pytest.mark.client("azurite-blob", "adlfs")
@pytest.mark.parametrize("name", OF_A_CONTAINER, ids=slug)
def test_a_private_container_is_read_without_a_credential_and_once(
    name: str, container: Pair, samples: Samples, python_with: Callable[[str], str]
) -> None:
    cold, warm = costs_of(name, container, samples, python_with("icechunk"))
    assert_warm(cold, warm, frozenset())
    straight = f"/{AZURE_ACCOUNT}/{BUCKET}/sparse.zarr/zarr.json"
    assert exchange(container.origin, straight).status == 403


VALIDATES_ALWAYS = ("--ttl", "0s", "--metadata-ttl", "0s")


@pytest.mark.client("weed", "s3fs")
@pytest.mark.parametrize(
    "name", ["zarr over s3fs", "zarr over obstore, S3", "TensorStore, S3", "DuckDB, S3"], ids=slug
)
def test_what_is_validated_each_time_is_read_the_same_from_a_bucket(
    name: str,
    bucket: Pair,
    samples: Samples,
    tmp_path: Path,
    python_with: Callable[[str], str],
) -> None:
    flags = (*ANY_DISK, "--upstream-endpoint", bucket.origin, *VALIDATES_ALWAYS)
    with Sidecar(f"s3://{BUCKET}", tmp_path, flags, ENVIRONMENT) as sidecar:
        _, warm = costs_of(name, Pair(bucket.origin, sidecar), samples, python_with("icechunk"))
    assert warm["chunk", "GET", "304"] > 0


@pytest.mark.client("azurite-blob", "adlfs")
@pytest.mark.parametrize(
    "name",
    ["zarr over adlfs", "zarr over obstore, Azure", "pyarrow over adlfs", "TensorStore"],
    ids=slug,
)
def test_what_is_validated_each_time_is_read_the_same_from_a_container(
    name: str,
    container: Pair,
    samples: Samples,
    tmp_path: Path,
    python_with: Callable[[str], str],
) -> None:
    upstream = f"az://{AZURE_ACCOUNT}/{BUCKET}"
    flags = (*ANY_DISK, "--upstream-endpoint", container.origin, *VALIDATES_ALWAYS)
    with Sidecar(upstream, tmp_path, flags, AZURE_ENVIRONMENT) as sidecar:
        _, warm = costs_of(name, Pair(container.origin, sidecar), samples, python_with("icechunk"))
    assert warm["chunk", "GET", "304"] > 0


@pytest.mark.client("azurite-blob")
def test_an_array_of_a_container_is_warmed_and_told_of_by_its_own_url(
    container: Pair, samples: Samples, python_with: Callable[[str], str]
) -> None:
    array, sidecar = f"az://{AZURE_ACCOUNT}/{BUCKET}/sparse.zarr", container.sidecar
    container.forget()
    told = run_command("warm", array, "--data", sidecar.url, "--admin", sidecar.admin_url)
    assert told.returncode == 0, told.stdout + told.stderr
    warmed = container.asked()
    command = (python_with("icechunk"), "-m", "tests.clients.readers", "zarr over obstore, Azure")
    assert run(*command, sidecar.url)["digests"] == [samples.digests["sparse"]]
    assert_warm(warmed, container.asked() - warmed, frozenset())
    for words in (("map", array), ("why", f"{array}/c/0/0")):
        told = run_command(*words, "--admin", sidecar.admin_url)
        assert told.returncode == 0 and f"/{BUCKET}/sparse.zarr" in told.stdout, told
    info = json.loads(exchange(sidecar.admin_url, "/info").body)
    assert info["upstream"] == f"az://{AZURE_ACCOUNT}/{BUCKET}"


@pytest.fixture(scope="module")
def google_bucket(
    google: str, running: ExitStack, tmp_path_factory: pytest.TempPathFactory
) -> Pair:
    """A private bucket of Google's, and a sidecar that has a token for everybody."""
    home = tmp_path_factory.mktemp("google_bucket")
    tokens = running.enter_context(Tokens())
    store = running.enter_context(PrivateStore(google, tokens))
    flags = (*ANY_DISK, "--upstream-endpoint", store.url, "--metadata-ttl", "1h")
    environment = service_account(home, tokens.url)
    sidecar = Sidecar(f"gs://{BUCKET}", home / "cache", flags, environment)
    return Pair(store.url, running.enter_context(sidecar))


OF_GOOGLES_BUCKET = (
    "zarr over fsspec",
    "zarr shards over fsspec",
    "zarr over obstore",
    "zarr over obstore, GCS",
    "zarr over gcsfs",
    "xarray",
    "xarray over gcsfs",
    "TensorStore",
    "TensorStore, GCS",
    "gcsfs",
    "GDAL, COG",
    "Polars",
)


@pytest.mark.client("fake-gcs-server", "gcsfs", "obstore")
@pytest.mark.parametrize("name", OF_GOOGLES_BUCKET, ids=slug)
def test_googles_private_bucket_is_read_without_a_credential_and_once(
    name: str, google_bucket: Pair, samples: Samples, python_with: Callable[[str], str]
) -> None:
    cold, warm = costs_of(name, google_bucket, samples, python_with("icechunk"))
    assert_warm(cold, warm, frozenset())
    assert exchange(google_bucket.origin, f"/{BUCKET}/sparse.zarr/zarr.json").status == 403


@pytest.mark.client("fake-gcs-server", "gcsfs", "tensorstore")
def test_what_one_client_of_google_s_has_read_answers_the_others(
    google_bucket: Pair, samples: Samples, python_with: Callable[[str], str]
) -> None:
    google_bucket.forget()
    names = ("TensorStore, GCS", "zarr over gcsfs", "zarr over obstore, GCS", "zarr over fsspec")
    counts = [google_bucket.asked()]
    for name in names:
        command = (python_with("icechunk"), "-m", "tests.clients.readers", name)
        digests = run(*command, google_bucket.sidecar.url)["digests"]
        assert digests == [samples.digests["sparse"]]
        counts.append(google_bucket.asked())
    assert (counts[1] - counts[0])["chunk", "GET", "404"] > 0
    for before, after in pairwise(counts[1:]):
        assert not {each for each in after - before if each[0] == "chunk"}


@dataclass(frozen=True)
class WebReader:
    """One of the readers in tests/web_clients/readers.mjs; `package` is told with its version."""

    name: str
    package: str
    sample: str
    asks_again: frozenset[tuple[str, str, str]] = frozenset()

    def versions(self) -> dict[str, str]:
        file = WEB_CLIENTS / "node_modules" / self.package / "package.json"
        return {self.package: json.loads(file.read_text(encoding="utf-8"))["version"]}


WEB_READERS = (
    WebReader("zarrita", "zarrita", "sparse"),
    WebReader("zarrita, zarr v2", "zarrita", "sparse"),
    WebReader("zarrita, shards", "zarrita", "sparse", frozenset([HEAD_OF_ABSENT])),
    WebReader("geotiff.js", "geotiff", "image"),
)

over_web_readers = pytest.mark.parametrize(
    "reader",
    [
        pytest.param(each, id=slug(each.name), marks=pytest.mark.client(each.package))
        for each in WEB_READERS
    ],
)


@pytest.mark.client("node")
@pytest.mark.server("nginx")
@over_web_readers
def test_a_reader_in_node_reads_the_same_straight_cold_and_warm(
    reader: WebReader, samples: Samples, files: Pair, record_property: Record
) -> None:
    command = ("node", "--no-warnings", WEB_CLIENTS / "main.mjs", reader.name)
    files.forget()
    before = files.asked()
    digests = run(*command, files.origin, files.sidecar.url)["digests"]
    cold = files.asked() - before
    digests += run(*command, files.sidecar.url)["digests"]
    warm = files.asked() - before - cold
    node = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True)
    versions = reader.versions() | {"Node.js": node.stdout.strip().removeprefix("v")}
    record_property(PROPERTY, (f"{reader.name} in Node.js", versions, cold.total(), warm.total()))
    assert digests == [samples.digests[reader.sample]] * 3
    assert_warm(cold, warm, reader.asks_again)


@pytest.fixture(scope="module")
def page(running: ExitStack) -> Page:
    modules = {name: f"/files/node_modules/{path}" for name, path in IMPORTS.items()}
    page = Page(WEB_CLIENTS, modules)
    running.callback(page.close)
    return page


@pytest.fixture(scope="module")
def files_for_pages(
    files: Pair, page: Page, running: ExitStack, tmp_path_factory: pytest.TempPathFactory
) -> Pair:
    """The same origin, which says nothing of CORS, behind a sidecar that lists the page's."""
    home = tmp_path_factory.mktemp("pages")
    flags = (*ANY_DISK, "--cors-origins", page.origin)
    sidecar = running.enter_context(Sidecar(files.origin, home / "cache", flags))
    return Pair(files.origin, sidecar)


@pytest.mark.browser
@pytest.mark.server("nginx")
@over_web_readers
def test_a_reader_in_a_page_of_a_listed_origin_reads_the_same_cold_and_warm(
    reader: WebReader,
    samples: Samples,
    files_for_pages: Pair,
    page: Page,
    tmp_path: Path,
    record_property: Record,
) -> None:
    told = {"name": json.dumps(reader.name), "url": json.dumps(files_for_pages.sidecar.url)}
    found, cold, warm = visit(page, files_for_pages, tmp_path, SCRIPT % told)
    versions = reader.versions() | {"Chromium": chromium_version()}
    record_property(PROPERTY, (f"{reader.name} in Chromium", versions, cold.total(), warm.total()))
    assert found == [{"digest": samples.digests[reader.sample]}] * 3
    assert_warm(cold, warm, reader.asks_again)


def visit(page: Page, pair: Pair, home: Path, script: str) -> tuple[list[Any], Asked, Asked]:
    """What three visits found, and what the first and the last cost the origin.

    A page names a version (If-Range) as soon as it has some of it, which may be before that is
    kept; what is passed on then is kept at the second visit.
    """
    pair.forget()
    counts = [pair.asked()]
    found = []
    for turn in ("cold", "warming", "warm"):
        # A new home, so that nothing is in the browser's own cache.
        (home / turn).mkdir()
        found.append(page.visit(home / turn, script))
        counts.append(pair.asked())
    return found, counts[1] - counts[0], counts[3] - counts[2]


@dataclass(frozen=True)
class Neuroglancer:
    name: str
    array: str
    asks_again: frozenset[tuple[str, str, str]] = frozenset()


NEUROGLANCER = (
    Neuroglancer("Neuroglancer", "sparse.zarr"),
    Neuroglancer("Neuroglancer, shards", "sharded.zarr", frozenset([HEAD_OF_ABSENT])),
)


@pytest.mark.browser
@pytest.mark.server("nginx")
@pytest.mark.client("neuroglancer")
@pytest.mark.parametrize("reader", NEUROGLANCER, ids=[slug(each.name) for each in NEUROGLANCER])
def test_neuroglancer_shows_the_same_cold_and_warm(
    reader: Neuroglancer,
    samples: Samples,
    files: Pair,
    python_with: Callable[[str], str],
    tmp_path: Path,
    record_property: Record,
) -> None:
    # It isn't imported: nothing that its Python part needs is there.
    where = (
        "import importlib.metadata as m, importlib.util as u, json; print(json.dumps(["
        "u.find_spec('neuroglancer').submodule_search_locations[0], m.version('neuroglancer')]))"
    )
    package, version = run(python_with("neuroglancer"), "-c", where)
    page = Page(Path(package) / "static/client")
    flags = (*ANY_DISK, "--cors-origins", page.origin)
    try:
        with Sidecar(files.origin, tmp_path / "cache", flags) as sidecar:
            source = json.dumps(f"zarr3://{sidecar.url}/{BUCKET}/{reader.array}")
            script = (WEB_CLIENTS / "neuroglancer.js").read_text(encoding="utf-8")
            pair = Pair(files.origin, sidecar)
            found, cold, warm = visit(page, pair, tmp_path, script.replace("SOURCE", source))
    finally:
        page.close()
    versions = {"neuroglancer": version, "Chromium": chromium_version()}
    record_property(PROPERTY, (f"{reader.name} in Chromium", versions, cold.total(), warm.total()))
    assert found == [{"digest": samples.digests["sparse"]}] * 3
    assert_warm(cold, warm, reader.asks_again)
