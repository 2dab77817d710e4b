"""What a client may ask of the freshness of what is stored (RFC 9111 §5.2.1)."""

import math

import pytest

from chunkside.core.demands import NONE, Demands, demands_of
from tests.core.samples import fields


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], NONE),
        (["Cache-Control: no-store"], NONE),
        (["Cache-Control: no-cache"], Demands(wants_validation=True)),
        (["Cache-Control: max-age=60"], Demands(max_age=60)),
        (["Cache-Control: max-age=0, Min-Fresh=5"], Demands(max_age=0, min_fresh=5)),
        (["Cache-Control: max-stale"], Demands(max_stale=math.inf)),
        (["Cache-Control: max-stale=9"], Demands(max_stale=9)),
        (["Cache-Control: max-age=x"], Demands(max_age=0)),
        (["Pragma: No-Cache"], Demands(wants_validation=True)),
        (["Pragma: no-cache", "Cache-Control: max-age=60"], Demands(max_age=60)),
        (["Pragma: x"], NONE),
    ],
)
def test_what_a_request_asks_for(lines, expected):
    assert demands_of(fields(*lines)) == expected


@pytest.mark.parametrize(
    ("demands", "age", "ttl", "is_met"),
    [
        (NONE, 10, 1, True),
        (NONE, 10, 0, False),
        (NONE, 10, -1, False),
        (Demands(wants_validation=True), 0, 100, False),
        (Demands(max_age=10), 10, 100, True),
        (Demands(max_age=10), 10.5, 100, False),
        (Demands(min_fresh=10), 0, 10, True),
        (Demands(min_fresh=10), 0, 9, False),
        (Demands(max_stale=10), 100, -9, True),
        (Demands(max_stale=10), 100, -10, False),
        (Demands(max_stale=math.inf), 100, -1e9, True),
        (Demands(max_stale=math.inf), 100, -math.inf, False),
        (Demands(max_stale=math.inf, max_age=50), 100, -1, False),
        (Demands(max_stale=math.inf, min_fresh=1), 100, -1, False),
    ],
)
def test_what_is_good_enough(demands, age, ttl, is_met):
    assert demands.are_met(age, ttl, may_be_stale=True) is is_met
    assert demands.are_met(age, ttl, may_be_stale=False) is (is_met and ttl > 0)
