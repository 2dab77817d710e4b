"""A file system of its own for a test: small enough to be full, and free to be made read-only."""

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest


@contextmanager
def small_volume(mount_point: Path, *, inodes: int) -> Iterator[Path]:
    """A tmpfs that holds as many files, its own root among them; skips where root may not mount."""
    mount_point.mkdir()
    options = f"size=1m,nr_inodes={inodes},mode=0700"
    _mount("-t", "tmpfs", "-o", options, "tmpfs", str(mount_point))
    try:
        yield mount_point
    finally:
        subprocess.run(["umount", str(mount_point)], check=True)


@contextmanager
def mounted_over(directory: Path) -> Iterator[None]:
    """Hides a directory beneath an empty tmpfs; skips where root may not mount."""
    _mount("-t", "tmpfs", "tmpfs", str(directory))
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


_EXT4_IOC_SHUTDOWN = 0x8004587D


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """`path`: where it is mounted."""

    path: Path
    image: Path

    @property
    def free_bytes(self) -> int:
        status = os.statvfs(self.path)
        return status.f_bavail * status.f_frsize

    def used_bytes(self) -> int:
        """Of files alone, in blocks; directories apart."""
        return sum(each.lstat().st_blocks * 512 for each in self.path.rglob("*") if each.is_file())

    def fill(self) -> Path:
        """A file that takes all that is left; unlink it to make room again."""
        filler = self.path / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        return filler

    def lose(self) -> None:
        """The device is gone: whatever is asked of it ends with EIO."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _EXT4_IOC_SHUTDOWN, struct.pack("I", 2))
        finally:
            os.close(descriptor)

    def replace(self) -> None:
        """Another device is put in its place, with nothing on it."""
        _run("umount", "--lazy", str(self.path))
        _make(self.image.with_suffix(".new"), self.image.stat().st_size, ())
        _mount("-o", "loop", str(self.image.with_suffix(".new")), str(self.path))


@contextmanager
def small_disk(directory: Path, size_mib: int, *, inodes: int | None = None) -> Iterator[SmallDisk]:
    """An ext4 in a file of `directory`; skips where root may not mount."""
    image, mounted = directory / "image", directory / "disk"
    _make(image, size_mib << 20, ("-N", str(inodes)) if inodes is not None else ())
    mounted.mkdir()
    _mount("-o", "loop", str(image), str(mounted))
    try:
        (mounted / "lost+found").rmdir()
        yield SmallDisk(mounted, image)
    finally:
        # Lazily: a process that was killed may let go of its files a moment later.
        _run("umount", "--lazy", str(mounted))


def _make(image: Path, size: int, flags: tuple[str, ...]) -> None:
    with image.open("wb") as file:
        file.truncate(size)
    _run("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", *flags, str(image))


def _mount(*arguments: str) -> None:
    mounted = subprocess.run(["mount", *arguments], check=False, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"can't mount: {mounted.stderr.strip()}")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
