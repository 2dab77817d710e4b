"""Commands that need no running sidecar, and `health`, which is told of one by its settings."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path

from chunkside.cli.parsing import (
    EXIT_MISCONFIGURED,
    EXIT_OK,
    add_header,
    fields_of,
    no_target,
    read,
)
from chunkside.hangups import Hangups, end_when_told
from chunkside.listening import open_ports
from chunkside.settings.addresses import BucketAddress
from chunkside.settings.cache_directory import locate_cache
from chunkside.settings.derived import memory_limit, resolve_cache_size, resolve_memory_size
from chunkside.settings.errors import ConfigurationError, NotAllowedError
from chunkside.settings.files import refuse_unfit_files
from chunkside.settings.forecast import forecast
from chunkside.settings.model import Settings
from chunkside.settings.own_credential import refuse_open_ports
from chunkside.settings.quantities import count_parser, parse_timeout, parse_wait
from chunkside.settings.route_settings import RouteSettings
from chunkside.settings.sources import flag_name, load_settings, require_routes
from chunkside.settings.table import shape_of, shown_default
from chunkside.store.filesystem import MemoryOnly, measure
from chunkside.tools.targets import NoTarget, RouteNames, locate


def add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="YAML file of settings (CHUNKSIDE_CONFIG)")
    of_sidecar = parser.add_argument_group("settings of the whole sidecar")
    of_route = parser.add_argument_group("settings of a route, or of all")
    for name, field in Settings.model_fields.items():
        group = of_route if name in RouteSettings.model_fields else of_sidecar
        shape = shape_of(field)
        default = shown_default(field)
        text = f"{field.description}. Default: {default or 'none'}".replace("%", "%%")
        flag = flag_name(name)
        if shape.is_flag:
            group.add_argument(flag, action=argparse.BooleanOptionalAction, help=text)
        elif shape.is_list:
            group.add_argument(flag, action="append", metavar=shape.metavar, help=text)
        else:
            group.add_argument(flag, metavar=shape.metavar, help=text)


def settings_of(namespace: argparse.Namespace, but: Collection[str] = ()) -> Settings:
    """`but`: flags that are no settings."""
    flags: Mapping[str, object] = vars(namespace)
    config = flags.get("config")
    return load_settings(
        {name: value for name, value in flags.items() if name != "config" and name not in but},
        config=None if config is None else Path(str(config)),
    )


def serve(namespace: argparse.Namespace) -> int:
    end_when_told()
    hangups = Hangups()
    settings = settings_of(namespace)
    require_routes(settings)
    refuse_unfit_files(settings)
    refuse_open_ports(settings)
    with contextlib.ExitStack() as sockets:
        ports = open_ports(settings, sockets)
        from chunkside.app import serve  # noqa: PLC0415 - nobody waits for its imports

        code = serve(settings, partial(settings_of, namespace), hangups, ports)
    _leave_hanging_threads(code)
    return code


def _leave_hanging_threads(code: int) -> None:
    """Ends at once where some are under way that nobody waits for: a library's own code would be
    torn down beneath them, which has crashed.
    """
    if not any(each.daemon for each in threading.enumerate()):
        return
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- CMD ...", help="what to run"
    )
    add_settings(parser)


def run(namespace: argparse.Namespace) -> int:
    given = getattr(namespace, "command", [])
    command = given[1:] if given[:1] == ["--"] else given
    if not command:
        raise ConfigurationError("command", None, "chunkside run [flags] -- CMD ...", reason="none")
    settings = settings_of(namespace, {"command"})
    flags = list(_flags_again(namespace))
    if settings.upstream is None and not settings.routes:
        flags += ["--upstream", "s3://"]
    from chunkside.tools.run import run  # noqa: PLC0415 - other commands don't need it

    upstream = settings.upstream
    scheme, account = "s3", ""
    if isinstance(upstream, BucketAddress):
        scheme, account = upstream.scheme, upstream.account
    if upstream is None or isinstance(upstream, BucketAddress):
        flags += _as_before(settings, scheme, account)
    for name in ("listen", "admin_listen"):
        if name not in namespace:
            flags += [flag_name(name), "127.0.0.1:0"]
    if "log_level" not in namespace:
        flags += ["--log-level", "warning"]
    # The ports are read from what it prints.
    flags += ["--log-format", "console"]
    return run(command, flags, scheme, account, allows_writes=settings.allow_writes is True)


def _as_before(settings: Settings, scheme: str, account: str) -> Iterator[str]:
    """Has the store asked where the command's own readers asked it, and trusted as they did."""
    from chunkside.tools.run import LEADS  # noqa: PLC0415 - other commands don't need it
    from chunkside.upstream import aws, azure_secrets  # noqa: PLC0415

    told = os.environ  # environment: what the clouds' own clients go by
    match scheme:
        case "gs":
            endpoint = next(filter(None, map(told.get, LEADS["gs"])), None)
        case "az":
            endpoint = azure_secrets.blob_endpoint(account, told)
        case _:
            endpoint = aws.endpoint()
    where = settings.upstream_endpoint or endpoint
    if settings.upstream_endpoint is None and endpoint is not None:
        yield f"--upstream-endpoint={endpoint}"
    is_tls = where is None or str(where).startswith("https:")
    authorities = aws.ca_bundle() if scheme == "s3" and is_tls else None
    if settings.upstream_ca_file is None and authorities and Path(authorities).is_file():
        yield f"--upstream-ca-file={authorities}"


def _flags_again(namespace: argparse.Namespace) -> Iterator[str]:
    """The flags that were given, as `serve` takes them."""
    for name, value in vars(namespace).items():
        flag = flag_name(name)
        match value:
            case _ if name == "command":
                continue
            case bool():
                yield flag if value else flag.replace("--", "--no-", 1)
            case list():
                yield from (f"{flag}={each}" for each in value)
            case _:
                yield f"{flag}={value}"


_CHECK_FLAGS: Mapping[str, str] = {
    "verify": "read every file of the cache directory instead: heads, names, both checksums. It "
    "may run beside sidecars: it takes no lock, and changes no file. Exit code 1 if one is bad",
    "remove_bad": "with --verify: unlink what proves bad, but not what couldn't be read",
    "json": "print one JSON object",
}


def add_check_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--probe",
        metavar="TARGET",
        help="ask the origin about what caching depends on: whether it answers, HEAD, ranges, "
        "validators, conditions, lifetimes, and what a missing key gets. Exit code 1 if one of "
        "them is bad",
    )
    add_header(parser, "with --probe: ")
    for name, text in _CHECK_FLAGS.items():
        parser.add_argument(flag_name(name), action="store_true", help=text)
    add_settings(parser)


def check(namespace: argparse.Namespace) -> int:
    chosen = vars(namespace).keys() & _CHECK_FLAGS.keys()
    settings = settings_of(namespace, {*_CHECK_FLAGS, "probe", "header"})
    if "probe" in namespace:
        if "verify" in chosen or "remove_bad" in chosen:
            raise ConfigurationError(
                "--probe", None, "without --verify", reason="one looks at the origin, one at files"
            )
        return _probe(settings, namespace, as_json="json" in chosen)
    if "header" in namespace:
        raise ConfigurationError("--header", None, "with --probe", reason="nothing is asked")
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


def _probe(settings: Settings, namespace: argparse.Namespace, *, as_json: bool) -> int:
    configured = require_routes(settings)
    refuse_unfit_files(settings)
    names = [RouteNames(each.prefix, str(each.upstream)) for each in configured]
    try:
        target = locate(namespace.probe, settings.listen, lambda: names).target
    except NoTarget as error:
        raise no_target("--probe", error) from error
    from chunkside.tools.probe import probe  # noqa: PLC0415 - its imports are slow

    return probe(configured, target, fields_of(namespace), _budget(settings), as_json=as_json)


def _budget(settings: Settings) -> int:
    """What the cache would have, as far as largest bodies depend on it."""
    choice = locate_cache(settings)
    if isinstance(choice, MemoryOnly):
        return resolve_memory_size(settings.memory_size, memory_limit())
    volume = measure(choice.directory)
    return resolve_cache_size(settings.cache_size, volume.total_bytes, volume.free_bytes)


def _verify(settings: Settings, *, remove_bad: bool, as_json: bool) -> int:
    choice = locate_cache(settings)
    if isinstance(choice, MemoryOnly):
        raise ConfigurationError(
            "cache_dir", None, "a cache directory", reason=f"there is none, since {choice.because}"
        )
    from chunkside.tools.verify import verify_cache  # noqa: PLC0415 - its imports are slow

    return verify_cache(choice.directory, remove_bad=remove_bad, as_json=as_json)


def add_health_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="YAML file of settings (CHUNKSIDE_CONFIG)")
    parser.add_argument(
        "--admin-listen",
        action="append",
        metavar="ADDRESS",
        help="where it is asked; needed where serve was told by a flag. Default: as set",
    )
    parser.add_argument("--timeout", metavar="DURATION", default="3s", help="Default: 3s")


def health(namespace: argparse.Namespace) -> int:
    timeout_seconds = read("--timeout", namespace.timeout, parse_timeout)
    settings = settings_of(namespace, ("timeout",))
    from chunkside.tools.health import health  # noqa: PLC0415 - other commands don't need it

    return health(settings.admin_listen, timeout_seconds)


def add_demo_flags(parser: argparse.ArgumentParser) -> None:
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


def demo(namespace: argparse.Namespace) -> int:
    delay_seconds = read("--delay", namespace.delay, parse_wait)
    readers = read("--readers", namespace.readers, count_parser(1))
    port = read("--port", namespace.port, _parse_port)
    admin_port = read("--admin-port", namespace.admin_port, _parse_port)
    if importlib.util.find_spec("zarr") is None:
        raise ConfigurationError(
            "demo",
            None,
            "with zarr-python",
            "pip install 'chunkside[demo]', or make demo in a clone",
            reason="zarr is not installed",
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
