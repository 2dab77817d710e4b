"""Makes a virtual environment from locks, unless the one that stands was made from the same.

What it was made from is told by content (locks, Python), not by time: a fresh clone, a switched
branch and a restored CI folder all come out right.
"""

import argparse
import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAMP = ".stamp-"


def stamp_name(locks: list[Path]) -> str:
    """Name of the file that says: made by this Python from exactly these locks."""
    digest = hashlib.sha256(sys.version.encode())
    digest.update(sys.base_prefix.encode())
    for lock in locks:
        digest.update(lock.read_bytes())
    return STAMP + digest.hexdigest()[:16]


def project_stamp_name() -> str:
    """Name of the file that says: the package is installed as this pyproject.toml describes it."""
    return (
        STAMP + "project-" + hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()[:16]
    )


def is_venv_available() -> bool:
    """Debian ships `venv` without the part that it needs, in a package of its own."""
    try:
        import ensurepip  # noqa: F401, PLC0415 -- whether it can be imported is the question
        import venv  # noqa: F401, PLC0415
    except ImportError:
        return False
    return True


def pip_install(folder: Path, *arguments: str) -> None:
    python = folder / "bin" / "python"
    command = [
        str(python),
        "-m",
        "pip",
        "install",
        "-qq",
        "--disable-pip-version-check",
        *arguments,
    ]
    subprocess.run(command, check=True)


def make(folder: Path, locks: list[Path]) -> None:
    """Makes the environment anew, so that nothing of an older lock stays behind."""
    print(f"{folder.name}: installing {', '.join(lock.name for lock in locks)}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    named = [argument for lock in locks for argument in ("--requirement", str(lock))]
    # A lock names all that is to be there.
    pip_install(folder, "--no-deps", "--require-hashes", "--only-binary=:all:", *named)
    (folder / stamp_name(locks)).touch()


def install_project(folder: Path) -> None:
    for old in folder.glob(STAMP + "project-*"):
        old.unlink()
    # The build backend comes from a lock too: no isolated build that would fetch another one.
    pip_install(folder, "--no-deps", "--no-index", "--no-build-isolation", "--editable", str(ROOT))
    (folder / project_stamp_name()).touch()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="such as .venv")
    parser.add_argument("locks", type=Path, nargs="+")
    parser.add_argument("--without-package", action="store_true", help="install the locks alone")
    options = parser.parse_args()
    if not is_venv_available():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        print(
            f"{sys.executable} has no venv module: install it (Debian, Ubuntu: apt-get install "
            f"python{version}-venv), or name another Python, as in make PYTHON=python3.12 ...",
            file=sys.stderr,
        )
        return 2
    folder = options.folder.absolute()
    with folder.with_name(folder.name + ".lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        try:
            if not (folder / stamp_name(options.locks)).is_file():
                make(folder, options.locks)
            if not options.without_package and not (folder / project_stamp_name()).is_file():
                install_project(folder)
        except subprocess.CalledProcessError as failure:
            command = " ".join(str(word) for word in failure.cmd)
            print(f"{folder.name} could not be made: {command}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
