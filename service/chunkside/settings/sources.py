"""Flags over environment over file: one `Settings`, or one line that says what is wrong.

The only reader of the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from chunkside.settings.addresses import (
    UPSTREAMS,
    BucketAddress,
    DirectoryAddress,
    ListenAddress,
    OriginAddress,
    TcpAddress,
)
from chunkside.settings.errors import (
    ConfigurationError,
    NotAllowedError,
    RouteNotAllowedError,
    did_you_mean,
)
from chunkside.settings.model import Settings
from chunkside.settings.route_settings import RouteSettings
from chunkside.settings.routes import ConfiguredRoute, refuse_disagreement
from chunkside.settings.signers import refuse_two_signers

PREFIX = "CHUNKSIDE_"
CONFIG = "CHUNKSIDE_CONFIG"
URL = "CHUNKSIDE_URL"
"""Set by `chunkside run` for the command it runs, which may start a sidecar of its own."""

_OF_FILES = {"allow_writes": False}
"""What holds of files, whatever is said beside routes: that is meant for others."""

_SERVICE_LINK = re.compile(
    r"CHUNKSIDE_(?:.+_)?"
    r"(?:SERVICE_HOST|SERVICE_PORT(?:_.+)?|PORT|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_.+)?)",
    re.ASCII,
)
"""What Kubernetes injects beside a Service whose name starts with `chunkside`."""


@dataclass(frozen=True, slots=True)
class Given:
    """A raw value and where it was written."""

    value: object
    source: str


def load_settings(
    flags: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    config: Path | None = None,
) -> Settings:
    """The settings that hold; raises `ConfigurationError`.

    `flags` are by field name, raw. `environment` is the process's own where left out. `config`
    goes before `CHUNKSIDE_CONFIG`.
    """
    environment = os.environ if environment is None else environment
    given: dict[str, Given] = {}
    file = config if config is not None else _configured_file(environment)
    if file is not None:
        given |= _from_file(file)
    given |= _from_environment(environment)
    given |= _from_flags(flags or {})
    try:
        settings = Settings.model_validate({name: raw.value for name, raw in given.items()})
    except ValidationError as error:
        raise _first_of(error.errors(), given) from error
    _refuse_shared_ports(settings)
    _refuse_writes_to_files(settings, given)
    if settings.routes:
        _refuse_upstream_beside_routes(settings, given)
        refuse_disagreement(require_routes(settings), given["routes"].source)
    if settings.routes or settings.upstream is not None:
        refuse_two_signers(require_routes(settings))
    return settings


def require_routes(settings: Settings) -> tuple[ConfiguredRoute, ...]:
    """The routes, each with all that holds for it; a single upstream is the route of all paths.

    Raises ConfigurationError where there is neither.
    """
    if settings.routes:
        return tuple(_completed(route, settings) for route in settings.routes)
    if settings.upstream is None:
        raise ConfigurationError(
            "upstream",
            None,
            UPSTREAMS,
            "give --upstream, CHUNKSIDE_UPSTREAM or upstream in the --config file, or several as "
            "routes",
            reason="not set",
        )
    own = settings
    if isinstance(settings.upstream, DirectoryAddress):
        own = settings.model_copy(update=_OF_FILES)
    return (_at_its_endpoint(ConfiguredRoute("/", settings.upstream, own)),)


def _completed(route: ConfiguredRoute, beside: Settings) -> ConfiguredRoute:
    own = route.settings
    said = {name: getattr(own, name) for name in own.model_fields_set}
    if isinstance(route.upstream, DirectoryAddress):
        said |= _OF_FILES
    return _at_its_endpoint(replace(route, settings=beside.model_copy(update=said)))


def _at_its_endpoint(route: ConfiguredRoute) -> ConfiguredRoute:
    """Where a store answers is another setting than what is asked of it."""
    if not isinstance(route.upstream, BucketAddress):
        return route
    endpoint = route.settings.upstream_endpoint
    return replace(route, upstream=replace(route.upstream, endpoint=endpoint))


def environment_name(field: str) -> str:
    return PREFIX + field.upper()


def flag_name(field: str) -> str:
    return "--" + field.replace("_", "-")


def _configured_file(environment: Mapping[str, str]) -> Path | None:
    if CONFIG not in environment:
        return None
    if not environment[CONFIG].strip():
        raise ConfigurationError("config", "", "a path to a YAML file", source=CONFIG)
    return Path(environment[CONFIG])


def _from_flags(flags: Mapping[str, object]) -> dict[str, Given]:
    _refuse_unknown(
        [flag_name(name) for name in flags], map(flag_name, Settings.model_fields), prefix="--"
    )
    return {name: Given(value, flag_name(name)) for name, value in flags.items()}


def _from_environment(environment: Mapping[str, str]) -> dict[str, Given]:
    fields = {environment_name(field): field for field in Settings.model_fields}
    ours = {name: value for name, value in sorted(environment.items()) if _is_ours(name)}
    _refuse_unknown(ours, (*fields, CONFIG), prefix=PREFIX)
    return {fields[name]: Given(value, name) for name, value in ours.items() if name in fields}


def _is_ours(name: str) -> bool:
    return name.startswith(PREFIX) and name != URL and _SERVICE_LINK.fullmatch(name) is None


def _from_file(path: Path) -> dict[str, Given]:
    document = _read_yaml(path)
    if document is None:
        return {}
    if not isinstance(document, dict) or not all(isinstance(name, str) for name in document):
        raise _bad_file(path, "does not hold names and values")
    _refuse_unknown(document, Settings.model_fields, source=str(path))
    return {name: Given(value, str(path)) for name, value in document.items()}


def _read_yaml(path: Path) -> object:
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _bad_file(path, f"can't be read: {reason}") from error
    try:
        document: object = yaml.safe_load(content)
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise _bad_file(path, f"not YAML{line}: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _bad_file(path, "not YAML") from error
    return document


def _bad_file(path: Path, reason: str) -> ConfigurationError:
    return ConfigurationError(
        "config",
        str(path),
        "a readable YAML file of settings, one `name: value` each",
        reason=reason,
    )


def _refuse_unknown(
    names: Iterable[str], known: Iterable[str], *, prefix: str = "", source: str | None = None
) -> None:
    """Values of unknown names are not shown: what they hold is unknown too."""
    known = tuple(known)
    for name in names:
        if name not in known:
            raise ConfigurationError(
                name,
                None,
                "the names that `chunkside serve --help` lists",
                did_you_mean(name, known, prefix=prefix),
                reason="no such setting",
                source=source,
            )


def _first_of(errors: list[ErrorDetails], given: Mapping[str, Given]) -> ConfigurationError:
    """The first wrong value; the next one shows once this is put right."""
    first = errors[0]
    name = str(first["loc"][0])
    raw = given[name]
    match first.get("ctx", {}).get("error"):
        case RouteNotAllowedError() as refusal:
            return ConfigurationError(
                refusal.setting,
                refusal.value,
                refusal.allowed,
                refusal.remedy,
                reason=refusal.reason,
                source=raw.source,
            )
        case NotAllowedError() as refusal:
            value = raw.value if refusal.shown is None else refusal.shown
            return ConfigurationError(
                name,
                value,
                refusal.allowed,
                refusal.remedy,
                reason=refusal.reason,
                source=raw.source,
            )
        case _:
            return ConfigurationError(name, raw.value, first["msg"], source=raw.source)


def _refuse_upstream_beside_routes(settings: Settings, given: Mapping[str, Given]) -> None:
    if settings.upstream is not None:
        raise ConfigurationError(
            "upstream",
            str(settings.upstream),
            "either upstream or routes",
            "leave it out, or make it the route of prefix /",
            reason=f"routes are set too, in {given['routes'].source}",
            source=given["upstream"].source,
        )


def _refuse_writes_to_files(settings: Settings, given: Mapping[str, Given]) -> None:
    asked: list[tuple[str, OriginAddress | None, RouteSettings, str]] = [
        (f"routes[{route.prefix}].allow_writes", route.upstream, route.settings, "routes")
        for route in settings.routes
    ]
    for setting, upstream, own, where in (
        *asked,
        ("allow_writes", settings.upstream, settings, "allow_writes"),
    ):
        is_said = "allow_writes" in own.model_fields_set and own.allow_writes is True
        if is_said and isinstance(upstream, DirectoryAddress):
            raise ConfigurationError(
                setting,
                "true",
                "false with file://",
                "leave it out",
                reason="files are only read",
                source=given[where].source,
            )


def _refuse_shared_ports(settings: Settings) -> None:
    data = set(_sockets(settings.listen))
    for address in settings.admin_listen:
        if not data.isdisjoint(_sockets((address,))):
            raise ConfigurationError(
                "admin_listen", str(address), "an address that `listen` does not have"
            )


def _sockets(addresses: Iterable[ListenAddress]) -> Iterator[tuple[str, int]]:
    for address in addresses:
        match address:
            case TcpAddress(port=0):
                pass
            case TcpAddress(port=port):
                yield from ((host, port) for host in address.bind_hosts)
            case _:
                yield str(address), 0
