import pytest

from chunkside.core.cors import Pages, is_preflight
from chunkside.core.fields import Fields
from tests.core.samples import fields

PAGE = "http://localhost:3000"
PAGES = Pages(frozenset({PAGE.encode(), b"https://viewer.example"}))
ALL = Pages(frozenset({b"*"}))
ORIGINS_OWN = (
    "Access-Control-Allow-Origin: http://evil.example",
    "access-control-allow-credentials: true",
    "Access-Control-Expose-Headers: X",
)
ALLOWED = (b"Access-Control-Allow-Origin", PAGE.encode())
EXPOSE = (b"Access-Control-Expose-Headers", b"*")
VARY = (b"Vary", b"Origin")


@pytest.mark.parametrize(
    ("pages", "asked", "added"),
    [
        (PAGES, [f"Origin: {PAGE}"], [ALLOWED, EXPOSE, VARY]),
        (PAGES, ["Origin: http://evil.example"], [VARY]),
        (PAGES, ["Origin: http://localhost:30000"], [VARY]),
        (PAGES, ["Origin: null"], [VARY]),
        (PAGES, [f"Origin: {PAGE}", f"Origin: {PAGE}"], [VARY]),
        (PAGES, [], [VARY]),
        (ALL, ["Origin: http://evil.example"], [(b"Access-Control-Allow-Origin", b"*"), EXPOSE]),
        (ALL, [], []),
    ],
    ids=["listed", "not listed", "longer", "null", "repeated", "no page", "all", "all, no page"],
)  # fmt: skip
def test_the_fields_for_pages_are_ours_and_none_of_the_origins(pages, asked, added):
    answer = fields("X-A: 1", *ORIGINS_OWN, "ETag: 2")
    expected = Fields([(b"X-A", b"1"), (b"ETag", b"2"), *added])
    assert pages.instead(answer, fields(*asked)) == expected


def test_a_listed_page_is_told_that_it_may_read_with_the_fields_it_likes():
    asked = fields(
        f"Origin: {PAGE}",
        "Access-Control-Request-Method: GET",
        "Access-Control-Request-Headers: range, authorization",
        "Access-Control-Request-Private-Network: true",
    )
    told = PAGES.preflight(asked)
    assert told.get(b"access-control-allow-origin") == PAGE.encode()
    assert told.get(b"access-control-allow-methods") == b"GET, HEAD"
    assert told.get(b"access-control-allow-headers") == b"range, authorization"
    assert told.get(b"access-control-allow-private-network") == b"true"
    assert told.get(b"vary") == b"Origin"


def test_a_preflight_that_asks_for_little_is_told_little():
    told = ALL.preflight(fields("Origin: http://a.example", "Access-Control-Request-Method: GET"))
    assert told.get(b"access-control-allow-origin") == b"*"
    assert b"access-control-allow-headers" not in told
    assert b"access-control-allow-private-network" not in told


def test_a_page_that_is_not_listed_is_told_nothing():
    asked = fields("Origin: http://evil.example", "Access-Control-Request-Method: GET")
    assert PAGES.preflight(asked) == Fields([VARY])


@pytest.mark.parametrize(
    ("method", "lines", "is_one"),
    [
        ("OPTIONS", ["Origin: a", "Access-Control-Request-Method: GET"], True),
        ("OPTIONS", ["Origin: a"], False),
        ("OPTIONS", ["Access-Control-Request-Method: GET"], False),
        ("GET", ["Origin: a", "Access-Control-Request-Method: GET"], False),
    ],
)
def test_a_preflight_is_known_by_its_fields(method, lines, is_one):
    assert is_preflight(method, fields(*lines)) is is_one
