"""What an Azure storage account is asked with: a token, one of the account's own keys, or a shared
access signature (SAS); and where the latter two are named: in a file, else in the environment, as
Azure's own clients read it.
"""

from __future__ import annotations

import base64
import binascii
import logging
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from chunkside.upstream import entra
from chunkside.upstream.chain import Chain, Found, Library, LookupFailed
from chunkside.upstream.credential import secret_of
from chunkside.upstream.entra import Token
from chunkside.upstream.watched import LOOK_AGAIN_SECONDS, UnfitFile

log = logging.getLogger(__name__)

ENDPOINT_VARIABLES: Final = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
_CONNECTION_STRING: Final = "AZURE_STORAGE_CONNECTION_STRING"
_KEYS: Final = ("AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY")
_SAS: Final = "AZURE_STORAGE_SAS_TOKEN"
_ACCOUNTS: Final = ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME")
_ACCOUNT: Final = re.compile(r"[a-z0-9]{3,24}", re.ASCII)
# A chain looks for another secret further ahead than it waits for one.
_WAITED_FOR_SECONDS: Final = 60
# What a SAS allows and on what, and whose it is; neither how long nor the proof.
_OF_A_SAS: Final = ("ss", "srt", "sr", "sp", "si", "sdd", "skoid")


@dataclass(frozen=True, slots=True, repr=False)
class AccountKey:
    """`account` is no secret; `key` is."""

    account: str
    key: bytes


@dataclass(frozen=True, slots=True, repr=False)
class Sas:
    """`query`: to be sent behind what is asked for, without a question mark."""

    query: bytes


Secret = Token | AccountKey | Sas


class OfAnotherAccount(UnfitFile):
    """It is none of the account that is asked. What is no name of one isn't shown."""

    def __init__(self, whose: str, asked: str) -> None:
        shown = f"the account {whose}" if _ACCOUNT.fullmatch(whose) else "another account"
        super().__init__(f"of {shown}, not of {asked}")


def find(account: str, file: Path | None, *, is_required: bool) -> Chain[Secret] | None:
    """As `Library.chain`. `file`: as `upstream_auth_file` names it."""
    return _library(account, file).chain(is_required=is_required)


@cache
def _library(account: str, file: Path | None) -> Library[Secret]:
    """One for all who look, since it says once what is amiss."""

    def look_up(held: Found[Secret] | None) -> Found[Secret] | None:
        if file is not None:
            return _of_file(account, file)
        return _of_environment(account) or entra.look_up(held)

    return Library("azure", "Azure's", look_up)


def parsed(account: str, told: bytes) -> AccountKey | Sas:
    """A key, a SAS or a connection string with either. Raises UnfitFile, which shows nothing of
    it.
    """
    text = told.decode(errors="replace").strip()
    if ";" in text:
        return _of_connection_string(account, text)
    if "sig=" in text:
        return _sas(text)
    return _key(account, text)


def blob_endpoint(account: str, environment: Mapping[str, str]) -> str | None:
    """Where the environment has an account's blobs asked for, if not at Azure."""
    connection = environment.get(_CONNECTION_STRING, "")
    by_name = next(filter(None, map(environment.get, ENDPOINT_VARIABLES)), None)
    url = urlsplit(by_name or _parts(connection).get("blobendpoint", ""))
    is_elsewhere = url.hostname is not None and not url.hostname.startswith(f"{account}.")
    return f"{url.scheme}://{url.netloc}" if is_elsewhere else None


def _parts(connection_string: str) -> dict[str, str]:
    return {
        name.strip().lower(): value.strip()
        for name, _, value in (part.partition("=") for part in connection_string.split(";"))
    }


def _of_connection_string(account: str, text: str) -> AccountKey | Sas:
    parts = _parts(text)
    whose = parts.get("accountname", account)
    if whose != account:
        raise OfAnotherAccount(whose, account)
    if "accountkey" in parts:
        return _key(account, parts["accountkey"])
    if "sharedaccesssignature" in parts:
        return _sas(parts["sharedaccesssignature"])
    raise UnfitFile("a connection string without AccountKey or SharedAccessSignature")


def _key(account: str, text: str) -> AccountKey:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise UnfitFile("no account key (in base64), SAS or connection string in it")
    return AccountKey(account, key)


def _sas(text: str) -> Sas:
    query = text.lstrip("?&").rstrip("&")
    names = {part.partition("=")[0] for part in query.split("&")}
    is_plain = query.isascii() and query.isprintable() and not {" ", "#"} & set(query)
    if not is_plain or not names >= {"sig", "sv"}:
        raise UnfitFile("no shared access signature that can be sent: it has sv= and sig= in it")
    return Sas(query.encode())


def _of_file(account: str, file: Path) -> Found[Secret]:
    """It is looked at again while it is used, as it may be exchanged at any time."""
    try:
        secret = parsed(account, secret_of(file))
    except UnfitFile as error:
        raise LookupFailed(f"upstream_auth_file {file}: {error}") from error
    until = time.monotonic() + LOOK_AGAIN_SECONDS

    def expires_within(seconds: int) -> bool:
        return seconds > _WAITED_FOR_SECONDS and time.monotonic() >= until

    # A path may hold bytes that are no text.
    named = str(file).encode(errors="backslashreplace").decode()
    return Found(secret, f"azure {named}", None, expires_within)


def _of_environment(account: str) -> Found[Secret] | None:
    """None where it names nothing for this account. Raises LookupFailed."""
    told: Mapping[str, str] = os.environ  # environment: as Azure's own clients read theirs
    whose = next(filter(None, map(told.get, _ACCOUNTS)), account)
    for name in (_CONNECTION_STRING, *_KEYS, _SAS):
        if not told.get(name):
            continue
        try:
            if name != _CONNECTION_STRING and whose != account:
                raise OfAnotherAccount(whose, account)
            secret = parsed(account, told[name].encode(errors="surrogateescape"))
        except OfAnotherAccount as error:
            log.warning("%s is not used: it is %s", name, error)
            continue
        except UnfitFile as error:
            raise LookupFailed(f"{name}: {error}") from error
        return Found(secret, _identity_of(secret), None, lambda _: False)
    return None


def _identity_of(secret: AccountKey | Sas) -> str:
    """An account's keys open the same; a SAS opens what it says."""
    if isinstance(secret, AccountKey):
        return f"azure key {secret.account}"
    told = dict(part.partition("=")[::2] for part in secret.query.decode().split("&"))
    says = (f"{name}={told[name]}" for name in _OF_A_SAS if name in told)
    return " ".join(("azure sas", *says))
