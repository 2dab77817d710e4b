"""A stored file that fails while it is read fails no read that the origin can still answer."""

import os

import pytest

from tests.gateway.conftest import close, disk_house
from tests.support.house import Reading

KEY = b"/a/c/0"
LARGE = os.urandom(1 << 20) * 4


@pytest.fixture
async def reading(tmp_path):
    house, disk = await disk_house(tmp_path)
    house.origin.put(KEY, LARGE, etag=b'"one"')
    await house.get(KEY)
    await house.settled()
    reply = await house.ask("GET", KEY)
    assert reply.result == "hit"
    reading = Reading(reply)
    await reading.until(1)
    [file] = tmp_path.rglob("*.arrow")
    os.truncate(file, 4096)
    yield house, reading
    await close(house, disk)


async def test_a_file_truncated_while_it_is_read_is_continued_from_the_origin(reading):
    house, client = reading
    read = len(client.body)
    assert await client.rest() == LARGE
    resumed = house.origin.requests("GET")[-1]
    assert resumed.fields.get(b"range") == b"bytes=%d-" % read
    assert resumed.fields.get(b"if-range") == b'"one"'
    assert (await house.get(KEY)).body == LARGE


async def test_another_version_is_never_joined_to_what_was_sent(reading):
    house, client = reading
    house.origin.put(KEY, bytes(len(LARGE)), etag=b'"two"')
    sent = bytes(client.body)
    await client.rest()
    assert client.is_torn
    assert bytes(client.body) == sent
