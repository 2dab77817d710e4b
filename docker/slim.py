"""Leaves out of the environment it runs in what a sidecar never loads, and compiles the rest.

Of pyarrow, most of what its wheel brings is for other formats, other file systems and for those
who build upon it. What to keep is not listed but seen: of its shared libraries those stay that a
process has loaded which imported all that a sidecar does. The linker has some of them load others
of which they use no symbol; these links are cut first. Modules in Python stay, but those that need
a library which is gone can't be imported. It needs binutils and patchelf.
"""

import compileall
import importlib
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

SITE = Path(sysconfig.get_path("purelib"))
PYARROW = SITE / "pyarrow"
NEVER_LOADED = ("*.pyx", "*.pxd", "*.pxi", "*.c", "*.h", "*.hpp", "*.cc", "*.a")
LOADED = "loaded"
GIVE_CREDENTIALS = ("signin", "sso", "sso-oidc", "sts")


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def loaded_libraries() -> set[Path]:
    """Files that a process has mapped to run code from which used all that a sidecar uses."""
    return {Path(line) for line in output_of(sys.executable, __file__, LOADED).splitlines()}


def tell_loaded() -> None:
    for module in ("chunkside.app", "chunkside.cli", "uvloop"):
        importlib.import_module(module)
    importlib.import_module("chunkside.store.arrow_file").warm_up()
    executable = re.compile(r"\S+ r-xp \S+ \S+ \S+ +(/.*)")
    for line in Path("/proc/self/maps").read_text().splitlines():
        if found := executable.match(line):
            print(found[1])


def symbols(library: Path, *which: str) -> set[str]:
    lines = output_of("nm", "--dynamic", *which, str(library)).splitlines()
    return {line.split()[-1].partition("@")[0] for line in lines if line.split()}


def cut_unused_links(libraries: Iterable[Path]) -> None:
    for library in libraries:
        wanted = symbols(library, "--undefined-only")
        for name in output_of("patchelf", "--print-needed", str(library)).split():
            other = PYARROW / name
            if other.exists() and not wanted & symbols(other, "--defined-only"):
                subprocess.run(("patchelf", "--remove-needed", name, str(library)), check=True)


def slim_pyarrow() -> None:
    cut_unused_links(path for path in loaded_libraries() if path.parent == PYARROW)
    loaded = loaded_libraries()
    for library in set(PYARROW.glob("*.so*")) - loaded:
        library.unlink()
    for name in ("tests", "include", "src", "includes"):
        shutil.rmtree(PYARROW / name, ignore_errors=True)


def slim_botocore() -> None:
    """Where it is there: of what it knows of AWS's services all but those that give credentials."""
    for service in (SITE / "botocore/data").glob("*/"):
        if service.name not in GIVE_CREDENTIALS:
            shutil.rmtree(service)


def main() -> None:
    slim_pyarrow()
    slim_botocore()
    for pattern in NEVER_LOADED:
        for path in list(SITE.rglob(pattern)):
            path.unlink()
    libraries = [str(path) for path in SITE.rglob("*.so*") if not path.is_symlink()]
    subprocess.run(("strip", "--strip-unneeded", *libraries), check=True)
    # By content, unchecked: nobody can change a module in a running image.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    is_compiled = compileall.compile_dir(SITE, quiet=1, workers=0, invalidation_mode=mode)
    # Python has the linker resolve every symbol at once: what is missing would be told now.
    loaded_libraries()
    sys.exit(not is_compiled)


if __name__ == "__main__":
    tell_loaded() if sys.argv[1:] == [LOADED] else main()
