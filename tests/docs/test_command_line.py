"""docs/command-line.md is held to the commands: codes, examples, figures."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from chunkside.cli import COMMANDS, EXIT_CODES
from chunkside.cli.parsing import parse, parser_of
from chunkside.settings import load_settings
from chunkside.tools.warm_walk import ERRORS_IN_A_ROW

PAGE = (Path(__file__).resolve().parents[2] / "docs/command-line.md").read_text(encoding="utf-8")
EXAMPLES = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("chunkside ")
]


def test_the_table_of_exit_codes_is_that_of_the_code() -> None:
    table = dict(re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.MULTILINE))
    assert table == {str(code): meaning for code, meaning in EXIT_CODES.items()}


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_a_command_that_is_understood(example: str) -> None:
    _, name, *arguments = shlex.split(example, comments=True)
    assert parse(parser_of(name, COMMANDS[name]), arguments) is not None


def test_every_command_that_asks_a_sidecar_has_an_example() -> None:
    shown = {example.split()[1] for example in EXAMPLES}
    assert shown >= {"stats", "info", "why", "purge", "warm", "check"}


def test_every_flag_that_it_names_exists() -> None:
    known = {flag for each in COMMANDS for flag in parser_of(each, COMMANDS[each]).flags()}
    named = set(re.findall(r"(?<![\w-])--[a-z-]+[a-z]", PAGE))
    assert named - known - {"--help"} == set()


def test_its_figures_are_those_of_the_code() -> None:
    settings = load_settings({"upstream": "http://o"}, {})
    assert f"gives up after {ERRORS_IN_A_ROW} such answers" in PAGE
    assert f"({settings.upstream_connections // 2} of {settings.upstream_connections})" in PAGE
    assert settings.ttl == settings.negative_ttl == 300
    assert "16 at a time" in PAGE
    default = parse(parser_of("warm", COMMANDS["warm"]), ["/a"])
    assert default is not None
    assert default.concurrency == "16"
