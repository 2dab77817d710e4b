"""Writes what README and docs/ show from the code and from real runs: the tables of settings and of
metrics, and the demo's output (`--tables` leaves that out, which has other times in each run).

Nothing else writes there: `tests/docs` holds the tables to the code, and whoever changes the demo
runs `make docs-figures`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from chunkside.settings import settings_table
from scripts.metrics_reference import metrics_table

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
METRICS = ROOT / "docs" / "metrics.md"
_ANY_PORTS = ("--port", "0", "--admin-port", "0")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", action="store_true", help="only what is made of the code")
    if not parser.parse_args().tables:
        demo = subprocess.run(
            [
                sys.executable,
                "-m",
                "chunkside",
                "demo",
                "--once",
                "--port",
                "0",
                "--admin-port",
                "0",
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        write(README, "demo", f"```text\n{demo}\n```")
    write(README, "settings", settings_table())
    write(METRICS, "metrics", metrics_table())
    return 0


def write(page: Path, name: str, content: str) -> None:
    """Exchanges what stands between the marks of `name`."""
    text = page.read_text(encoding="utf-8")
    page.write_text(replaced(text, name, content.strip()), encoding="utf-8")


def replaced(text: str, name: str, content: str) -> str:
    """`text` with what stands between the marks of `name` exchanged for `content`."""
    pattern = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"no marks for {name}")
    return pattern.sub(lambda found: f"{found[1]}{content}\n{found[2]}", text)


if __name__ == "__main__":
    sys.exit(main())
