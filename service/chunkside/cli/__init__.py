"""The commands: what is written on the command line, handed to the part that does it.

A command is a row in `COMMANDS`. Whatever is wrong ends as one line on stderr, and as an exit code
that `parsing` lists.

    parsing     flags, the one line with which they are refused, exit codes.
    local       commands that need no running sidecar.
    remote      commands that ask one.
"""

from __future__ import annotations

import argparse
import errno
import importlib.metadata
import os
import re
import sys
from collections.abc import Mapping, Sequence

from chunkside.cli import local, remote
from chunkside.cli.parsing import (
    EXIT_CODES,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_MISCONFIGURED,
    EXIT_OK,
    EXIT_UNREAD,
    Command,
    OneLineParser,
    parse,
    parser_of,
)
from chunkside.settings.errors import ConfigurationError, did_you_mean
from chunkside.tools.errors import ToolFailed

__all__ = ["COMMANDS", "EXIT_CODES", "main", "refuse_platform"]

# What a disk says that takes no more of a redirected output.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def main(argv: list[str] | None = None) -> int:
    """Run one command; gives the exit code."""
    _have_streams()
    argv = sys.argv[1:] if argv is None else argv
    try:
        refuse_platform(sys.platform)
        code = _dispatch(argv)
        sys.stdout.flush()
        return code
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return EXIT_MISCONFIGURED
    except ToolFailed as error:
        print(f"chunkside: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # What is left in the buffer would fail once more when the process ends.
        _discard_output()
        return EXIT_UNREAD
    except OSError as error:
        # Tools write nothing else that isn't named; `serve` goes on without its output.
        if argv[:1] == ["serve"] or error.errno not in _FULL or error.filename is not None:
            raise
        _discard_output()
        print(f"chunkside: the output can't be written: {error.strerror}", file=sys.stderr)
        return EXIT_FAILED


def _have_streams() -> None:
    """Python has None where a stream is closed at the start (`>&-`)."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def refuse_platform(platform: str) -> None:
    if platform in ("win32", "cygwin"):
        raise ConfigurationError("platform", platform, "Linux, and macOS as it goes", "use WSL")


def _dispatch(argv: Sequence[str]) -> int:
    if not argv or argv[0].startswith("-"):
        return _without_command(argv)
    name, *rest = argv
    command = COMMANDS.get(name)
    if command is None:
        raise ConfigurationError("command", name, ", ".join(COMMANDS), did_you_mean(name, COMMANDS))
    namespace = parse(parser_of(name, command), rest)
    return EXIT_OK if namespace is None else command.run(namespace)


def _without_command(argv: Sequence[str]) -> int:
    summaries = "".join(f"  {name:8}{command.summary}\n" for name, command in COMMANDS.items())
    codes = "".join(
        f"  {code:<8}{re.split('[;:]', meaning)[0]}\n" for code, meaning in EXIT_CODES.items()
    )
    parser = OneLineParser(
        prog="chunkside",
        usage="chunkside COMMAND [flags]",
        description="A caching sidecar for readers of chunked arrays over HTTP.",
        epilog=f"commands:\n{summaries}\nexit codes:\n{codes}\n"
        "`chunkside COMMAND --help` lists a command's flags, with examples.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser.add_argument("--version", action="version", version=f"chunkside {_version()}")
    if parse(parser, argv) is None:
        return EXIT_OK
    raise ConfigurationError("command", None, ", ".join(COMMANDS), reason="none given")


def _version() -> str:
    try:
        return importlib.metadata.version("chunkside")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


COMMANDS: Mapping[str, Command] = {
    "serve": Command(
        "run the sidecar",
        local.add_settings,
        local.serve,
        (
            "chunkside serve --upstream https://data.example.org/bucket",
            "chunkside serve --config /etc/chunkside.yaml --ttl 1h",
        ),
    ),
    "run": Command(
        "run a command beside a sidecar of its own, which its S3 readers ask",
        local.add_run_flags,
        local.run,
        (
            "chunkside run -- python script.py",
            "chunkside run --upstream s3://bucket --ttl 1d -- python script.py",
        ),
    ),
    "check": Command(
        "validate configuration and cache directory, and say what would happen",
        local.add_check_flags,
        local.check,
        (
            "chunkside check --upstream https://data.example.org/bucket",
            "chunkside check --probe /a.zarr/zarr.json --upstream https://data.example.org/bucket",
            "chunkside check --verify",
        ),
    ),
    "health": Command(
        "ask a running sidecar whether it is ready; exit code 0 or 1",
        local.add_health_flags,
        local.health,
        ("chunkside health", "chunkside health --admin-listen localhost:8201 --timeout 1s"),
    ),
    "demo": Command(
        "read a sparse Zarr array twice through a sidecar, and show what each pass cost",
        local.add_demo_flags,
        local.demo,
        ("chunkside demo", "chunkside demo --once --delay 50ms --readers 4"),
    ),
    "stats": Command(
        "show what a running sidecar did, and what that saved",
        remote.add_stats_flags,
        remote.stats,
        (
            "chunkside stats",
            "chunkside stats --watch 5",
            "chunkside stats --json | jq .saved_requests",
        ),
    ),
    "info": Command(
        "show what a running sidecar holds, and how it is set up",
        remote.add_info_flags,
        remote.info,
        ("chunkside info", "chunkside info --admin unix:/run/chunkside/admin.sock --json"),
    ),
    "why": Command(
        "say what is known of a target, and what a GET of it would be answered now",
        remote.add_why_flags,
        remote.why,
        (
            "chunkside why /a.zarr/c/0/0",
            "chunkside why 'https://data.example.org/bucket/a.zarr/c/0/0?versionId=3'",
            "chunkside why --verify -H @fields.txt /a.zarr/c/0/0",
        ),
    ),
    "map": Command(
        "show which chunks of an array are held, and which are known to be absent",
        remote.add_map_flags,
        remote.chunk_map,
        (
            "chunkside map /a.zarr",
            "chunkside map --slice 3,:,0:1000 http://localhost:8100/a.zarr",
            "chunkside map --svg /a.zarr | tee a.svg",
        ),
    ),
    "purge": Command(
        "forget what is held of a target, a prefix, a route or all",
        remote.add_purge_flags,
        remote.purge,
        (
            "chunkside purge /a.zarr/zarr.json",
            "chunkside purge --prefix /a.zarr --soft",
            "chunkside purge --all --yes",
        ),
    ),
    "warm": Command(
        "bring an array's chunks into the cache, and remember which are absent",
        remote.add_warm_flags,
        remote.warm,
        (
            "chunkside warm /a.zarr",
            "chunkside warm --dry-run --slice 0:100,:,: http://localhost:8100/a.zarr",
            "chunkside warm --concurrency 64 https://data.example.org/bucket/a.zarr",
        ),
    ),
}
