"""Which redirects are followed, and where they lead: byte for byte, and to listed hosts alone."""

from urllib.parse import urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.fields import Fields
from chunkside.core.response import ResponseHead
from chunkside.settings.addresses import parse_redirect_host
from chunkside.upstream.redirects import FOLLOWED_STATUSES, Place, Redirects

HOME = Place("https://origin.example.org:443", b"/a/b/c?q=1")
LISTED = ("data.example.org", "mirror:8080", "*.cdn.example.org", "[::1]:99", "127.0.0.1:8080")


def leads(told, at=HOME, status=302, listed=LISTED):
    hosts = tuple(parse_redirect_host(each) for each in listed)
    head = ResponseHead(status, Fields(((b"Location", told),)), 0)
    return Redirects(hosts, frozenset()).next(at, head)


@pytest.mark.parametrize(
    ("told", "location", "target"),
    [
        (b"https://data.example.org/x", "https://data.example.org:443", b"/x"),
        (b"https://data.example.org:443/x", "https://data.example.org:443", b"/x"),
        (b"HTTPS://DATA.Example.ORG/x", "https://data.example.org:443", b"/x"),
        (b"https://data.example.org./x", "https://data.example.org.:443", b"/x"),
        (b"https://data.example.org", "https://data.example.org:443", b"/"),
        (b"https://data.example.org?a=b", "https://data.example.org:443", b"/?a=b"),
        (b"https://data.example.org/x#part", "https://data.example.org:443", b"/x"),
        (b"https://mirror:8080/x", "https://mirror:8080", b"/x"),
        (b"//mirror:8080/x", "https://mirror:8080", b"/x"),
        (b"https://a.cdn.example.org/", "https://a.cdn.example.org:443", b"/"),
        (b"https://a.b.cdn.example.org/", "https://a.b.cdn.example.org:443", b"/"),
        (b"https://[::1]:99/", "https://[::1]:99", b"/"),
        (
            b"https://data.example.org//a%2Fb/../c?X-Amz-Signature=1%2B&&y=",
            "https://data.example.org:443",
            b"//a%2Fb/../c?X-Amz-Signature=1%2B&&y=",
        ),
        ("https://data.example.org/é".encode(), "https://data.example.org:443", "/é".encode()),
    ],
)
def test_a_listed_host_is_gone_to_and_the_target_kept_byte_for_byte(told, location, target):
    assert leads(told) == Place(location, target)


@pytest.mark.parametrize(
    "told",
    [
        b"https://other.example.org/",
        b"https://origin.example.org/elsewhere",
        b"/elsewhere",
        b"https://data.example.org.evil.example/",
        b"https://xdata.example.org/",
        b"https://cdn.example.org/",
        b"https://xcdn.example.org/",
        b"https://data.example.org:8443/",
        b"https://data.example.org:0443x/",
        b"https://mirror/",
        b"https://[::1]/",
        b"https://[::2]:99/",
        b"https://user@data.example.org/",
        b"https://data.example.org@evil.example/",
        b"https://data.example.org:443@evil.example/",
        b"https://evil.example\\@data.example.org/",
        b"https://evil.example\\.data.example.org/",
        b"https://data.example.org\t/",
        b"https://data.example.org /",
        b"https:data.example.org/",
        b"https:/data.example.org/",
        b"https:///data.example.org/",
        b"ftp://data.example.org/",
        b"file:///etc/passwd",
        b"https://data.example.org/\xff",
        b"https://data.example.org/\x7f",
        b"https://2130706433:8080/",
        b"https://0x7f.1:8080/",
    ],
    ids=lambda told: told.decode("latin-1"),
)
def test_whatever_else_it_says_it_is_not_followed(told):
    assert leads(told) is None


@pytest.mark.parametrize("status", [200, 206, 300, 304, 305, 306, 404, 500])
def test_nothing_but_a_redirect_leads_anywhere(status):
    assert status not in FOLLOWED_STATUSES
    assert leads(b"https://data.example.org/", status=status) is None


@pytest.mark.parametrize("lines", [(), ((b"Location", b"//mirror:8080/a"),) * 2])
def test_a_redirect_that_names_no_one_place_leads_nowhere(lines):
    redirects = Redirects((parse_redirect_host("mirror:8080"),), frozenset())
    assert redirects.next(HOME, ResponseHead(302, Fields(lines), 0)) is None


def test_what_came_by_https_never_goes_on_by_http():
    at = Place("http://origin:80", b"/")
    assert leads(b"http://data.example.org/", at) == Place("http://data.example.org:80", b"/")
    assert leads(b"https://data.example.org/", at) == Place("https://data.example.org:443", b"/")
    assert leads(b"http://data.example.org/") is None
    assert leads(b"http://data.example.org:443/") is None


REFERENCES = ["d", "d?x=1", "../d", "./d/./e/../f", "?x=2", "/d", "", "..", "../../../../d"]


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("target", ["/a/b/c?q=1", "/", "/a"])
def test_a_reference_is_resolved_as_the_rfc_says(reference, target):
    at = Place("https://data.example.org:443", target.encode())
    expected = urljoin(f"https://data.example.org{target}", reference)
    assert leads(reference.encode(), at) == leads(expected.encode(), at)
    assert leads(reference.encode(), at) is not None


@given(st.binary(max_size=60), st.sampled_from([b"", b"https://", b"//", b"http:", b"https:"]))
def test_whatever_comes_leads_to_a_listed_place_or_nowhere(told, begins):
    place = leads(begins + told, listed=("*.cdn.example.org", "origin.example.org"))
    if place is None:
        return
    host = place.location.removeprefix("https://").removesuffix(":443")
    assert host in ("origin.example.org", "origin.example.org.") or host.removesuffix(".").endswith(
        ".cdn.example.org"
    )
    assert place.target.startswith(b"/")
    assert not any(byte <= 32 or byte == 127 for byte in place.target)
    place.target.decode()


def test_another_origin_sees_no_secret():
    fields = Fields(
        (
            (b"Range", b"bytes=0-1"),
            (b"authorization", b"1"),
            (b"X-Api-Key", b"2"),
            (b"COOKIE", b"3"),
            (b"X-Amz-Security-Token", b"4"),
            (b"X-Amz-Server-Side-Encryption-Customer-Key", b"5"),
            (b"If-None-Match", b'"a"'),
        )
    )
    redirects = Redirects((), frozenset({b"x-api-key"}))
    assert redirects.fields_elsewhere(fields).names == {b"range", b"if-none-match"}
