import contextlib
import json
import re
import socket
from dataclasses import dataclass, field

import pytest
from aiohttp import ClientSession, TCPConnector, UnixConnector, web
from aiohttp.test_utils import TestClient
from yarl import URL

from chunkside.core.decision import Refuse
from chunkside.server.admin import (
    INDEX,
    MAX_PURGE_BYTES,
    BadCursor,
    NoSuchRoute,
    admin_app,
)
from chunkside.server.admin_requests import (
    MAX_ENTRIES,
    EntriesRequest,
    PurgeAll,
    PurgePrefix,
    PurgeRequest,
    PurgeRoute,
    PurgeTarget,
    parse_purge,
)
from chunkside.server.map_page import ChunkMap, MapRequest
from chunkside.server.status_page.markup import source_hash
from chunkside.server.stored_file import FileRequest, HeldFile
from chunkside.server.why_page import WhyRequest
from tests.support.shown import a_map, a_status


@dataclass
class FakeConsole:
    reason: str | None = None
    purges: list[PurgeRequest] = field(default_factory=list)
    pages: list[EntriesRequest] = field(default_factory=list)
    fault: Exception | None = None

    def why_not_ready(self) -> str | None:
        return self.reason

    def stats(self) -> dict[str, object]:
        return {"hits": 3, "misses": 1, "hit_rate": 0.75}

    def info(self) -> dict[str, object]:
        return {"max_size": 10, "cache_dir": None}

    def status(self) -> dict[str, object]:
        return a_status()

    async def map(self, request: MapRequest) -> ChunkMap | Refuse:
        if self.fault is not None:
            raise self.fault
        if request.target == b"/none":
            return Refuse(404, "no-array", "No array is there", "Nothing is there.")
        return a_map()

    async def entries(self, request: EntriesRequest) -> dict[str, object]:
        if self.fault is not None:
            raise self.fault
        self.pages.append(request)
        return {"entries": [], "next": None}

    async def file(self, request: FileRequest) -> HeldFile | Refuse:
        return Refuse(404, "not-held", "No such file", "Nothing is held.")

    async def why(self, request: WhyRequest) -> dict[str, object] | Refuse:
        if request.target == b"/none":
            return Refuse(421, "no-route", "No route", "Nothing is there.")
        return {"verdict": f"It is {request.target.decode()}.", "class": "chunk"}

    async def verify(self, request: WhyRequest) -> dict[str, object] | Refuse:
        if request.target == b"/none":
            return Refuse(421, "no-route", "No route", "Nothing is there.")
        return {"verdict": "true", "sentence": f"{request.target.decode()} is so.", "held": None}

    async def purge(self, request: PurgeRequest) -> dict[str, object]:
        if self.fault is not None:
            raise self.fault
        self.purges.append(request)
        return {"bodies": 2, "markers": 5}


class FakeExposition:
    def exposition(self, accept_header: str) -> tuple[bytes, str]:
        return f"accept {accept_header}\n".encode(), "text/plain; version=0.0.4; charset=utf-8"


@pytest.fixture
def console() -> FakeConsole:
    return FakeConsole()


@pytest.fixture
async def client(aiohttp_client, console) -> TestClient:
    return await aiohttp_client(admin_app(console, FakeExposition()))


@pytest.fixture
async def neighbour(aiohttp_client, console) -> TestClient:
    """A client whose requests seem to come from another machine."""

    @web.middleware
    async def from_elsewhere(request, handler):
        return await handler(request.clone(remote="10.0.0.7"))

    app = admin_app(console, FakeExposition())
    app.middlewares.insert(0, from_elsewhere)
    return await aiohttp_client(app)


async def problem_of(response, status):
    assert response.status == status
    assert response.content_type == "application/problem+json"
    members = json.loads(await response.read())
    assert members["status"] == status
    assert members["type"].startswith("urn:chunkside:problem:")
    assert members["title"]
    assert members["detail"]
    return members


async def test_the_index_names_every_endpoint(client):
    response = await client.get("/")
    assert await response.text() == INDEX
    routes = client.app.router.resources()
    paths = {resource.canonical for resource in routes} - {"/"}
    assert {path for path in paths if path not in INDEX} == set()
    assert response.headers["Vary"] == "Accept"
    assert paths >= {"/metrics", "/stats", "/info", "/entries", "/purge"}


BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


async def test_browsers_get_the_status_page_and_curl_the_index(client):
    page = await client.get("/", headers={"Accept": BROWSER})
    assert page.content_type == "text/html"
    assert "<!doctype html>" in await page.text()
    assert page.headers["Vary"] == "Accept"
    for accept in ("*/*", "text/plain", "application/json"):
        index = await client.get("/", headers={"Accept": accept})
        assert await index.text() == INDEX


async def test_the_page_may_fetch_itself_and_what_it_shows(client):
    fields = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Accept": "text/html"}
    assert (await client.get("/", headers=fields)).status == 200
    shown = await client.get("/status.json", headers=fields)
    assert (await shown.json()) == a_status()


@pytest.mark.parametrize(
    ("accept", "media_type", "begins"),
    [
        ("*/*", "text/plain", "/a.zarr\n"),
        ("image/svg+xml", "image/svg+xml", "<svg "),
        ("application/json", "application/json", '{"array": "/a.zarr"'),
        (BROWSER, "text/html", "<!doctype html>"),
    ],
)
async def test_a_map_comes_as_it_is_asked_for(client, accept, media_type, begins):
    response = await client.get("/map/a.zarr", headers={"Accept": accept})
    assert (response.status, response.content_type) == (200, media_type)
    assert (await response.text()).startswith(begins)
    assert response.headers["Vary"] == "Accept"


@pytest.mark.parametrize("path", ["/", "/map/a.zarr"])
async def test_a_page_may_load_nothing_and_run_only_what_it_came_with(client, path):
    response = await client.get(path, headers={"Accept": BROWSER})
    assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    policy = response.headers["Content-Security-Policy"]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert "unsafe" not in policy
    assert directives["frame-ancestors"] == directives["base-uri"] == "'none'"
    html = await response.text()
    for tag in ("style", "script"):
        found = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        hashes = {source_hash(each) for each in found}
        assert hashes == set(directives.get(f"{tag}-src", "").split()), tag


async def test_a_map_of_what_is_no_array_is_a_problem(client):
    assert (await problem_of(await client.get("/map/none"), 404))["detail"] == "Nothing is there."
    members = await problem_of(await client.get("/map/a?slice=x"), 400)
    assert "'x' is neither a number nor a slice" in members["detail"]
    assert "?slice=0,:,:" in members["detail"]
    await problem_of(await client.get("/map/a?other=1"), 400)


async def test_metrics_come_in_the_format_that_is_asked_for(client):
    response = await client.get("/metrics", headers={"Accept": "text/plain"})
    assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert await response.text() == "accept text/plain\n"


@pytest.mark.parametrize("path", ["/livez", "/healthz", "/readyz"])
async def test_a_healthy_sidecar_says_ok_also_to_head(client, path):
    response = await client.get(path)
    assert (response.status, await response.text()) == (200, "ok\n")
    assert (await client.head(path)).status == 200


async def test_a_sidecar_that_is_not_ready_says_why_and_is_alive(client, console):
    console.reason = "the stamp table can't be written"
    response = await client.get("/readyz")
    assert response.status == 503
    assert await response.text() == "the stamp table can't be written\n"
    assert (await client.get("/livez")).status == 200


async def test_stats_are_json(client):
    response = await client.get("/stats")
    assert response.content_type == "application/json"
    assert await response.json() == {"hits": 3, "misses": 1, "hit_rate": 0.75}


async def test_info_is_json(client):
    response = await client.get("/info")
    assert response.content_type == "application/json"
    assert await response.json() == {"max_size": 10, "cache_dir": None}


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("", EntriesRequest(b"/", 100, None)),
        ("?prefix=/a", EntriesRequest(b"/a")),
        ("?prefix=%2Fa%2520b%2Bc", EntriesRequest(b"/a%20b+c")),
        ("?prefix=http://localhost:8100/a/", EntriesRequest(b"/a/")),
        ("?limit=1", EntriesRequest(limit=1)),
        (f"?limit={MAX_ENTRIES}&after=x-y&prefix=/", EntriesRequest(b"/", MAX_ENTRIES, "x-y")),
    ],
)
async def test_entries_are_asked_for_by_the_page(client, console, query, page):
    response = await client.get(f"/entries{query}")
    assert response.status == 200
    assert await response.json() == {"entries": [], "next": None}
    assert console.pages == [page]


@pytest.mark.parametrize(
    "query",
    [
        "prefix=",
        "prefix=a/b",
        "prefix=ftp://host/",
        "limit=0",
        f"limit={MAX_ENTRIES + 1}",
        "limit=-1",
        "limit=1e2",
        "limit=",
        "limit=%D9%A1",
        "prefx=/a",
        "prefix=/a&prefix=/b",
    ],
)
async def test_any_other_question_for_entries_is_told_what_to_ask(client, console, query):
    members = await problem_of(await client.get(f"/entries?{query}"), 400)
    assert "/entries?prefix=/a&limit=100" in members["detail"]
    assert console.pages == []


async def test_a_cursor_of_another_run_is_told_to_begin_again(client, console):
    console.fault = BadCursor("0-0")
    members = await problem_of(await client.get("/entries?after=0-0"), 400)
    assert members["type"] == "urn:chunkside:problem:bad-cursor"


@pytest.mark.parametrize(
    ("body", "purge"),
    [
        ('{"target": "/a/0.0?x=1"}', PurgeTarget(b"/a/0.0?x=1")),
        ('{"target": "http://localhost:8100/a/%41"}', PurgeTarget(b"/a/%41")),
        ('{"target": "/\u00e9"}', PurgeTarget("/\u00e9".encode())),
        ('{"prefix": "/"}', PurgePrefix(b"/")),
        ('{"route": "/era5"}', PurgeRoute("/era5")),
        ('{"route": "/", "soft": true}', PurgeRoute("/", is_soft=True)),
        ('{"all": true}', PurgeAll()),
        ('{"target": "/a", "soft": true}', PurgeTarget(b"/a", is_soft=True)),
        ('{"soft": true, "prefix": "/a"}', PurgePrefix(b"/a", is_soft=True)),
        ('{"all": true, "soft": true}', PurgeAll(is_soft=True)),
        ('{"all": true, "soft": false}', PurgeAll()),
    ],
)
async def test_a_purge_is_handed_on_and_reported(client, console, body, purge):
    response = await client.post("/purge", data=body)
    assert response.status == 200
    assert await response.json() == {"bodies": 2, "markers": 5}
    assert console.purges == [purge]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"target=/a",
        b"\xff",
        b"[" * 50_000,
        b"{}",
        b"[]",
        b'[["all", true]]',
        b"true",
        b'{"target": "/a", "prefix": "/b"}',
        b'{"target": "/a", "target": "/b"}',
        b'{"all": false}',
        b'{"all": 1}',
        b'{"target": 1}',
        b'{"route": 1}',
        b'{"route": ["/a"]}',
        b'{"route": "/a", "prefix": "/a"}',
        b'{"target": {"all": true}}',
        b'{"target": ""}',
        b'{"target": "a/b"}',
        b'{"prefix": "ftp://host/"}',
        b'{"target": "/\\ud800"}',
        b'{"paths": "/a"}',
        b'{"soft": true}',
        b'{"all": true, "soft": 1}',
        b'{"all": true, "soft": null}',
        b'{"all": true, "soft": "true"}',
        b'{"all": true, "soft": true, "soft": true}',
        b'{"all": true, "hard": true}',
        b'{"target": "/a", "prefix": "/b", "soft": true}',
    ],
)
async def test_a_purge_of_anything_else_is_told_what_to_send(client, console, body):
    response = await client.post("/purge", data=body)
    members = await problem_of(response, 400)
    assert '{"prefix": "/a/"}' in members["detail"]
    assert console.purges == []


async def test_what_no_route_takes_is_told_the_routes(client, console):
    console.fault = NoSuchRoute("There are: /a, /b.")
    for response in (
        await client.post("/purge", data='{"route": "/c"}'),
        await client.get("/entries?prefix=/c"),
    ):
        members = await problem_of(response, 404)
        assert members["type"] == "urn:chunkside:problem:no-such-route"
        assert "/a, /b" in members["detail"]


def test_parsing_says_which_value_is_meant():
    with pytest.raises(ValueError, match=r'^"a/b" is neither'):
        parse_purge(b'{"target": "a/b"}')
    with pytest.raises(ValueError, match=r'^"paths" with this value'):
        parse_purge(b'{"paths": "/a"}')


async def test_a_purge_is_bounded(client, console):
    response = await client.post("/purge", data=b" " * (MAX_PURGE_BYTES + 1))
    await problem_of(response, 413)
    assert console.purges == []


async def test_a_purge_that_can_not_be_read_is_the_clients_fault(client, console, caplog):
    headers = {"Content-Encoding": "gzip"}
    await problem_of(await client.post("/purge", data=b'{"all": true}', headers=headers), 400)
    assert console.purges == []
    assert "the admin port failed" not in caplog.text


async def test_reading_purge_is_answered_with_how_to_do_it(client):
    response = await client.get("/purge")
    members = await problem_of(response, 405)
    assert response.headers["Allow"] == "POST"
    assert f"curl -X POST http://127.0.0.1:{client.port}/purge -d '" in members["detail"]


async def test_another_wrong_method_is_told_what_there_is(client):
    response = await client.post("/metrics")
    members = await problem_of(response, 405)
    assert response.headers["Allow"] == "GET, HEAD"
    assert "curl" not in members["detail"]


async def test_an_unknown_path_lists_the_endpoints(client):
    members = await problem_of(await client.get("/metric"), 404)
    assert "/metrics" in members["detail"]


async def test_a_fault_of_our_own_is_a_problem_and_is_logged(client, console, caplog):
    console.fault = OSError("disk gone")
    members = await problem_of(await client.post("/purge", data='{"all": true}'), 500)
    assert "disk gone" not in members["detail"]
    assert "disk gone" in caplog.text


async def test_answers_are_neither_kept_nor_guessed_at_nor_framed(client):
    for path in ("/", "/stats", "/nowhere"):
        response = await client.get(path)
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["X-Frame-Options"] == "DENY"


@pytest.mark.parametrize("path", ["/", "/metrics", "/readyz", "/purge", "/nowhere"])
async def test_a_host_that_could_be_rebound_gets_nothing(client, path):
    response = await client.get(path, headers={"Host": "evil.example:8101"})
    await problem_of(response, 421)


@pytest.mark.parametrize("host", ["localhost", "reader.localhost:1", "[::1]", "chunkside.team.svc"])
async def test_hosts_of_this_side_are_answered(client, host):
    assert (await client.get("/stats", headers={"Host": host})).status == 200


FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/metrics"),
        ("GET", "/stats"),
        ("GET", "/status.json"),
        ("GET", "/map/a"),
        ("GET", "/info"),
        ("GET", "/entries"),
        ("POST", "/purge"),
        ("OPTIONS", "/purge"),
    ],
)
async def test_other_web_pages_get_nothing(client, console, method, path, headers):
    response = await client.request(method, path, headers=headers, data=b'{"all": true}')
    await problem_of(response, 403)
    assert console.purges == []


async def test_a_page_of_our_own_may_purge(client, console):
    headers = {"Origin": f"http://127.0.0.1:{client.port}", "Sec-Fetch-Site": "same-origin"}
    response = await client.post("/purge", headers=headers, data=b'{"all": true}')
    assert response.status == 200
    assert console.purges == [PurgeAll()]


@pytest.mark.parametrize(
    ("path", "status"),
    [("/", 200), ("/map/a", 200), ("/status.json", 403), ("/stats", 403), ("/metrics", 403)],
)
async def test_a_link_on_another_page_leads_to_pages_only(client, path, status):
    headers = {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }
    assert (await client.get(path, headers=headers)).status == status


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/metrics", 200),
        ("GET", "/livez", 200),
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("GET", "/", 403),
        ("GET", "/stats", 403),
        ("GET", "/status.json", 403),
        ("GET", "/map/a", 403),
        ("GET", "/info", 403),
        ("GET", "/entries", 403),
        ("GET", "/nowhere", 403),
        ("POST", "/metrics", 403),
        ("POST", "/purge", 403),
    ],
)
async def test_another_machine_sees_metrics_and_health_only(
    neighbour, console, method, path, status
):
    response = await neighbour.request(method, path, data=b'{"all": true}')
    assert response.status == status
    assert console.purges == []


def own_addresses():
    """Loopback, and the one by which this machine would reach others, if there is any."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, contextlib.suppress(OSError):
        sock.connect(("192.0.2.1", 9))
        return {"127.0.0.1", sock.getsockname()[0]}
    return {"127.0.0.1"}


@pytest.mark.parametrize("address", sorted(own_addresses()))
async def test_what_a_service_mesh_hands_on_is_not_of_this_machine(console, address):
    runner = web.AppRunner(admin_app(console, FakeExposition()))
    await runner.setup()
    await web.TCPSite(runner, "0.0.0.0", 0).start()
    url = f"http://{address}:{runner.addresses[0][1]}"
    is_loopback = address.startswith("127.")
    try:
        async with ClientSession(connector=TCPConnector(local_addr=("127.0.0.6", 0))) as session:
            for path, status in (("/stats", 200 if is_loopback else 403), ("/metrics", 200)):
                async with session.get(url + path) as response:
                    assert response.status == status
    finally:
        await runner.cleanup()


async def test_a_name_may_be_allowed(aiohttp_client, console):
    names = frozenset({b"cache.example.org"})
    client = await aiohttp_client(admin_app(console, FakeExposition(), lambda: names))
    for host, status in (("cache.example.org:8101", 200), ("evil.example", 421)):
        response = await client.get("/stats", headers={"Host": host})
        assert response.status == status


async def test_a_unix_socket_counts_as_this_machine(console, tmp_path):
    runner = web.AppRunner(admin_app(console, FakeExposition()))
    await runner.setup()
    path = str(tmp_path / "admin.sock")
    await web.UnixSite(runner, path).start()
    try:
        async with (
            ClientSession(connector=UnixConnector(path)) as session,
            session.get("http://localhost/stats") as response,
        ):
            assert response.status == 200
    finally:
        await runner.cleanup()


# /why.


async def test_why_is_told_in_words_or_as_json(client):
    response = await client.get("/why/a/c/0?x=1&y=%252F")
    assert response.content_type == "text/plain"
    assert await response.text() == "It is /a/c/0?x=1&y=%252F.\n\nclass: chunk\n"
    assert response.headers["Cache-Control"] == "no-store"
    response = await client.get("/why/a", headers={"Accept": "application/json"})
    assert await response.json() == {"verdict": "It is /a.", "class": "chunk"}


async def test_why_not_is_a_problem(client):
    assert (await problem_of(await client.get("/why/none"), 421))["type"].endswith("no-route")
    refused = await problem_of(await client.get(URL("/wh%79/a", encoded=True)), 400)
    assert refused["type"].endswith("bad-why")


async def test_why_is_for_this_machine_alone(neighbour):
    assert (await neighbour.get("/why/a")).status == 403


# /verify.


async def test_a_verdict_is_told_in_words_or_as_json(client):
    response = await client.get("/verify/a/c/0?x=1&y=%252F")
    assert response.content_type == "text/plain"
    assert (await response.text()).splitlines()[0] == "true: /a/c/0?x=1&y=%252F is so."
    response = await client.get("/verify/a", headers={"Accept": "application/json"})
    told = await response.json()
    assert list(told)[:2] == ["verdict", "sentence"]


async def test_what_can_not_be_verified_is_a_problem(client):
    assert (await problem_of(await client.get("/verify/none"), 421))["type"].endswith("no-route")
    refused = await problem_of(await client.get(URL("/verif%79/a", encoded=True)), 400)
    assert refused["type"].endswith("bad-verify")


async def test_the_origin_is_asked_for_this_machine_alone(neighbour):
    assert (await neighbour.get("/verify/a")).status == 403


async def test_the_origin_is_asked_for_no_page_of_another_site(client):
    response = await client.get("/verify/a", headers={"Sec-Fetch-Site": "cross-site"})
    assert response.status == 403


async def test_the_log_of_a_fault_has_no_secret_of_the_path(client, console, caplog):
    console.fault = OSError("disk gone")
    await problem_of(await client.get(URL("/map/a%3Fsig=s3cret", encoded=True)), 500)
    assert "s3cret" not in str([record.__dict__ for record in caplog.records])
