"""What is wrong with the settings stops the start: one line on stderr, exit code 2."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.sidecar import run_command

BASE = {
    "--upstream": "http://127.0.0.1:9",
    "--listen": "127.0.0.1:0",
    "--admin-listen": "127.0.0.1:0",
}


def refusal(cache_dir: Path, flags: Mapping[str, str], env: Mapping[str, str] | None = None) -> str:
    """The one line that `chunkside serve` ends with."""
    given = {**BASE, "--cache-dir": str(cache_dir), **flags}
    arguments = [f"{flag}={value}" for flag, value in given.items()]
    done = run_command("serve", *arguments, env=env)
    assert done.returncode == 2, done
    (line,) = done.stderr.splitlines()
    assert done.stdout == ""
    return line


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"--upstream": ""}, ["upstream"]),
        ({"--upstream": "ftp://host/"}, ["upstream", "ftp://host/", "http://"]),
        ({"--upstream": "host:80"}, ["upstream", "host:80", "http://"]),
        ({"--upstream": "http://"}, ["upstream", "http://"]),
        ({"--upstream": "http://host:99999/"}, ["upstream", "99999"]),
        ({"--cache-size": "12XB"}, ["cache_size", "12XB", "GiB"]),
        ({"--cache-size": "-1"}, ["cache_size", "-1"]),
        ({"--min-free": "120%"}, ["min_free", "120%"]),
        ({"--ttl": "5 parsecs"}, ["ttl", "5 parsecs"]),
        ({"--negative-ttl": "-3s"}, ["negative_ttl", "-3s"]),
        ({"--listen": "127.0.0.1:http"}, ["listen", "127.0.0.1:http"]),
        ({"--max-markers": "many"}, ["max_markers", "many"]),
        ({"--loop": "twisted"}, ["loop", "twisted", "uvloop"]),
        ({"--negativ-ttl": "3s"}, ["negativ-ttl", "negative-ttl"]),
        ({"--config": "/nonexistent/chunkside.yaml"}, ["/nonexistent/chunkside.yaml"]),
    ],
    ids=lambda value: "=".join(map("=".join, value.items())) if isinstance(value, dict) else "",
)
def test_a_bad_flag_is_named_with_what_is_allowed(
    cache_dir: Path, flags: dict[str, str], expected: list[str]
) -> None:
    if flags == {"--upstream": ""}:
        done = run_command("serve", "--cache-dir", str(cache_dir))
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
    else:
        line = refusal(cache_dir, flags)
    for part in expected:
        assert part in line, line
    assert not cache_dir.exists()


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"CHUNKSIDE_NEGATIV_TTL": "3s"}, ["CHUNKSIDE_NEGATIV_TTL", "CHUNKSIDE_NEGATIVE_TTL"]),
        ({"CHUNKSIDE_TTL": "soon"}, ["ttl", "soon", "CHUNKSIDE_TTL"]),
        ({"CHUNKSIDE_MAX_BODY_SIZE": "1 elephant"}, ["max_body_size", "1 elephant"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_bad_name_or_value_in_the_environment_is_named(
    cache_dir: Path, env: dict[str, str], expected: list[str]
) -> None:
    line = refusal(cache_dir, {}, env)
    for part in expected:
        assert part in line, line


def test_an_unknown_name_in_the_file_is_named(cache_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "chunkside.yaml"
    file.write_text("negativ_ttl: 3s\n")
    line = refusal(cache_dir, {"--config": str(file)})
    assert "negativ_ttl" in line
    assert "negative_ttl" in line


@pytest.mark.parametrize("flag", ["--listen", "--admin-listen"])
def test_a_port_in_use_is_named(cache_dir: Path, flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        line = refusal(cache_dir, {flag: address})
    assert address in line
    assert flag.removeprefix("--").replace("-", "_") in line


def test_a_cache_directory_in_memory_is_refused() -> None:
    if "/dev/shm tmpfs" not in Path("/proc/mounts").read_text():
        pytest.skip("/dev/shm is no tmpfs here")
    directory = Path(f"/dev/shm/chunkside-test-{os.getpid()}")
    line = refusal(directory, {})
    assert str(directory) in line
    assert "allow_memory_filesystem" in line
    assert not directory.exists()


def test_a_cache_directory_that_cannot_be_written_is_refused() -> None:
    line = refusal(Path("/proc/chunkside"), {})
    assert "cache_dir" in line
    assert "/proc/chunkside" in line


def test_a_cache_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("precious")
    assert str(file) in refusal(file, {})
    assert file.read_text() == "precious"


def test_a_directory_that_is_not_ours_is_refused_and_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    (theirs / "thesis.tex").write_text("precious")
    line = refusal(theirs, {})
    assert str(theirs) in line
    assert [each.name for each in theirs.iterdir()] == ["thesis.tex"]


@pytest.mark.root
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 12345, 12345)
    assert str(theirs) in refusal(theirs, {})
    assert list(theirs.iterdir()) == []
