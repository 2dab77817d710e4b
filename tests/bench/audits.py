"""`python -m tests.bench.audits 10000 [--seed N]`: so many audited reads of objects that are
written all the while, through the sidecar and at the origin.

Exit code 1 where any of them is called wrong. The seed draws the same reads and writes again; how
they meet is up to the machine.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from pathlib import Path

from tests.support.audit_storm import storm


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.audits", description=__doc__)
    parser.add_argument("audits", type=int, nargs="?", default=10_000)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--seconds", type=float, default=300.0, help="at most")
    chosen = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="chunkside-audits-") as place:
        report = storm(chosen.audits, Path(place) / "cache", chosen.seed, chosen.seconds)
    print(f"seed {chosen.seed}: {report}, {time.monotonic() - started:.0f} s", flush=True)
    return int(report.verdicts["wrong"] > 0 or report.audits < chosen.audits)


if __name__ == "__main__":
    sys.exit(main())
