"""Writes the locks from pyproject.toml, or says which of them are out of date.

A lock's second line is the hash of what it was made from, so that --check needs no network.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "locks"


@dataclass(frozen=True, slots=True)
class LockSet:
    """What one lock holds; its versions agree with those of `beside`. `is_alone`: without what it
    depends on.
    """

    what_for: str
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    is_without_package: bool = False
    is_alone: bool = False
    beside: str | None = None


# In the order in which they are made: a set comes after the one that it stands beside.
SETS = {
    "run": LockSet("what the sidecar runs on"),
    "aws": LockSet(
        "what signs requests to S3, beside run", ("aws",), is_without_package=True, beside="run"
    ),
    "gcp": LockSet(
        "what finds Google's credentials, beside run",
        ("gcp",),
        is_without_package=True,
        beside="run",
    ),
    "azure": LockSet(
        "what finds Azure's credentials, beside run",
        ("azure",),
        is_without_package=True,
        beside="run",
    ),
    "demo": LockSet("run, and what the demo needs", extras=("demo",), beside="run"),
    "dev": LockSet(
        "demo, and what tests and checks need", ("demo",), ("build", "dev"), beside="demo"
    ),
    "build": LockSet(
        "what installs the package itself",
        groups=("build",),
        is_without_package=True,
        beside="dev",
    ),
    "clients": LockSet(
        "heavier readers for end-to-end tests, in an environment of their own",
        groups=("clients",),
        is_without_package=True,
    ),
    "moto": LockSet(
        "the S3 emulator for end-to-end tests, in an environment of its own",
        groups=("moto",),
        is_without_package=True,
    ),
    "seaweedfs": LockSet(
        "an S3 store that checks signatures, for end-to-end tests: the wheel is the program",
        groups=("seaweedfs",),
        is_without_package=True,
    ),
    "gcs": LockSet(
        "an emulator of Google Cloud Storage, for end-to-end tests: the wheel holds the program",
        groups=("gcs",),
        is_without_package=True,
    ),
    "sbom": LockSet(
        "what tells what is in an image, in an environment of its own",
        groups=("sbom",),
        is_without_package=True,
    ),
    "neuroglancer": LockSet(
        "the pages of Neuroglancer, for end-to-end tests",
        groups=("neuroglancer",),
        is_without_package=True,
        is_alone=True,
    ),
    "charts": LockSet(
        "what judges the charts, in an environment of its own",
        groups=("charts",),
        is_without_package=True,
    ),
    "helm": LockSet(
        "the programs of Helm, for the charts",
        groups=("helm",),
        is_without_package=True,
        is_alone=True,
    ),
}


def requirements(pyproject: dict[str, Any], lock_set: LockSet) -> list[str]:
    """The requirements that a lock is made from, sorted."""
    project = pyproject["project"]
    found: list[str] = [] if lock_set.is_without_package else list(project["dependencies"])
    for extra in lock_set.extras:
        found += project["optional-dependencies"][extra]
    for group in lock_set.groups:
        found += pyproject["dependency-groups"][group]
    return sorted(set(found))


def fingerprint(pyproject: dict[str, Any], name: str) -> str:
    """Hash of everything in pyproject.toml that a lock depends on."""
    lock_set = SETS[name]
    beside = fingerprint(pyproject, lock_set.beside) if lock_set.beside else None
    made_from = [
        pyproject["project"]["requires-python"],
        requirements(pyproject, lock_set),
        beside,
    ]
    return hashlib.sha256(json.dumps(made_from).encode()).hexdigest()


def header(pyproject: dict[str, Any], name: str) -> str:
    return (
        f"# {name}: {SETS[name].what_for}. Made by `make lock`; don't edit.\n"
        f"# made-from: sha256:{fingerprint(pyproject, name)}\n"
    )


def stale(pyproject: dict[str, Any], locks: Path) -> list[str]:
    """Names of the locks that were not made from this pyproject.toml."""
    return [
        name
        for name in SETS
        if not (lock := locks / f"{name}.txt").is_file()
        or not lock.read_text().startswith(header(pyproject, name))
    ]


def plain_environment() -> dict[str, str]:
    """The environment less what would make uv look elsewhere than at its default index."""
    return {name: value for name, value in os.environ.items() if not name.startswith("UV_")}


def compile_lock(pyproject: dict[str, Any], name: str, uv: str, *, is_upgrade: bool) -> str:
    """The text of one lock. Versions locked before are kept where they still fit."""
    lock_set = SETS[name]
    lock = LOCKS / f"{name}.txt"
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        made_from = work / f"{name}.in"
        made_from.write_text("\n".join(requirements(pyproject, lock_set)) + "\n")
        if lock.is_file() and not is_upgrade:
            shutil.copy(lock, work / lock.name)
        command = [
            *(uv, "pip", "compile", made_from.name, "--output-file", lock.name),
            *("--no-config", "--universal", "--python-version", "3.11"),
            *("--fork-strategy", "fewest", "--generate-hashes", "--no-header", "--quiet"),
            *("--no-emit-index-url", "--no-emit-find-links", "--no-build"),
        ]
        if lock_set.is_alone:
            command.append("--no-deps")
        if lock_set.beside:
            shutil.copy(LOCKS / f"{lock_set.beside}.txt", work)
            command += ["--constraints", f"{lock_set.beside}.txt"]
        subprocess.run(command, cwd=work, check=True, env=plain_environment())
        return header(pyproject, name) + (work / lock.name).read_text()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether they are current")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that fit")
    parser.add_argument("--uv", default="uv", help="the uv to resolve with")
    options = parser.parse_args()
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    if options.check:
        names = stale(pyproject, LOCKS)
        for name in names:
            print(f"locks/{name}.txt was not made from this pyproject.toml: run `make lock`")
        return 1 if names else 0
    LOCKS.mkdir(exist_ok=True)
    # It runs in another directory, from which a relative path leads nowhere.
    uv = os.path.abspath(options.uv) if os.sep in options.uv else options.uv
    for name in SETS:
        text = compile_lock(pyproject, name, uv, is_upgrade=options.upgrade)
        (LOCKS / f"{name}.txt").write_text(text)
        print(f"locks/{name}.txt: {len(re.findall('^[a-z0-9].*==', text, re.MULTILINE))} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
