"""Two answers on one connection: what one lacks must not be read out of the next."""

from tests.support.house import House
from tests.support.wire import data_port, get

KEY = b"/a/c/0"
BODY = b"0123456789" * 100


async def test_a_reader_that_joins_anothers_validation_reads_no_other_answer():
    house = House()
    house.origin.put(KEY, BODY, etag=b'"one"')
    house.origin.put(b"/other", b"x" * 1000)
    await house.get(KEY, (b"Range", b"bytes=0-9"))
    await house.settled()
    house.now.advance(301.0)
    await house.get(b"/other")
    await house.settled()
    gate = house.origin.hold(KEY)
    async with data_port(house) as port, await port.connect() as wire:
        knows = house.start("GET", KEY, (b"If-None-Match", b'"one"'))
        await gate.reached()
        await wire.send(get(KEY) + get(b"/other"))
        await house.until_waiting(2)
        gate.open()
        await knows
        first = await wire.answer()
    assert (first.status, first.body) == (200, BODY)
