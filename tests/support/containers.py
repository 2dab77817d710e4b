"""An image store of the tests' own, the base image in it, and containers that end with their test.

The store and the base are kept for other runs, in the user's cache directory: making the base takes
half a minute. Where no registry can be reached a base is made of Debian packages, under the name
that the Dockerfile asks for.
"""

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from scripts.image import ROOT, Wanted, build_command
from tests.support.deadline import wait_for

BASE: Final = "docker.io/library/python:3.13-slim-trixie"
_PACKAGES: Final = "ca-certificates,python3,python3-venv,python3-pip"
# What the official image has at these places, and nothing that only Debian's has.
_LIKE_THE_OFFICIAL: Final = """
ln -sf /usr/bin/python3 /usr/local/bin/python3
ln -sf /usr/bin/python3 /usr/local/bin/python
ln -sf /usr/bin/pip3 /usr/local/bin/pip
rm -rf /usr/lib/python3*/EXTERNALLY-MANAGED /var/lib/apt/lists/* /var/cache/apt/*
"""
# Layers of images that were built before stay, so that the next build is short.
_MOST_STORE_BYTES: Final = 6 << 30
# runc and cgroupfs run where systemd doesn't; limits that are told need no right to raise them.
_CONFIGURATION: Final = """
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=8192:8192"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


def cache_home() -> Path:
    told = os.environ.get("XDG_CACHE_HOME", "")
    above = Path(told) if told.startswith("/") else Path.home() / ".cache"
    return above / "chunkside-image-test"


class Store:
    """Held by one run at a time."""

    def __init__(self) -> None:
        self._home = cache_home()
        self._home.mkdir(parents=True, exist_ok=True)
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> Self:
        turn = self._closing.enter_context((self._home / "lock").open("w"))
        fcntl.flock(turn, fcntl.LOCK_EX)
        folder = self._closing.enter_context(tempfile.TemporaryDirectory(prefix="chunkside-run-"))
        configuration = Path(folder) / "containers.conf"
        configuration.write_text(_CONFIGURATION)
        self._environment = os.environ | {"CONTAINERS_CONF": str(configuration)}
        if _size_of(self._home / "store") > _MOST_STORE_BYTES:
            shutil.rmtree(self._home / "store")
        self._flags = (
            # The store remembers the place of both, and is of no use with another.
            *("--root", str(self._home / "store"), "--runroot", str(self._home / "run")),
            *("--storage-driver", self._driver(Path(folder))),
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def _driver(self, folder: Path) -> str:
        """Overlay where it works: not within a container on an overlay."""
        command = ("podman", "--root", f"{folder}/try", "--runroot", f"{folder}/try-run")
        told = subprocess.run(
            (*command, "--storage-driver", "overlay", "info"),
            env=self._environment,
            capture_output=True,
            check=False,
        )
        return "overlay" if told.returncode == 0 else "vfs"

    def run(self, program: str, *arguments: str) -> str:
        """What podman or buildah says; AssertionError with what it complained of."""
        told = self.start(program, *arguments)
        assert told.returncode == 0, f"{program} {' '.join(arguments)}:\n{told.stdout}{told.stderr}"
        return told.stdout.strip()

    def start(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (program, *self._flags, *arguments),
            env=self._environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def need_base(self) -> None:
        if self.start("buildah", "inspect", "--type", "image", BASE).returncode == 0:
            return
        if self.start("buildah", "pull", "--quiet", BASE).returncode == 0:
            return
        tree = self._home / "base.tar"
        if not tree.exists():
            made = tree.with_suffix(".part.tar")
            command = ("mmdebstrap", "--quiet", "--variant=minbase", f"--include={_PACKAGES}")
            subprocess.run((*command, "trixie", str(made)), check=True, cwd=self._home)
            made.rename(tree)
        container = self.run("buildah", "from", "scratch")
        self.run("buildah", "add", "--quiet", container, str(tree), "/")
        shell = ("run", "--isolation=chroot", container, "--", "sh", "-ec", _LIKE_THE_OFFICIAL)
        self.run("buildah", *shell)
        path = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
        self.run("buildah", "config", "--env", f"PATH={path}", "--cmd", "python3", container)
        self.run("buildah", "commit", "--quiet", "--rm", container, BASE)

    def build(self, tag: str, extras: str = "") -> None:
        local = ("--isolation=chroot", "--network=host", "--pull=never")
        program, *arguments = build_command(Wanted(tag, BASE, extras))
        verb = arguments.index("build")
        self.run(program, *arguments[: verb + 1], *local, *arguments[verb + 1 :])

    def size_of(self, image: str) -> int:
        """Bytes, those of its base included."""
        return int(self.run("podman", "image", "inspect", "--format", "{{.Size}}", image))


@dataclass(slots=True)
class Container:
    store: Store
    name: str

    def logs(self) -> str:
        told = self.store.start("podman", "logs", self.name)
        return told.stdout + told.stderr

    def is_listening(self) -> bool:
        """AssertionError with what it said if it has ended."""
        state = self.store.run("podman", "inspect", "--format", "{{.State.Status}}", self.name)
        logs = self.logs()
        assert state != "exited", logs
        return re.search(r"^admin port: ", logs, re.MULTILINE) is not None

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        return self.store.start("podman", "exec", self.name, *command)

    def terminate(self) -> None:
        self.store.run("podman", "kill", "--signal", "TERM", self.name)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        return int(self.store.run("podman", "wait", self.name))

    @property
    def pid(self) -> int:
        """As this machine knows it."""
        return int(self.store.run("podman", "inspect", "--format", "{{.State.Pid}}", self.name))


# What a cluster's strictest policy asks for, in the terms of this engine.
CONFINED: Final = ("--read-only", "--read-only-tmpfs=false", "--cap-drop=ALL")
NO_MORE_RIGHTS: Final = "--security-opt=no-new-privileges"


@contextlib.contextmanager
def container(store: Store, image: str, *flags: str) -> Iterator[Container]:
    """A sidecar that is ready, within `CONFINED`; ended on exit."""
    # Health is asked for by those who want to know: without systemd there is no timer for it.
    held = ("--detach", "--network=host", "--no-healthcheck", *CONFINED, NO_MORE_RIGHTS)
    running = Container(store, store.run("podman", "run", *held, *flags, image))
    try:
        wait_for(running.is_listening, "the ports of a container")
        yield running
    finally:
        store.start("podman", "rm", "--force", "--time", "0", running.name)


def _size_of(folder: Path) -> int:
    """Bytes of disk. Links of layers to one another count once."""
    if not folder.exists():
        return 0
    told = subprocess.run(
        ("du", "-s", "--block-size=1", str(folder)), capture_output=True, text=True, check=False
    )
    return int(told.stdout.split()[0])
