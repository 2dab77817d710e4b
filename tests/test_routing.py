"""Which routes hold, and what becomes of those that don't any more."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from chunkside import routing
from chunkside.core.buckets import error_code
from chunkside.core.budget import Limits
from chunkside.core.fields import Fields
from chunkside.core.index import Index
from chunkside.core.request import Request
from chunkside.gateway.reply import Reply
from chunkside.metrics import Metrics
from chunkside.routing import CurrentRoutes, Ground, OpenRoute, policy_of
from chunkside.settings import ConfiguredRoute, load_settings, require_routes
from chunkside.store.memory import MemoryBodyStore
from chunkside.store.stamps import MemoryStampTable
from chunkside.upstream import aws
from chunkside.upstream.aws import Keys
from chunkside.upstream.chain import Chain as AnyChain
from chunkside.upstream.chain import Found
from chunkside.upstream.hops import Means
from tests.support.house import HandClock
from tests.support.raw_origin import RawOrigin, says
from tests.support.turns import turns

ABSENT = says(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")


def configured(*routes: dict[str, Any]) -> tuple[ConfiguredRoute, ...]:
    return require_routes(load_settings({"routes": list(routes)}, {}))


def ground_of() -> Ground:
    clock = HandClock()
    stamps = MemoryStampTable(clock.boot_seconds)
    return Ground(
        Index(Limits(1 << 20)),
        MemoryBodyStore(stamps),
        stamps,
        clock,
        Metrics("1", ()),
        b"secret",
        "chunkside-1",
    )


@pytest.fixture
async def origin() -> AsyncIterator[RawOrigin]:
    async with RawOrigin(ABSENT) as speaking:
        yield speaking


async def ask(opened: OpenRoute, target: bytes, *fields: tuple[bytes, bytes]) -> Reply:
    request = opened.route.request("GET", target, Fields(fields), has_body=False)
    assert isinstance(request, Request)
    return await opened.gateway.answer(request)


async def test_what_stays_as_it_was_is_the_same_route(origin):
    routes = CurrentRoutes((), ground_of())
    told = {"prefix": "/a", "upstream": origin.url}
    routes.change(configured(told), {})
    [first] = routes.open
    routes.change(configured(told, {"prefix": "/b", "upstream": origin.url}), {})
    assert routes.open[0] is first
    routes.change(configured({**told, "ttl": 5}), {})
    [changed] = routes.open
    assert changed is not first
    assert changed.edges.policy.ttl == 5
    assert changed.edges.upstream is first.edges.upstream
    routes.change(configured({**told, "ttl": 5, "upstream_idle_timeout": 5}), {})
    assert routes.open[0].edges.upstream is not first.edges.upstream
    await routes.close()


async def test_an_upstream_is_closed_once_the_last_who_may_ask_it_has_left(origin):
    routes = CurrentRoutes((), ground_of())
    routes.change(configured({"prefix": "/a", "upstream": origin.url}), {})
    [first] = routes.open
    reply = await ask(first, b"/a/c/0")
    # The same way to the origin under other lifetimes, then none.
    routes.change(configured({"prefix": "/a", "upstream": origin.url, "ttl": 5}), {})
    routes.change(configured({"prefix": "/b", "upstream": "http://127.0.0.1:9"}), {})
    await turns(20)
    assert [each.configured.prefix for each in routes.under_way] == ["/b", "/a"]
    # It can still be asked, for instance for the rest of a body.
    assert (await ask(first, b"/a/c/1")).status == 404
    reply.release()
    await turns(20)
    assert first in routes.under_way
    await end_of_fills(routes)


async def end_of_fills(routes: CurrentRoutes) -> None:
    await routes.shared.tasks.finish(5)
    await routes.close()


async def test_an_outdated_route_stores_nothing(origin):
    """Its request was understood before, and is sent after, what it may see was told otherwise."""
    ground = ground_of()
    routes = CurrentRoutes((), ground)
    told = {"prefix": "/a", "upstream": origin.url}
    routes.change(configured({**told, "credential_headers": ["Authorization"]}), {})
    [before] = routes.open
    (await ask(before, b"/a/c/0")).release()
    assert ground.index.markers.count == 1
    fell = routes.change(configured({**told, "credential_headers": ["Authorization", "X-Who"]}), {})
    assert fell == {origin.url: frozenset({"credential_headers"})}
    assert ground.index.markers.count == 0
    (await ask(before, b"/a/c/1", (b"X-Who", b"alice"))).release()
    assert ground.index.markers.count == 0
    (await ask(routes.open[0], b"/a/c/2")).release()
    assert ground.index.markers.count == 1
    await end_of_fills(routes)


async def test_a_route_that_left_before_is_outdated_by_what_comes_later(origin):
    ground = ground_of()
    routes = CurrentRoutes((), ground)
    told = {"prefix": "/a", "upstream": origin.url}
    routes.change(configured({**told, "ignored_query": ["x-id"]}), {})
    [before] = routes.open
    under_way = await ask(before, b"/a/c/0")
    assert routes.change(configured({"prefix": "/b", "upstream": "http://127.0.0.1:9"}), {}) == {}
    assert routes.change(configured({**told, "ignored_query": []}), {}).keys() == {origin.url}
    assert routes.change(configured({**told, "ignored_query": [], "ttl": 5}), {}) == {}
    (await ask(before, b"/a/c/1")).release()
    assert ground.index.markers.count == 0
    under_way.release()
    await end_of_fills(routes)


async def test_two_hundred_changes_leave_no_task_no_connection_and_no_series(origin):
    ground = ground_of()
    routes = CurrentRoutes((), ground)
    tasks = len(asyncio.all_tasks())
    for number in range(200):
        told = configured(
            {"prefix": "/stays", "upstream": origin.url, "ttl": number},
            {"prefix": f"/guest-{number}", "upstream": origin.url},
        )
        routes.change(told, {})
        for opened, name in zip(routes.open, (b"/stays", b"/guest-%d" % number), strict=True):
            (await ask(opened, name + b"/c/%d" % number)).release()
    await routes.shared.tasks.finish(5)
    await turns(50)
    # Each guest's connection was closed when the next one came.
    assert origin.open <= 2 + 1
    assert [each.configured.prefix for each in routes.under_way] == ["/stays", "/guest-199"]
    # One for each connection that the origin holds.
    assert len(asyncio.all_tasks()) <= tasks + 3
    shown = ground.metrics.exposition("")[0].decode()
    assert 'route="/guest-199"' in shown
    assert 'route="/guest-198"' not in shown
    await routes.close()


async def test_a_running_route_begins_and_ends_to_audit_and_to_observe(origin):
    routes = CurrentRoutes((), ground_of())
    told = {"prefix": "/a", "upstream": origin.url}
    routes.change(configured(told), {})
    [quiet] = routes.open
    assert quiet.gateway.audits.sampler is None
    routes.change(configured({**told, "audit_share": "50%"}), {})
    [auditing] = routes.open
    assert auditing.gateway.audits.sampler is not None
    assert auditing.edges.upstream is quiet.edges.upstream
    routes.change(configured({**told, "audit_share": "50%", "mode": "observe"}), {})
    [observing] = routes.open
    assert (await ask(observing, b"/a/x")).cache_status.detail == "observe"
    assert observing.gateway.audits.sampler is None
    await routes.shared.tasks.finish(5.0)
    await routes.close()


@pytest.mark.parametrize(
    ("scheme", "code"),
    [("s3", b"NoSuchKey"), ("az", b"BlobNotFound"), ("http", b""), ("https", b"")],
)
def test_an_object_store_is_known_by_its_scheme(scheme, code):
    [route] = configured({"prefix": "/a", "upstream": f"{scheme}://bucket"})
    policy = policy_of(route, 1 << 30)
    assert policy.is_object_store is bool(code)
    assert error_code(policy.of_absence.body) == (code or None)
    told = dict(policy.of_absence.fields)
    assert told.get(b"x-ms-error-code") == (code if scheme == "az" else None)
    assert policy.negative_scope == ("all" if code else "get")


class Chain:
    """What it finds, once it may say it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, origin: RawOrigin) -> None:
        self.may_say = threading.Event()
        self.told = {"prefix": "/", "upstream": "s3://data", "upstream_endpoint": origin.url}
        monkeypatch.setattr(routing, "means_of", self.means_of)

    def means_of(self, _: ConfiguredRoute) -> Means:
        self.may_say.wait(20)
        keys = Keys("AKID", "s3cr3t", None)
        return Means(chain=AnyChain(aws.AWS, Found(keys, "aws env AKID", None, lambda _: False)))


async def test_a_route_of_unknown_credentials_asks_nobody_until_they_are_known(origin, monkeypatch):
    chain = Chain(monkeypatch, origin)
    routes = CurrentRoutes((), ground_of())
    routes.change(configured(chain.told), {})
    [before], told = routes.open, []
    routes.search(lambda: told.append(routes.open))
    # Twice is once.
    routes.search(lambda: told.append(routes.open))
    assert before.search is not None
    waiting = asyncio.create_task(before.search.wait())
    assert (await ask(before, b"/data/c/0")).status == 503
    assert (origin.heard, waiting.done()) == ([], False)
    chain.may_say.set()
    async with asyncio.timeout(20):
        await waiting
    [after] = routes.open
    assert told == [routes.open]
    assert (after.search, after.route.identity) == (None, "aws env AKID")
    assert before.route.identity != after.route.identity
    assert (await ask(after, b"/data/c/0")).status == 502
    assert b"Credential=AKID/" in origin.heard[0].head
    await routes.close()


async def test_settings_that_are_read_meanwhile_count(origin, monkeypatch):
    chain = Chain(monkeypatch, origin)
    routes = CurrentRoutes((), ground_of())
    routes.change(configured(chain.told), {})
    [before], told = routes.open, []
    routes.search(lambda: told.append(routes.open))
    assert before.search is not None
    waiting = asyncio.create_task(before.search.wait())
    other = {"prefix": "/", "upstream": origin.url}
    routes.change(configured(other), {})
    async with asyncio.timeout(20):
        # By the route that has taken its place.
        await waiting
    [after] = routes.open
    chain.may_say.set()
    await turns(20)
    assert (routes.open, told) == ((after,), [])
    await routes.close()
