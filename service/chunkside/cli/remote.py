"""Commands that ask a running sidecar: `stats`, `info`, `why`, `map`, `purge`, `warm`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chunkside.arrays.plane import Selection, parse_selection
from chunkside.cli.parsing import EXIT_FAILED, EXIT_OK, add_header, fields_of, no_target, read
from chunkside.settings.addresses import LISTENS, ListenAddress, TcpAddress, parse_listen
from chunkside.settings.errors import ConfigurationError, NotAllowedError
from chunkside.settings.quantities import count_parser, parse_timeout
from chunkside.settings.sources import load_settings
from chunkside.tools.admin_client import AdminClient, NotAnswered
from chunkside.tools.asking import purge as purge_named
from chunkside.tools.asking import show_info, show_map, show_verdict, show_why
from chunkside.tools.errors import ToolFailed
from chunkside.tools.slices import SLICES, parse_slices
from chunkside.tools.stats import show_stats
from chunkside.tools.targets import Located, NoTarget, RouteNames, address_of, locate

MOST_AT_ONCE = 1024
_WATCH_SECONDS = "2s"


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--admin",
        metavar="URL",
        help="admin port of the sidecar, such as http://localhost:8101 or unix:/path. Default: "
        "what admin_listen says",
    )
    parser.add_argument(
        "--config", metavar="FILE", help="YAML file of the sidecar's settings (CHUNKSIDE_CONFIG)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_stats_flags(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    parser.add_argument(
        "--watch",
        metavar="SECONDS",
        nargs="?",
        const=_WATCH_SECONDS,
        help=f"again and again, with rates, until Ctrl-C. Default: {_WATCH_SECONDS}",
    )


def add_info_flags(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)


def add_why_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="a target, or a URL")
    _add_common(parser)
    add_header(parser)
    parser.add_argument(
        "--verify",
        action="store_true",
        help="ask the origin now whether what is held is true. Exit code 1 if it isn't, or if that "
        "can't be told",
    )


def add_map_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="an array: its target or its URL")
    _add_common(parser)
    add_header(parser)
    parser.add_argument(
        "--slice",
        metavar="SLICES",
        help="an element for each dimension that isn't shown, a slice for one or two that are: "
        "0,:,100:200. Default: the last two dimensions, at the first element of the others",
    )
    parser.add_argument("--svg", action="store_true", help="print a picture")


def add_purge_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", nargs="?", help="one object")
    parser.add_argument("--prefix", metavar="TARGET", help="all at and beneath a target")
    parser.add_argument("--route", metavar="PREFIX", help="all of a route, named by its prefix")
    parser.add_argument("--all", action="store_true", help="all that is held")
    parser.add_argument(
        "--soft",
        action="store_true",
        help="keep bodies, and have them validated before their next use",
    )
    parser.add_argument("--yes", action="store_true", help="with --all: don't ask")
    _add_common(parser)


def add_warm_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="an array, or a group with consolidated metadata: its target or its URL",
    )
    _add_common(parser)
    parser.add_argument(
        "--data",
        metavar="URL",
        help="data port of the sidecar. Default: what TARGET names, else what listen says",
    )
    add_header(parser)
    parser.add_argument(
        "--concurrency", metavar="N", default="16", help="requests at a time. Default: 16"
    )
    parser.add_argument(
        "--slice", metavar="SLICES", help="only the chunks of a block: 0:100,:,5 (elements)"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="only say how many requests it takes, and how many bytes at most",
    )


def stats(namespace: argparse.Namespace) -> int:
    seconds = None
    if "watch" in namespace:
        seconds = read("--watch", namespace.watch, parse_timeout)
    sidecar = _Sidecar.of(namespace)
    show_stats(sidecar.admin(), as_json=sidecar.as_json, watch_seconds=seconds)
    return EXIT_OK


def info(namespace: argparse.Namespace) -> int:
    sidecar = _Sidecar.of(namespace)
    show_info(sidecar.admin(), as_json=sidecar.as_json)
    return EXIT_OK


def why(namespace: argparse.Namespace) -> int:
    fields, sidecar = fields_of(namespace), _Sidecar.of(namespace)
    client = sidecar.admin()
    target = sidecar.located(namespace.target, "TARGET", client.routes).target
    if "verify" not in namespace:
        show_why(client, target, fields, as_json=sidecar.as_json)
        return EXIT_OK
    is_sound = show_verdict(client, target, fields, as_json=sidecar.as_json)
    return EXIT_OK if is_sound else EXIT_FAILED


def chunk_map(namespace: argparse.Namespace) -> int:
    slices = getattr(namespace, "slice", None)
    if slices is not None:
        read("--slice", slices, _parse_selection)
    fields, sidecar = fields_of(namespace), _Sidecar.of(namespace)
    if sidecar.as_json and "svg" in namespace:
        raise ConfigurationError("--svg", None, "without --json", reason="both are given")
    client = sidecar.admin()
    target = sidecar.located(namespace.target, "TARGET", client.routes).target
    media_type = "application/json" if sidecar.as_json else "text/plain"
    media_type = "image/svg+xml" if "svg" in namespace else media_type
    show_map(client, target, fields, slices, media_type)
    return EXIT_OK


def _parse_selection(text: object) -> Selection:
    try:
        return parse_selection(str(text))
    except ValueError as error:
        allowed = "elements and slices, such as 0,:,100:200"
        raise NotAllowedError(str(error).rstrip("."), allowed) from error


def purge(namespace: argparse.Namespace) -> int:
    named = [name for name in ("target", "prefix", "route", "all") if name in namespace]
    if len(named) != 1:
        raise ConfigurationError(
            "purge",
            None,
            "one of TARGET, --prefix, --route and --all",
            reason="several are given" if named else "nothing is named",
        )
    sidecar = _Sidecar.of(namespace)
    client, name = sidecar.admin(), named[0]
    value = getattr(namespace, name)
    if name in ("target", "prefix"):
        flag = "TARGET" if name == "target" else "--prefix"
        value = sidecar.located(value, flag, client.routes).target
    if name == "all" and "yes" not in namespace and not _is_meant(client):
        raise ToolFailed("nothing is forgotten")
    purge_named(client, {name: value}, is_soft="soft" in namespace, as_json=sidecar.as_json)
    return EXIT_OK


def _is_meant(client: AdminClient) -> bool:
    """Scripts know what they do; people are asked."""
    if not sys.stdin.isatty():
        return True
    print(f"Forget all that {client.where} holds? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def warm(namespace: argparse.Namespace) -> int:
    concurrency = read("--concurrency", namespace.concurrency, count_parser(1))
    if concurrency > MOST_AT_ONCE:
        raise ConfigurationError("--concurrency", concurrency, f"1 to {MOST_AT_ONCE}")
    elements = read("--slice", namespace.slice, _parse_slices) if "slice" in namespace else ()
    fields, sidecar = fields_of(namespace), _Sidecar.of(namespace)
    located, data, admin = sidecar.place(namespace.target)
    from chunkside.tools.warm import Order, run_order  # noqa: PLC0415 - its imports are slow

    return run_order(
        Order(
            located.target,
            data,
            admin,
            fields,
            elements,
            concurrency,
            is_dry_run="dry_run" in namespace,
            as_json=sidecar.as_json,
        )
    )


def _parse_slices(text: object) -> tuple[slice, ...]:
    try:
        return parse_slices(str(text))
    except ValueError as error:
        raise NotAllowedError(str(error), SLICES) from error


def _parse_address(text: object) -> ListenAddress:
    """A listen address, or the URL of one."""
    told = str(text).strip()
    if told.startswith("unix:"):
        return parse_listen(told)
    try:
        address = address_of(told if "://" in told else f"http://{told}")
    except NoTarget as error:
        raise NotAllowedError(
            str(error), f"a URL such as http://localhost:8101, {LISTENS}"
        ) from error
    return address


@dataclass(frozen=True, slots=True)
class _Sidecar:
    """Where a sidecar is. None in place of what was not named: settings say it then."""

    told_admin: ListenAddress | None
    told_data: ListenAddress | None
    admin_listen: tuple[ListenAddress, ...]
    listen: tuple[ListenAddress, ...]
    as_json: bool

    @classmethod
    def of(cls, namespace: argparse.Namespace) -> _Sidecar:
        """Raises ConfigurationError."""
        told = {
            name: read(f"--{name}", getattr(namespace, name), _parse_address)
            for name in ("admin", "data")
            if name in namespace
        }
        config = Path(namespace.config) if "config" in namespace else None
        settings = load_settings({}, config=config)
        return cls(
            told.get("admin"),
            told.get("data"),
            settings.admin_listen,
            settings.listen,
            "json" in namespace,
        )

    def admin(self) -> AdminClient:
        """Raises ConfigurationError where its port can't be known."""
        return AdminClient(self.told_admin or _known("admin_listen", "--admin", self.admin_listen))

    def located(self, text: str, flag: str, routes: Callable[[], Sequence[RouteNames]]) -> Located:
        """Raises ConfigurationError, and ToolFailed where the sidecar can't be asked."""
        own = self.listen if self.told_data is None else (self.told_data,)
        try:
            return locate(text, own, routes)
        except NoTarget as error:
            raise no_target(flag, error) from error

    def place(self, text: str) -> tuple[Located, ListenAddress, AdminClient | None]:
        """A target, its data port, and an admin port: None where nothing tells that this is of the
        same sidecar, since what another one holds says nothing.
        """
        located = self.located(text, "TARGET", self._routes)
        data = self.told_data or located.server or _known("listen", "--data", self.listen)
        is_of_settings = self.told_data is None and located.server is None
        is_known = self.told_admin is not None or is_of_settings
        return located, data, self.admin() if is_known else None

    def _routes(self) -> Sequence[RouteNames]:
        try:
            return self.admin().routes()
        except (NotAnswered, ConfigurationError):
            # Only a URL of an upstream can't be told without it.
            return ()


def _known(setting: str, flag: str, addresses: tuple[ListenAddress, ...]) -> ListenAddress:
    """The first whose port is known."""
    for address in addresses:
        if not isinstance(address, TcpAddress) or address.port:
            return address
    raise ConfigurationError(
        setting, str(addresses[0]), f"a port that is known; name it with {flag} URL"
    )
