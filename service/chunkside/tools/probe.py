"""`chunkside check --probe TARGET`: asks the origin about what caching it depends on."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from chunkside.clock import SystemClock
from chunkside.core.decision import Refuse
from chunkside.core.fields import Fields
from chunkside.core.printable import printable
from chunkside.core.request import Request
from chunkside.core.route import Route
from chunkside.core.routes import Routes
from chunkside.gateway.errors import BodyTorn, OriginError
from chunkside.gateway.ports import OriginRequest, Upstream
from chunkside.metrics import Metrics
from chunkside.routing import policy_of, route_of
from chunkside.settings import ConfiguredRoute
from chunkside.tools import findings
from chunkside.tools.admin_client import Field
from chunkside.tools.errors import ToolFailed
from chunkside.tools.findings import Finding, Seen
from chunkside.ways import means_of, upstream_of

EXIT_GOOD: Final = 0
EXIT_BAD: Final = 1
_READ_BYTES: Final = 64 * 1024
_IDENTITY: Final = (b"Accept-Encoding", b"identity")


@dataclass(frozen=True, slots=True)
class _Question:
    """A route, how it caches, and a GET of the target as the route makes it."""

    configured: ConfiguredRoute
    route: Route
    target: str
    fields: Fields

    def request(self, target: str) -> Request:
        """Raises ToolFailed."""
        made = self.route.request("GET", target.encode(), self.fields, has_body=False)
        if isinstance(made, Refuse):
            raise ToolFailed(f"{target}: {made.detail}")
        return replace(made, fields=made.fields.without(frozenset({b"accept-encoding"})))


def probe(
    configured: Sequence[ConfiguredRoute],
    target: str,
    fields: Sequence[Field],
    budget_bytes: int,
    *,
    as_json: bool,
) -> int:
    """Asks through the settings' own way to the origin, credential and all. Gives the exit code.

    The files that settings name are fit. Raises ToolFailed.
    """
    routes = [route_of(each, b"") for each in configured]
    chosen = Routes(routes).choose(target.encode())
    if isinstance(chosen, Refuse):
        raise ToolFailed(f"{target}: {chosen.detail}")
    place = next(at for at, route in enumerate(routes) if route is chosen)
    lines = Fields((name.encode(), value.encode()) for name, value in fields)
    question = _Question(configured[place], chosen, target, lines)
    found = asyncio.run(_ask(question, budget_bytes))
    if as_json:
        shown = [asdict(each) for each in found]
        print(json.dumps({"target": target, "route": chosen.name, "findings": shown}))
    else:
        _print(found)
    return EXIT_BAD if any(each.rating == "bad" for each in found) else EXIT_GOOD


def _print(found: Sequence[Finding]) -> None:
    # What is said quotes fields that the origin chose.
    said = [(each.about, each.rating, printable(each.says)) for each in found]
    if not sys.stdout.isatty():
        print("\n".join(map("\t".join, said)))
        return
    width = max(len(about) for about, _, _ in said)
    print("\n".join(f"{about:{width}}  {rating:6}  {says}" for about, rating, says in said))


async def _ask(question: _Question, budget_bytes: int) -> list[Finding]:
    configured = question.configured
    # Each answer is to be seen as it is: no second try.
    own = configured.settings.model_copy(update={"upstream_retries": 0})
    configured = replace(configured, settings=own)
    policy = policy_of(configured, budget_bytes)
    clock, metrics = SystemClock(), Metrics("probe", [configured.prefix])
    upstream = upstream_of(configured, metrics, clock, "chunkside-probe", means_of(configured))
    try:
        request = question.request(question.target)
        began, sent_at = time.monotonic(), clock.now()
        whole = await _seen(upstream, request)
        found = [findings.reachable(whole, time.monotonic() - began)]
        if whole.status != 200:
            return found
        condition = _condition(whole)
        missing = question.request(_missing(question.target))
        return [
            *found,
            findings.head_request(await _seen(upstream, request, "HEAD"), whole),
            findings.range_request(await _seen(upstream, request, "GET", (b"Range", b"bytes=0-0"))),
            findings.validator(whole),
            findings.missing_key(await _seen(upstream, missing), missing, policy),
            findings.condition(
                None if condition is None else await _seen(upstream, request, "GET", condition)
            ),
            findings.cache_control(whole, request, sent_at, policy),
        ]
    except OriginError as error:
        return [Finding("reachable", "bad", f"{error} Readers are answered {error.status}.")]
    finally:
        await upstream.close()


def _condition(whole: Seen) -> tuple[bytes, bytes] | None:
    """What a validation would ask with; None where there is nothing to ask with."""
    if (tag := whole.fields.get(b"etag")) is not None:
        return b"If-None-Match", tag
    modified = whole.fields.get(b"last-modified")
    return None if modified is None else (b"If-Modified-Since", modified)


def _missing(target: str) -> str:
    """A key that nobody has, beside the target: where listing is allowed may depend on the path."""
    path, mark, query = target.partition("?")
    directory = path.rpartition("/")[0]
    return f"{directory}/chunkside-probe-{secrets.token_hex(8)}{mark}{query}"


async def _seen(
    upstream: Upstream, request: Request, method: str = "GET", *more: tuple[bytes, bytes]
) -> Seen:
    """What is answered. Of a body no more than its beginning is brought. Raises OriginError."""
    answer = await upstream.send(
        OriginRequest(
            method=method,
            target=request.target,
            fields=request.fields.plus(_IDENTITY, *more),
            key_class=request.key_class,
            is_signed=request.is_signed,
        )
    )
    body = b""
    try:
        if answer.head.status >= 400:
            async for part in answer.chunks():
                body += part
                if len(body) >= _READ_BYTES:
                    break
    except BodyTorn:
        # Its head is what was asked for.
        pass
    finally:
        answer.close()
    return Seen(answer.head, body)
