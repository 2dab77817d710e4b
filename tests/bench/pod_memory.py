"""Does it stay within a pod's memory limit? Many bodies read twice, and millions of absent keys.

`make pod-memory`. Tells how it stands on stdout; ends with 1 and a sentence where it doesn't hold.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from tests.support.pod_memory import MIB, Load, OverTheBound, Stage, run


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.pod_memory",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--bodies", type=int, default=4096, help="MiB that are read twice")
    parser.add_argument("--keys", type=int, default=2_000_000, help="absent keys of 200 bytes")
    parser.add_argument("--limit", type=int, default=256, help="MiB")
    parser.add_argument("--bound", type=int, default=192, help="MiB of anonymous memory")
    return parser.parse_args()


def main() -> int:
    chosen, started = options(), time.monotonic()

    def tell(stage: Stage) -> None:
        line = (
            f"{time.monotonic() - started:5.0f} s  {stage.name:24}"
            f"RssAnon {stage.anonymous / MIB:4.0f}  RssFile {stage.file / MIB:4.0f} MiB"
        )
        if stage.charged is not None:
            charged = stage.charged
            line += (
                f"   cgroup: anonymous {charged.anonymous / MIB:4.0f}  files "
                f"{charged.files / MIB:4.0f}  most at once {charged.most / MIB:4.0f} MiB"
            )
        print(line, flush=True)

    load = Load(
        bodies=chosen.bodies * MIB,
        keys=chosen.keys,
        limit=chosen.limit * MIB,
        bound=chosen.bound * MIB,
    )
    try:
        with (
            tempfile.TemporaryDirectory(prefix="chunkside-pod-") as home,
            asyncio.Runner(loop_factory=uvloop.Loop) as runner,
        ):
            runner.run(run(load, Path(home) / "cache", tell))
    except OverTheBound as over:
        print(f"pod-memory: {over}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
