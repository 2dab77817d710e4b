"""Pages of the admin port whose path ends in a data port's target, to the byte."""

from __future__ import annotations

from chunkside.core.key import origin_target


def target_behind(page: str, raw_path: str) -> bytes:
    """The target, query and all, so that it means there what it means on the data port. Raises
    ValueError with a sentence on what is wrong.
    """
    target = origin_target(raw_path.encode("utf-8", "surrogateescape"))
    rest = target.removeprefix(page.encode())
    if rest == target or not rest.startswith(b"/"):
        raise ValueError(f"{page} must be spelled so.")
    return rest
