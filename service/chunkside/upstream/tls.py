"""Whose certificates an origin may show, and which one the sidecar shows itself."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from chunkside.upstream.watched import UnfitFile, Watched


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """In PEM: authorities to believe in place of the system's; a certificate to show with what
    leads to its authority, and its key, which may stand in the same file.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


def context_of(files: TlsFiles) -> ssl.SSLContext:
    """Raises UnfitFile."""
    try:
        context = ssl.create_default_context(cafile=files.ca)
    except ssl.SSLError as error:
        raise UnfitFile("no certificates in PEM") from error
    except OSError as error:
        raise UnfitFile(error.strerror or str(error)) from error
    # Whoever speaks HTTP/2 as well must be told that this doesn't.
    context.set_alpn_protocols(["http/1.1"])
    if files.certificate is not None:
        _load(context, files.certificate, files.key)
    return context


def _load(context: ssl.SSLContext, certificate: Path, key: Path | None) -> None:
    try:
        context.load_cert_chain(certificate, key, _no_password)
    except _Locked as error:
        raise UnfitFile("the key asks for a password, and none can be given") from error
    except ssl.SSLError as error:
        raise UnfitFile(_words(error)) from error
    except OSError as error:
        raise UnfitFile(error.strerror or str(error)) from error


class _Locked(Exception):
    pass


def _no_password() -> str:
    # Else OpenSSL would ask for it at the terminal.
    raise _Locked


def _words(error: ssl.SSLError) -> str:
    if error.reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"):
        return "the key is not that of the certificate"
    return "no certificate in PEM with its key"


class Tls:
    """What connections are made by, also after files were exchanged. Raises UnfitFile."""

    def __init__(self, files: TlsFiles) -> None:
        self._elsewhere = _watched(TlsFiles(files.ca))
        self.shows_certificate = files.certificate is not None
        self._here = _watched(files) if self.shows_certificate else self._elsewhere

    async def context(self, *, is_elsewhere: bool = False) -> ssl.SSLContext | bool:
        """What aiohttp takes for `ssl`. `is_elsewhere`: for an origin that is not the one which our
        certificate is for.
        """
        watched = self._elsewhere if is_elsewhere else self._here
        return True if watched is None else await watched.current()


def _watched(files: TlsFiles) -> Watched[ssl.SSLContext] | None:
    named = {
        "upstream_ca_file": files.ca,
        "upstream_cert_file": files.certificate,
        "upstream_key_file": files.key,
    }
    there = {setting: file for setting, file in named.items() if file is not None}
    return Watched(there, lambda: context_of(files)) if there else None
