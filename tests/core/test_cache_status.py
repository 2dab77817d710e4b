import math

import pytest

from chunkside.core.cache_status import CacheStatus
from chunkside.core.decision import Forward


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (CacheStatus(), b"chunkside"),
        (CacheStatus(is_hit=True, ttl=299.9), b"chunkside; hit; ttl=299"),
        (
            CacheStatus(is_hit=True, ttl=7.0, detail="negative"),
            b"chunkside; hit; ttl=7; detail=negative",
        ),
        (
            CacheStatus(forward=Forward.URI_MISS, fwd_status=200, is_stored=True),
            b"chunkside; fwd=uri-miss; fwd-status=200; stored",
        ),
        (
            CacheStatus(forward=Forward.STALE, fwd_status=304, is_stored=True, is_collapsed=True),
            b"chunkside; fwd=stale; fwd-status=304; stored; collapsed",
        ),
        (CacheStatus(is_hit=True, ttl=-5.7), b"chunkside; hit; ttl=-5"),
        (CacheStatus(ttl=0.0), b"chunkside; ttl=0"),
        (CacheStatus(ttl=999_999_999_999_999.0), b"chunkside; ttl=999999999999999"),
        (CacheStatus(ttl=1e15), b"chunkside"),
        (CacheStatus(ttl=math.inf), b"chunkside"),
        (CacheStatus(ttl=-math.inf), b"chunkside"),
        (CacheStatus(ttl=math.nan), b"chunkside"),
    ],
)
def test_the_member_as_it_is_sent(status, text):
    assert status.render() == text


@pytest.mark.parametrize(
    ("forward", "text"),
    [
        (Forward.BYPASS, b"bypass"),
        (Forward.METHOD, b"method"),
        (Forward.URI_MISS, b"uri-miss"),
        (Forward.VARY_MISS, b"vary-miss"),
        (Forward.STALE, b"stale"),
        (Forward.REQUEST, b"request"),
        (Forward.PARTIAL, b"partial"),
    ],
)
def test_each_reason_to_forward_has_the_name_of_the_rfc(forward, text):
    assert CacheStatus(forward=forward).render() == b"chunkside; fwd=" + text
