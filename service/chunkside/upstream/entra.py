"""Azure's own chain of credentials, by azure-identity: environment, workload identity, managed
identity, what its command lines are logged in with. None that would ask somebody.

Nothing of a secret is logged: what the library says of a fault may hold what it asked with.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from chunkside.upstream.chain import Found, LookupFailed, hush
from chunkside.upstream.credential import claims_of

SCOPE: Final = "https://storage.azure.com/.default"
# What would open a window, or look into what programs with one hold.
_LEFT_OUT: Final = ("interactive_browser", "broker", "visual_studio_code", "shared_token_cache")
# Where one of these is set, a chain that finds nothing has failed.
_POINTS_SOMEWHERE: Final = (
    *("AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_POD_IDENTITY_AUTHORITY_HOST"),
    *("IDENTITY_ENDPOINT", "MSI_ENDPOINT"),
)
_NAMES_SOMEBODY: Final = ("oid", "appid", "azp", "sub")
_RETRIES: Final = 2
_SECONDS: Final = 5
_CODE: Final = re.compile(r"AADSTS[0-9]{1,10}")


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    value: str


def is_installed() -> bool:
    return find_spec("azure") is not None and find_spec("azure.identity") is not None


def look_up(held: Found[Any] | None) -> Found[Any] | None:
    """A token, by what gave the one that is held, or by all of the chain anew; None where it finds
    none. Raises LookupFailed.
    """
    if not is_installed():
        return None
    source: Any = (held and held.source) or _credential()
    try:
        told = source.get_token_info(SCOPE)
    except _errors() as error:
        if held is None and _points_nowhere():
            return None
        code = _CODE.search(str(error))
        kind = type(error).__name__
        raise LookupFailed(f"{kind} ({code[0]})" if code else kind) from None
    ends_at = told.expires_on
    return Found(
        Token(told.token),
        _identity_of(told.token),
        source,
        lambda seconds: time.time() + seconds >= ends_at,
    )


def _identity_of(token: str) -> str:
    """By the tenant and the one whom the token itself names, else by what configuration does."""
    claims = claims_of(token.encode())
    whose = next(filter(None, map(claims.get, _NAMES_SOMEBODY)), None)
    named = [claims.get("tid"), whose]
    if whose is None:
        environment = os.environ  # environment: by which the library found it
        named = [environment.get(name) for name in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID")]
    return " ".join(("azure", *(str(each) for each in named if each)))


def _points_nowhere() -> bool:
    return not any(map(os.environ.get, _POINTS_SOMEWHERE))  # environment: the library's own


def _credential() -> Any:
    from azure.identity import DefaultAzureCredential  # noqa: PLC0415 - an extra

    hush("azure", "msal", "urllib3")
    options: dict[str, Any] = {f"exclude_{name}_credential": True for name in _LEFT_OUT}
    options |= {"connection_timeout": _SECONDS, "read_timeout": 2 * _SECONDS}
    try:
        return DefaultAzureCredential(**options, retry_total=_RETRIES)
    except (OSError, ValueError) as error:
        kind = type(error).__name__
        raise LookupFailed(f"{kind}, by what AZURE_TOKEN_CREDENTIALS or others say") from None


def _errors() -> tuple[type[Exception], ...]:
    from azure.core.exceptions import AzureError  # noqa: PLC0415 - an extra

    return AzureError, OSError, RuntimeError, ValueError, KeyError, AttributeError, TypeError
