"""What all files beneath a directory take on disk, looked at again and again while others write."""

from __future__ import annotations

import os
import re
from pathlib import Path

BLOCK_BYTES = 512
_KEY = re.compile(r"[0-9a-f]{64}")


def _files(root: Path) -> dict[tuple[int, str], int]:
    """Bytes of each file, temporary ones included, by inode and key: an inode is soon another
    key's.
    """
    found: dict[tuple[int, str], int] = {}
    for directory, _, names in os.walk(root):
        for name in names:
            try:
                status = os.lstat(os.path.join(directory, name))
            except FileNotFoundError:
                continue
            key = _KEY.search(name)
            found[status.st_ino, key[0] if key else name] = status.st_blocks * BLOCK_BYTES
    return found


def least_usage(root: Path) -> int:
    """What files surely took at one moment: those that two looks found, before it and after it.

    One look takes a while, and would count a file that went beside one that came for it.
    """
    before = _files(root)
    after = _files(root)
    return sum(min(size, after[name]) for name, size in before.items() if name in after)


class UsageWatch:
    """What was seen so far."""

    def __init__(self, root: Path) -> None:
        self.looks = 0
        self.most_bytes = 0
        self._root = root

    def look(self) -> None:
        self.most_bytes = max(self.most_bytes, least_usage(self._root))
        self.looks += 1
