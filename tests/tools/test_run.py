"""What `chunkside run` says at the end."""

import pytest

from chunkside.tools.run import advice, led_to, saved, settled
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
        "chunkside: 4 requests read 4 KiB; the store was asked 1 time, for 0 bytes"
    )


@pytest.mark.parametrize(
    ("totals", "told"),
    [
        (Totals({}, {"error": 3}, failed_writes=2), "2 came: --allow-writes passes them on"),
        (Totals({}, {"hit": 0}), "nothing came by here"),
        (Totals({}, {"hit": 1}), None),
    ],
)
def test_what_else_should_be_known_is_told(totals, told):
    said = advice(totals, allows_writes=False)
    assert said is None if told is None else said is not None and told in said


def test_who_passes_writes_on_is_not_told_to():
    totals = Totals({}, {"error": 3}, failed_writes=2)
    assert advice(totals, allows_writes=True) is None


def test_what_leads_awss_clients_is_not_left_aside():
    name = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"
    assert name not in led_to("http://127.0.0.1:1", {})
    assert led_to("http://127.0.0.1:1", {name: "true"})[name] == "false"


def test_what_goes_past_proxies_goes_past_them_by_either_name():
    environment = led_to("http://127.0.0.1:1", {"NO_PROXY": "example.org", "no_proxy": "other"})
    wanted = "example.org,other,localhost,127.0.0.1,::1"
    assert (environment["NO_PROXY"], environment["no_proxy"]) == (wanted, wanted)
