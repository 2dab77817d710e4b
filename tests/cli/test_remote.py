"""Commands that ask a running sidecar: what they refuse, and where they look for it."""

import argparse
import io
import os
import shlex
import socket
import subprocess
import sys
import threading

import pytest

from chunkside.cli import COMMANDS, EXIT_CODES, main
from chunkside.cli.parsing import fields_of, parse, parser_of
from tests.support.origin import Origin
from tests.support.sidecar import clean_environment


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in os.environ:
        if name.startswith("CHUNKSIDE_"):
            monkeypatch.delenv(name)


@pytest.fixture
def nobody():
    """A port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return f"http://127.0.0.1:{port}"


def line_of(capsys, code, *argv):
    assert main(list(argv)) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("chunkside: ")
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["stats", "--watch", "soon"], ["--watch='soon'"]),
        (["stats", "--watch", "0"], ["--watch='0'"]),
        (["stats", "--admin", "https://h"], ["--admin='https://h'", "http://localhost:8101"]),
        (["stats", "--admin", "unix:rel"], ["--admin='unix:rel'", "not absolute"]),
        (["stats", "/a"], ["/a", "nothing else goes here"]),
        (["info", "--watch"], ["--watch", "no such flag"]),
        (["why"], ["TARGET"]),
        (["why", "a/b"], ["TARGET", "begins with /"]),
        (["why", "/a#b"], ["%23"]),
        (["why", "/a", "-H", "no colon"], ["--header", "Name: value"]),
        (["why", "/a", "-H", "Host: x"], ["Host", "frame the request"]),
        (["map"], ["TARGET"]),
        (["map", "/a", "--slice", "0:9:2"], ["--slice='0:9:2'", "0,:,100:200"]),
        (["map", "/a", "--svg", "--json"], ["--svg", "without --json"]),
        (["purge"], ["nothing is named", "--prefix"]),
        (["purge", "/a", "--all"], ["several are given"]),
        (["purge", "--prefix", "/a", "--route", "/"], ["several are given"]),
        (["warm"], ["TARGET"]),
        (["warm", "/a", "--concurrency", "0"], ["--concurrency='0'", "1 or more"]),
        (["warm", "/a", "--concurrency", "5000"], ["--concurrency=5000", "1024"]),
        (["warm", "/a", "--slice", "0:9:2"], ["--slice='0:9:2'", "0:100,:,5"]),
        (["warm", "/a", "--data", "ftp://h"], ["--data='ftp://h'"]),
        (["why", "/a", "-H", "@/none"], ["--header='@/none'", "No such file", "in each line"]),
        (["check", "--probe", "/a", "--verify"], ["--probe", "without --verify"]),
        (["check", "--probe", "/a"], ["upstream", "not set"]),
        (["check", "-H", "A: b", "--upstream=http://o"], ["--header", "with --probe"]),
        (["check", "--probe", "x", "--upstream=http://o"], ["--probe", "begins with /"]),
    ],
)
def test_what_is_wrong_is_one_line(capsys, argv, parts):
    line = line_of(capsys, 2, *argv)
    assert [part for part in parts if part not in line] == []


def test_a_secret_in_a_field_is_not_shown(capsys, tmp_path):
    assert "s3cret" not in line_of(capsys, 2, "why", "/a", "-H", "Authorization: s3cret\x1b")
    fields = tmp_path / "fields"
    for content in (b"Authorization: s3cret\x1b\n", b"Authorization s3cret", b"A: s3cret\xff"):
        fields.write_bytes(content)
        assert "s3cret" not in line_of(capsys, 2, "why", "/a", "-H", f"@{fields}")


@pytest.mark.parametrize("place", ["a file", "stdin"])
def test_fields_are_read_from_where_nobody_else_sees_them(monkeypatch, tmp_path, place):
    told = "Authorization: Bearer s3cret\n\nX-Api-Key: k\n"
    fields = tmp_path / "fields"
    fields.write_text(told)
    monkeypatch.setattr("sys.stdin", io.StringIO(told))
    name = "@-" if place == "stdin" else f"@{fields}"
    given = argparse.Namespace(header=["X-First: 1", name])
    secrets = [("Authorization", "Bearer s3cret"), ("X-Api-Key", "k")]
    assert fields_of(given) == [("X-First", "1"), *secrets]


@pytest.mark.parametrize(
    "argv", [["stats"], ["info"], ["why", "/a"], ["purge", "/a"], ["purge", "--all"]]
)
def test_without_a_sidecar_one_line_says_how_to_start_or_name_one(
    capsys, monkeypatch, nobody, argv
):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    line = line_of(capsys, 1, *argv, "--admin", nobody)
    assert f"no sidecar answers at {nobody}" in line
    assert "chunkside serve --upstream URL" in line
    assert "--admin URL" in line


def test_the_admin_port_is_that_of_the_settings(capsys, monkeypatch, tmp_path, nobody):
    port = nobody.rpartition(":")[2]
    monkeypatch.setenv("CHUNKSIDE_ADMIN_LISTEN", f"localhost:{port}")
    assert f"http://localhost:{port}" in line_of(capsys, 1, "stats")
    config = tmp_path / "c.yaml"
    config.write_text(f"admin_listen: unix:{tmp_path}/gone.sock\n")
    monkeypatch.delenv("CHUNKSIDE_ADMIN_LISTEN")
    assert f"unix:{tmp_path}/gone.sock" in line_of(capsys, 1, "stats", "--config", str(config))


def test_a_port_that_is_picked_at_the_start_must_be_named(capsys, monkeypatch):
    monkeypatch.setenv("CHUNKSIDE_ADMIN_LISTEN", "localhost:0")
    assert "name it with --admin URL" in line_of(capsys, 2, "stats")


def test_what_is_no_admin_port_is_told(capsys):
    with Origin({"/stats": b"<html>"}) as origin:
        line = line_of(capsys, 1, "stats", "--admin", origin.url)
        assert f"what answers at {origin.url} is no admin port" in line


def test_what_speaks_no_http_is_told(capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            connection.recv(4096)
            connection.sendall(b"220 mail ready\r\n")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert "is no sidecar" in line_of(capsys, 1, "stats", "--admin", url)
        thread.join()


def test_warm_without_a_sidecar_asks_for_its_data_port(capsys, nobody):
    line = line_of(capsys, 1, "warm", "/a", "--data", nobody)
    assert f"no sidecar answers at {nobody}" in line
    assert "--data URL" in line


def test_warm_refuses_what_is_no_data_port(capsys):
    with Origin({"/a/zarr.json": b"{}"}) as origin:
        line = line_of(capsys, 1, "warm", f"{origin.url}/a")
    assert "is no data port" in line


@pytest.mark.parametrize(
    ("name", "example"), [(name, each) for name, c in COMMANDS.items() for each in c.examples]
)
def test_every_example_of_help_is_a_command_that_is_understood(name, example):
    words = shlex.split(example.partition(" | ")[0])
    assert words[:2] == ["chunkside", name]
    assert parse(parser_of(name, COMMANDS[name]), words[2:]) is not None


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_examples(capsys, name):
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert [each for each in COMMANDS[name].examples if each not in text] == []


def test_the_general_help_lists_the_exit_codes(capsys):
    main(["--help"])
    text = capsys.readouterr().out
    assert all(f"\n  {code} " in text for code in EXIT_CODES)


def test_asking_a_sidecar_waits_for_no_slow_import(nobody):
    code = f"import sys; from chunkside.cli import main; main(['stats', '--admin', '{nobody}']); "
    code += "print({'pyarrow', 'aiohttp', 'prometheus_client', 'yaml'} & sys.modules.keys())"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "no sidecar answers" in ended.stderr
    assert ended.stdout.strip() == "{'yaml'}"


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("typed", "words"),
    [("n\n", "nothing is forgotten"), ("", "nothing is forgotten"), ("y\n", "no sidecar answers")],
)
def test_people_are_asked_before_all_is_forgotten(capsys, monkeypatch, nobody, typed, words):
    monkeypatch.setattr("sys.stdin", Keyboard(typed))
    assert main(["purge", "--all", "--admin", nobody]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"Forget all that {nobody} holds? [y/N] ")
    assert words in told
