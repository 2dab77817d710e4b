"""Credentials that lie unused while a store refuses requests that bear none: told once for each
route, by the names of where they lie. Nothing of them is read.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Lair:
    """Where a cloud's credentials are found: `variables` of the environment and `files` in the home
    directory. `auth`: its name in `upstream_auth`, and of the extra that brings its own library,
    `module`.
    """

    auth: str
    module: str
    variables: tuple[str, ...]
    files: tuple[str, ...]


CREDENTIALS: Final = {
    "s3": Lair(
        auth="aws",
        module="botocore",
        variables=(
            "AWS_ACCESS_KEY_ID",
            "AWS_PROFILE",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "AWS_SHARED_CREDENTIALS_FILE",
        ),
        files=(".aws/credentials",),
    ),
    "gs": Lair(
        auth="gcp",
        module="google.auth",
        variables=("GOOGLE_APPLICATION_CREDENTIALS",),
        files=(".config/gcloud/application_default_credentials.json",),
    ),
    "az": Lair(
        auth="azure",
        module="azure.identity",
        variables=(
            "AZURE_STORAGE_CONNECTION_STRING",
            "AZURE_STORAGE_KEY",
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_SAS_TOKEN",
            "AZURE_CLIENT_ID",
            "AZURE_FEDERATED_TOKEN_FILE",
        ),
        files=(),
    ),
}
"""By the scheme of the upstreams."""


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


def find_unused(lair: Lair, route: str, *, is_off: bool) -> Unused | None:
    """None where nothing lies there. `is_off`: `upstream_auth` is `none`."""
    lying = _lying(lair, os.environ)  # environment: as the cloud's own chain does
    if not lying:
        return None
    if is_off:
        remedy = f"set upstream_auth to auto or {lair.auth}"
    elif not _is_installed(lair.module):
        remedy = f"pip install 'chunkside[{lair.auth}]', and restart"
    else:
        remedy = "it was of no use at the start; put it right, and restart"
    return Unused(route, lying, remedy)


def _is_installed(module: str) -> bool:
    return find_spec(module.partition(".")[0]) is not None and find_spec(module) is not None


def _lying(lair: Lair, environment: Mapping[str, str]) -> tuple[str, ...]:
    named = [name for name in lair.variables if environment.get(name)]
    home = environment.get("HOME")
    files = () if not home else (file for file in lair.files if _is_file(Path(home) / file))
    return (*named, *(f"~/{file}" for file in files))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        # What can't be looked at is of no use to us either.
        return False
