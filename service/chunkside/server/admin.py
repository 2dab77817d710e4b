"""The admin port: metrics, health, totals, what is held, purging.

Knows HTTP and who may ask for what. What is answered comes from the two ports below.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from aiohttp import web

from chunkside.core.decision import Refuse
from chunkside.core.fields import Fields
from chunkside.core.neighbours import (
    is_over_loopback,
    is_top_level_navigation,
    judge_host,
    judge_source,
)
from chunkside.core.problem import PROBLEM_MEDIA_TYPE, problem
from chunkside.core.redaction import shown_target
from chunkside.server.admin_requests import (
    MAX_ENTRIES,
    EntriesRequest,
    PurgeRequest,
    parse_entries,
    parse_purge,
)
from chunkside.server.map_page import HELP as MAP_HELP
from chunkside.server.map_page import PATH as MAP_PATH
from chunkside.server.map_page import ChunkMap, MapRequest, parse_map, show
from chunkside.server.status_page import PAGE_POLICY, prefers_html, render
from chunkside.server.stored_file import HELP as FILE_HELP
from chunkside.server.stored_file import PATH as FILE_PATH
from chunkside.server.stored_file import FileRequest, HeldFile, parse_file_request, send_file
from chunkside.server.why_page import HELP as WHY_HELP
from chunkside.server.why_page import PATH as WHY_PATH
from chunkside.server.why_page import (
    VERIFY_PATH,
    WhyRequest,
    as_json,
    as_text,
    parse_verify,
    parse_why,
    wants_json,
)

log = logging.getLogger(__name__)

MAX_PURGE_BYTES: Final = 64 * 1024
_ALLOWED_HOSTS: Final[web.AppKey[Callable[[], frozenset[bytes]]]] = web.AppKey("allowed_hosts")
INDEX: Final = """\
Chunkside, admin port

GET  /         the status page, for browsers
GET  /status.json  what the status page shows
GET  /metrics  for Prometheus
GET  /livez    the process answers (also /healthz)
GET  /readyz   whether it can serve; 503 says why not
GET  /stats    totals since the start, as JSON
GET  /info     what it holds and how it is set up, as JSON
GET  /entries  what it holds, page by page: ?prefix=/a&limit=100, then &after= what `next` says
GET  /why/{target}  what is known of a target, and what a GET of it would be answered now, in words
               (as JSON with `Accept: application/json`): the data port's URL with /why put before
               its path, and whatever fields its reader sends
GET  /verify/{target}  asks the origin now whether what is held of a target is so: true, changed,
               wrong, not_held or unknown, in words or as JSON like /why. What isn't so is forgotten
GET  /file/{target}  the Arrow file of a stored body: the data port's URL with /file put before its
               path. Chunkside-Range: 0-99 asks for the file of those bytes, Chunkside-Partition:
               for what /entries shows with that `partition`
GET  /map/{target}  which chunks of an array are held or known to be absent: the URL of the array on
               the data port with /map put before its path, and ?slice=0,:,: for other dimensions
               than the last two. As text, as a picture with `Accept: image/svg+xml`, as JSON
POST /purge    forget: {"target": "/a/zarr.json"}, {"prefix": "/a/"}, {"route": "/a"} or
               {"all": true}; with "soft": true beside it bodies are kept, and validated before
               their next use
"""
_ENDPOINTS: Final = (
    "/, /status.json, /metrics, /livez, /healthz, /readyz, /stats, /info, /entries, /why/..., "
    "/verify/..., /file/..., /map/..., /purge (POST)"
)
# What a tab may be opened on from elsewhere: the page that leads here sees nothing of it.
_PAGES: Final = frozenset({"/", f"{MAP_PATH}/{{target}}"})
_OPEN_TO_ALL: Final = frozenset({"/metrics", "/livez", "/healthz", "/readyz"})
_PURGE_HELP: Final = (
    'Send one JSON object with exactly one of "target", "prefix", "route" and "all", such as '
    '{"target": "/a/zarr.json"}, {"prefix": "/a/"}, {"route": "/a"} or {"all": true}; '
    '"soft": true may stand beside it.'
)
_ENTRIES_HELP: Final = (
    f"Ask for /entries?prefix=/a&limit=100, the limit from 1 to {MAX_ENTRIES}, and for the next "
    "page with &after= and what `next` said."
)
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BadCursor(ValueError):
    """Not a cursor of this run of the sidecar."""


class NoSuchRoute(ValueError):
    """No route takes what was named. The text is a sentence that names the routes."""


class Console(Protocol):
    """What the admin port shows of the sidecar, and does to it."""

    def why_not_ready(self) -> str | None:
        """One line; None when requests can be served."""
        ...

    def stats(self) -> dict[str, object]:
        """What `/stats` shows: the fields of `cache_stats()`, and others beside them."""
        ...

    def status(self) -> dict[str, object]:
        """What the status page shows."""
        ...

    def info(self) -> dict[str, object]:
        """What `/info` shows: the fields of `cache_info()`, and others beside them."""
        ...

    async def entries(self, request: EntriesRequest) -> dict[str, object]:
        """A page of `entries`, and the cursor of the `next`. Raises BadCursor, NoSuchRoute."""
        ...

    async def file(self, request: FileRequest) -> HeldFile | Refuse:
        """The very file that is held for a target, opened; else why there is none."""
        ...

    async def why(self, request: WhyRequest) -> dict[str, object] | Refuse:
        """What is known of a target, its `verdict` first."""
        ...

    async def map(self, request: MapRequest) -> ChunkMap | Refuse:
        """What is known of an array's chunks."""
        ...

    async def verify(self, request: WhyRequest) -> dict[str, object] | Refuse:
        """Whether what is held of a target is so, by what the origin says now; its `verdict` first,
        then a `sentence`.
        """
        ...

    async def purge(self, request: PurgeRequest) -> dict[str, object]:
        """Forgets what is named, and reports what that was. Raises NoSuchRoute."""
        ...


class Exposition(Protocol):
    def exposition(self, accept_header: str) -> tuple[bytes, str]:
        """All metrics in the format that fits `Accept`, and its content type."""
        ...


def admin_app(
    console: Console,
    metrics: Exposition,
    allowed_hosts: Callable[[], frozenset[bytes]] = frozenset,
) -> web.Application:
    """The application for every admin listener. Peers on a Unix socket count as loopback."""
    admin = _Admin(console, metrics)
    app = web.Application(middlewares=[_guard], client_max_size=MAX_PURGE_BYTES)
    app[_ALLOWED_HOSTS] = allowed_hosts
    app.add_routes(
        [
            web.get("/", admin.index),
            web.get("/status.json", admin.status),
            web.get("/metrics", admin.metrics),
            web.get("/livez", admin.live),
            web.get("/healthz", admin.live),
            web.get("/readyz", admin.ready),
            web.get("/stats", admin.stats),
            web.get("/info", admin.info),
            web.get("/entries", admin.entries),
            web.get(f"{FILE_PATH}/{{target:.*}}", admin.file),
            web.get(f"{WHY_PATH}/{{target:.*}}", admin.why),
            web.get(f"{MAP_PATH}/{{target:.*}}", admin.map),
            web.get(f"{VERIFY_PATH}/{{target:.*}}", admin.verify),
            web.post("/purge", admin.purge),
        ]
    )
    app.on_response_prepare.append(_add_headers)
    return app


class _Admin:
    def __init__(self, console: Console, metrics: Exposition) -> None:
        self._console = console
        self._metrics = metrics

    async def index(self, request: web.Request) -> web.Response:
        if not prefers_html(request.headers.get("Accept", "")):
            return web.Response(text=INDEX, headers={"Vary": "Accept"})
        return _page(render(self._console.status()), PAGE_POLICY)

    async def status(self, _request: web.Request) -> web.Response:
        return _json(self._console.status())

    async def metrics(self, request: web.Request) -> web.Response:
        body, content_type = self._metrics.exposition(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def live(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(self, _request: web.Request) -> web.Response:
        reason = self._console.why_not_ready()
        if reason is None:
            return web.Response(text="ok\n")
        return web.Response(status=503, text=f"{reason}\n")

    async def stats(self, _request: web.Request) -> web.Response:
        return _json(self._console.stats())

    async def info(self, _request: web.Request) -> web.Response:
        return _json(self._console.info())

    async def entries(self, request: web.Request) -> web.Response:
        try:
            page = await self._console.entries(parse_entries(request.query.items()))
        except BadCursor:
            detail = "`after` is no cursor of this run of the sidecar: begin again without it."
            return _problem(400, "Not a cursor", detail, slug="bad-cursor")
        except NoSuchRoute as error:
            return _no_such_route(error)
        except ValueError as error:
            detail = f"{error} {_ENTRIES_HELP}"
            return _problem(400, "Not a request for entries", detail, slug="bad-entries")
        return _json(page)

    async def file(self, request: web.Request) -> web.StreamResponse:
        try:
            asked = parse_file_request(request.raw_path, request.raw_headers)
        except ValueError as error:
            detail = f"{error} {FILE_HELP}"
            return _problem(400, "Not a request for a file", detail, slug="bad-file")
        held = await self._console.file(asked)
        if isinstance(held, Refuse):
            return _problem(held.status, held.title, held.detail, slug=held.slug)
        return await send_file(request, asked.target, held)

    async def why(self, request: web.Request) -> web.Response:
        try:
            asked = parse_why(request.raw_path, request.raw_headers)
        except ValueError as error:
            detail = f"{error} {WHY_HELP}"
            return _problem(400, "Not a target", detail, slug="bad-why")
        return _explained(request, await self._console.why(asked))

    async def verify(self, request: web.Request) -> web.Response:
        try:
            asked = parse_verify(request.raw_path, request.raw_headers)
        except ValueError as error:
            detail = f"{error} {WHY_HELP}"
            return _problem(400, "Not a target", detail, slug="bad-verify")
        return _explained(request, await self._console.verify(asked))

    async def map(self, request: web.Request) -> web.Response:
        try:
            asked = parse_map(request.raw_path, request.raw_headers)
        except ValueError as error:
            return _problem(400, "Not a map", f"{error} {MAP_HELP}", slug="bad-map")
        found = await self._console.map(asked)
        if isinstance(found, Refuse):
            return _problem(found.status, found.title, found.detail, slug=found.slug)
        # Thousands of cells take the fifth of a second, in which readers would wait.
        shown = await asyncio.to_thread(show, found, request.headers.get("Accept", ""))
        return _page(shown.content, shown.policy, shown.media_type)

    async def purge(self, request: web.Request) -> web.Response:
        try:
            purge = parse_purge(await request.read())
        except (web.RequestPayloadError, ConnectionError):
            detail = "The request's body ended early, or is not what its head says."
            return _problem(400, "Broken request", detail, slug="broken-request")
        except ValueError as error:
            detail = f"{error} {_PURGE_HELP}"
            return _problem(400, "Not a purge request", detail, slug="bad-purge")
        try:
            return _json(await self._console.purge(purge))
        except NoSuchRoute as error:
            return _no_such_route(error)


@web.middleware
async def _guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Judges who asks before anything else, and turns every error into a problem."""
    refusal = _judge(request)
    if refusal is not None:
        return _problem(refusal.status, refusal.title, refusal.detail, slug=refusal.slug)
    try:
        return await handler(request)
    except web.HTTPMethodNotAllowed as error:
        return _wrong_method(request, error)
    except web.HTTPNotFound:
        return _problem(404, "No such page", f"There are {_ENDPOINTS}.", slug="no-such-page")
    except web.HTTPRequestEntityTooLarge:
        detail = f"The body is larger than {MAX_PURGE_BYTES} bytes. {_PURGE_HELP}"
        return _problem(413, "Too large", detail, slug="too-large")
    except Exception:
        target = request.raw_path.encode("utf-8", "surrogateescape")
        log.exception("the admin port failed", extra={"path": shown_target(target)})
        detail = "The log says what happened; the data port is not concerned."
        return _problem(500, "The admin port failed", detail, slug="internal")


def _judge(request: web.Request) -> Refuse | None:
    fields = Fields(request.raw_headers)
    resource = request.match_info.route.resource
    page = resource.canonical if resource is not None else None
    if (refusal := judge_host(fields.get(b"host"), request.app[_ALLOWED_HOSTS]())) is not None:
        return refusal
    if page not in _OPEN_TO_ALL and not _is_local(request):
        detail = (
            f"From elsewhere only {', '.join(sorted(_OPEN_TO_ALL))} can be read. Ask on the "
            "machine itself, or through `kubectl port-forward`."
        )
        return Refuse(403, "not-local", "Only for this machine", detail)
    if page in _PAGES and is_top_level_navigation(request.method, fields):
        return None
    return judge_source(fields)


def _is_local(request: web.BaseRequest) -> bool:
    """A peer on a Unix socket has an empty name; one that has gone has none."""
    remote, transport = request.remote, request.transport
    if remote is None or transport is None:
        return False
    own = transport.get_extra_info("sockname")
    return not remote or (bool(own) and is_over_loopback(remote, str(own[0])))


def _wrong_method(request: web.Request, error: web.HTTPMethodNotAllowed) -> web.Response:
    allow = ", ".join(sorted(error.allowed_methods))
    detail = f"{request.path} knows {allow}."
    if request.path == "/purge":
        url = f"http://{request.host}/purge"
        detail += f""" For example: curl -X POST {url} -d '{{"prefix": "/a/"}}'"""
    response = _problem(405, "Wrong method", detail, slug="wrong-method")
    response.headers["Allow"] = allow
    return response


def _no_such_route(error: NoSuchRoute) -> web.Response:
    return _problem(404, "No such route", str(error), slug="no-such-route")


def _problem(status: int, title: str, detail: str, *, slug: str) -> web.Response:
    body = problem(status, title, detail, slug=slug)
    return web.Response(status=status, body=body, content_type=PROBLEM_MEDIA_TYPE)


def _page(content: str, policy: str | None, media_type: str = "text/html") -> web.Response:
    # Whoever opened it in a tab has no hold on that: it could tell how long a map takes.
    opened = {"Cross-Origin-Opener-Policy": "same-origin", "Referrer-Policy": "no-referrer"}
    fields = {"Vary": "Accept", **opened}
    if policy is not None:
        fields["Content-Security-Policy"] = policy
    return web.Response(text=content, content_type=media_type, headers=fields)


def _json(members: dict[str, object]) -> web.Response:
    return web.json_response(text=json.dumps(members, indent=2) + "\n")


def _explained(request: web.Request, told: dict[str, object] | Refuse) -> web.Response:
    if isinstance(told, Refuse):
        return _problem(told.status, told.title, told.detail, slug=told.slug)
    if wants_json(request.headers.get("Accept", "")):
        return web.json_response(text=as_json(told))
    return web.Response(text=as_text(told))


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)
