"""The sidecar's own credential: a field that it adds to what it asks, with a secret from a file."""

from __future__ import annotations

import base64
import json
import os
import re
import stat
from pathlib import Path
from typing import Final, Literal

from chunkside.core.fields import HOP_BY_HOP
from chunkside.upstream.watched import UnfitFile, Watched

CredentialKind = Literal["bearer", "basic", "header"]
Line = tuple[bytes, bytes]

_MOST_BYTES: Final = 32 << 10
# What a double holds to the second, and no date reaches.
_MOST_SECONDS: Final = 1 << 53
_CONTROL: Final = re.compile(rb"[\x00-\x1f\x7f]")
_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# What frames a request, or says where it goes.
_NOT_FOR_USE: Final = HOP_BY_HOP | {b"host", b"content-length", b"expect", b"via"}


def credential_line(kind: CredentialKind, file: Path) -> Line:
    """Name and value of the field. Raises UnfitFile, which never shows what the file holds."""
    secret = secret_of(file)
    match kind:
        case "bearer":
            if b" " in secret:
                raise UnfitFile("a space in it: it holds the token alone, without `Bearer`")
            return b"Authorization", b"Bearer " + secret
        case "basic":
            if b":" not in secret:
                raise UnfitFile("no colon in it: it holds `user:password`")
            return b"Authorization", b"Basic " + base64.b64encode(secret)
        case "header":
            return _named(secret)


def _named(secret: bytes) -> Line:
    name, colon, value = secret.partition(b":")
    value = value.strip(b" ")
    if not colon or _NAME.fullmatch(name) is None or not value:
        raise UnfitFile("no header field in it: it holds one line, `Name: value`")
    if name.lower() in _NOT_FOR_USE:
        raise UnfitFile("it names a field that belongs to the connection")
    return name, value


def secret_of(file: Path) -> bytes:
    """What the file holds, less line ends at its end. Raises UnfitFile, which never shows that."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as opened:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UnfitFile("not a regular file")
            held = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UnfitFile(error.strerror or str(error)) from error
    if len(held) > _MOST_BYTES:
        raise UnfitFile(f"longer than {_MOST_BYTES} bytes")
    secret = held.rstrip(b"\r\n")
    if not secret:
        raise UnfitFile("empty")
    if _CONTROL.search(secret):
        raise UnfitFile("a control character or a further line in it")
    try:
        secret.decode()
    except UnicodeDecodeError:
        raise UnfitFile("not UTF-8") from None
    return secret


def token_expiry(line: Line) -> float | None:
    """What `exp` of a JSON Web Token (RFC 7519 §4.1.4) says; None of anything else.

    It is shown, and nothing is decided by it: nobody has looked at the signature.
    """
    expiry = claims_of(line[1].removeprefix(b"Bearer ")).get("exp")
    if not isinstance(expiry, (int, float)) or isinstance(expiry, bool):
        return None
    return float(expiry) if 0 <= expiry < _MOST_SECONDS else None


def claims_of(token: bytes) -> dict[str, object]:
    """What a JSON Web Token says; nothing of what is none."""
    parts = token.split(b".")
    if len(parts) != 3:
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


class Credential:
    """Also after its file was exchanged. Raises UnfitFile."""

    def __init__(self, kind: CredentialKind, file: Path) -> None:
        self._watched = Watched({"upstream_auth_file": file}, lambda: credential_line(kind, file))

    @property
    def loaded_at(self) -> float:
        """When the secret that is used was read, by the wall clock."""
        return self._watched.read_at

    @property
    def expires_at(self) -> float | None:
        """When it ends, by the wall clock; None where it doesn't say so itself."""
        return token_expiry(self._watched.held)

    async def line(self) -> Line:
        return await self._watched.current()

    async def line_after(self, refused: Line) -> Line | None:
        """What the file holds in the place of what an origin refused; None if nothing else."""
        line = await self._watched.look()
        return None if line == refused else line
