"""Do the tests notice a broken rule? Applies each patch beside this file to a copy of the tree, and
runs there the tests that it names.

A patch begins with the rule that it breaks, and lines `Test: <pytest's name of a test>`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]
PATCHES = Path(__file__).resolve().parent
DEADLINE_SECONDS = 240
_COPIED = ("service", "tests", "pyproject.toml")
_ALL_PASSED, _SOME_FAILED = 0, 1

Verdict = Literal["caught", "survived", "does not apply", "tests can't run"]


@dataclass(frozen=True, slots=True)
class Mutant:
    patch: Path
    rule: str
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.patch.stem


def mutants() -> list[Mutant]:
    return [_read(path) for path in sorted(PATCHES.glob("*.patch"))]


def _read(path: Path) -> Mutant:
    rule, *lines = path.read_text().splitlines()
    tests = tuple(line.removeprefix("Test: ") for line in lines if line.startswith("Test: "))
    assert tests, f"{path.name} names no test"
    return Mutant(path, rule, tests)


def copy_tree(target: Path) -> Path:
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "node_modules")
            shutil.copytree(source, target / name, ignore=ignored)
        else:
            shutil.copy2(source, target / name)
    return target


def applies(mutant: Mutant, tree: Path, *flags: str) -> bool:
    """Applies the patch; where it doesn't fit exactly, nothing is changed."""
    # Above the copy there may be a repository that git would take it for a part of.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}
    command = ["git", "apply", "--whitespace=nowarn", *flags, str(mutant.patch)]
    return subprocess.run(command, cwd=tree, env=environment, check=False).returncode == 0


def would_apply(mutant: Mutant) -> bool:
    """The same to the tree itself, of which nothing is changed."""
    return applies(mutant, ROOT, "--check")


def run_tests(tests: tuple[str, ...], tree: Path) -> subprocess.CompletedProcess[str]:
    """Runs them in the copy, against the copy's own package, with this interpreter."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        "PYTHONPATH": os.pathsep.join((str(tree / "service"), str(tree))),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    options = ("-n", "0", "-p", "no:cacheprovider", "-q", "-x", "--no-header", "--tb=line")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=tree,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
    )


def judge(mutant: Mutant, scratch: Path) -> Verdict:
    """Whether the tests go red; anything but failed tests is no verdict on the rule."""
    tree = copy_tree(scratch)
    if not applies(mutant, tree):
        return "does not apply"
    match run_tests(mutant.tests, tree).returncode:
        case code if code == _SOME_FAILED:
            return "caught"
        case code if code == _ALL_PASSED:
            return "survived"
        case _:
            return "tests can't run"


def uses_the_copy(tree: Path) -> bool:
    """Whether a run in the copy imports the copy's package, and not an installed one."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "service")}
    shown = subprocess.run(
        [sys.executable, "-c", "import chunkside; print(chunkside.__file__)"],
        cwd=tree,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return Path(shown.strip()).is_relative_to(tree)
