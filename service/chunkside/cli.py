"""The commands: what is written on the command line, handed to the part that does it.

A command is a row in `COMMANDS`. Whatever is wrong ends as one line on stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

from chunkside.hangups import Hangups
from chunkside.listening import open_ports
from chunkside.settings.cache_directory import locate_cache
from chunkside.settings.errors import ConfigurationError, NotAllowedError, did_you_mean
from chunkside.settings.files import refuse_unfit_files
from chunkside.settings.forecast import forecast
from chunkside.settings.model import Settings
from chunkside.settings.own_credential import refuse_open_ports
from chunkside.settings.quantities import count_parser, parse_timeout, parse_wait
from chunkside.settings.sources import flag_name, load_settings, require_routes
from chunkside.settings.table import shape_of, shown_default
from chunkside.store.filesystem import MemoryOnly

Value = TypeVar("Value")

EXIT_OK = 0
EXIT_MISCONFIGURED = 2


@dataclass(frozen=True, slots=True)
class Command:
    summary: str
    add_flags: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


class OneLineParser(argparse.ArgumentParser):
    """Where argparse prints its usage and ends the process, this raises the one line."""

    def error(self, message: str) -> NoReturn:
        raise ConfigurationError(
            "command line", None, f"what `{self.prog} --help` lists", reason=message
        )

    def flags(self) -> list[str]:
        return sorted(text for action in self._actions for text in action.option_strings)


def main(argv: list[str] | None = None) -> int:
    """Run one command; gives the exit code."""
    try:
        refuse_platform(sys.platform)
        return _dispatch(sys.argv[1:] if argv is None else argv)
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return EXIT_MISCONFIGURED


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
    parser = OneLineParser(
        prog=f"chunkside {name}",
        description=command.summary,
        allow_abbrev=False,
        exit_on_error=False,
        argument_default=argparse.SUPPRESS,
    )
    command.add_flags(parser)
    namespace = _parse(parser, rest)
    return EXIT_OK if namespace is None else command.run(namespace)


def _without_command(argv: Sequence[str]) -> int:
    summaries = "".join(f"  {name:8}{command.summary}\n" for name, command in COMMANDS.items())
    parser = OneLineParser(
        prog="chunkside",
        usage="chunkside COMMAND [flags]",
        description="A caching sidecar for readers of chunked arrays over HTTP.",
        epilog=f"commands:\n{summaries}\n`chunkside COMMAND --help` lists a command's flags.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser.add_argument("--version", action="version", version=f"chunkside {_version()}")
    if _parse(parser, argv) is None:
        return EXIT_OK
    raise ConfigurationError("command", None, ", ".join(COMMANDS), reason="none given")


def _parse(parser: OneLineParser, argv: Sequence[str]) -> argparse.Namespace | None:
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
    return ConfigurationError(
        flag,
        None,
        f"the flags that `{parser.prog} --help` lists",
        did_you_mean(flag, parser.flags(), prefix="--"),
        reason="no such flag" if flag.startswith("-") else "not a flag, and nothing else goes here",
    )


def _version() -> str:
    try:
        return importlib.metadata.version("chunkside")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="YAML file of settings (CHUNKSIDE_CONFIG)")
    for name, field in Settings.model_fields.items():
        shape = shape_of(field)
        default = shown_default(field)
        text = f"{field.description}. Default: {default or 'none'}".replace("%", "%%")
        flag = flag_name(name)
        if shape.is_flag:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, help=text)
        elif shape.is_list:
            parser.add_argument(flag, action="append", metavar=shape.metavar, help=text)
        else:
            parser.add_argument(flag, metavar=shape.metavar, help=text)


def _settings_of(namespace: argparse.Namespace, but: Collection[str] = ()) -> Settings:
    """`but`: flags that are no settings."""
    flags: Mapping[str, object] = vars(namespace)
    config = flags.get("config")
    return load_settings(
        {name: value for name, value in flags.items() if name != "config" and name not in but},
        config=None if config is None else Path(str(config)),
    )


def _serve(namespace: argparse.Namespace) -> int:
    hangups = Hangups()
    settings = _settings_of(namespace)
    require_routes(settings)
    refuse_unfit_files(settings)
    refuse_open_ports(settings)
    with contextlib.ExitStack() as sockets:
        ports = open_ports(settings, sockets)
        from chunkside.app import serve  # noqa: PLC0415 - nobody waits for its imports

        return serve(settings, partial(_settings_of, namespace), hangups, ports)


_CHECK_FLAGS: Mapping[str, str] = {
    "verify": "read every file of the cache directory instead: heads, names, both checksums. It "
    "may run beside sidecars: it takes no lock, and changes no file. Exit code 1 if one is bad",
    "remove_bad": "with --verify: unlink what proves bad, but not what couldn't be read",
    "json": "print one JSON object",
}


def _add_check_flags(parser: argparse.ArgumentParser) -> None:
    for name, text in _CHECK_FLAGS.items():
        parser.add_argument(flag_name(name), action="store_true", help=text)
    _add_settings(parser)


def _check(namespace: argparse.Namespace) -> int:
    chosen = vars(namespace).keys() & _CHECK_FLAGS.keys()
    settings = _settings_of(namespace, _CHECK_FLAGS)
    if "verify" in chosen:
        return _verify(settings, remove_bad="remove_bad" in chosen, as_json="json" in chosen)
    if "remove_bad" in chosen:
        raise ConfigurationError("--remove-bad", None, "with --verify", reason="nothing is read")
    outlook = forecast(settings)
    if "json" in chosen:
        problems = [str(problem) for problem in outlook.problems]
        print(json.dumps({"lines": outlook.lines, "problems": problems}))
        return EXIT_MISCONFIGURED if outlook.problems else EXIT_OK
    for line in outlook.lines:
        print(line)
    for problem in outlook.problems:
        print(problem, file=sys.stderr)
    return EXIT_MISCONFIGURED if outlook.problems else EXIT_OK


def _verify(settings: Settings, *, remove_bad: bool, as_json: bool) -> int:
    choice = locate_cache(settings)
    if isinstance(choice, MemoryOnly):
        raise ConfigurationError(
            "cache_dir", None, "a cache directory", reason=f"there is none, since {choice.because}"
        )
    from chunkside.tools.verify import verify_cache  # noqa: PLC0415 - its imports are slow

    return verify_cache(choice.directory, remove_bad=remove_bad, as_json=as_json)


def _add_health_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="YAML file of settings (CHUNKSIDE_CONFIG)")
    parser.add_argument(
        "--admin-listen",
        action="append",
        metavar="ADDRESS",
        help="where it is asked; needed where serve was told by a flag. Default: as set",
    )
    parser.add_argument("--timeout", metavar="DURATION", default="3s", help="Default: 3s")


def _health(namespace: argparse.Namespace) -> int:
    timeout_seconds = _read("--timeout", namespace.timeout, parse_timeout)
    settings = _settings_of(namespace, ("timeout",))
    from chunkside.tools.health import health  # noqa: PLC0415 - other commands don't need it

    return health(settings.admin_listen, timeout_seconds)


def _add_demo_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--once", action="store_true", default=False, help="end after the two passes"
    )
    parser.add_argument(
        "--delay",
        metavar="DURATION",
        default="20ms",
        help="what the origin waits before each answer. Default: 20ms",
    )
    parser.add_argument(
        "--readers", metavar="N", default="1", help="concurrent readers. Default: 1"
    )
    parser.add_argument("--port", metavar="PORT", default="8100", help="data port. Default: 8100")
    parser.add_argument(
        "--admin-port", metavar="PORT", default="8101", help="admin port. Default: 8101"
    )


def _demo(namespace: argparse.Namespace) -> int:
    delay_seconds = _read("--delay", namespace.delay, parse_wait)
    readers = _read("--readers", namespace.readers, count_parser(1))
    port = _read("--port", namespace.port, _parse_port)
    admin_port = _read("--admin-port", namespace.admin_port, _parse_port)
    if importlib.util.find_spec("zarr") is None:
        raise ConfigurationError(
            "demo", None, "with zarr-python", "pip install 'chunkside[demo]'", reason="no zarr here"
        )
    from chunkside.demo import run  # noqa: PLC0415 - its imports are an extra

    return run(
        once=namespace.once,
        delay_seconds=delay_seconds,
        readers=readers,
        port=port,
        admin_port=admin_port,
    )


def _parse_port(value: object) -> int:
    text = str(value)
    if not text.isascii() or not text.isdigit() or len(text) > 5 or int(text) > 65535:
        raise NotAllowedError("not a port", "a port from 0 to 65535")
    return int(text)


def _read(flag: str, text: str, parse: Callable[[object], Value]) -> Value:
    try:
        return parse(text)
    except NotAllowedError as error:
        raise ConfigurationError(
            flag, text, error.allowed, error.remedy, reason=error.reason
        ) from error


COMMANDS: Mapping[str, Command] = {
    "serve": Command("run the sidecar", _add_settings, _serve),
    "check": Command(
        "validate configuration and cache directory, and say what would happen",
        _add_check_flags,
        _check,
    ),
    "health": Command(
        "ask a running sidecar whether it is ready; exit code 0 or 1", _add_health_flags, _health
    ),
    "demo": Command(
        "read a sparse Zarr array twice through a sidecar, and show what each pass cost",
        _add_demo_flags,
        _demo,
    ),
}
