"""Writes what README shows from real runs: the demo's output and the table of settings.

Nothing else writes there: `tests/docs` holds the table to the settings, and whoever changes the
demo runs `make docs-figures`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from chunkside.settings import settings_table

README = Path(__file__).resolve().parent.parent / "README.md"


def main() -> int:
    demo = subprocess.run(
        [sys.executable, "-m", "chunkside", "demo", "--once", "--port", "0", "--admin-port", "0"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    text = README.read_text(encoding="utf-8")
    text = replaced(text, "demo", f"```text\n{demo}\n```")
    text = replaced(text, "settings", settings_table().strip())
    README.write_text(text, encoding="utf-8")
    return 0


def replaced(text: str, name: str, content: str) -> str:
    """`text` with what stands between the marks of `name` exchanged for `content`."""
    pattern = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"README.md has no marks for {name}")
    return pattern.sub(lambda found: f"{found[1]}{content}\n{found[2]}", text)


if __name__ == "__main__":
    sys.exit(main())
