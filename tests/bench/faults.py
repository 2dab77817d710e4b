"""`make faults`: the fault matrix with many keys, and the table of docs/faults.md."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from pathlib import Path

from tests.support.fault_matrix import cells, run, table

DOCS = Path(__file__).resolve().parents[2] / "docs/faults.md"
KEYS = 20


def main(keys: int) -> int:
    chosen = list(cells())
    with tempfile.TemporaryDirectory(prefix="chunkside-faults-") as scratch:
        asyncio.run(run(chosen, keys, Path(scratch)))
    made = table(chosen)
    print(made)
    text = DOCS.read_text(encoding="utf-8")
    pattern = re.compile(r"(<!-- table: [^>]*-->\n).*?(<!-- /table -->)", re.DOTALL)
    DOCS.write_text(pattern.sub(lambda found: f"{found[1]}{made}\n{found[2]}", text), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else KEYS))
