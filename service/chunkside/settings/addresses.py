"""Where the origin is, and where the sidecar listens: parsed once, never again.

Pure: nothing is resolved, and no socket is opened.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from chunkside.settings.authority import bracketed, looks_numeric, split_authority
from chunkside.settings.errors import NotAllowedError, did_you_mean
from chunkside.upstream.redirects import ListedHost

UPSTREAMS = (
    "an http:// or https:// URL with an optional path prefix, s3:// or gs:// with an optional "
    "bucket and prefix, az://ACCOUNT with an optional container and prefix, or file:// and an "
    "absolute path"
)
ENDPOINTS = "an http:// or https:// URL without a path"
REDIRECT_HOSTS = "hosts such as data.example.org, mirror:8080 or *.example.org"
LISTENS = "localhost:PORT, HOST:PORT, [IPV6]:PORT or unix:/PATH"

DEFAULT_PORTS: Final = {"http": 80, "https": 443}
BUCKET_SCHEMES: Final = {
    "s3": "https://s3.amazonaws.com:443",
    "gs": "https://storage.googleapis.com:443",
    "az": "https://{account}.blob.core.windows.net:443",
}
"""Object stores, and the origin location of each that is the cloud's own."""
ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - recognised, not bound here
LONGEST_UNIX_PATH = 107
"""Bytes that `sun_path` holds, less its terminating zero."""

_PATH = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*", re.ASCII)
_DOT_SEGMENT = re.compile(r"/(?:\.|%2e){1,2}(?:/|$)", re.ASCII | re.IGNORECASE)
_DIRECTORY_PATH = re.compile(
    r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%(?!2[Ff]|00)[0-9A-Fa-f]{2})+)+", re.ASCII
)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}", re.ASCII)
# Of containers `$root` and the like are Azure's own.
_CONTAINER = re.compile(r"[a-z0-9](-?[a-z0-9])+|\$[a-z]+", re.ASCII)
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}", re.ASCII)


@dataclass(frozen=True, slots=True)
class UpstreamAddress:
    """The origin's scheme, host, port and path prefix."""

    scheme: str
    host: str
    """Lower case; an IPv6 address without its brackets."""
    port: int
    """The scheme's own where the URL names none."""
    prefix: str
    """Raw and percent-encoded as configured; "" or "/…" without a trailing slash."""

    @property
    def authority(self) -> str:
        """What `Host` says: the port only where it is not the scheme's own."""
        host = bracketed(self.host)
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def location(self) -> str:
        """Scheme, host and port, the port always written: the origin location of keys."""
        return f"{self.scheme}://{bracketed(self.host)}:{self.port}"

    @property
    def scope(self) -> str:
        return self.prefix

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.prefix}"


@dataclass(frozen=True, slots=True)
class DirectoryAddress:
    """A directory on this machine. Two of them share nothing, even if one lies in the other: what
    may be read of a file depends on where its reading began.
    """

    path: str
    """Raw and percent-encoded as configured, without a slash at its end; "" for the root."""
    prefix: str = ""
    """Of targets: they begin beneath it."""

    @property
    def directory(self) -> bytes:
        return unquote_to_bytes(self.path) or b"/"

    @property
    def location(self) -> str:
        """The origin location of keys."""
        return f"file://{quote(unquote_to_bytes(self.path))}"

    @property
    def scope(self) -> str:
        return self.prefix

    def __str__(self) -> str:
        return f"file://{self.path}"


@dataclass(frozen=True, slots=True)
class BucketAddress:
    """What begins with a prefix in a bucket of an object store, or all of a bucket or store."""

    scheme: str
    scope: str
    """What targets begin with, percent-encoded: `/bucket/prefix`, `/bucket`, or "" for all."""
    endpoint: UpstreamAddress | None = None
    """Where the store answers; None for the cloud's own."""
    account: str = ""
    """Whose the buckets are, where names of buckets are no more than an account's own: `az`."""

    @property
    def prefix(self) -> str:
        """Clients name the bucket themselves. The account stands in the host at the cloud's own,
        and before the bucket elsewhere.
        """
        return f"/{self.account}" if self.account and self.endpoint is not None else ""

    @property
    def location(self) -> str:
        """The origin location of keys. A cloud's regions are one: a bucket has the same objects by
        whichever it is asked.
        """
        if self.endpoint is not None:
            return self.endpoint.location
        return BUCKET_SCHEMES[self.scheme].format(account=self.account)

    def __str__(self) -> str:
        path = f"/{self.account}{self.scope}" if self.account else self.scope
        return f"{self.scheme}://{path.removeprefix('/')}"


OriginAddress = UpstreamAddress | DirectoryAddress | BucketAddress


def is_azure(upstream: OriginAddress) -> bool:
    return isinstance(upstream, BucketAddress) and upstream.scheme == "az"


def root_of(upstream: OriginAddress) -> str:
    """The URL that what an upstream has begins with."""
    url = str(upstream)
    is_all_of_it = isinstance(upstream, BucketAddress) and url.endswith("://")
    return url if is_all_of_it else f"{url}/"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    host: str
    """As written, an IPv6 address without its brackets; `localhost` is both loopback families."""
    port: int
    """0 asks for a free one, the same on all `bind_hosts`."""

    @property
    def bind_hosts(self) -> tuple[str, ...]:
        return ("127.0.0.1", "::1") if self.host == "localhost" else (self.host,)

    @property
    def url(self) -> str:
        """Where a client on this machine reaches it."""
        host = "localhost" if self.host in ANY_ADDRESS else self.host
        return f"http://{bracketed(host)}:{self.port}"

    def __str__(self) -> str:
        return f"{bracketed(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


ListenAddress = TcpAddress | UnixAddress


def parse_upstream(value: object) -> OriginAddress:
    if isinstance(value, (UpstreamAddress, DirectoryAddress, BucketAddress)):
        return value
    if not isinstance(value, str) or not value.strip():
        raise NotAllowedError("not a URL", UPSTREAMS)
    url = value.strip()
    scheme, separator, rest = url.partition("://")
    if not separator:
        shown = without_secrets(url)
        raise NotAllowedError("has no scheme", UPSTREAMS, f"write {_meant(shown)}", shown=shown)
    _refuse_scheme(scheme.lower(), url)
    _refuse_secrets(url, rest)
    authority, slash, path = rest.partition("/")
    if scheme.lower() == "file":
        return _parse_directory(authority, slash + path)
    if scheme.lower() == "az":
        return _parse_container(authority, slash + path)
    if scheme.lower() in BUCKET_SCHEMES:
        return _parse_bucket(scheme.lower(), authority, slash + path)
    prefix = (slash + path).rstrip("/")
    if _PATH.fullmatch(prefix) is None or _DOT_SEGMENT.search(prefix):
        raise NotAllowedError(
            "its path can't be sent as it is", UPSTREAMS, "percent-encode it, without dot segments"
        )
    default_port = DEFAULT_PORTS[scheme.lower()]
    host, port = split_authority(authority, default_port=default_port, allowed=UPSTREAMS)
    if port == 0:
        raise NotAllowedError("port 0 can't be connected to", UPSTREAMS)
    return UpstreamAddress(scheme.lower(), host.lower(), port, prefix)


def _meant(text: str) -> str:
    """The URL that most likely is meant by one without `://`."""
    if text.startswith("/"):
        return f"http:{text}" if text.startswith("//") else f"file://{text}"
    if (arn := re.fullmatch(r"arn:aws[a-z-]*:s3:::(.+)", text)) is not None:
        return f"s3://{arn[1]}"
    if (begun := re.fullmatch(r"(?i)(https?|file|s3|gs|az):/*(.+)", text)) is not None:
        scheme = begun[1].lower()
        return f"{scheme}://{'/' * (scheme == 'file')}{begun[2]}"
    return f"http://{text}"


def _parse_bucket(scheme: str, bucket: str, path: str) -> BucketAddress:
    prefix = path.rstrip("/")
    if not bucket:
        if prefix:
            example = f"write {scheme}://BUCKET"
            raise NotAllowedError("has no bucket before its path", UPSTREAMS, example)
        return BucketAddress(scheme, "")
    if _BUCKET.fullmatch(bucket) is None:
        raise NotAllowedError("not the name of a bucket", UPSTREAMS, _endpoint_remedy(bucket))
    _refuse_prefix(prefix)
    return BucketAddress(scheme, f"/{bucket}{prefix}")


def _parse_container(account: str, path: str) -> BucketAddress:
    """An endpoint of Azure's for blobs may stand for the account in it."""
    account = account.removesuffix(".blob.core.windows.net")
    if _ACCOUNT.fullmatch(account) is None:
        reason = "not the name of a storage account" if account else "has no storage account"
        remedy = _endpoint_remedy(account) or "write az://ACCOUNT/CONTAINER"
        raise NotAllowedError(reason, UPSTREAMS, remedy)
    container, slash, prefix = path.strip("/").partition("/")
    if not container:
        return BucketAddress("az", "", account=account)
    if _CONTAINER.fullmatch(container) is None:
        raise NotAllowedError("not the name of a container after the account", UPSTREAMS)
    prefix = slash + prefix
    _refuse_prefix(prefix)
    return BucketAddress("az", f"/{container}{prefix}", account=account)


def _endpoint_remedy(name: str) -> str | None:
    return "an endpoint goes into upstream_endpoint" if ":" in name else None


def _refuse_prefix(prefix: str) -> None:
    if _PATH.fullmatch(prefix) is None or _DOT_SEGMENT.search(prefix) or "//" in prefix:
        raise NotAllowedError(
            "its prefix can't be sent as it is",
            UPSTREAMS,
            "percent-encode it, without empty or dot segments",
        )


def parse_endpoint(value: object) -> UpstreamAddress:
    try:
        address = parse_upstream(value)
    except NotAllowedError as error:
        # What else an upstream may be is none.
        is_meant = error.remedy is not None and error.remedy.startswith("write http")
        remedy = error.remedy if is_meant else None
        raise NotAllowedError(error.reason, ENDPOINTS, remedy, shown=error.shown) from error
    if not isinstance(address, UpstreamAddress):
        raise NotAllowedError("not where a store answers", ENDPOINTS)
    if address.prefix:
        raise NotAllowedError(
            "has a path",
            ENDPOINTS,
            "what it names goes into upstream: s3://BUCKET, gs://BUCKET or az://ACCOUNT",
        )
    return address


def _parse_directory(authority: str, path: str) -> DirectoryAddress:
    if authority.lower() not in ("", "localhost"):
        raise NotAllowedError(
            f"names a host, {authority}",
            UPSTREAMS,
            f"an absolute path has three slashes: file:///{authority}{path}",
        )
    if not path.startswith("/"):
        raise NotAllowedError("has no path", UPSTREAMS, "write file:///PATH")
    path = path.rstrip("/")
    if (path and _DIRECTORY_PATH.fullmatch(path) is None) or _DOT_SEGMENT.search(path):
        raise NotAllowedError(
            "its path can't be told apart from others",
            UPSTREAMS,
            "percent-encode it, without dot segments, doubled or encoded slashes",
        )
    return DirectoryAddress(path)


def parse_redirect_host(value: object) -> ListedHost:
    if isinstance(value, ListedHost):
        return value
    text = value.strip().lower() if isinstance(value, str) else ""
    is_suffix = text.startswith("*.")
    try:
        host, port = split_authority(
            text.removeprefix("*."), default_port=0, allowed=REDIRECT_HOSTS
        )
    except NotAllowedError as error:
        raise NotAllowedError(
            error.reason, REDIRECT_HOSTS, "no scheme, no path, * only as *.SUFFIX"
        ) from error
    if text.endswith(":0"):
        raise NotAllowedError("port 0 can't be connected to", REDIRECT_HOSTS)
    if is_suffix and ("." not in host or looks_numeric(host) or ":" in host):
        raise NotAllowedError("not a domain after *.", REDIRECT_HOSTS)
    return ListedHost(bracketed(host.removesuffix(".")), port or None, is_suffix)


def parse_listen(value: object) -> ListenAddress:
    if isinstance(value, (TcpAddress, UnixAddress)):
        return value
    if not isinstance(value, str):
        raise NotAllowedError("not an address", LISTENS)
    text = value.strip()
    if text.startswith("unix:"):
        return _parse_unix(text.removeprefix("unix:"))
    host, port = split_authority(text, default_port=None, allowed=LISTENS)
    return TcpAddress("localhost" if host.lower() == "localhost" else host, port)


def without_secrets(url: str) -> str:
    """The URL as it may be shown: no user information, query or fragment."""
    url = re.sub(r"^([^/?#]*//)?.*@", r"\1***@", url)
    return re.sub(r"([?#]).*", r"\1***", url)


def _refuse_scheme(scheme: str, url: str) -> None:
    if scheme in DEFAULT_PORTS or scheme in BUCKET_SCHEMES or scheme == "file":
        return
    shown = without_secrets(url)
    known = (*DEFAULT_PORTS, "file", *BUCKET_SCHEMES)
    raise NotAllowedError("unknown scheme", UPSTREAMS, did_you_mean(scheme, known), shown=shown)


def _refuse_secrets(url: str, rest: str) -> None:
    shown = without_secrets(url)
    if "?" in rest or "#" in rest:
        raise NotAllowedError(
            "has a query or a fragment", UPSTREAMS, "leave out what follows the path", shown=shown
        )
    if "@" in rest.partition("/")[0]:
        raise NotAllowedError(
            "has credentials in it",
            UPSTREAMS,
            "set upstream_auth, or let readers send theirs",
            shown=shown,
        )


def _parse_unix(path: str) -> UnixAddress:
    if not path.startswith("/") or "\0" in path:
        raise NotAllowedError("the socket's path is not absolute", LISTENS)
    if len(path.encode(errors="surrogateescape")) > LONGEST_UNIX_PATH:
        raise NotAllowedError(
            f"the socket's path is longer than {LONGEST_UNIX_PATH} bytes", LISTENS, "shorten it"
        )
    return UnixAddress(path)
