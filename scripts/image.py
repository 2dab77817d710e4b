"""Builds the container image with what is here: buildah, podman or docker; or says what is missing.

`make image` calls it, and the tests of the image build theirs by the same command.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = "docker/Dockerfile"
ENGINES = ("buildah", "podman", "docker")
# Where a proxy signs TLS anew, this machine knows its authority and the base image does not.
CERTIFICATES = Path("/etc/ssl/certs")
SAYS_SO = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")


@dataclass(frozen=True, slots=True)
class Wanted:
    """`base`: None is the Dockerfile's own. `extras`: names of locks/ beside `run`."""

    tag: str
    base: str | None = None
    extras: str = ""


def version() -> str:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    told = pyproject["project"]["version"]
    assert isinstance(told, str)
    return told


def revision() -> str:
    """The commit that is checked out; `unknown` where this is no clone."""
    command = ("git", "-C", str(ROOT), "rev-parse", "HEAD")
    try:
        told = subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return told.stdout.strip()


def build_command(
    wanted: Wanted, engine: str = "buildah", flags: Iterable[str] = ()
) -> tuple[str, ...]:
    """The command for ROOT. `flags` are the engine's own, before its verb."""
    arguments = {"VERSION": version(), "REVISION": revision(), "EXTRAS": wanted.extras}
    if wanted.base is not None:
        arguments["BASE_IMAGE"] = wanted.base
    told = [part for item in arguments.items() for part in ("--build-arg", "=".join(item))]
    if engine == "docker":
        return (engine, *flags, "build", "-f", DOCKERFILE, "-t", wanted.tag, *told, ".")
    if any(name in os.environ for name in SAYS_SO) and CERTIFICATES.is_dir():
        told += ("--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro")
    # Else what HEALTHCHECK says is lost: the other format has no place for it.
    shape = ("--format", "docker", "--layers", "-f", DOCKERFILE, "-t", wanted.tag)
    return (engine, *flags, "build", *shape, *told, ".")


def find_engine() -> str | None:
    """The first that is here; docker only where its daemon answers."""
    for name in ENGINES:
        if shutil.which(name) is None:
            continue
        if name != "docker" or is_answering(name):
            return name
    return None


def is_answering(program: str) -> bool:
    return subprocess.run((program, "info"), check=False, capture_output=True).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", default=f"chunkside:{version()}")
    parser.add_argument("--base", help="base image, as TAG or TAG@sha256:DIGEST")
    parser.add_argument("--extras", default="", help="locks to install too, such as demo")
    parser.add_argument("flags", nargs="*", help="flags of the engine, after --")
    chosen = parser.parse_args()
    engine = find_engine()
    if engine is None:
        print(
            "An image is built by buildah, podman or docker (with its daemon), and none is here. "
            "On Debian and Ubuntu: make ship-servers",
            file=sys.stderr,
        )
        return 2
    command = build_command(Wanted(chosen.tag, chosen.base, chosen.extras), engine, chosen.flags)
    print(" ".join(command), file=sys.stderr)
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
