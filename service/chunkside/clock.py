"""Both clocks of this machine."""

from __future__ import annotations

import sys
import time
from functools import partial

from chunkside.core.entry import Now


class SystemClock:
    def now(self) -> Now:
        return Now(boot_seconds(), time.time())


if sys.platform == "linux":
    boot_seconds = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
else:
    # Nearest to it elsewhere; whether it counts suspends differs.
    boot_seconds = time.monotonic
