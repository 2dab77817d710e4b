"""A configured upstream, and how a client's request becomes one to it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from chunkside.core.buckets import has_key, is_admitted, is_of_an_object, spelled_plainly
from chunkside.core.copies import composes, copies_from_beneath
from chunkside.core.cors import Pages
from chunkside.core.credentials import (
    is_presigned,
    is_sent_in_signed_chunks,
    is_signed,
    partition,
    stripped,
)
from chunkside.core.decision import Refuse
from chunkside.core.fields import Fields
from chunkside.core.json_api import Named, content_read, named_by
from chunkside.core.key import (
    ALL_CREDENTIALS,
    CacheKey,
    ClientCredentials,
    KeyClass,
    Namespace,
    Object,
    classify,
    key_target,
    leaves_its_root,
    object_path,
    origin_target,
)
from chunkside.core.listing import probe_of
from chunkside.core.request import SAFE_METHODS, Control, Request
from chunkside.core.verbatim import host_asked_by, may_name_a_bucket, names_signed, own_name

# Framing and expectations belong to one connection; Host is the origin's own, or goes by itself.
_CONTROL: Final = b"chunkside-control"
_NOT_FORWARDED: Final = frozenset({b"host", b"content-length", b"expect", _CONTROL})
_CONTROLS: Final[dict[bytes, Control]] = {b"refresh": "refresh", b"bypass": "bypass"}
_MAX_FORWARDS: Final = b"max-forwards"
_HOST: Final = frozenset({b"host"})
_NONE: Final[frozenset[bytes]] = frozenset()
# int() refuses some thousand digits, and nobody counts so far.
_MOST_DIGITS: Final = 9
_ORIGIN: Final = frozenset({b"origin"})
_COOKIES: Final = frozenset({b"cookie", b"cookie2"})


@dataclass(frozen=True, slots=True)
class Route:
    """`location`: the origin's scheme, host and port. `prefix`: the upstream's path; `at`: the path
    on the data port in whose place it stands; no slash at the end of either. `secret` keys the
    partition hash. Names of fields and query parameters in lower case. `pages`: those that may
    read whatever the origin says of it; None where that is the origin's to say. `identity` names
    the sidecar's own credential, "" for none. `admits`: of an object store, whose targets begin
    with the bucket, what they begin with here: "" for all, `/bucket`, or `/bucket/prefix`; None of
    any other origin. `is_googles`: whether that store is Google's, which has another interface,
    too, and takes keys for what they are decoded. `own_range`: the field that goes before Range
    there, "" for none. `preserves_host`: the origin verifies what clients sign.
    """

    name: str
    location: str
    prefix: bytes
    secret: bytes
    credential_names: frozenset[bytes]
    ignored_query: frozenset[bytes] = frozenset()
    metadata_names: tuple[str, ...] = ()
    forwards_cookies: bool = False
    at: bytes = b""
    pages: Pages | None = None
    client_credentials: ClientCredentials = "partition"
    identity: str = ""
    admits: bytes | None = None
    is_googles: bool = False
    own_range: bytes = b""
    preserves_host: bool = False

    @property
    def hosts(self) -> frozenset[bytes]:
        """Names, in lower case, that are not this machine's own and that it is asked by."""
        return frozenset({own_name(self.location)}) if self.preserves_host else _NONE

    @property
    def scope(self) -> bytes:
        """What all targets begin with, as they are sent to the origin."""
        return self.prefix + (self.admits or b"")

    def request(
        self, method: str, raw_target: bytes, fields: Fields, *, has_body: bool
    ) -> Request | Refuse:
        """The request to the origin that a client's request asks for."""
        try:
            target = self.origin_path(raw_target)
            target.decode()
        except ValueError:
            return bad_target("The target must be a path that begins with /, in UTF-8 at most.")
        if b"#" in raw_target:
            return bad_target("A target has no fragment: send # as %23.")
        named = self._named(target)
        refused = self._out_of_scope(method, target, fields, named)
        if refused is not None:
            return refused
        control = fields.combined(_CONTROL).strip(b" \t").lower()
        if control and control not in _CONTROLS:
            return _BAD_CONTROL
        host = self._host_handed_on(raw_target, fields)
        kept = _NONE if host is None else names_signed(target, fields)
        # Where our own fields say which pages may read, the answer is the same whoever asks.
        not_forwarded = _not_forwarded(self.forwards_cookies, self.pages is not None)
        fields = fields.end_to_end(not_forwarded, kept)
        if method == "OPTIONS" and _MAX_FORWARDS not in kept:
            fields = _one_hop_less(fields)
        if self.client_credentials == "strip" and not is_presigned(target):
            if self.admits is not None and has_body and is_sent_in_signed_chunks(fields):
                return _UNDECODED
            fields = stripped(fields, self.credential_names, has_body=has_body)
        has_signature = is_signed(target, fields)
        fields = fields if has_signature else _with_range(fields, self.own_range)
        known_by = target if method in SAFE_METHODS else self._written(target, named)
        if method in ("GET", "HEAD") and not has_signature:
            target, known_by = self._read(target, named)
        space, own_space = self._spaces(fields, host)
        target_of_key = key_target(known_by, self.ignored_query)
        key_class = self.classify(known_by)
        probe = None
        if key_class == "listing":
            # What it tells of is an absence.
            probe = probe_of(CacheKey(own_space or space, target_of_key), self.metadata_names)
        return Request(
            method=method,
            target=target,
            fields=fields,
            key=CacheKey(space, target_of_key),
            key_class=key_class,
            has_body=has_body,
            is_signed=has_signature,
            control=_CONTROLS.get(control),
            probe=probe,
            own_space=own_space,
            host=host,
            changes_more=named is not None and not named.is_object,
        )

    def _named(self, target: bytes) -> Named | None:
        return named_by(target[len(self.prefix) :]) if self.is_googles else None

    def _out_of_scope(
        self, method: str, target: bytes, fields: Fields, named: Named | None
    ) -> Refuse | None:
        """`named`: what a target is about that isn't in path style."""
        in_store = target[len(self.prefix) :]
        if named is not None and named.is_ambiguous:
            return bad_target("A key with dot segments is asked for by its path, /bucket/key.")
        place = self._plain(in_store if named is None else named.place)
        # A write to a bucket's own target is to the bucket, whatever may be listed of it.
        may_list = method in SAFE_METHODS
        if self.admits and not is_admitted(self.admits, place, may_list=may_list):
            return self._not_admitted()
        if self.admits and not copies_from_beneath(fields, self.location, self.scope):
            return self._not_admitted()
        if has_key(self.admits or b"") and composes(target):
            return self._not_admitted()
        # However long its spelling is, what is asked for begins with what is admitted.
        beneath = place[len(self.admits or b"") :]
        if leaves_its_root(beneath) or (named is not None and leaves_its_root(in_store)):
            return bad_target("Dot segments in the target climb above the upstream's prefix.")
        return None

    def _read(self, target: bytes, named: Named | None) -> tuple[bytes, bytes]:
        """The target to send, and the one it is known by: an object's bytes have one name here."""
        if named is None:
            return target, self._plain(target)
        read = content_read(target, named, self.ignored_query)
        return (target, target) if read is None else (read, self._plain(read))

    def _written(self, target: bytes, named: Named | None) -> bytes:
        """What a write's target is known by."""
        return named.place if named is not None and named.is_object else target

    def _plain(self, target: bytes) -> bytes:
        return spelled_plainly(target) if self.is_googles else target

    def plainly_read(self, data_port_target: bytes) -> bytes | None:
        """What a GET of a target without a signature is known by, where targets have other names
        than that; None where this isn't told at once. Raises ValueError as `origin_path`.
        """
        if not self.is_googles:
            return None
        target = self.origin_path(data_port_target)
        named = self._named(target)
        if named is None:
            return self._plain(target)
        if named.is_ambiguous:
            return None
        read = content_read(target, named, self.ignored_query)
        return None if read is None else self._plain(read)

    def object_of(self, data_port_target: bytes) -> Object:
        """The object that a target as sent to the data port names. Raises ValueError where that is
        no path of this route.
        """
        target = self.origin_path(data_port_target)
        named = self._named(target)
        return Object(self.location, object_path(self._written(target, named)))

    def place_of(self, data_port_target: bytes) -> bytes:
        """The path at and beneath which all lies, as sent to the origin, that a target names.
        Raises ValueError as `origin_path`.
        """
        target = self.origin_path(data_port_target)
        named = self._named(target)
        return object_path(target if named is None else named.place)

    def _host_handed_on(self, raw_target: bytes, fields: Fields) -> bytes | None:
        """The client's own Host, where it signed that, or may mean a bucket by it."""
        host = host_asked_by(raw_target, fields) if self.preserves_host else None
        if host is None or is_signed(raw_target, fields) or may_name_a_bucket(host, self.location):
            return host
        return None

    def classify(self, target: bytes) -> KeyClass:
        """The class of a target as sent to the origin."""
        if self.admits is not None:
            in_store = target[len(self.prefix) :]
            if not is_of_an_object(in_store, self.ignored_query) or self._named(target):
                return "listing"
        return classify(target, self.metadata_names)

    def _not_admitted(self) -> Refuse:
        begins = ((self.at + (self.admits or b"")) or b"/").decode()
        return Refuse(
            421,
            "not-of-the-upstream",
            "The upstream has no such path",
            f"The data port has the store's own paths, and its upstream only what begins with "
            f"{begins}/ (and listings of keys beneath it).",
        )

    def _spaces(self, fields: Fields, host: bytes | None) -> tuple[Namespace, Namespace | None]:
        """Where what a client may have lies; and, if that is where all have it, the client's own
        partition. What is asked for by another `host` lies nowhere else.
        """
        if self.client_credentials == "strip":
            return Namespace(self.location, self.identity), None
        names = self.credential_names
        if host is not None:
            fields, names = fields.plus((b"Host", host)), names | _HOST
        held = partition(fields, names, self.secret)
        own = Namespace(self.location, self.identity, held)
        if self.client_credentials == "share" and host is None:
            return Namespace(self.location, self.identity, ALL_CREDENTIALS), own
        return own, None

    def origin_path(self, data_port_target: bytes) -> bytes:
        """The target as sent to the origin, of one as sent to the data port.

        Raises ValueError where that is no path of this route.
        """
        rest = _below(origin_target(data_port_target), self.at)
        if rest is None:
            raise ValueError("the target is not of this route")
        target = self.prefix + rest
        return target if target.startswith(b"/") else b"/" + target

    def data_port_target(self, origin_target: bytes) -> bytes | None:
        """The other way; None for what the data port has no target for."""
        rest = _below(origin_target, self.prefix)
        target = None if rest is None else self.at + rest
        return target if target is not None and target.startswith(b"/") else None


_BAD_CONTROL: Final = Refuse(
    400,
    "bad-control",
    "Chunkside-Control can't be understood",
    "Say `refresh`, to have the origin asked anew and its answer remembered, or `bypass`, to leave "
    "the cache out of it.",
)
_UNDECODED: Final = Refuse(
    501,
    "aws-chunked",
    "A body in signed chunks can't be passed on",
    "The client signed each piece of the body with its own credential, which this route removes. "
    "Have it send plain bodies: in botocore, request_checksum_calculation=when_required and "
    "payload_signing_enabled=false.",
)


@cache
def _not_forwarded(forwards_cookies: bool, names_pages: bool) -> frozenset[bytes]:  # noqa: FBT001
    return (
        _NOT_FORWARDED
        | (frozenset() if forwards_cookies else _COOKIES)
        | (_ORIGIN if names_pages else frozenset())
    )


def _with_range(fields: Fields, own: bytes) -> Fields:
    """With one field for the range: that which counts to the origin."""
    told = fields.get(own)
    if told is None:
        return fields
    return fields.without(frozenset({own, b"range"})).plus((b"Range", told))


def _one_hop_less(fields: Fields) -> Fields:
    """OPTIONS says how many more proxies may pass it on (RFC 9110 §7.6.2)."""
    hops = fields.get(_MAX_FORWARDS)
    if hops is None or not hops.isdigit() or len(hops) > _MOST_DIGITS:
        return fields
    left = (b"Max-Forwards", b"%d" % max(0, int(hops) - 1))
    return fields.without(frozenset({_MAX_FORWARDS})).plus(left)


def ends_here(method: str, target: bytes, fields: Fields) -> bool:
    """Whether the question what can be done is one to this server, not to the origin."""
    if method != "OPTIONS":
        return False
    hops = fields.get(_MAX_FORWARDS)
    return target == b"*" or (hops is not None and hops.isdigit() and not hops.strip(b"0"))


def _below(target: bytes, prefix: bytes) -> bytes | None:
    """What follows `prefix` in a target, "" for itself; None where it is neither at nor beneath
    it.
    """
    rest = target.removeprefix(prefix)
    is_there = len(rest) + len(prefix) == len(target) and rest[:1] in (b"", b"/", b"?")
    return rest if is_there else None


def bad_target(detail: str) -> Refuse:
    """`detail` says what is wrong with a target."""
    return Refuse(400, "bad-target", "The request target can't be used", detail)
