"""`chunkside check --verify`: reads every file of the cache directory, and says which are bad."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

from chunkside.settings.quantities import format_size_rounded as shown_size
from chunkside.store.arrow_file import warm_up
from chunkside.store.verification import BadFile, Extent, Verification
from chunkside.tools.progress import Progress

EXIT_GOOD: Final = 0
EXIT_BAD: Final = 1
EXIT_INTERRUPTED: Final = 130
_REMEDY: Final = (
    "A sidecar finds and removes a bad file when it comes to it; --remove-bad does so now."
)


def verify_cache(directory: Path, *, remove_bad: bool, as_json: bool) -> int:
    """Gives the exit code: 0 where all is good. Lines on stdout, progress on stderr."""
    warm_up()
    verification = Verification(str(directory), remove_bad=remove_bad)
    extent = verification.measure()
    progress = Progress(sys.stderr, extent.size)
    bad: list[BadFile] = []
    try:
        for found in verification.run():
            if found:
                progress.make_way()
            for each in found:
                bad.append(each)
                if not as_json:
                    print(_line(each), flush=True)
            progress.show(verification.read_bytes, _so_far(verification, extent, len(bad)))
    except KeyboardInterrupt:
        progress.make_way()
        print(f"given up: {_so_far(verification, extent, len(bad))}", file=sys.stderr)
        return EXIT_INTERRUPTED
    progress.make_way()
    if as_json:
        print(json.dumps(_members(directory, verification, extent, bad, progress.seconds)))
    else:
        print(_summary(directory, verification, extent, bad, progress.seconds))
    return EXIT_BAD if bad else EXIT_GOOD


def _so_far(verification: Verification, extent: Extent, bad: int) -> str:
    files = f"{verification.files:,}/{extent.files:,} files"
    return f"{files}, {shown_size(verification.read_bytes)}, {bad:,} bad"


def _line(bad: BadFile) -> str:
    # A path may hold what is no text, or would break the line.
    path = bad.path.encode("unicode_escape", "surrogateescape").decode("ascii", "backslashreplace")
    return f"{path}: {bad.reason}{' (removed)' if bad.is_removed else ''}"


def _summary(
    directory: Path,
    verification: Verification,
    extent: Extent,
    bad: list[BadFile],
    seconds: float,
) -> str:
    if not directory.exists():
        return f"{directory} is not there: nothing has been stored in it"
    files = _count(verification.files, "file")
    read = f"{shown_size(verification.read_bytes)} in {seconds:.1f} s"
    verdict = f"{len(bad):,} bad" if bad else "all good"
    lines = [f"{directory}: {files}, {read}: {verdict}"]
    if extent.temp_files:
        lines.append(
            f"{_count(extent.temp_files, 'temp file')}: bodies on their way, or left by a process "
            "that died; the next start removes those"
        )
    if any(not each.is_removed and not each.is_unread for each in bad):
        lines.append(_REMEDY)
    return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _members(
    directory: Path,
    verification: Verification,
    extent: Extent,
    bad: list[BadFile],
    seconds: float,
) -> dict[str, object]:
    return {
        "directory": str(directory),
        "files": verification.files,
        "bytes": verification.read_bytes,
        "temp_files": extent.temp_files,
        "seconds": round(seconds, 3),
        "bad": [asdict(each) for each in bad],
    }
