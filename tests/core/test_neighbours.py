from ipaddress import ip_network

import pytest

from chunkside.core.fields import Fields
from chunkside.core.neighbours import (
    is_loopback,
    is_over_loopback,
    is_top_level_navigation,
    is_within,
    judge_host,
    judge_source,
)


@pytest.mark.parametrize(
    "host",
    [
        b"localhost",
        b"LOCALHOST:8101",
        b"localhost.",
        b"reader.localhost:8100",
        b"127.0.0.1:8101",
        b"10.1.2.3",
        b"[::1]:8101",
        b"[fe80::1]",
        b"[::ffff:10.1.2.3]:80",
        b"chunkside",
        b"chunkside:8101",
        b"my_host-1",
        b"cache.team.svc",
        b"cache.team.svc.cluster.local:8101",
        b"cache.team.svc.cluster.local.",
        b"host.docker.internal",
        b"localhost:",
    ],
)
def test_a_host_that_nobody_outside_can_point_here_is_answered(host):
    assert judge_host(host) is None


@pytest.mark.parametrize(
    "host",
    [
        b"evil.example",
        b"evil.example:8101",
        b"localhost.evil.example",
        b"evillocalhost.example",
        b"notsvc.x",
        b"evil.xsvc",
        b"127.0.0.1.nip.io",
        b"127.1",
        b"127.0.0.1.",
        b"256.0.0.1",
        b"ai.",
        b"svc.",
        b"cluster.local",
        b"[1::2::3]",
        b"[....]",
    ],
)
def test_a_host_that_could_be_rebound_is_misdirected(host):
    refusal = judge_host(host)
    assert refusal is not None
    assert (refusal.status, refusal.slug) == (421, "misdirected")
    assert "localhost" in refusal.detail


@pytest.mark.parametrize(
    ("host", "is_answered"),
    [
        (b"cache.example.org", True),
        (b"Cache.Example.ORG:8100", True),
        (b"cache.example.org.", True),
        (b"example.org", False),
        (b"x.cache.example.org", False),
        (b"cache.example.org.evil", False),
    ],
)
def test_names_may_be_allowed(host, is_answered):
    refusal = judge_host(host, frozenset({b"cache.example.org"}))
    assert (refusal is None) is is_answered


@pytest.mark.parametrize(
    "host",
    [
        None,
        b"",
        b":8101",
        b"a b",
        b"localhost, evil.example",
        b"localhost\n",
        b"user@localhost",
        b"localhost/x",
        b"a..b",
        b".localhost",
        b"%6cocalhost",
        b"localhost:x",
        b"[::1",
        b"[::1%25eth0]",
        b"b\xc3\xbccher",
    ],
)
def test_a_host_that_is_missing_repeated_or_malformed_is_a_bad_request(host):
    refusal = judge_host(host)
    assert refusal is not None
    assert refusal.status == 400


HERE = (b"Host", b"localhost:8101")


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [(b"Origin", b"http://localhost:8101")],
        [(b"Origin", b"http://LocalHost:8101")],
        [(b"Origin", b"https://localhost:8101")],
        [(b"Sec-Fetch-Site", b"same-origin")],
        [(b"Sec-Fetch-Site", b"none")],
        [(b"Origin", b"http://localhost:8101"), (b"Sec-Fetch-Site", b"same-origin")],
    ],
)
def test_requests_of_programs_and_of_our_own_pages_pass(lines):
    assert judge_source(Fields([HERE, *lines])) is None


@pytest.mark.parametrize(
    "lines",
    [
        [(b"Origin", b"https://evil.example")],
        [(b"Origin", b"http://localhost:8102")],
        [(b"Origin", b"http://localhost")],
        [(b"Origin", b"null")],
        [(b"Origin", b"")],
        [(b"Origin", b"localhost:8101")],
        [(b"Origin", b"http://localhost:8101"), (b"Origin", b"http://localhost:8101")],
        [(b"Origin", b"http://localhost:8101"), (b"Sec-Fetch-Site", b"same-site")],
        [(b"Sec-Fetch-Site", b"cross-site")],
        [(b"sec-fetch-site", b"Same-Site")],
    ],
)
def test_requests_of_other_pages_are_refused(lines):
    refusal = judge_source(Fields([HERE, *lines]))
    assert refusal is not None
    assert refusal.status == 403


def test_an_origin_without_a_host_to_compare_is_foreign():
    assert judge_source(Fields([(b"Origin", b"http://localhost:8101")])) is not None


NAVIGATION = [(b"Sec-Fetch-Mode", b"navigate"), (b"Sec-Fetch-Dest", b"document")]


@pytest.mark.parametrize(
    ("method", "lines", "is_navigation"),
    [
        ("GET", NAVIGATION, True),
        ("POST", NAVIGATION, False),
        ("GET", [*NAVIGATION, (b"Origin", b"null")], False),
        ("GET", [(b"Sec-Fetch-Mode", b"navigate"), (b"Sec-Fetch-Dest", b"iframe")], False),
        ("GET", [(b"Sec-Fetch-Mode", b"no-cors"), (b"Sec-Fetch-Dest", b"document")], False),
        ("GET", [], False),
    ],
)
def test_only_a_tab_of_its_own_is_a_top_level_navigation(method, lines, is_navigation):
    assert is_top_level_navigation(method, Fields(lines)) is is_navigation


@pytest.mark.parametrize(
    ("address", "is_local"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:10.0.0.7", False),
        ("10.0.0.7", False),
        ("fe80::1%eth0", False),
        ("0.0.0.0", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_loopback_is_told_from_the_address_alone(address, is_local):
    assert is_loopback(address) is is_local


def test_a_host_that_is_longer_than_any_name_is_judged_like_any_other():
    assert judge_host(b"a" * 1000) is None
    assert judge_host(b"a." * 500 + b"example") is not None


@pytest.mark.parametrize(
    ("peer", "own", "is_it"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "::1", True),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", True),
        ("10.1.2.4", "10.1.2.3", False),
        pytest.param("127.0.0.6", "10.1.2.3", False, id="from a service mesh"),
    ],
)
def test_both_ends_of_a_connection_must_be_loopback(peer, own, is_it):
    assert is_over_loopback(peer, own) is is_it


@pytest.mark.parametrize(
    ("address", "is_one"),
    [
        ("10.1.2.3", True),
        ("11.1.2.3", False),
        ("::ffff:10.1.2.3", True),
        ("::ffff:11.1.2.3", False),
        ("fd00::1", True),
        ("fe80::1%eth0", False),
        ("10.1.2.3:80", False),
        ("", False),
        ("localhost", False),
    ],
)
def test_an_address_is_within_a_network_or_not(address, is_one):
    networks = [ip_network("10.0.0.0/8"), ip_network("fd00::/8")]
    assert is_within(address, networks) == is_one
    assert not is_within(address, [])
