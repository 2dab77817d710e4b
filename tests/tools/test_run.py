"""What `chunkside run` says at the end."""

from chunkside.tools.run import saved, settled
from chunkside.tools.stats import Totals


def test_it_tells_the_totals_once_nothing_is_under_way():
    looks = [Totals({}, fills_in_flight=left, upstream_requests=5 - left) for left in (2, 1, 0, 0)]
    pauses: list[float] = []
    totals = settled(lambda: looks.pop(0), pauses.append)
    assert (totals.upstream_requests, len(pauses), len(looks)) == (5, 2, 1)


def test_it_does_not_wait_without_end():
    pauses: list[float] = []
    totals = settled(lambda: Totals({}, fills_in_flight=1), pauses.append)
    assert totals.fills_in_flight == 1
    assert sum(pauses) <= 5


def test_it_is_one_line():
    totals = Totals(
        {}, {"hit": 3, "miss": 1}, upstream_requests=1, response_bytes=4096, fills_in_flight=0
    )
    assert saved(totals) == (
        "chunkside: 4 requests read 4 KiB; the store was asked 1 times, for 0 bytes"
    )
