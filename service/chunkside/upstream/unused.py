"""Credentials that lie unused while a store refuses requests that bear none: told once for each
route, by the names of where they lie. Nothing of them is read.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from chunkside.upstream.clouds import Cloud

log = logging.getLogger(__name__)


class Unused:
    """Of one route. `lying`: where credentials lie."""

    def __init__(self, route: str, lying: tuple[str, ...], remedy: str) -> None:
        self._route = route
        self._lying = lying
        self._remedy = remedy
        self._is_told = False

    def refused(self) -> None:
        """A request without a credential was."""
        if not self._is_told:
            log.warning(
                "route %s: the store refuses requests without a credential, and there is one that "
                "isn't used (%s): %s",
                self._route,
                ", ".join(self._lying),
                self._remedy,
            )
        self._is_told = True


def find_unused(cloud: Cloud, route: str, *, is_off: bool) -> Unused | None:
    """None where nothing lies there. `is_off`: `upstream_auth` is `none`."""
    lying = _lying(cloud, os.environ)  # environment: as the cloud's own chain does
    if not lying:
        return None
    if is_off:
        remedy = f"set upstream_auth to auto or {cloud.auth}"
    elif not cloud.is_installed:
        remedy = f"pip install 'chunkside[{cloud.auth}]', and restart"
    else:
        remedy = "it was of no use at the start; put it right, and restart"
    return Unused(route, lying, remedy)


def _lying(cloud: Cloud, environment: Mapping[str, str]) -> tuple[str, ...]:
    named = [name for name in cloud.variables if environment.get(name)]
    home = environment.get("HOME")
    files = () if not home else (file for file in cloud.files if _is_file(Path(home) / file))
    return (*named, *(f"~/{file}" for file in files))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        # What can't be looked at is of no use to us either.
        return False
