"""`chunkside demo` as its own process."""

import re
import signal
import subprocess
import sys

import pytest

from tests.support.deadline import wait_for
from tests.support.http_client import Response, exchange
from tests.support.sidecar import clean_environment, run_command

pytestmark = pytest.mark.client("zarr")

FREE_PORTS = ("--port", "0", "--admin-port", "0")


# Ten thousand requests, which a busy machine takes its time for.
@pytest.mark.timeout(180)
def test_once_shows_that_each_chunk_cost_one_request_and_then_none() -> None:
    done = run_command(
        "demo", "--once", "--delay", "5ms", "--readers", "8", *FREE_PORTS, deadline_seconds=150
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [re.split(r"  +", line.strip()) for line in done.stdout.splitlines()]
    costs = {row[0]: row[2:] for row in rows if len(row) == 6}
    # requests by readers, then metadata, present and absent chunks at the origin
    assert costs["straight at the origin"] == ["3224", "24", "464", "2736"]
    assert costs["sidecar, first pass"][0] == "3224"
    assert costs["sidecar, first pass"][2:] == ["58", "342"]
    assert costs["sidecar, second pass"][0] == "3224"
    assert costs["sidecar, second pass"][2:] == ["0", "0"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_without_once_it_serves_until_it_is_told_to_end(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "chunkside", "demo", "--delay", "0", "--readers", "1"]
    with subprocess.Popen(
        [*command, *FREE_PORTS],
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        try:
            assert demo.stdout is not None
            shown = "".join(iter(demo.stdout.readline, "Ctrl-C ends it.\n"))
            head, absent, metrics = re.findall(
                r"^  curl .* '?(http://\S+?)'?$", shown, re.MULTILINE
            )
            assert ask(head, "HEAD").status == 200
            remembered = ask(absent)
            assert remembered.status == 404
            assert "detail=negative" in (remembered.value("Cache-Status") or "")
            assert b"chunkside_requests_total" in ask(metrics).body
            demo.send_signal(number)
            assert demo.wait(30) == 0
            assert demo.stderr is not None
            assert "Traceback" not in demo.stderr.read()
        finally:
            # Not SIGKILL: the demo ends the sidecar that it started.
            demo.terminate()
    wait_for(lambda: is_refused(metrics), "the sidecar's end")


def ask(url: str, method: str = "GET") -> Response:
    target = "/" + url.split("/", 3)[3]
    return exchange(url.removesuffix(target), target, method)


def is_refused(url: str) -> bool:
    try:
        ask(url)
    except ConnectionError:
        return True
    return False
