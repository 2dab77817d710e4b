"""What `auto` comes to: pure rules over the volume's size and the memory limit."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from chunkside.settings.quantities import Percent

MIB: Final = 2**20
GIB: Final = 2**30
MEMORY_WITHOUT_LIMIT: Final = 256 * MIB
UNLIMITED: Final = 2**60
"""cgroup v1 says "no limit" with a number near 2**63."""


def resolve_cache_size(
    setting: int | Percent | Literal["auto"], volume_bytes: int, free_bytes: int
) -> int:
    """Byte budget on disk. What the cache itself already holds counts as free."""
    match setting:
        case Percent():
            return setting.of(volume_bytes)
        case int():
            return setting
        case _:
            tenth = min(max(volume_bytes // 10, GIB), 50 * GIB)
            return min(tenth, free_bytes // 2)


def resolve_memory_size(setting: int | Literal["auto"], limit_bytes: int | None) -> int:
    """Byte budget in memory; `limit_bytes` as `memory_limit` found it."""
    if setting != "auto":
        return setting
    return MEMORY_WITHOUT_LIMIT if limit_bytes is None else limit_bytes // 4


def resolve_max_body(setting: int | Literal["auto"], budget_bytes: int) -> int:
    """Largest body that is stored, out of the byte budget that holds."""
    if setting != "auto":
        return setting
    return min(budget_bytes // 8, 2 * GIB)


def resolve_marker_reserve(setting: int | Literal["auto"], budget_bytes: int) -> int:
    """Bytes of the budget that bodies don't use."""
    if setting != "auto":
        return min(setting, budget_bytes)
    return min(budget_bytes // 20, 64 * MIB)


def resolve_negative_scope(
    setting: Literal["auto", "get", "all"], *, allow_writes: bool
) -> Literal["get", "all"]:
    """A writer may ask by HEAD before it writes, and must not be answered from memory."""
    if setting == "auto":
        return "get" if allow_writes else "all"
    return setting


def resolve_min_free(setting: int | Percent | Literal["auto"], volume_bytes: int) -> int:
    """Free bytes that the volume keeps; 0 is no floor."""
    match setting:
        case Percent():
            return setting.of(volume_bytes)
        case int():
            return setting
        case _:
            return min(10 * GIB, volume_bytes // 10)


def memory_limit(root: Path = Path("/")) -> int | None:
    """The tightest memory limit of this process's cgroup and those above it, v1 or v2."""
    limits = [
        limit
        for directory, file in _limit_files(root)
        if (limit := _read_limit(directory / file)) is not None
    ]
    return min(limits, default=None)


def _limit_files(root: Path) -> list[tuple[Path, str]]:
    mounts = root / "sys/fs/cgroup"
    found: list[tuple[Path, str]] = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers == "":
            found += [(above, "memory.max") for above in _upwards(mounts, group)]
        elif "memory" in controllers.split(","):
            above_v1 = _upwards(mounts / "memory", group)
            found += [(above, "memory.limit_in_bytes") for above in above_v1]
    return found


def _upwards(mount: Path, group: str) -> list[Path]:
    """The group's directory and those above it to the mount.

    A container that sees the host's group names has only the mount itself, which is its own.
    """
    names = [name for name in group.split("/") if name not in ("", "..")]
    return [mount.joinpath(*names[:depth]) for depth in range(len(names), -1, -1)]


def _read_limit(path: Path) -> int | None:
    text = _read(path).strip()
    if not text.isdecimal() or int(text) >= UNLIMITED:
        return None
    return int(text)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
