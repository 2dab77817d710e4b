"""What README and docs say to type works: curl at a real sidecar, `serve` as `check`."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

from tests.arrays.samples import zarr3
from tests.e2e.conftest import ANY_DISK
from tests.support.http_client import exchange
from tests.support.origin import Origin
from tests.support.sidecar import Sidecar, run_command

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ROUTE = "/era5"
VALUES = np.arange(16).reshape(4, 4)


def commands(program: str) -> list[str]:
    """Lines of shell that begin with it, each once; what is continued is put together."""
    found: dict[str, None] = {}
    for page in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            lines = block.replace("\\\n", " ").splitlines()
            found |= dict.fromkeys(line for line in lines if line.startswith(f"{program} "))
    return list(found)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    """Of several routes, so that one can be named; all of them lead to one origin."""
    with Origin() as origin:
        origin.put("/x.zarr/zarr.json", zarr3((2, 8, 8, 8), (1, 4, 4, 4)))
        origin.put("/x.zarr/c/0/0", bytes(1000))
        routes = f'{{"/": "{origin.url}", "{ROUTE}": "{origin.url}/era5"}}'
        cache_dir = tmp_path_factory.mktemp("documented") / "cache"
        with Sidecar(None, cache_dir, (*ANY_DISK, "--routes", routes)) as sidecar:
            yield sidecar


@pytest.mark.client("curl")
@pytest.mark.parametrize("command", commands("curl"))
def test_each_curl_command_gets_an_answer(running: Sidecar, command: str, tmp_path: Path) -> None:
    command = command.replace("http://localhost:8100", running.url)
    command = command.replace("http://localhost:8101", running.admin_url)
    assert "localhost" not in command
    # /file is of what is stored.
    subprocess.run(["curl", "-s", f"{running.url}/x.zarr/c/0/0", "-o", os.devnull], check=True)
    running.wait_idle()
    told = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command.replace("curl ", "curl --fail-with-body ", 1)],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.parametrize("command", commands("chunkside"))
def test_each_chunkside_command_is_one_that_it_takes(command: str, tmp_path: Path) -> None:
    """`serve` is tried as `check`, which takes the same settings and ends. Of what asks an origin,
    a sidecar or a disk only the command is looked for: they have tests of their own.
    """
    words = shlex.split(command, comments=True)[1:]
    if words[0] in ("serve", "check") and not {"--verify", "--probe"} & set(words):
        token = tmp_path / "token"
        token.write_text("secret")
        config = tmp_path / "config.yaml"
        config.write_text("upstream: http://localhost:9000/bucket\n")
        places = {"/run/secrets/token": str(token), "/etc/chunkside.yaml": str(config)}
        words = ["check", *(places.get(word, word) for word in words[1:])]
        env = {"HOME": str(tmp_path), "CHUNKSIDE_CACHE_SIZE": "0"}
        if words == ["check"]:
            # Where a sidecar runs its environment says the rest.
            env["CHUNKSIDE_UPSTREAM"] = "http://localhost:9000/bucket"
        told = run_command(*words, env=env)
    else:
        told = run_command(words[0], "--help")
    assert told.returncode == 0, told.stdout + told.stderr


def test_what_is_said_of_disk_is_what_it_takes(own_sidecar: Sidecar, own_origin: Origin) -> None:
    page = " ".join((ROOT / "docs/operations.md").read_text(encoding="utf-8").split())
    charged = []
    for length in (64 * 1024, 1_000_000):
        before = own_sidecar.metric('chunkside_stored_bytes{kind="body"}')
        own_origin.put(f"/a/{length}", bytes(length))
        exchange(own_sidecar.url, f"/a/{length}")
        own_sidecar.wait_idle()
        charged.append(int(own_sidecar.metric('chunkside_stored_bytes{kind="body"}') - before))
    assert f"a chunk of 64 KiB costs {charged[0] // 1024} KiB" in page
    assert f"one of 1 MB costs {charged[1]:,} bytes" in page


READ = """
import sys
import {modules}

for code in sys.argv[1:]:
    opened = eval(code)
    array = opened.result() if hasattr(opened, "result") else opened
    if isinstance(array, xarray.Dataset):
        array = array["t"]
    print(*array.shape, array[1, 1].read().result() if hasattr(array, "read") else int(array[1, 1]))
"""


@pytest.mark.client("tensorstore", "xarray", "obstore")
def test_each_way_to_open_an_array_that_readme_shows_opens_it(
    shared_origin: Origin, cache_dir: Path, tmp_path: Path, python_with
) -> None:
    array, group = tmp_path / "x.zarr", tmp_path / "dataset" / "x.zarr"
    zarr.create_array(array, data=VALUES, chunks=(2, 2))
    zarr.create_group(group)
    zarr.create_array(group, name="t", data=VALUES, chunks=(2, 2), dimension_names=("y", "x"))
    zarr.consolidate_metadata(group)
    for file in (path for path in tmp_path.rglob("*") if path.is_file()):
        shared_origin.put(f"/{file.relative_to(tmp_path)}", file.read_bytes())
    found = re.search(r"```python\n(.*?)```", PAGES[0].read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    shown = [ast.unparse(each) for each in ast.parse(found[1]).body]
    assert len(shown) == 4
    with Sidecar(shared_origin.url, cache_dir, ANY_DISK) as sidecar:
        codes = []
        for code in shown:
            # A dataset is a group, and the others are of an array.
            path = "/dataset" if code.startswith("xarray") else ""
            codes.append(code.replace("http://localhost:8100", f"{sidecar.url}{path}"))
        script = READ.format(modules="obstore, tensorstore, xarray, zarr")
        python = python_with("tensorstore")
        told = subprocess.run(
            [python, "-c", script, *codes], check=False, capture_output=True, text=True
        )
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines() == ["4 4 5"] * 4
