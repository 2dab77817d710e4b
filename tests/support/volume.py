"""A file system of its own for a test: small enough to be full, and free to be made read-only."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_volume(mount_point: Path, *, inodes: int) -> Iterator[Path]:
    """A tmpfs that holds as many files, its own root among them; skips where root may not mount."""
    mount_point.mkdir()
    options = f"size=1m,nr_inodes={inodes},mode=0700"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(mount_point)]
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"can't mount: {mounted.stderr.strip()}")
    try:
        yield mount_point
    finally:
        subprocess.run(["umount", str(mount_point)], check=True)
