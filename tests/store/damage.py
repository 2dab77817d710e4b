"""What may have happened to a file in the cache directory."""

import os
from collections.abc import Callable
from pathlib import Path


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_the_end(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at, os.SEEK_SET if at >= 0 else os.SEEK_END)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def fill_with_zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def replace_by_symlink(path: Path) -> None:
    target = path.with_name("elsewhere")
    path.rename(target)
    path.symlink_to(target)


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_empty(path: Path) -> None:
    path.write_bytes(b"")


DAMAGE: dict[str, Callable[[Path], None]] = {
    "truncated": truncate,
    "its end cut": cut_the_end,
    "a flipped bit in the prefix": lambda path: flip(path, 900),
    "a flipped bit in the body": lambda path: flip(path, 5000),
    "a flipped bit in the suffix": lambda path: flip(path, -10),
    "all zeros": fill_with_zeros,
    "empty": make_empty,
    "a symlink": replace_by_symlink,
    "a pipe": replace_by_pipe,
    "a foreign owner": lambda path: os.chown(path, 12345, 12345),
}
