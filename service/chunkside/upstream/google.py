"""Google's own chain of credentials, by google-auth: a file that the environment names, what gcloud
left, workload identities, what containers and instances are given.

Nothing of a secret is logged: what google-auth tells of its requests is kept from the log.
"""

from __future__ import annotations

import logging
import os
import time
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, Final

from chunkside.upstream.chain import Chain, Found, Library, LookupFailed, hush

log = logging.getLogger(__name__)

_SCOPES: Final = "https://www.googleapis.com/auth/devstorage."
# Not found, rather than found and of no use: the library has one error for both.
_NONE_FOUND: Final = "Your default credentials were not found"
# The metadata service gives one token out until it has hardly more left.
_AHEAD_SECONDS: Final = 225
# The library takes what is in a file for what should be there.
_OF_ODD_FILES: Final = (ValueError, KeyError, AttributeError, TypeError)
# Of credentials that are nobody's by themselves: where they were found.
_PLACES: Final = ("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG")


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """`project`: the one that pays where whoever asks does; it is no secret. None: not known."""

    bearer: str
    project: str | None


def is_installed() -> bool:
    # Other packages, too, are `google`.
    return find_spec("google") is not None and find_spec("google.auth") is not None


def _can_ask() -> bool:
    """Whether there is more than google-auth alone, without what it asks by."""
    try:
        import google.auth.transport.requests  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        log.warning("Google's chain of credentials is not used: %s is not installed", error.name)
        return False
    return True


def find(*, is_required: bool, may_write: bool, must_pay: bool) -> Chain[Token] | None:
    """As `Library.chain`; None also where google-auth isn't installed, or can't ask."""
    scope = f"{_SCOPES}{'read_write' if may_write else 'read_only'}"
    chain = (
        _library(scope).chain(is_required=is_required) if is_installed() and _can_ask() else None
    )
    token = None if chain is None else chain.held()
    is_known = chain is None or chain.is_known
    if must_pay and is_known and (token is None or token.project is None):
        log.warning(
            "upstream_requester_pays is set, and no project is known that could pay: the store "
            "will refuse to answer. Set GOOGLE_CLOUD_PROJECT, and have credentials for gs://"
        )
    return chain


@cache
def _library(scope: str) -> Library[Token]:
    """One for all who look, since it says once what is amiss."""
    return Library("gcp", "Google's", partial(_look_up, scope))


def _look_up(scope: str, held: Found[Token] | None) -> Found[Token] | None:
    from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415 - an extra
    from google.auth.transport.requests import Request  # noqa: PLC0415

    _quieten()
    try:
        source: Any = _default(scope) if held is None else held.source
        credentials, project = source
        credentials.refresh(Request())
        return _found(credentials, project)
    except (GoogleAuthError, OSError, RuntimeError, *_OF_ODD_FILES) as error:
        if str(error).startswith(_NONE_FOUND):
            return None
        raise LookupFailed(f"{type(error).__name__}{_of_file()}") from error


def _of_file() -> str:
    """What may be amiss with the file that the environment names."""
    name = os.environ.get(_PLACES[0], "")  # environment: as google-auth does
    # What it says may be the secret itself, in the place of its file's name.
    return "" if not name or os.path.isfile(name) else f": {_PLACES[0]} names no file"


def _default(scope: str) -> tuple[Any, str | None]:
    """The credentials, and the project that the environment or they themselves name."""
    import google.auth  # noqa: PLC0415 - an extra
    from google.auth.credentials import with_scopes_if_required  # noqa: PLC0415

    # With a scope it would ask another service of Google's which project a workload is of.
    credentials, project = google.auth.default()
    scoped: Any = with_scopes_if_required(credentials, [scope])  # type: ignore[no-untyped-call]
    return scoped, project


def _found(credentials: Any, project: str | None) -> Found[Token]:
    token = Token(credentials.token, credentials.quota_project_id or project)
    # It is exchanged beneath us when the credentials are renewed.
    expiry: datetime | None = credentials.expiry
    ends_at = None if expiry is None else expiry.replace(tzinfo=UTC).timestamp()

    def expires_within(seconds: int) -> bool:
        return ends_at is not None and ends_at - time.time() <= min(seconds, _AHEAD_SECONDS)

    return Found(token, _identity_of(credentials), (credentials, project), expires_within)


def _identity_of(credentials: Any) -> str:
    """By what names it: the service account, what a workload's identity is for, or the user, whom
    his client and where his credentials lie stand for if nothing else does.
    """
    module = type(credentials).__module__.removeprefix("google.").removesuffix(".credentials")
    info = getattr(credentials, "info", None)
    audience = info.get("audience") if isinstance(info, dict) else None
    account = _told(credentials, "service_account_email") or _told(credentials, "account")
    names = [audience, account]
    if not account:
        names += [_told(credentials, "client_id"), *_places()]
    return " ".join(("gcp", module, *(name for name in names if name)))


def _told(credentials: Any, name: str) -> str | None:
    value = getattr(credentials, name, None)
    return value if isinstance(value, str) else None


def _places() -> list[str | None]:
    return [os.environ.get(name) for name in _PLACES]  # environment: as google-auth's chain does


def _quieten() -> None:
    hush("google", "requests", "urllib3")
    # On credentials of gcloud's, and on versions of Python.
    warnings.filterwarnings("ignore", module=r"google\.")
