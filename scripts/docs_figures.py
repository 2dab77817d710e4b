"""Writes what README and docs show of the code itself: the demo's output, from a real run, and the
tables of settings and metrics. `--tables` writes the tables alone.

Nothing else writes there: `tests/docs` holds the tables to the settings, and whoever changes the
demo runs `make docs-figures`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from chunkside.settings import settings_reference, settings_table
from scripts.metrics_reference import metrics_table

ROOT: Final = Path(__file__).resolve().parent.parent
README: Final = ROOT / "README.md"
SETTINGS: Final = ROOT / "docs/settings.md"
METRICS: Final = ROOT / "docs/metrics.md"
# Those that most people need; docs/settings.md has all.
IN_README: Final = (
    *("upstream", "routes", "listen", "admin_listen", "cache_dir", "cache_size", "profile", "ttl"),
    *("negative_ttl", "metadata_ttl", "negative_scope", "client_credentials", "allow_writes"),
    "cors_origins",
)


def main() -> int:
    write(README, "settings", settings_table(IN_README))
    write(SETTINGS, "settings", settings_reference())
    write(METRICS, "metrics", metrics_table())
    if "--tables" not in sys.argv[1:]:
        write(README, "demo", f"```text\n{demo()}\n```")
    return 0


def demo() -> str:
    return subprocess.run(
        [sys.executable, "-m", "chunkside", "demo", "--once", "--port", "0", "--admin-port", "0"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def write(page: Path, name: str, content: str) -> None:
    """Exchanges what stands between the marks of `name` for `content`."""
    text = page.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"{page.name} has no marks for {name}")
    changed = pattern.sub(lambda found: f"{found[1]}{content.strip()}\n{found[2]}", text)
    page.write_text(changed, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
