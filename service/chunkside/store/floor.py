"""What the volume of the cache directory keeps free, of bytes and of inodes."""

from __future__ import annotations

import math
import os
from typing import Final

_INODE_SHARE: Final = 0.05


class Floor:
    """Measured in the store's threads, asked on the loop. `min_free_bytes` 0 switches both floors
    off; until the first measure there is room.
    """

    def __init__(self, path: str, min_free_bytes: int) -> None:
        self._path = path
        self._min_free_bytes = min_free_bytes
        self._spare_bytes = math.inf
        self._has_inodes = True

    def has_room(self, size: int) -> bool:
        """Whether the floor holds with `size` bytes more."""
        return self._min_free_bytes == 0 or (self._has_inodes and size <= self._spare_bytes)

    def missing_bytes(self, size: int) -> int:
        """How much must go for `size` bytes to have room."""
        if self._min_free_bytes == 0 or self._spare_bytes == math.inf:
            return 0
        return max(0, size - math.floor(self._spare_bytes))

    @property
    def lacks_inodes(self) -> bool:
        return self._min_free_bytes > 0 and not self._has_inodes

    def measure(self) -> None:
        """Blocks for as long as the file system takes. Raises OSError."""
        status = os.statvfs(self._path)
        self._spare_bytes = status.f_bavail * status.f_frsize - self._min_free_bytes
        # Some file systems have no fixed number of inodes, and say 0.
        self._has_inodes = status.f_favail >= _INODE_SHARE * status.f_files
