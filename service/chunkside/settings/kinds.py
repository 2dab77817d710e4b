"""The kinds of value a setting can have: how each is read, and how help and tables show it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import PlainValidator

from chunkside.core.key import ClientCredentials
from chunkside.core.neighbours import Network
from chunkside.settings import addresses, quantities
from chunkside.settings.addresses import ListenAddress, OriginAddress, UpstreamAddress
from chunkside.settings.errors import NotAllowedError
from chunkside.settings.quantities import Percent
from chunkside.upstream.redirects import ListedHost

_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
HEADER_NAMES = "header field names, separated by commas"
TARGETED_NAMES = "header field names such as CDN-Cache-Control, separated by commas"
# As browsers write them (RFC 6454 §6.2): a default port is left out.
_ORIGIN = re.compile(
    r"http(?!://[^/]*:80$)(?!s://[^/]*:443$)s?://"
    r"(?:[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?",
    re.ASCII,
)
_HOST_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*", re.ASCII)
HOST_NAMES = "names such as cache.example.org, separated by commas"
ORIGINS = "* or origins such as http://localhost:3000, separated by commas"
ABSENT_STATUSES = "404, 410 and 403, or some of them"
PATHS = "a path"
NETWORKS = "networks such as 10.0.0.0/8 or addresses, separated by commas"
AUTHS = ("auto", "none", "aws", "gcp", "azure", "bearer", "basic", "header")
REGIONS = "the name of a region, such as eu-central-1"
_REGION = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a kind of value is written (`metavar`) and its default shown (`show`)."""

    metavar: str
    show: Callable[[Any], str] = str
    is_flag: bool = False
    is_list: bool = False


def _auto_or(
    parse: Callable[[object], Any], show: Callable[[Any], str], what: str
) -> tuple[PlainValidator, Shape]:
    def read(value: object) -> Any:
        if isinstance(value, str) and value.strip().lower() == "auto":
            return "auto"
        try:
            return parse(value)
        except NotAllowedError as error:
            raise NotAllowedError(error.reason, f"auto, {error.allowed}") from error

    return PlainValidator(read), Shape(
        f"auto|{what}", lambda value: value if isinstance(value, str) else show(value)
    )


def _read_path(value: object) -> Path:
    if not isinstance(value, (str, Path)) or not str(value).strip() or "\0" in str(value):
        raise NotAllowedError("not a path", PATHS)
    path = Path(value)
    if path.parts[0].startswith("~"):
        raise NotAllowedError("~ is the shell's, and no shell read this", PATHS, "write it in full")
    return path.absolute()


def _read_listens(value: object) -> tuple[ListenAddress, ...]:
    items = value if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(item, str) for item in items):
        return tuple(addresses.parse_listen(item) for item in items)
    listens = tuple(addresses.parse_listen(item) for item in quantities.parse_list(items))
    if not listens:
        raise NotAllowedError("empty", addresses.LISTENS)
    return listens


def _read_header_names(value: object) -> tuple[str, ...]:
    names = quantities.parse_list(value)
    if not all(_FIELD_NAME.fullmatch(name) for name in names):
        raise NotAllowedError("not header field names", HEADER_NAMES)
    return names


def _read_targeted(value: object) -> tuple[str, ...]:
    names = _read_header_names(value)
    if any(name.lower() in ("cache-control", "expires", "pragma") for name in names):
        raise NotAllowedError(
            "not a field that is meant for some caches alone",
            TARGETED_NAMES,
            "Cache-Control and Expires are read where none of these is there",
        )
    return names


def _read_host_names(value: object) -> tuple[str, ...]:
    names = tuple(text.lower().removesuffix(".") for text in quantities.parse_list(value))
    if not all(_HOST_NAME.fullmatch(name) for name in names):
        raise NotAllowedError("not host names", HOST_NAMES, "no port, no scheme, no pattern")
    return names


def _read_origins(value: object) -> tuple[str, ...]:
    try:
        origins = tuple(text.lower() for text in quantities.parse_list(value))
    except NotAllowedError as error:
        raise NotAllowedError(error.reason, ORIGINS) from error
    for origin in origins:
        if origin != "*" and _ORIGIN.fullmatch(origin) is None:
            raise NotAllowedError(
                "not origins of pages", ORIGINS, "no path, no slash at the end, no default port"
            )
    return origins


def _read_redirect_hosts(value: object) -> tuple[ListedHost, ...]:
    items = value if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(item, str) for item in items):
        return tuple(addresses.parse_redirect_host(item) for item in items)
    return tuple(addresses.parse_redirect_host(item) for item in quantities.parse_list(items))


def _read_networks(value: object) -> tuple[Network, ...]:
    networks = []
    for text in quantities.parse_list(value):
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError as error:
            has_host = "host bits" in str(error)
            remedy = "write 10.0.0.0/8, not 10.0.0.1/8" if has_host else None
            raise NotAllowedError("not networks", NETWORKS, remedy) from error
    return tuple(networks)


def _read_region(value: object) -> str:
    region = value.strip() if isinstance(value, str) else ""
    if _REGION.fullmatch(region) is None:
        raise NotAllowedError("not a region", REGIONS)
    return region


def _read_absent_statuses(value: object) -> frozenset[int]:
    items = value if isinstance(value, (list, tuple)) else [value]
    texts = [str(each) if type(each) is int else each for each in items]
    try:
        words = quantities.parse_list(texts)
    except NotAllowedError as error:
        raise NotAllowedError(error.reason, ABSENT_STATUSES) from error
    if not words:
        raise NotAllowedError(
            "empty", ABSENT_STATUSES, "to remember no absence set cache_missing to false"
        )
    if not set(words) <= {"404", "410", "403"}:
        raise NotAllowedError("not a status that tells of absence", ABSENT_STATUSES)
    return frozenset(map(int, words))


def _comma_joined(items: tuple[object, ...]) -> str:
    return ", ".join(str(item) for item in items)


def _show_share(value: int | Percent) -> str:
    if isinstance(value, Percent):
        return quantities.format_percent(value)
    return quantities.format_size(value)


_auto_size = _auto_or(quantities.parse_size, quantities.format_size, "SIZE")
_auto_share = _auto_or(quantities.parse_size_or_share, _show_share, "SIZE|PERCENT")
_duration_shape = Shape("DURATION", quantities.format_duration)

Upstream = Annotated[OriginAddress | None, PlainValidator(addresses.parse_upstream), Shape("URL")]
Listens = Annotated[
    tuple[ListenAddress, ...],
    PlainValidator(_read_listens),
    Shape("ADDRESS", _comma_joined, is_list=True),
]
AutoSize = Annotated[int | Literal["auto"], *_auto_size]
AutoShare = Annotated[int | Percent | Literal["auto"], *_auto_share]
Directory = Annotated[Path | None, PlainValidator(_read_path), Shape("DIR")]
File = Annotated[Path | None, PlainValidator(_read_path), Shape("FILE")]
Duration = Annotated[float, PlainValidator(quantities.parse_duration), _duration_shape]
Timeout = Annotated[float, PlainValidator(quantities.parse_timeout), _duration_shape]
Wait = Annotated[float, PlainValidator(quantities.parse_wait), _duration_shape]
Count = Annotated[int, PlainValidator(quantities.count_parser(0)), Shape("N")]
Several = Annotated[int, PlainValidator(quantities.count_parser(1)), Shape("N")]
Share = Annotated[
    float, PlainValidator(quantities.parse_share), Shape("SHARE", quantities.format_share)
]
Switch = Annotated[
    bool,
    PlainValidator(quantities.parse_boolean),
    Shape("", lambda value: str(value).lower(), is_flag=True),
]
AutoSwitch = Annotated[
    bool | Literal["auto"],
    _auto_or(quantities.parse_boolean, str, "")[0],
    Shape("", lambda value: str(value).lower(), is_flag=True),
]
Texts = Annotated[
    tuple[str, ...],
    PlainValidator(quantities.parse_list),
    Shape("LIST", _comma_joined, is_list=True),
]
HeaderNames = Annotated[
    tuple[str, ...],
    PlainValidator(_read_header_names),
    Shape("LIST", _comma_joined, is_list=True),
]
TargetedNames = Annotated[
    tuple[str, ...],
    PlainValidator(_read_targeted),
    Shape("LIST", _comma_joined, is_list=True),
]
HostNames = Annotated[
    tuple[str, ...],
    PlainValidator(_read_host_names),
    Shape("LIST", _comma_joined, is_list=True),
]
Origins = Annotated[
    tuple[str, ...],
    PlainValidator(_read_origins),
    Shape("LIST", _comma_joined, is_list=True),
]
RedirectHosts = Annotated[
    tuple[ListedHost, ...],
    PlainValidator(_read_redirect_hosts),
    Shape("LIST", _comma_joined, is_list=True),
]
Networks = Annotated[
    tuple[Network, ...],
    PlainValidator(_read_networks),
    Shape("LIST", _comma_joined, is_list=True),
]
Endpoint = Annotated[UpstreamAddress | None, PlainValidator(addresses.parse_endpoint), Shape("URL")]
Region = Annotated[str | None, PlainValidator(_read_region), Shape("NAME")]
Addressing = Annotated[
    Literal["auto", "path", "virtual"],
    PlainValidator(quantities.choice_parser("auto", "path", "virtual")),
    Shape("auto|path|virtual"),
]
UpstreamAuth = Annotated[
    Literal["auto", "none", "aws", "gcp", "azure", "bearer", "basic", "header"],
    PlainValidator(quantities.choice_parser(*AUTHS)),
    Shape("|".join(AUTHS)),
]
AbsentStatuses = Annotated[
    frozenset[int],
    PlainValidator(_read_absent_statuses),
    Shape("LIST", lambda statuses: _comma_joined(tuple(sorted(statuses))), is_list=True),
]
Loop = Annotated[
    Literal["uvloop", "asyncio"],
    PlainValidator(quantities.choice_parser("uvloop", "asyncio")),
    Shape("uvloop|asyncio"),
]
NegativeScope = Annotated[
    Literal["auto", "get", "all"],
    PlainValidator(quantities.choice_parser("auto", "get", "all")),
    Shape("auto|get|all"),
]
Mode = Annotated[
    Literal["cache", "observe"],
    PlainValidator(quantities.choice_parser("cache", "observe")),
    Shape("cache|observe"),
]
Profile = Annotated[
    Literal["default", "strict", "archive"],
    PlainValidator(quantities.choice_parser("default", "strict", "archive")),
    Shape("default|strict|archive"),
]
AutoCacheControl = Annotated[
    Literal["auto", "obey", "ignore"],
    PlainValidator(quantities.choice_parser("auto", "obey", "ignore")),
    Shape("auto|obey|ignore"),
]
CacheControl = Annotated[
    Literal["obey", "ignore"],
    PlainValidator(quantities.choice_parser("obey", "ignore")),
    Shape("obey|ignore"),
]
Credentials = Annotated[
    ClientCredentials | Literal["auto"],
    PlainValidator(quantities.choice_parser("auto", "partition", "strip", "share")),
    Shape("auto|partition|strip|share"),
]
Cookies = Annotated[
    Literal["drop", "forward"],
    PlainValidator(quantities.choice_parser("drop", "forward")),
    Shape("drop|forward"),
]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"],
    PlainValidator(quantities.choice_parser("debug", "info", "warning", "error")),
    Shape("debug|info|warning|error"),
]
LogFormat = Annotated[
    Literal["console", "json"],
    PlainValidator(quantities.choice_parser("console", "json")),
    Shape("console|json"),
]
