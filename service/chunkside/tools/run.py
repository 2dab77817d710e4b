"""`chunkside run -- CMD`: a command beside a sidecar of its own, which its readers ask."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from chunkside.child import Sidecar, SidecarError, child
from chunkside.settings.quantities import format_size_rounded as shown_size
from chunkside.tools.admin_client import AdminClient
from chunkside.tools.errors import ToolFailed
from chunkside.tools.stats import Totals, totals_of
from chunkside.tools.targets import address_of
from chunkside.upstream import aws, azure_secrets

# As shells have it.
_NOT_FOUND: Final = 127
_NOT_RUNNABLE: Final = 126
_OF_A_SIGNAL: Final = 128
_PASSED_ON: Final = (signal.SIGTERM, signal.SIGHUP)
_PAST_PROXIES: Final = ("NO_PROXY", "no_proxy")
_NEAR: Final = "localhost,127.0.0.1,::1"
_LOOK_SECONDS: Final = 0.05
_MOST_LOOKS: Final = 100
LEADS: Final[dict[str, tuple[str, ...]]] = {
    "s3": aws.ENDPOINT_VARIABLES,
    "gs": ("STORAGE_EMULATOR_HOST", "TENSORSTORE_GCS_HTTP_URL"),
    "az": azure_secrets.ENDPOINT_VARIABLES,
}
"""What clients find their store by, the first that is set; by the scheme of the upstream."""
# By this AWS's clients leave what leads them aside.
_IGNORES: Final = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"
# Before it reads, gcsfs asks by gRPC what kind of a bucket it is, and waits for long.
_NO_GRPC: Final = "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"


def run(
    command: Sequence[str],
    flags: Sequence[str],
    scheme: str = "s3",
    account: str = "",
    *,
    allows_writes: bool = False,
) -> int:
    """Gives the command's exit code. `flags`: of `chunkside serve`. `scheme`: of the upstream.
    `account`: whose that is, with `az`.
    """
    told = os.environ  # environment: handed on
    try:
        with child(flags) as sidecar:
            code = _carry_out(command, led_to(sidecar.url, told, scheme, account))
            _tell_saved(sidecar, allows_writes=allows_writes)
            return code
    except SidecarError as error:
        print(f"chunkside run: {error}", file=sys.stderr)
        return error.exit_code


def led_to(
    url: str, environment: Mapping[str, str], scheme: str = "s3", account: str = ""
) -> dict[str, str]:
    """What leads readers of a cloud's store to a sidecar, and all past proxies to it."""
    # Some go by one of them, some by the other.
    told = dict.fromkeys(filter(None, map(environment.get, _PAST_PROXIES)))
    near = dict.fromkeys(_PAST_PROXIES, ",".join((*told, _NEAR)))
    leads = dict.fromkeys(LEADS.get(scheme, LEADS["s3"]), url)
    match scheme:
        case "gs":
            leads[_NO_GRPC] = "false"
        case "az":
            leads |= {
                "AZURE_STORAGE_ACCOUNT_NAME": account,
                "AZURE_STORAGE_CONNECTION_STRING": f"BlobEndpoint={url};AccountName={account}",
                "AZURE_ALLOW_HTTP": "true",
                "AZURE_SKIP_SIGNATURE": "true",
            }
        case _:
            leads["AWS_ALLOW_HTTP"] = "true"
            if _IGNORES in environment:
                leads[_IGNORES] = "false"
    return {**environment, **near, **leads, "CHUNKSIDE_URL": url}


def saved(totals: Totals) -> str:
    """One line."""
    requests, asked = totals.total_requests, totals.upstream_requests
    return (
        f"chunkside: {requests} request{'s' * (requests != 1)} read "
        f"{shown_size(totals.response_bytes)}; the store was asked {asked} "
        f"time{'s' * (asked != 1)}, for {shown_size(totals.upstream_received_bytes)}"
    )


def advice(totals: Totals, *, allows_writes: bool) -> str | None:
    """What else whoever ran the command should know."""
    if totals.failed_writes and not allows_writes:
        return (
            f"chunkside: writes are refused here, and {totals.failed_writes} came: "
            "--allow-writes passes them on"
        )
    if not totals.total_requests:
        return (
            "chunkside: nothing came by here: a reader that is told an endpoint of its own goes "
            "past; CHUNKSIDE_URL says where to"
        )
    return None


def _carry_out(command: Sequence[str], environment: Mapping[str, str]) -> int:
    try:
        process = subprocess.Popen(command, env=environment)  # noqa: S603 - it is what was asked for
    except FileNotFoundError:
        print(f"chunkside run: there is no command {command[0]}", file=sys.stderr)
        return _NOT_FOUND
    except OSError as error:
        print(f"chunkside run: {command[0]} can't be run: {error.strerror}", file=sys.stderr)
        return _NOT_RUNNABLE
    with _signals_passed_on(process):
        code = process.wait()
    return code if code >= 0 else _OF_A_SIGNAL - code


@contextmanager
def _signals_passed_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ctrl-C reaches the command by itself: it is its to end, and ours to wait for that."""
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, *_PASSED_ON)}
    signal.signal(signal.SIGINT, lambda *_: None)
    for each in _PASSED_ON:
        signal.signal(each, lambda number, _: process.send_signal(number))
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _tell_saved(sidecar: Sidecar, *, allows_writes: bool) -> None:
    admin = AdminClient(address_of(sidecar.admin_url))
    try:
        totals = settled(lambda: totals_of({}, admin.text("/metrics")), time.sleep)
    except ToolFailed as error:
        print(f"chunkside: what was saved can't be told: {error}", file=sys.stderr)
        return
    if (told := advice(totals, allows_writes=allows_writes)) is not None:
        print(told, file=sys.stderr)
    print(saved(totals), file=sys.stderr)


def settled(look: Callable[[], Totals], pause: Callable[[float], None]) -> Totals:
    """Totals once no fill runs any more that the command began, or after a while of looking."""
    totals = look()
    for _ in range(_MOST_LOOKS):
        if not totals.fills_in_flight:
            break
        pause(_LOOK_SECONDS)
        totals = look()
    return totals
