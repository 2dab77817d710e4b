"""`python -m tests.bench.kills 200 [--seed N]`: that many SIGKILLs of a sidecar while it fills.

Exit code 1 at the first byte, status or file that is wrong; the seed draws the same again.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from tests.support.kills import Report, kill_often


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.kills", description=__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="chunkside-kills-") as place:
        report = kill_often(chosen.kills, Path(place) / "cache", chosen.seed, _every_tenth)
    print(report)
    return 1 if report.wrong else 0


def _every_tenth(report: Report) -> None:
    if report.kills % 10 == 0:
        print(report, flush=True)


if __name__ == "__main__":
    sys.exit(main())
