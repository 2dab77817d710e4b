"""While an origin is left alone: what is held stands in where it may, all else is told at once."""

import pytest

from chunkside.core.entry import Absent, Present

KEY = b"/b/c/0"


@pytest.fixture
def spared(house):
    """A house whose origin has what KEY names and isn't asked."""
    house.origin.put(KEY, b"body")
    house.origin.script(KEY, "spared")
    return house


async def test_what_is_not_held_is_told_with_the_time_to_come_back(spared):
    got = await spared.get(KEY)
    assert (got.status, got.result, got.field(b"retry-after")) == (503, "error", b"7")
    assert b"left alone" in got.body
    assert "origin-not-asked" in got.cache_status
    assert spared.origin.exchanges == []


async def test_a_stale_body_stands_in(house):
    house.origin.put(KEY, b"body")
    await house.get(KEY)
    await house.settled()
    house.now.advance(1000)
    house.origin.script(KEY, "spared")
    got = await house.get(KEY)
    assert (got.status, got.result, got.body) == (200, "stale", b"body")
    assert isinstance(house.entry(KEY), Present)


async def test_an_absence_never_stands_in_and_none_is_made(house):
    assert (await house.get(KEY)).status == 404
    assert isinstance(house.entry(KEY), Absent)
    house.now.advance(1000)
    house.origin.script(KEY, "spared")
    for fields in ((), ((b"Range", b"bytes=0-3"),)):
        assert (await house.get(KEY, *fields)).status == 503
    assert (await house.send("HEAD", KEY)).status == 503
    await house.settled()


async def test_a_write_that_was_never_sent_leaves_nothing_in_doubt(spared):
    assert (await spared.put(KEY, b"newer")).status == 503
    assert spared.origin.exchanges == []
    spared.origin.behave()
    assert (await spared.get(KEY)).body == b"body"
    await spared.settled()
    assert isinstance(spared.entry(KEY), Present)


async def test_a_fault_of_our_own_is_told_and_nothing_stands_in_for_a_sound_origin(
    house, monkeypatch, caplog
):
    house.origin.put(KEY, b"body")
    await house.get(KEY)
    await house.settled()
    house.now.advance(1000)
    house.origin.put(KEY, b"newer")

    async def send(_):
        raise UnicodeError("s3cret")

    with monkeypatch.context() as broken:
        broken.setattr(house.origin, "send", send)
        got = await house.get(KEY)
        await house.settled()
    assert (got.status, got.result) == (500, "error")
    assert "s3cret" not in got.body.decode()
    assert "a fill failed" in caplog.text
    assert (await house.get(KEY)).body == b"newer"
    await house.settled()
