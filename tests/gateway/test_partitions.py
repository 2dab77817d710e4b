"""What was learned with a credential answers only that credential."""

import asyncio
from dataclasses import replace

import pytest

KEY = b"/a/c/0"
ALICE = (b"Authorization", b"Bearer alice")
BOB = (b"Authorization", b"Bearer bob")


async def test_credentials_never_share_bodies(house):
    house.origin.put(KEY, b"secret")
    for credential in ((ALICE,), (BOB,), ()):
        assert (await house.get(KEY, *credential)).result == "miss"
        await house.settled()
        assert (await house.get(KEY, *credential)).result == "hit"
    assert house.origin.count() == 3


async def test_credentials_never_share_absences(house):
    for credential in ((ALICE,), (BOB,), ()):
        assert (await house.get(KEY, *credential)).result == "miss"
        assert (await house.get(KEY, *credential)).result == "negative_hit"
    assert house.origin.count() == 3


async def test_credentials_never_share_a_fill(house):
    house.origin.put(KEY, b"secret")
    gate = house.origin.hold(KEY, times=3)
    readers = [house.start("GET", KEY, *given) for given in ((ALICE,), (BOB,), ())]
    for _ in readers:
        await gate.reached()
    gate.open()
    await asyncio.gather(*readers)
    sent = {each.fields.get(b"authorization") for each in house.origin.exchanges}
    assert sent == {ALICE[1], BOB[1], None}


async def test_another_header_of_credentials_is_another_partition(house):
    house.origin.put(KEY, b"secret")
    await house.get(KEY, (b"X-Api-Key", b"Bearer alice"))
    await house.settled()
    assert (await house.get(KEY, ALICE)).result == "miss"
    assert (await house.get(KEY, (b"X-Api-Key", b"other"))).result == "miss"


async def test_an_absence_in_one_partition_leaves_a_body_in_another(house):
    house.origin.put(KEY, b"secret")
    await house.get(KEY, ALICE)
    await house.settled()
    house.origin.objects.clear()
    assert (await house.get(KEY, BOB)).status == 404
    assert (await house.get(KEY, ALICE)).result == "hit"


SIGNED = {
    "SigV4 header": (
        KEY,
        ((b"Authorization", b"AWS4-HMAC-SHA256 Credential=AK/20270115/us-east-1/s3/aws4_request"),),
    ),
    "SharedKey": (KEY, ((b"Authorization", b"SharedKey account:sig"),)),
    "presigned": (KEY + b"?X-Amz-Signature=abc&X-Amz-Date=20270115T000000Z", ()),
    "SAS": (KEY + b"?sv=2024-01-01&sig=abc%3D", ()),
}


@pytest.mark.parametrize(("target", "fields"), SIGNED.values(), ids=SIGNED)
async def test_signed_requests_go_to_the_origin_each_time_verbatim(house, target, fields):
    house.origin.put(KEY, b"secret")
    gate = house.origin.hold(target, times=2)
    readers = [house.start("GET", target, *fields) for _ in range(2)]
    for _ in readers:
        await gate.reached()
    gate.open()
    got = await asyncio.gather(*readers)
    assert [(each.body, each.result) for each in got] == [(b"secret", "bypass")] * 2
    assert house.edges.index.bodies.count == 0
    for exchange in house.origin.exchanges:
        assert exchange.target == target
        for name, value in fields:
            assert exchange.fields.get(name.lower()) == value


async def test_a_signed_404_makes_no_marker(house):
    target, fields = SIGNED["presigned"]
    assert (await house.get(target, *fields)).status == 404
    assert house.edges.index.markers.count == 0


async def test_no_store_is_neither_answered_from_store_nor_stored(house):
    house.origin.put(KEY, b"x")
    for _ in range(2):
        assert (await house.get(KEY, (b"Cache-Control", b"no-store"))).result == "bypass"
    assert house.entry(KEY) is None


def holding(house, name, identity):
    """A route to the same origin, with a credential of the sidecar's own."""
    other = house.beside(name)
    other.route = replace(other.route, identity=identity, client_credentials="strip")
    return other


async def test_credentials_of_our_own_part_what_is_stored_and_a_write_falls_on_all(house):
    house.origin.put(KEY, b"body")
    one, other = holding(house, "/one", "bearer /a"), holding(house, "/other", "bearer /b")
    for holder in (one, other, house):
        target = (b"" if holder is house else holder.route.at) + KEY
        assert (await holder.get(target, ALICE)).result == "miss"
        await house.settled()
        for client in ((BOB,), (), (ALICE,)):
            expected = "hit" if holder is not house or client == (ALICE,) else "miss"
            assert (await holder.get(target, *client)).result == expected
        await house.settled()
    assert (await one.put(b"/one" + KEY, b"newer")).status in (200, 201, 204)
    for holder in (one, other, house):
        target = (b"" if holder is house else holder.route.at) + KEY
        got = await holder.get(target, ALICE)
        assert (got.result, got.body) == ("miss", b"newer")
