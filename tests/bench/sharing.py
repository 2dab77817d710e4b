"""`python -m tests.bench.sharing 10000 [--seed N] [--runs 3]`: so many operations through three
sidecars on one cache directory.

Exit code 1 at the first run in which an answer is older than a write that had been answered, a byte
is wrong, the budget is exceeded at a look, or a sweep runs beside another. The seed draws the same
operations again; how they meet is up to the machine.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from pathlib import Path

from tests.support.sharing import share


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sharing", description=__doc__)
    parser.add_argument("operations", type=int, nargs="?", default=10_000)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--runs", type=int, default=3, help="with the seeds that follow")
    chosen = parser.parse_args()
    for seed in range(chosen.seed, chosen.seed + chosen.runs):
        started = time.monotonic()
        with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="chunkside-sharing-") as place:
            report = share(chosen.operations, Path(place) / "cache", seed)
        print(f"{report}, {time.monotonic() - started:.0f} s", flush=True)
        if report.wrong:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
