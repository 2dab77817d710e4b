"""A public suite of what HTTP caches do, against the profile that is RFC 9111 to the letter.

Its author calls it no conformance test, and so it is used: what it asks for and doesn't get is
named in tests/cache_suite/expected.txt, each with the reason.
"""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.deadline import wait_for
from tests.support.sidecar import Sidecar

SUITE = Path(__file__).resolve().parents[1] / "cache_suite"
ENGINE = SUITE / "node_modules/http-cache-tests"
JUDGED = ("required", "optimal")
# As who runs a reverse proxy would set it. Some tests want to see what the origin said first.
FLAGS = [
    *("--profile", "strict", "--client-credentials", "share", "--upstream-retries", "0"),
    *("--targeted-cache-control", "CDN-Cache-Control"),
]


@pytest.fixture
def origin(tmp_path) -> Iterator[str]:
    """The suite's own origin, on a port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    told = {
        "npm_config_protocol": "http",
        "npm_config_port": str(port),
        "npm_config_pidfile": str(tmp_path / "pid"),
    }
    with subprocess.Popen(
        ["node", "--no-warnings", "server/server.mjs"],
        cwd=ENGINE,
        env=os.environ | told,
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            wait_for(lambda: _answers(port), "the suite's origin to listen")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def verdicts(url: str) -> dict[str, str]:
    """Of each test that is judged: "pass", or what went otherwise."""
    ran = subprocess.run(
        ["node", "--no-warnings", "verdicts.mjs", url],
        cwd=SUITE,
        check=True,
        capture_output=True,
        text=True,
        timeout=240,
    )
    told = json.loads(ran.stdout[ran.stdout.index("{") :])
    assert len(told) > 250, "the suite ran only in part"
    return {
        name: f"needs {', '.join(each['missing'])}" if each["missing"] else each["verdict"]
        for name, each in told.items()
        if each["kind"] in JUDGED
    }


def expected() -> dict[str, str]:
    """What doesn't pass, and why."""
    lines = (SUITE / "expected.txt").read_text(encoding="utf-8").splitlines()
    named = (line.partition("  ") for line in lines if line and not line.startswith("#"))
    return {name: reason.strip() for name, _, reason in named}


def test_each_that_does_not_pass_is_named_with_a_reason():
    assert all(expected().values())


@pytest.mark.suite
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_what_passes_and_what_does_not_is_as_it_is_known(origin, tmp_path):
    known = expected()
    first = differing(origin, tmp_path / "first", known)
    # Once is chance: the origin closes idle connections, and the machine may be busy.
    again = differing(origin, tmp_path / "again", known) if first else {}
    assert {name: each for name, each in again.items() if name in first} == {}


def differing(origin: str, cache: Path, known: dict[str, str]) -> dict[str, str]:
    """What passes and isn't known to, or the other way."""
    cache.mkdir()
    with Sidecar(origin, cache, FLAGS) as sidecar:
        told = verdicts(sidecar.url)
    assert known.keys() <= told.keys()
    return {name: each for name, each in told.items() if (each == "pass") == (name in known)}
