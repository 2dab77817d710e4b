"""Steps of docker/Dockerfile: what is locked, then the package, into /opt/chunkside."""

import subprocess
import sys
from pathlib import Path

TARGET = "/opt/chunkside"
BUILDER = "/opt/build"
LOCKS = Path("locks")


def pip(environment: str, *arguments: str) -> None:
    # pip is the base's own: the environments that are made have none.
    command = ("pip", "--python", f"{environment}/bin/python", "install", "--no-compile")
    quiet = ("--disable-pip-version-check", "--root-user-action=ignore", "--quiet")
    kept = ("--cache-dir", "/var/cache/pip")
    subprocess.run((*command, *quiet, *kept, "--no-deps", *arguments), check=True)


def install_locks(names: list[str]) -> None:
    for name in names:
        lock = LOCKS / f"{name}.txt"
        if not lock.is_file():
            known = ", ".join(sorted(each.stem for each in LOCKS.glob("*.txt")))
            sys.exit(f"EXTRAS: there is no lock called {name}, only {known}")
        locked = ("--require-hashes", "--only-binary=:all:", "--requirement", str(lock))
        pip(TARGET, *locked)


def install_package() -> None:
    locked = ("--require-hashes", "--only-binary=:all:", "--requirement", str(LOCKS / "build.txt"))
    pip(BUILDER, *locked)
    build = "from hatchling.build import build_wheel; print(build_wheel('.'))"
    built = subprocess.run(
        (f"{BUILDER}/bin/python", "-c", build), check=True, stdout=subprocess.PIPE, text=True
    )
    pip(TARGET, "--no-index", built.stdout.split()[-1])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["locks", *names]:
            install_locks(names)
        case ["package"]:
            install_package()
        case _:
            sys.exit(__doc__)
