"""An authority of the tests' own, and certificates by it, made by the `openssl` program."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

# What Python asks for from 3.13 on (RFC 5280 §4.2.1).
_STRICT = "authorityKeyIdentifier=keyid\nbasicConstraints=CA:FALSE\n"
_MAY_SIGN = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class Authority:
    """`ca_file` is what to believe it by."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._name = name
        self.ca_file = directory / f"{name}.pem"
        self._key = directory / f"{name}.key"
        files = ("-keyout", str(self._key), "-out", str(self.ca_file))
        _openssl("req", "-x509", *_KEY, *files, "-days", "2", "-subj", f"/CN={name}", *_MAY_SIGN)

    def server(self, address: str = "IP:127.0.0.1", days: int = 1) -> ssl.SSLContext:
        """A certificate for `address`, for a server to show; with -1 days it has run out."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.certificate(address, days))
        return context

    def asking_server(self) -> ssl.SSLContext:
        """One that wants a certificate by this authority of whoever connects."""
        context = self.server()
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self.ca_file)
        return context

    def certificate(self, address: str, days: int = 1, subject: str = "x") -> tuple[Path, Path]:
        """The files of a certificate and its key."""
        name = f"{self._name}-{address.replace(':', '-')}-{days}-{subject}"
        stem = self._directory / name
        key, asked, made, names = (
            stem.with_name(f"{stem.name}.{kind}") for kind in ("key", "csr", "pem", "ext")
        )
        names.write_text(f"{_STRICT}subjectAltName={address}\n")
        new = ("-keyout", str(key), "-out", str(asked), "-subj", f"/CN={subject}")
        _openssl("req", "-new", *_KEY, *new)
        by = ("-CA", str(self.ca_file), "-CAkey", str(self._key), "-CAcreateserial")
        files = ("-in", str(asked), "-out", str(made), "-extfile", str(names))
        _openssl("x509", "-req", *by, *files, "-days", str(days))
        return made, key

    def locked(self, key: Path) -> Path:
        """A key with a password."""
        locked = key.with_suffix(".locked")
        _openssl("pkey", "-in", str(key), "-out", str(locked), "-aes128", "-passout", "pass:x")
        return locked


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
