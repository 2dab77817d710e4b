"""The sidecar of the demo, as its own process: what `chunkside serve` is to everyone else."""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import IO

_READY_SECONDS = 30.0
_STOP_SECONDS = 15.0
_PORT_LINE = re.compile(r"(data|admin) port: (http://\S+?)/?$")


class SidecarError(Exception):
    """The sidecar did not start, or ended by itself; it has said why on stderr."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A sidecar that serves; both URLs without a slash at the end."""

    url: str
    admin_url: str
    _process: "subprocess.Popen[str]"

    def own_end(self) -> SidecarError:
        """Waits until the sidecar ends by itself, and says that it did."""
        return SidecarError("the sidecar has ended", self._process.wait() or 1)


@contextmanager
def sidecar(upstream: str, cache_dir: Path, *, port: int, admin_port: int) -> Iterator[Sidecar]:
    """Starts a sidecar, waits for both of its ports, and ends it on exit; SidecarError."""
    command = [
        *(sys.executable, "-m", "chunkside", "serve", "--upstream", upstream),
        *("--listen", f"127.0.0.1:{port}", "--admin-listen", f"127.0.0.1:{admin_port}"),
        # A few megabytes, on whatever disk there is.
        *("--cache-dir", str(cache_dir), "--min-free", "0"),
        # Whatever the environment says: this one has its one upstream.
        *("--routes", "[]"),
        # It is the demo that talks, and it reads what the sidecar prints.
        *("--log-format", "console", "--log-level", "warning", "--log-requests", "0"),
    ]
    # A process group of its own: Ctrl-C is for the demo, which ends its sidecar in good order.
    process = subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, process_group=0
    )
    try:
        ports = _read_ports(process)
        yield Sidecar(ports["data"], ports["admin"], process)
    finally:
        _end(process)


def _read_ports(process: "subprocess.Popen[str]") -> dict[str, str]:
    assert process.stdout is not None
    ready: Queue[dict[str, str] | None] = Queue()
    threading.Thread(
        target=_read_to_the_end, args=(process.stdout, ready), name="demo-sidecar", daemon=True
    ).start()
    watchdog = threading.Timer(_READY_SECONDS, process.kill)
    watchdog.start()
    try:
        ports = ready.get()
    finally:
        watchdog.cancel()
    if ports is None:
        code = process.wait()
        raise SidecarError(
            "the sidecar did not start; `--port 0 --admin-port 0` picks free ports",
            code if code > 0 else 1,
        )
    return ports


def _read_to_the_end(stdout: IO[str], ready: "Queue[dict[str, str] | None]") -> None:
    """Gives the ports once both are known, None if that never comes; a full pipe would block it."""
    ports: dict[str, str] = {}
    with stdout:
        for line in stdout:
            if found := _PORT_LINE.match(line.rstrip()):
                ports[found[1]] = found[2]
                if ports.keys() >= {"data", "admin"}:
                    ready.put(ports)
    ready.put(None)


def _end(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
