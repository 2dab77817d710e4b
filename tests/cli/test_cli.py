"""The command line: what it takes, and the one line with which it refuses."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from chunkside.cli import COMMANDS, main, refuse_platform
from chunkside.settings import ConfigurationError, Settings
from chunkside.store.filesystem import classify, read_mountinfo
from tests.support.sidecar import clean_environment, run_command


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in os.environ:
        if name.startswith("CHUNKSIDE_"):
            monkeypatch.delenv(name)


def refused(capsys, *argv: str) -> str:
    """The one line on stderr."""
    assert main(list(argv)) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.err.endswith("\n")
    return captured.err.rstrip("\n")


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        pytest.param([], ["command", "serve, run, check, health, demo, stats"], id="no command"),
        pytest.param(["srve"], ["'srve'", "did you mean serve?"], id="unknown command"),
        pytest.param(["--serve"], ["--serve", "no such flag"], id="a flag without a command"),
        pytest.param(
            ["serve", "--upstrem=x"], ["--upstrem", "did you mean --upstream?"], id="flag"
        ),
        pytest.param(["serve", "--no-alow-writes"], ["mean --no-allow-writes?"], id="negated flag"),
        pytest.param(["serve", "--cache"], ["--cache", "no such flag"], id="no abbreviations"),
        pytest.param(
            ["serve", "http://o"],
            ["http://o", "nothing else goes here", "did you mean --upstream http://o?"],
            id="argument",
        ),
        pytest.param(
            ["serve", "https://o/c?sig=s3cret"],
            ["did you mean --upstream https://o/c?***?"],
            id="a URL with a secret",
        ),
        pytest.param(["serve", "--ttl"], ["--ttl", "expected one argument"], id="no value"),
        pytest.param(["serve", "--ttl", "soon"], ["ttl='soon'", "allowed: a duration"], id="value"),
        pytest.param(["serve", "--allow-writes=1"], ["--allow-writes"], id="a switch with a value"),
        pytest.param(["serve"], ["upstream", "not set", "--upstream"], id="no upstream"),
        pytest.param(
            ["serve", "--config", "/none.yaml"], ["/none.yaml", "No such file"], id="config"
        ),
        pytest.param(["demo", "--readers", "0"], ["--readers='0'", "1 or more"], id="readers"),
        pytest.param(["demo", "--delay", "x"], ["--delay='x'", "allowed: "], id="delay"),
        pytest.param(["demo", "--port", "65536"], ["--port='65536'", "65535"], id="port"),
        pytest.param(
            ["demo", "--port", "http"], ["--port='http'", "65535"], id="a port in letters"
        ),
        pytest.param(["demo", "--ttl", "5"], ["--ttl", "no such flag"], id="no settings in demo"),
    ],
)
def test_what_is_wrong_is_one_line(capsys, argv, parts):
    line = refused(capsys, *argv)
    assert line.startswith("chunkside: ")
    assert [part for part in parts if part not in line] == []


@pytest.mark.parametrize("argv", [["--help"], ["--version"], *([name, "-h"] for name in COMMANDS)])
def test_help_is_printed_and_nothing_is_run(capsys, argv):
    assert main(argv) == 0
    captured = capsys.readouterr()
    assert captured.out
    assert captured.err == ""


@pytest.mark.parametrize("command", ["serve", "check"])
def test_every_setting_is_a_flag_with_help(capsys, command):
    main([command, "--help"])
    text = capsys.readouterr().out
    for name in Settings.model_fields:
        assert f"--{name.replace('_', '-')}" in text
    assert "10 % of the" in text


def test_the_general_help_names_every_command(capsys):
    main(["--help"])
    text = capsys.readouterr().out
    assert [name for name in COMMANDS if name not in text] == []


@pytest.mark.parametrize("platform", ["win32", "cygwin"])
def test_windows_is_refused(platform):
    with pytest.raises(ConfigurationError, match="use WSL"):
        refuse_platform(platform)


@pytest.mark.parametrize("platform", ["linux", "darwin", sys.platform])
def test_linux_and_macos_are_not_refused(platform):
    refuse_platform(platform)


def check(capsys, tmp_path, *flags: str) -> str:
    argv = [
        "check",
        "--upstream=http://o",
        f"--cache-dir={tmp_path}/c",
        "--allow-memory-filesystem",
    ]
    assert main([*argv, *flags]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_switches_have_two_flags(capsys, tmp_path):
    assert "writes: forwarded" in check(capsys, tmp_path, "--allow-writes")
    assert "writes: refused" in check(capsys, tmp_path, "--no-allow-writes")


def test_a_flag_for_a_list_is_given_several_times_or_with_commas(capsys, tmp_path):
    text = check(capsys, tmp_path, "--listen=localhost:1,localhost:2", "--listen", "[::1]:3")
    readers = next(line for line in text.splitlines() if line.startswith("readers use:"))
    assert [n for n in ("localhost:1/", "localhost:2/", "[::1]:3/") if n not in readers] == []


def test_flags_go_over_environment_over_file(capsys, tmp_path, monkeypatch):
    config = tmp_path / "c.yaml"
    config.write_text("ttl: 1s\nnegative_ttl: 1s\nmetadata_ttl: 1s\n")
    monkeypatch.setenv("CHUNKSIDE_TTL", "2s")
    monkeypatch.setenv("CHUNKSIDE_NEGATIVE_TTL", "2s")
    text = check(capsys, tmp_path, "--ttl", "3s", "--config", str(config))
    assert "bodies 3s" in text
    assert "absences 2s" in text
    assert "metadata 1s" in text


def test_the_config_flag_may_stand_anywhere_and_is_read_before_the_rest(capsys, tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("ttl: 1s\n")
    for flags in (["--ttl=3s", f"--config={config}"], [f"--config={config}", "--ttl=3s"]):
        assert "bodies 3s" in check(capsys, tmp_path, *flags)


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("partition", "forwarded; each gets only what was learned with it"),
        ("strip", "removed, signatures in headers too; all share what is stored"),
        ("share", "forwarded; bodies answer all, whoever brought them, absences only who saw them"),
    ],
)
def test_check_says_what_becomes_of_credentials(capsys, tmp_path, mode, words):
    text = check(capsys, tmp_path, "--client-credentials", mode)
    assert f"clients' credentials: {words}\n" in text


def test_check_says_in_which_field_the_origin_tells_lifetimes(capsys, tmp_path):
    text = check(capsys, tmp_path, "--targeted-cache-control=CDN-Cache-Control,X-Us")
    assert (
        "the origin's own are those of CDN-Cache-Control, else X-Us, else Cache-Control\n" in text
    )
    text = check(capsys, tmp_path, "--upstream-cache-control=ignore")
    assert (
        "the origin's own are those of Chunkside-Cache-Control, else no-store in Cache-Control\n"
        in text
    )
    text = check(capsys, tmp_path, "--targeted-cache-control=")
    assert "those of Cache-Control\n" in text


def test_check_says_that_strict_leaves_lifetimes_to_the_origin(capsys, tmp_path):
    assert ", absences as long as the origin says, " in check(capsys, tmp_path, "--profile=strict")
    told = check(capsys, tmp_path, "--profile=strict", "--negative-ttl=1m")
    assert ", absences 60s at most, " in told


def test_check_says_of_each_route_what_would_happen(capsys, tmp_path):
    routes = (
        '[{"prefix": "/era5", "upstream": "https://h/bucket/era5", "ttl": "1h",'
        ' "allow_writes": false, "max_body_size": "1MiB"},'
        ' {"prefix": "/cmip", "upstream": "http://o:9", "cache_missing": false}]'
    )
    argv = [f"--cache-dir={tmp_path}/c", "--allow-memory-filesystem", "--negative-ttl=10m"]
    assert main(["check", *argv, "--listen=localhost:8100,unix:/s", "--routes", routes]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = "\n".join(lines)
    for words in (
        "route /era5: readers use: http://localhost:8100/era5/ or http://localhost/era5/ (over ",
        "the socket /s) in place of https://h/bucket/era5/",
        "route /era5: writes: refused with 405",
        "route /era5: larger than 1 MiB: relayed, not stored",
        "route /era5: lifetimes: bodies 1h where the origin says nothing, absences 600s at most",
        "route /cmip: writes: forwarded",
        "route /cmip: lifetimes: bodies 300s where the origin says nothing, absences are not reme",
        "any other path: refused with 421",
    ):
        assert words in told
    assert not [line for line in lines if line.startswith(("upstream:", "lifetimes:", "writes:"))]


def test_check_makes_nothing(capsys, tmp_path):
    check(capsys, tmp_path)
    assert list(tmp_path.iterdir()) == []


def one_line_of(*arguments: str, env=None) -> str:
    ended = run_command(*arguments, env=env)
    assert ended.returncode == 2, ended.stderr
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    return ended.stderr


@pytest.mark.parametrize("command", ["serve", "check"])
@pytest.mark.parametrize(
    ("flags", "env", "parts"),
    [
        pytest.param([], {"CHUNKSIDE_TTL": "soon"}, ["ttl='soon'", "300s"], id="value"),
        pytest.param([], {"CHUNKSIDE_TLL": "5"}, ["CHUNKSIDE_TLL", "CHUNKSIDE_TTL?"], id="name"),
        pytest.param(["--upstream", "gs://b"], {}, ["upstream='gs://b'", "http://"], id="upstream"),
        pytest.param(["--cache-size=1ZB"], {}, ["cache_size='1ZB'", "2GiB"], id="size"),
        pytest.param(["--cach-dir=/x"], {}, ["--cach-dir", "--cache-dir?"], id="flag"),
        pytest.param(
            ["--routes", '[{"prefix": "/a", "upstream": "http://o", "tll": 1}]'],
            {},
            ["routes[/a].tll (--routes)", "did you mean ttl?"],
            id="route",
        ),
        pytest.param(
            ["--upstream=http://o"],
            {"CHUNKSIDE_ROUTES": '[{"prefix": "/a", "upstream": "http://o"}]'},
            ["upstream='http://o' (--upstream)", "CHUNKSIDE_ROUTES"],
            id="both",
        ),
    ],
)
def test_a_process_ends_with_one_line(command, flags, env, parts):
    line = one_line_of(command, *flags, env=env)
    assert [part for part in parts if part not in line] == []


def test_a_cache_directory_that_is_unfit_is_one_line_with_the_remedy(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    line = one_line_of(
        "check", "--upstream=http://o", "--allow-memory-filesystem", f"--cache-dir={file}"
    )
    assert f"cache_dir='{file}': is not a directory; allowed: " in line
    assert "choose a directory" in line


@pytest.mark.skipif(
    classify(Path("/dev/shm"), read_mountinfo()).kind != "memory",
    reason="/dev/shm is no tmpfs here",
)
def test_a_tmpfs_is_one_line_with_the_setting_that_allows_it():
    line = one_line_of("check", "--upstream=http://o", "--cache-dir=/dev/shm/chunkside-test")
    assert "in memory (tmpfs" in line
    assert "allow_memory_filesystem" in line


@pytest.mark.parametrize("usage", ["serve [flags]", "check [flags]", "run [flags] -- CMD ..."])
def test_a_usage_of_many_flags_names_none(capsys, usage):
    assert main([usage.split()[0], "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: chunkside {usage}\n")


def test_a_full_output_is_one_line():
    command = [sys.executable, "-m", "chunkside", "check", "--upstream=http://o", "--cache-size=0"]
    with Path("/dev/full").open("w") as full:
        told = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, text=True)
    assert told.returncode == 1
    assert told.stderr == "chunkside: the output can't be written: No space left on device\n"


def test_an_origin_that_refuses_is_told_in_plain_words(capsys):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        assert main(["check", "--probe", "/a", "--upstream", url, "--cache-size", "0"]) == 1
    assert f"{url} can't be connected to: Connection refused." in capsys.readouterr().out


def test_a_directory_that_is_not_there_yet_is_not_called_good(capsys, tmp_path):
    argv = ["check", "--verify", "--allow-memory-filesystem", f"--cache-dir={tmp_path}/none"]
    assert main(argv) == 0
    told = capsys.readouterr().out
    assert told == f"{tmp_path}/none is not there: nothing has been stored in it\n"


def test_a_closed_output_is_no_fault():
    shell = f"{sys.executable} -m chunkside --version >&-"
    told = subprocess.run(["sh", "-c", shell], check=False, capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (0, "")


def test_service_links_don_t_stop_a_process(tmp_path):
    env = {
        "CHUNKSIDE_UPSTREAM": "http://o",
        "CHUNKSIDE_SERVICE_HOST": "10.0.0.1",
        "CHUNKSIDE_PORT_8100_TCP": "tcp://10.0.0.1:8100",
        "CHUNKSIDE_ALLOW_MEMORY_FILESYSTEM": "true",
        "XDG_CACHE_HOME": str(tmp_path),
    }
    ended = run_command("check", env=env)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"cache directory: {tmp_path}/chunkside, since XDG_CACHE_HOME is set" in ended.stdout


_ENDS_AT_IMPORT = """
import os, signal, sys
from chunkside.cli import main

class Finder:
    def find_spec(self, name, *_):
        if name == "chunkside.app":
            os.kill(os.getpid(), signal.SIGTERM)

sys.meta_path.insert(0, Finder())
ports = ["--listen=localhost:0", "--admin-listen=localhost:0"]
sys.exit(main(["serve", "--upstream=http://o", *ports]))
"""


def test_sigterm_ends_a_process_that_is_still_being_imported():
    ended = subprocess.run(
        [sys.executable, "-c", _ENDS_AT_IMPORT], env=clean_environment(), timeout=60, check=False
    )
    # One that the signal killed has a negative code, and the first of a container goes on.
    assert ended.returncode == 0


# What `run` takes over of what led the command's readers before.


@pytest.fixture
def flags_of(monkeypatch, tmp_path):
    """The flags of the sidecar that `run` would start."""
    bundle = tmp_path / "ca.pem"
    bundle.write_text("")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle))

    def flags(*argv: str) -> list[str]:
        seen: list[str] = []

        def take(_: object, given: list[str], *_more: object, **_named: object) -> int:
            seen.extend(given)
            return 0

        monkeypatch.setattr("chunkside.tools.run.run", take)
        assert main(["run", *argv, "--", "true"]) == 0
        return [each for each in seen if each.startswith(("--upstream-ca", "--upstream-endp"))]

    return flags


def test_run_asks_and_trusts_as_before(flags_of, monkeypatch, tmp_path):
    trusts = f"--upstream-ca-file={tmp_path}/ca.pem"
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    assert flags_of() == [trusts]
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://store:9000")
    assert flags_of() == ["--upstream-endpoint=https://store:9000", trusts]
    assert flags_of("--upstream", "s3://bucket", "--upstream-endpoint=https://o") == [
        "--upstream-endpoint=https://o",
        trusts,
    ]
    # Where nobody shows a certificate, and where that file isn't.
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store:9000")
    assert flags_of() == ["--upstream-endpoint=http://store:9000"]
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://store:9000")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path))
    assert flags_of() == ["--upstream-endpoint=https://store:9000"]


@pytest.mark.parametrize(
    "upstream", ["https://host", "http://host/x", "file:///tmp", "gs://bucket"]
)
def test_run_takes_what_is_of_s3_for_s3_alone(flags_of, monkeypatch, upstream):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://store:9000")
    for name in ("STORAGE_EMULATOR_HOST", "TENSORSTORE_GCS_HTTP_URL"):
        monkeypatch.delenv(name, raising=False)
    assert flags_of("--upstream", upstream) == []


@pytest.mark.parametrize(
    ("name", "told", "endpoint"),
    [
        ("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:10000/acct", "http://127.0.0.1:10000"),
        ("AZURE_STORAGE_ENDPOINT", "https://acct.blob.core.windows.net", None),
        (
            "AZURE_STORAGE_CONNECTION_STRING",
            "AccountName=acct;BlobEndpoint=http://127.0.0.1:10000/acct;AccountKey=a2V5",
            "http://127.0.0.1:10000",
        ),
        ("AZURE_STORAGE_CONNECTION_STRING", "AccountName=acct;AccountKey=a2V5", None),
    ],
)
def test_run_asks_azure_s_store_as_before(flags_of, monkeypatch, name, told, endpoint):
    monkeypatch.setenv(name, told)
    flags = flags_of("--upstream", "az://acct/box")
    assert flags == ([] if endpoint is None else [f"--upstream-endpoint={endpoint}"])
