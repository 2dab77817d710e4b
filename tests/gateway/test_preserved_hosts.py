"""What clients sign, or ask for by a Host that may name a bucket, on a route that preserves it."""

from dataclasses import replace

import pytest

from chunkside.core.entry import Present

STORE = "http://store.example:9000"
LOCAL = (b"Host", b"localhost:8100")
OWN = (b"Host", b"store.example:9000")
BUCKET = (b"Host", b"era5.store.example:9000")
SIGNED = (b"Authorization", b"AWS4-HMAC-SHA256 Credential=c, SignedHeaders=host, Signature=0")
KEY, IN_BUCKET = b"/era5/x/c/0", b"/x/c/0"
DELETE_ONE = b"<Delete><Object><Key>x/c/0</Key></Object></Delete>"


@pytest.fixture
def store(house):
    house.route = replace(house.route, location=STORE, preserves_host=True)
    return house


async def test_signed_reads_are_neither_stored_nor_collapsed_nor_answered_from_store(store):
    store.origin.put(KEY, b"body")
    assert (await store.get(KEY, LOCAL)).result == "miss"
    await store.settled()
    assert (await store.get(KEY, LOCAL)).result == "hit"
    held = store.entry(KEY, [LOCAL])
    for _ in range(2):
        got = await store.get(KEY, LOCAL, SIGNED)
        assert (got.result, got.body) == ("bypass", b"body")
    gate = store.origin.hold(KEY)
    readers = [store.start("GET", KEY, LOCAL, SIGNED) for _ in range(2)]
    await gate.reached()
    await store.until(lambda: store.origin.count("GET") == 5)
    gate.open()
    assert [(await reader).body for reader in readers] == [b"body"] * 2
    assert store.entry(KEY, [LOCAL]) is held
    assert store.entry(KEY, [LOCAL, SIGNED]) is None


async def test_a_host_that_may_name_a_bucket_is_asked_for_each_time(store):
    store.origin.put(IN_BUCKET, b"of the bucket")
    for _ in range(2):
        assert (await store.get(IN_BUCKET, BUCKET)).body == b"of the bucket"
    await store.settled()
    assert store.origin.count("GET") == 2
    assert store.entry(IN_BUCKET, [BUCKET]) is store.entry(IN_BUCKET, [LOCAL]) is None


WRITES = [
    pytest.param(LOCAL, "PUT", KEY, b"new", id="in the path"),
    pytest.param(BUCKET, "PUT", IN_BUCKET, b"new", id="in the host"),
    pytest.param(BUCKET, "DELETE", IN_BUCKET, None, id="in the host, deleted"),
    pytest.param(LOCAL, "POST", b"/era5?delete", DELETE_ONE, id="in the body"),
    pytest.param(BUCKET, "POST", b"/?delete", DELETE_ONE, id="in the host and the body"),
]


@pytest.mark.parametrize(("host", "method", "target", "content"), WRITES)
async def test_a_signed_write_falls_on_what_is_stored_by_whichever_name(
    store, host, method, target, content
):
    store.origin.put(KEY, b"old")
    await store.get(KEY, LOCAL)
    store.origin.put(b"/era5/y", b"another")
    await store.get(b"/era5/y", OWN)
    await store.settled()
    await store.send(method, target, host, SIGNED, content=content)
    await store.settled()
    assert store.entry(KEY, [LOCAL]) is None
    assert isinstance(store.entry(b"/era5/y", [LOCAL]), Present)


async def test_where_the_origins_own_name_is_a_buckets_a_write_by_path_falls_on_it(store):
    store.route = replace(store.route, location="http://era5.store.example:9000")
    store.origin.put(IN_BUCKET, b"old")
    await store.get(IN_BUCKET, LOCAL)
    await store.settled()
    assert isinstance(store.entry(IN_BUCKET, [BUCKET]), Present)
    await store.send("PUT", KEY, LOCAL, SIGNED, content=b"new")
    await store.settled()
    assert store.entry(IN_BUCKET, [BUCKET]) is None


async def test_a_write_of_more_names_than_can_be_told_one_by_one_falls_on_all(store):
    store.origin.put(KEY, b"old")
    await store.get(KEY, LOCAL)
    await store.settled()
    many = (b"Host", b".".join([b"a"] * 120) + b".localhost")
    keys = b"".join(b"<Object><Key>%d</Key></Object>" % number for number in range(1000))
    content = b"<Delete>%b</Delete>" % keys
    await store.send("POST", b"/?delete", many, SIGNED, content=content)
    await store.settled()
    assert store.entry(KEY, [LOCAL]) is None
    # As many as a store deletes at once are.
    await store.get(KEY, LOCAL)
    await store.settled()
    await store.send("POST", b"/?delete", LOCAL, SIGNED, content=content)
    await store.settled()
    assert isinstance(store.entry(KEY, [LOCAL]), Present)
