"""Which cache directory the settings and the environment mean, and what came of asking."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, assert_never

from chunkside.settings.errors import ConfigurationError
from chunkside.settings.model import Settings
from chunkside.settings.quantities import Percent
from chunkside.store.filesystem import (
    UNKNOWN_TYPE,
    Candidate,
    Chosen,
    MemoryOnly,
    Unfit,
    UnfitCacheDirectoryError,
    choose_cache_directory,
    prepare_cache_directory,
)

ALLOWED = "a directory of your own on a local disk"
# Values of `cache_size`.
MEMORY_IS_MEANT: Final = (0, Percent(0.0))


def locate_cache(
    settings: Settings, environment: Mapping[str, str] | None = None
) -> Chosen | MemoryOnly:
    """The directory to use, not yet made; raises `ConfigurationError` where `cache_dir` is unfit.

    `environment` is the process's own where left out.
    """
    if settings.cache_size in MEMORY_IS_MEANT:
        return MemoryOnly("cache_size is 0")
    environment = os.environ if environment is None else environment
    choice = choose_cache_directory(
        settings.cache_dir,
        default_candidates(environment, os.geteuid()),
        uid=os.geteuid(),
        allow_memory=settings.allow_memory_filesystem,
    )
    match choice:
        case Chosen() if choice.filesystem.fstype == UNKNOWN_TYPE:
            warning = (
                f"this system doesn't tell what {choice.directory} is on; make sure that it is a "
                "local disk, and neither a network's nor memory"
            )
            return replace(choice, warnings=(*choice.warnings, warning))
        case Chosen() | MemoryOnly():
            return choice
        case Unfit():
            raise _refusal(settings, choice)
        case _:
            assert_never(choice)


def open_cache(
    settings: Settings, environment: Mapping[str, str] | None = None
) -> Chosen | MemoryOnly:
    """As `locate_cache`, and made: owner-only, and marked as ours.

    Where a default directory can't be made after all, memory is used, with a warning.
    """
    choice = locate_cache(settings, environment)
    if isinstance(choice, MemoryOnly):
        return choice
    try:
        prepare_cache_directory(choice.directory, uid=os.geteuid())
    except UnfitCacheDirectoryError as error:
        if settings.cache_dir is not None:
            raise _refusal(settings, error.unfit) from error
        return MemoryOnly("the default cache directory could not be made", (str(error),))
    return choice


def default_candidates(environment: Mapping[str, str], uid: int) -> tuple[Candidate, ...]:
    """Where a cache goes that was given no place, best first; relative values are ignored."""
    candidates: list[Candidate] = []
    if xdg := _absolute(environment, "XDG_CACHE_HOME"):
        candidates.append(Candidate(xdg / "chunkside", "XDG_CACHE_HOME is set"))
    elif home := _absolute(environment, "HOME"):
        candidates.append(
            Candidate(home / ".cache" / "chunkside", "it is the user's cache directory")
        )
    if temporary := _absolute(environment, "TMPDIR"):
        candidates.append(Candidate(temporary / f"chunkside-{uid}", "TMPDIR is set"))
    lasting = Path("/var/tmp") / f"chunkside-{uid}"  # noqa: S108 - owner and mode are checked
    candidates.append(Candidate(lasting, "it is what is left"))
    return tuple(candidates)


def _absolute(environment: Mapping[str, str], name: str) -> Path | None:
    value = environment.get(name, "")
    return Path(value) if value.startswith("/") else None


def _refusal(settings: Settings, unfit: Unfit) -> ConfigurationError:
    # A private child is judged in place of the root that was named.
    named = str(settings.cache_dir)
    reason = unfit.reason if str(unfit.path) == named else f"{unfit.path} {unfit.reason}"
    return ConfigurationError("cache_dir", named, ALLOWED, unfit.remedy, reason=reason)
