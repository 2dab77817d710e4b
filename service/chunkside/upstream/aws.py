"""AWS's own chain of credentials, by botocore: environment, profile, roles, single sign-on, what
containers and instances are given.

Nothing of a secret is logged: botocore quotes answers and what processes say, and is kept from it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from chunkside.upstream.chain import Chain, Found, Library, LookupFailed, hush

log = logging.getLogger(__name__)

ENDPOINT_VARIABLES: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_IN_FILES: Final = frozenset({"shared-credentials-file", "config-file"})


@dataclass(frozen=True, slots=True, repr=False)
class Keys:
    """`access_key` is no secret; the others are."""

    access_key: str
    secret_key: str
    token: str | None


def is_installed() -> bool:
    return find_spec("botocore") is not None


def find(*, is_required: bool) -> Chain[Keys] | None:
    """As `Library.chain`; None also where botocore isn't installed."""
    return AWS.chain(is_required=is_required) if is_installed() else None


def region() -> str | None:
    """What AWS's configuration says, if that can be read."""
    return _configured("region", lambda session: session.get_config_variable("region"))


def endpoint() -> str | None:
    """Where AWS's environment and configuration have its clients ask S3, if not at AWS."""
    return _configured("endpoint", _endpoint) if is_installed() else _endpoint_by_name()


def ca_bundle() -> str | None:
    """The file of authorities that AWS's clients go by."""
    return _configured("ca_bundle", lambda session: session.get_config_variable("ca_bundle"))


def _endpoint(session: Any) -> object:
    if session.get_config_variable("ignore_configured_endpoint_urls"):
        return None
    profile = session.get_scoped_config()
    services = session.full_config.get("services", {}).get(profile.get("services"), {})
    of_service = services.get("s3", {}).get("endpoint_url")
    return _endpoint_by_name() or of_service or profile.get("endpoint_url")


def _endpoint_by_name() -> str | None:
    told = os.environ  # environment: as AWS's clients do
    return next(filter(None, map(told.get, ENDPOINT_VARIABLES)), None)


def _configured(what: str, look: Callable[[Any], object]) -> str | None:
    """None also where botocore isn't installed."""
    if not is_installed():
        return None
    try:
        told = look(_session())
    except Exception as error:  # noqa: BLE001 - what a file says may have any shape
        kind = type(error).__name__
        log.warning("AWS's configuration can't be read (%s): no %s is taken from it", kind, what)
        return None
    return told if isinstance(told, str) else None


def _look_up(held: Found[Keys] | None) -> Found[Keys] | None:
    session = _session()
    try:
        source: Any = session.get_credentials() if held is None else held.source
        if source is None:
            return None
        frozen = source.get_frozen_credentials()
        keys = Keys(frozen.access_key, frozen.secret_key, frozen.token)
        needs_refresh = getattr(source, "refresh_needed", lambda _: False)
        return Found(keys, _identity_of(session, source.method, keys), source, needs_refresh)
    except _errors() as error:
        raise LookupFailed(_told_of(error)) from error


def _told_of(error: Exception) -> str:
    """With the profile that isn't there: that is no secret, as other things may be."""
    kind = type(error).__name__
    if kind != "ProfileNotFound":
        return kind
    return f"{kind}: there is no profile {getattr(error, 'kwargs', {}).get('profile')!r}"


def _identity_of(session: Any, method: str, keys: Keys) -> str:
    """By what names it: a static key's id, else the profile and the role that lead to it."""
    if method == "env" or (method in _IN_FILES and keys.token is None):
        return f"aws {method} {keys.access_key}"
    profile = session.get_config_variable("profile") or "default"
    role = session.full_config.get("profiles", {}).get(profile, {}).get("role_arn")
    if method == "assume-role-with-web-identity":
        role = os.environ.get("AWS_ROLE_ARN") or role  # environment: as botocore's chain does
    return " ".join(("aws", method, profile, *filter(None, (role,))))


def _session() -> Any:
    from botocore.session import Session  # noqa: PLC0415 - an extra

    hush("botocore", "urllib3")
    return Session()


def _errors() -> tuple[type[Exception], ...]:
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - an extra

    return BotoCoreError, ClientError, OSError, RuntimeError, ValueError, KeyError


AWS: Final = Library("aws", "AWS's", _look_up)
