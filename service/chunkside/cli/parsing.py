"""What is written on the command line, read; whatever is wrong with it is one line."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

from chunkside.settings.addresses import without_secrets
from chunkside.settings.errors import ConfigurationError, NotAllowedError, did_you_mean

Value = TypeVar("Value")

# Beyond, a usage that names all flags says less than one that names none.
_MOST_IN_USAGE = 20

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_MISCONFIGURED = 2
EXIT_INTERRUPTED = 130
EXIT_UNREAD = 141

EXIT_CODES = {
    EXIT_OK: "done, and all is as it should be",
    EXIT_FAILED: "no sidecar answers, it refused, or what was looked at is not as it should be: a "
    "bad file, a chunk that could not be brought, an origin that can't be cached, something "
    "held that is not what the origin has",
    EXIT_MISCONFIGURED: "the command line or a setting is wrong; nothing was done",
    EXIT_INTERRUPTED: "interrupted by Ctrl-C",
    EXIT_UNREAD: "whoever read the output has gone",
}
"""What each exit code means, of all commands."""


@dataclass(frozen=True, slots=True)
class Command:
    """`run` gives the exit code. `examples`: a line each, as one would type it."""

    summary: str
    add_flags: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    examples: tuple[str, ...]


class OneLineParser(argparse.ArgumentParser):
    """Where argparse prints its usage and ends the process, this raises the one line."""

    def error(self, message: str) -> NoReturn:
        raise ConfigurationError(
            "command line", None, f"what `{self.prog} --help` lists", reason=message
        )

    def arguments(self) -> list[str]:
        """What stands without a flag, by the names that help has for it."""
        return [str(each.metavar) for each in self._actions if not each.option_strings]

    def flags(self) -> list[str]:
        return sorted(text for action in self._actions for text in action.option_strings)


def parser_of(name: str, command: Command) -> OneLineParser:
    examples = textwrap.indent("\n".join(command.examples), "  ")
    parser = OneLineParser(
        prog=f"chunkside {name}",
        description=command.summary,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        exit_on_error=False,
        argument_default=argparse.SUPPRESS,
    )
    command.add_flags(parser)
    if len(parser.flags()) > _MOST_IN_USAGE:
        parser.usage = " ".join([parser.prog, "[flags]", *parser.arguments()])
    return parser


def parse(parser: OneLineParser, argv: Sequence[str]) -> argparse.Namespace | None:
    """The flags given; None where help or version was asked for, and printed."""
    try:
        namespace, unknown = parser.parse_known_args(argv)
    except argparse.ArgumentError as error:
        raise ConfigurationError(
            error.argument_name or "command line",
            None,
            f"what `{parser.prog} --help` says of it",
            reason=error.message,
        ) from error
    except SystemExit:
        return None
    if unknown:
        raise _unknown_argument(parser, unknown[0])
    return namespace


def _unknown_argument(parser: OneLineParser, argument: str) -> ConfigurationError:
    flag = argument.partition("=")[0]
    remedy = did_you_mean(flag, parser.flags(), prefix="--")
    if "://" in argument and "--upstream" in parser.flags():
        remedy = f"did you mean --upstream {without_secrets(argument)}?"
    return ConfigurationError(
        flag,
        None,
        f"the flags that `{parser.prog} --help` lists",
        remedy,
        reason="no such flag" if flag.startswith("-") else "not a flag, and nothing else goes here",
    )


def read(flag: str, text: str, parser: Callable[[object], Value]) -> Value:
    """A flag's value. Raises ConfigurationError."""
    try:
        return parser(text)
    except NotAllowedError as error:
        raise ConfigurationError(
            flag, text, error.allowed, error.remedy, reason=error.reason
        ) from error


_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*", re.ASCII)
# What frames a request, says where it goes, or whether its connection is kept.
_OF_THE_CONNECTION = frozenset(
    ["host", "content-length", "transfer-encoding", "connection", "expect", "upgrade", "te"]
)


def add_header(parser: argparse.ArgumentParser, only_with: str = "") -> None:
    parser.add_argument(
        "-H",
        "--header",
        metavar="FIELD",
        action="append",
        help=f"{only_with}a field that the reader would send, such as 'Authorization: Bearer X'; "
        "several. @FILE has one in each line, and @- reads them from stdin: what is written here "
        "every user of the machine can see",
    )


def _told_fields(given: Sequence[str]) -> Iterator[str]:
    """Raises ConfigurationError."""
    for text in given:
        if not text.startswith("@"):
            yield text
            continue
        try:
            told = sys.stdin.read() if text == "@-" else Path(text[1:]).read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise ConfigurationError(
                "--header", text, "a file with a field in each line", reason=reason
            ) from error
        yield from (line for line in told.splitlines() if line.strip())


def fields_of(namespace: argparse.Namespace) -> list[tuple[str, str]]:
    """What -H gives. Raises ConfigurationError, which shows no value: it may be secret."""
    fields = []
    for text in _told_fields(getattr(namespace, "header", [])):
        found = _FIELD.fullmatch(text)
        if found is None or not found[2].isprintable() or not found[2].isascii():
            name = text.partition(":")[0]
            shown = name if _FIELD.fullmatch(f"{name}:") else None
            raise ConfigurationError("--header", shown, "a field such as 'Name: value'")
        if found[1].lower() in _OF_THE_CONNECTION:
            raise ConfigurationError("--header", found[1], "fields that don't frame the request")
        fields.append((found[1], found[2]))
    return fields


def no_target(flag: str, error: ValueError) -> ConfigurationError:
    return ConfigurationError(
        flag,
        None,
        "a target such as /a.zarr/zarr.json, or a URL of the data port or of an upstream",
        reason=str(error),
    )
