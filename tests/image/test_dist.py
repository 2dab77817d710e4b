"""What `make dist` makes installs where there is nothing else, and runs."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from scripts.image import ROOT, version
from tests.support.http_client import exchange
from tests.support.origin import Origin
from tests.support.sidecar import Sidecar, clean_environment

pytestmark = pytest.mark.timeout(600)

UV = Path(sys.executable).with_name("uv")
LOCKED = ("--no-deps", "--require-hashes", "--only-binary=:all:")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    command = ("make", "dist", f"DIST={folder}", f"PYTHON={sys.executable}")
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    return folder


@pytest.fixture(params=["*.whl", "*.tar.gz"], ids=["wheel", "sdist"])
def installed(request: pytest.FixtureRequest, dist: Path, tmp_path: Path) -> Path:
    """`chunkside`, in an environment that has what the locks say and nothing else."""
    (file,) = dist.glob(request.param)
    venv = tmp_path / "venv"
    uv("venv", "--quiet", "--python", sys.executable, str(venv))
    install = ("pip", "install", "--quiet", "--python", str(venv))
    locks = ("run", "build") if file.suffix == ".gz" else ("run",)
    for lock in locks:
        uv(*install, *LOCKED, "--requirement", str(ROOT / f"locks/{lock}.txt"))
    uv(*install, "--no-deps", "--no-index", "--no-build-isolation", str(file))
    return venv / "bin" / "chunkside"


def uv(*arguments: str) -> str:
    told = subprocess.run((str(UV), *arguments), capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    return told.stdout + told.stderr


def test_it_runs_from_either(installed: Path, tmp_path: Path) -> None:
    alone = clean_environment({"PYTHONPATH": ""})
    told = subprocess.run(
        (installed, "--version"), check=True, env=alone, stdout=subprocess.PIPE, text=True
    )
    assert told.stdout == f"chunkside {version()}\n"
    flags = ("--min-free", "0", "--allow-memory-filesystem")
    with Origin() as origin:
        origin.put("/a/c/0", b"body")
        with Sidecar(
            origin.url, tmp_path / "cache", flags, {"PYTHONPATH": ""}, command=(str(installed),)
        ) as sidecar:
            assert exchange(sidecar.url, "/a/c/0").body == b"body"
            assert exchange(sidecar.url, "/a/c/1").status == 404
            assert sidecar.stop() == 0


def test_the_wheel_holds_the_package_alone(dist: Path) -> None:
    (file,) = dist.glob("*.whl")
    with zipfile.ZipFile(file) as wheel:
        tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert tops == {"chunkside", f"chunkside-{version()}.dist-info"}


def test_the_sdist_has_what_its_own_makefile_needs(dist: Path) -> None:
    (file,) = dist.glob("*.tar.gz")
    with tarfile.open(file) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    needed = ("Makefile", "pyproject.toml", "locks/run.txt", "scripts/venv.py", "docker/Dockerfile")
    assert names >= {*needed, ".dockerignore", "README.md", "CHANGELOG.md", "LICENSE"}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("python", ["3.11", "3.13"])
def test_all_that_is_locked_has_a_wheel_for_each_machine(
    machine: str, python: str, tmp_path: Path
) -> None:
    """A dry run: it proves that an image can be put together, not that it runs."""
    platform = ("--python-platform", f"{machine}-manylinux_2_28", "--python-version", python)
    told = uv(
        *("pip", "install", "--dry-run", "--no-config", *platform, *LOCKED),
        *("--requirement", str(ROOT / "locks/run.txt"), "--target", str(tmp_path)),
    )
    assert "Would install" in told
