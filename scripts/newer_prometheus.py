"""Gets a Prometheus that knows Kubernetes, which that of Debian 12 does not: Debian 13's, by apt.

It is unpacked into .tools and not installed; in .tools/bin it is called `kubernetes-prometheus`.
Without apt it says so, and gets nothing.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

TOOLS: Final = Path(__file__).resolve().parent.parent / ".tools"
SUITE: Final = "trixie"
KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"


def main() -> int:
    target = TOOLS / "prometheus"
    if target.is_dir():
        return 0
    if not all(map(shutil.which, ("apt-get", "dpkg"))) or not Path(KEYRING).exists():
        print(
            "A Prometheus that knows Kubernetes needs Debian's apt-get: left out", file=sys.stderr
        )
        return 0
    mirror = debian_mirror()
    if mirror is None:
        print("apt knows no mirror of Debian: no newer Prometheus", file=sys.stderr)
        return 0
    TOOLS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        download(work, mirror)
        [package] = work.glob("prometheus_*.deb")
        half = TOOLS / "prometheus.half"
        shutil.rmtree(half, ignore_errors=True)
        subprocess.run(["dpkg", "-x", str(package), str(half)], check=True)
        half.rename(target)
    (TOOLS / "bin").mkdir(exist_ok=True)
    (TOOLS / "bin" / "kubernetes-prometheus").symlink_to(target / "usr" / "bin" / "prometheus")
    return 0


def debian_mirror() -> str | None:
    """Where this machine gets Debian itself from."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = (line.split(maxsplit=1) for line in listed.splitlines())
    mirrors = (uri for origin, uri in found if origin == "Debian" and "security" not in uri)
    return next(mirrors, None)


def download(work: Path, mirror: str) -> None:
    sources = work / "sources.list"
    sources.write_text(f"deb [signed-by={KEYRING}] {mirror} {SUITE} main\n")
    (work / "lists" / "partial").mkdir(parents=True)
    (work / "cache").mkdir()
    apt = [
        *("apt-get", "-qq", "-o", f"Dir::Etc::sourcelist={sources}"),
        *("-o", "Dir::Etc::sourceparts=/dev/null", "-o", f"Dir::State::lists={work / 'lists'}"),
        *("-o", f"Dir::Cache={work / 'cache'}", "-o", "APT::Sandbox::User=root"),
        *("-o", "Acquire::Languages=none"),
    ]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "download", "prometheus"], check=True, cwd=work)


if __name__ == "__main__":
    sys.exit(main())
