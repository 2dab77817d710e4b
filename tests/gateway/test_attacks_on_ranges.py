"""An attacker's look at ranges: no answer is hollow, and what a reader saw never turns back."""

import asyncio

import pytest

from chunkside.core.entry import Partial
from tests.support.fake_upstream import Answer

KEY = b"/a.zarr/c/0"
BODY = bytes(range(256)) * (12 << 10)
NEW = bytes(reversed(range(256))) * (12 << 10)
MIB = 1 << 20
INDEX = (b"Range", b"bytes=-16")


def ranged(first, last):
    return (b"Range", b"bytes=%d-%d" % (first, last))


async def get(house, first, last, *fields):
    return await house.get(KEY, ranged(first, last), *fields)


def parts(house):
    entry = house.entry(KEY)
    return [(each.first, each.last) for each in entry.bodies] if isinstance(entry, Partial) else []


@pytest.fixture
def filled(house):
    house.origin.put(KEY, BODY)
    return house


# Answers without their bytes.


@pytest.mark.parametrize(
    ("asked", "status", "body"),
    [((ranged(500, 599),), 206, BODY[500:600]), ((), 200, BODY)],
    ids=["range", "whole"],
)
async def test_who_joins_anothers_validation_gets_the_bytes_that_it_did_not_need(
    filled, asked, status, body
):
    etag = filled.origin.objects[KEY].etag
    await get(filled, 0, 9)
    await filled.settled()
    filled.now.advance(301.0)
    gate = filled.origin.hold(KEY)
    knows = filled.start("GET", KEY, *asked, (b"If-None-Match", etag))
    await gate.reached()
    plain = filled.start("GET", KEY, *asked)
    await filled.until_waiting(2)
    gate.open()
    assert (await knows).status == 304
    got = await plain
    assert (got.status, got.body) == (status, body)
