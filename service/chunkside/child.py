"""A sidecar as a process of its own, for whoever starts one and ends it again."""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
def child(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> Iterator[Sidecar]:
    """Starts a sidecar, waits for both of its ports, and ends it on exit; SidecarError. `command`:
    the flags of `chunkside serve`, with two ports by TCP; it must print them.
    """
    # A process group of its own: Ctrl-C is for whoever started it, and ends it in good order.
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "chunkside", "serve", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
        env=environment,
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
        target=_read_to_the_end, args=(process.stdout, ready), name="sidecar", daemon=True
    ).start()
    watchdog = threading.Timer(_READY_SECONDS, process.kill)
    watchdog.start()
    try:
        ports = ready.get()
    finally:
        watchdog.cancel()
    if ports is None:
        code = process.wait()
        raise SidecarError("the sidecar did not start", code if code > 0 else 1)
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
