"""A sidecar as its own process, and the command line as its own process."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import chunkside
from tests.support.deadline import DEADLINE_SECONDS, wait_for
from tests.support.http_client import exchange

_PACKAGE_ROOT = Path(chunkside.__path__[0]).parent
_READY = re.compile(r"(data|admin) port: (http://\S+?)/?$")


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment that holds nothing of the developer's, least of all CHUNKSIDE_* names."""
    return {
        "PATH": os.defpath,
        "PYTHONPATH": str(_PACKAGE_ROOT),
        "PYTHONUNBUFFERED": "1",
        "LC_ALL": "C.UTF-8",
        **(extra or {}),
    }


def run_command(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    deadline_seconds: float = DEADLINE_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Runs `chunkside …` to its end; at the deadline it is told to end, and that raises."""
    with subprocess.Popen(
        [sys.executable, "-m", "chunkside", *arguments],
        env=clean_environment(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=deadline_seconds)
        except BaseException:
            # Not SIGKILL: the demo ends the sidecar that it started.
            process.terminate()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def value_of(page: str, sample: str) -> float:
    """The value of a sample, written as /metrics writes it; labels may be a part of them.

    Samples that match are added up: `chunkside_requests_total` is the sum over all labels.
    """
    name, _, labels = sample.partition("{")
    wanted = [label for label in labels.rstrip("}").split(",") if label]
    total = 0.0
    for line in page.splitlines():
        found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if found and found[1] == name and all(label in (found[2] or "") for label in wanted):
            total += float(found[3])
    return total


class Sidecar:
    """Started on entry, ended by its process id on exit."""

    def __init__(
        self,
        upstream: str | None,
        cache_dir: Path,
        flags: Iterable[str] = (),
        env: Mapping[str, str] | None = None,
        *,
        command: Iterable[str] = (sys.executable, "-m", "chunkside"),
        listen: str = "127.0.0.1:0",
    ) -> None:
        """`upstream`: None where the flags give routes. `command`: in place of `chunkside`."""
        self._command = [
            *(*command, "serve"),
            *(() if upstream is None else ("--upstream", upstream)),
            *("--listen", listen, "--admin-listen", listen),
            *("--cache-dir", str(cache_dir), *flags),
        ]
        self._env = clean_environment(env)
        self._lines: dict[str, str] = {}
        self._stdout: list[str] = []
        self._stderr: list[str] = []
        self._threads: list[threading.Thread] = []
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        for stream, lines in (
            (self._process.stdout, self._stdout),
            (self._process.stderr, self._stderr),
        ):
            thread = threading.Thread(target=self._drain, args=(stream, lines), daemon=True)
            thread.start()
            self._threads.append(thread)
        try:
            wait_for(self._is_ready, "both ports of the sidecar")
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._running.poll() is None:
            self.kill()
        assert "Traceback" not in self.stderr(), self.stderr()

    @property
    def url(self) -> str:
        """The data port, without a slash at the end."""
        return self._lines["data"]

    @property
    def admin_url(self) -> str:
        return self._lines["admin"]

    @property
    def pid(self) -> int:
        return self._running.pid

    def terminate(self) -> None:
        """SIGTERM, and waits for nothing."""
        self._running.send_signal(signal.SIGTERM)

    def stop(self) -> int:
        """SIGTERM, then waits; the exit code."""
        self.terminate()
        return self._end()

    def wait(self) -> int:
        """Waits for an end that was brought about otherwise; the exit code."""
        return self._end()

    def kill(self) -> int:
        """SIGKILL, then waits; the exit code."""
        self._running.kill()
        return self._end()

    def stderr(self) -> str:
        return "".join(self._stderr)

    def stdout(self) -> str:
        return "".join(self._stdout)

    def rss_anon_bytes(self) -> int:
        """Resident anonymous memory, as the kernel counts it now."""
        return self._resident("RssAnon")

    def rss_file_bytes(self) -> int:
        """Resident pages of files, bodies that are mapped among them."""
        return self._resident("RssFile")

    def _resident(self, name: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024

    def metric(self, sample: str) -> float:
        """The value of a sample, as `value_of` has it."""
        return value_of(exchange(self.admin_url, "/metrics").body.decode(), sample)

    def wait_idle(self) -> None:
        """Returns once no fill runs: an answer may precede the commit of its body."""
        wait_for(lambda: self.metric("chunkside_fills_in_flight") == 0, "the end of all fills")

    @property
    def _running(self) -> "subprocess.Popen[str]":
        assert self._process is not None, "the sidecar has not been started"
        return self._process

    def _drain(self, stream: IO[str], lines: list[str]) -> None:
        with stream:
            for line in stream:
                lines.append(line)
                if found := _READY.match(line.rstrip()):
                    self._lines[found[1]] = found[2]
                elif line.startswith("{") and '"message": "serving"' in line:
                    told = json.loads(line)
                    self._lines = {port: told[port][0].rstrip("/") for port in ("data", "admin")}

    def _is_ready(self) -> bool:
        if self._running.poll() is not None:
            raise AssertionError(
                f"exit {self._running.returncode}:\n{self.stdout()}{self.stderr()}"
            )
        return self._lines.keys() >= {"data", "admin"}

    def _end(self) -> int:
        code = self._running.wait(DEADLINE_SECONDS)
        for thread in self._threads:
            thread.join(DEADLINE_SECONDS)
        return code
