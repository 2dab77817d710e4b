"""Which route a target goes to, and what a path on the data port comes to at the origins."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.decision import Refuse
from chunkside.core.key import object_path
from chunkside.core.route import Route
from chunkside.core.routes import NO_ROUTE, Branch, Routes, plainest, whole, without_covered
from chunkside.core.subtree import is_beneath
from tests.core.samples import fields

NEAR, FAR = "http://near:80", "http://far:80"


def route(name, prefix=b"", location=NEAR):
    return Route(
        name=name,
        location=location,
        prefix=prefix,
        secret=b"s" * 32,
        credential_names=frozenset(),
        at=name.removesuffix("/").encode(),
    )


A = route("/a", b"/data/a")
AB = route("/a/b", b"/data/a/b")
C = route("/c", location=FAR)
SPACED = route("/my%20data", b"/data/mine")
REST = route("/", b"/rest")
ROUTES = Routes([A, AB, C, SPACED])
WITH_REST = Routes([REST, A, AB])


def name_of(routes, target):
    return routes.name_of(routes.choose(target))


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (b"/a", "/a"),
        (b"/a/", "/a"),
        (b"/a/x?y=/c", "/a"),
        (b"/a?x", "/a"),
        (b"/a/b", "/a/b"),
        (b"/a/b/", "/a/b"),
        (b"/a/b?x", "/a/b"),
        (b"/a/b/c/0", "/a/b"),
        (b"/a/bc/0", "/a"),
        (b"/c/a/b", "/c"),
        (b"/my%20data/x", "/my%20data"),
        (b"http://localhost:8100/a/b/x", "/a/b"),
        (b"http://localhost:8100/c", "/c"),
        (b"/a/%41%2F.zarray", "/a"),
        (b"/a/.zarray", "/a"),
        (b"/a/x/../y//z\\", "/a"),
    ],
)
def test_the_longest_prefix_at_a_slash_takes_a_target(target, name):
    assert name_of(ROUTES, target) == name


@pytest.mark.parametrize(
    "target",
    [b"/", b"/ab", b"/ab/x", b"/A/x", b"/b", b"//a/x", b"/%61/x", b"/./a", b"/my data", b"/?x=/a"],
)
def test_what_no_route_takes_is_421_and_told_what_there_is(target):
    refusal = ROUTES.choose(target)
    assert isinstance(refusal, Refuse)
    assert (refusal.status, refusal.slug) == (421, "no-route")
    assert "/a, /a/b, /c, /my%20data." in refusal.detail
    assert ROUTES.name_of(refusal) == NO_ROUTE


@pytest.mark.parametrize(
    ("target", "at"),
    [
        (b"/", b"/"),
        (b"/ab/x", b"/"),
        (b"/b/%61/x", b"/"),
        (b"/a/x", b"/a"),
    ],
)
def test_the_route_of_all_paths_takes_the_rest(target, at):
    chosen = WITH_REST.choose(target)
    assert isinstance(chosen, Route)
    assert chosen.at == at.rstrip(b"/")
    assert WITH_REST.name_of(None) == "/"


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(b"/a/%62/x", id="encoded"),
        pytest.param(b"/a/%62", id="encoded-whole"),
        pytest.param(b"/a%2Fb/x", id="encoded-slash"),
        pytest.param(b"/a//b/x", id="empty-segment"),
        pytest.param(b"//a/x", id="empty-segment-first"),
        pytest.param(b"/a/./b/x", id="dot"),
        pytest.param(b"/a/x/../b/y", id="dots"),
        pytest.param(b"/a/x/%2e%2E/b", id="dots-encoded"),
        pytest.param(b"/a\\b/x", id="backslash"),
        pytest.param(b"/a/x%5c..%5Cb", id="backslashes-encoded"),
        pytest.param(b"/%61/x", id="another-instead-of-the-rest"),
        pytest.param(b"/a/../x", id="leaves"),
        pytest.param(b"/a/b/..", id="leaves-to-the-one-above"),
        pytest.param(b"http://host/a/%62/x", id="absolute-form"),
    ],
)
def test_a_spelling_that_may_belong_to_another_route_is_refused(target):
    refusal = WITH_REST.choose(target)
    assert isinstance(refusal, Refuse)
    assert (refusal.status, refusal.slug) == (400, "bad-target")


@pytest.mark.parametrize("target", [b"", b"*", b"a/b", b"host:443"])
def test_what_is_no_path_is_refused(target):
    refusal = ROUTES.choose(target)
    assert isinstance(refusal, Refuse)
    assert refusal.status == 400


@pytest.mark.parametrize("target", [b"/a", b"/%61/..", b"*", b"//x"])
def test_a_single_route_of_all_paths_takes_everything_as_it_is(target):
    assert Routes([REST]).choose(target) is REST


def test_a_list_of_many_routes_is_cut_short():
    many = Routes([route(f"/{number}") for number in range(50)])
    assert many.shown.startswith("/0, /1, ")
    assert many.shown.endswith("/19 and 30 more")


def test_a_route_is_found_by_its_name():
    assert ROUTES.named("/a/b") is AB
    assert ROUTES.named("/a/") is A
    assert ROUTES.named("/a/b/c") is None
    assert WITH_REST.named("/") is WITH_REST.named("") is REST
    assert ROUTES.named("/") is None


# What lies beneath a path.


@pytest.mark.parametrize(
    ("prefix", "branches"),
    [
        (b"/", [Branch(A, b"/data/a"), Branch(AB, b"/data/a/b"), Branch(C, b"/"), whole(SPACED)]),
        (b"/a", [Branch(A, b"/data/a"), Branch(AB, b"/data/a/b")]),
        (b"/a/", [Branch(AB, b"/data/a/b"), Branch(A, b"/data/a/")]),
        (b"/a/b", [Branch(AB, b"/data/a/b")]),
        (b"/a/x%20y/", [Branch(A, b"/data/a/x y/")]),
        (b"/a/b/c?q", [Branch(AB, b"/data/a/b/c")]),
        (b"/c", [Branch(C, b"/")]),
        (b"/c/", [Branch(C, b"/")]),
        (b"/c/x", [Branch(C, b"/x")]),
        (b"/ab", []),
        (b"/a/%62", []),
    ],
)
def test_a_path_comes_to_the_routes_beneath_it_and_a_part_of_the_one_above(prefix, branches):
    assert ROUTES.branches(prefix) == branches


def test_a_path_of_the_rest_comes_to_its_part_and_to_routes_beneath():
    assert WITH_REST.branches(b"/x") == [Branch(REST, b"/rest/x")]
    assert WITH_REST.branches(b"/") == [whole(REST), whole(A), whole(AB)]


def test_places_are_kept_once():
    branches = [
        Branch(AB, b"/data/a/b"),
        Branch(A, b"/data/a"),
        Branch(C, b"/data/a/b"),
        Branch(A, b"/data/a"),
    ]
    assert without_covered(branches) == [Branch(A, b"/data/a"), Branch(C, b"/data/a/b")]


@pytest.mark.parametrize(
    ("routes", "is_all"),
    [
        pytest.param([A], True, id="alone"),
        pytest.param([A, C], True, id="another-location"),
        pytest.param([A, AB], True, id="the-other-lies-beneath"),
        pytest.param([AB, A], False, id="it-lies-beneath-the-other"),
        pytest.param([A, SPACED], False, id="side-by-side"),
        pytest.param([route("/x"), A, SPACED], True, id="no-prefix"),
        pytest.param([A, route("/x")], False, id="beneath-one-without-prefix"),
        pytest.param([A, replace(A, name="/z", at=b"/z")], True, id="the-same-twice"),
    ],
)
def test_whether_a_route_is_all_that_leads_to_its_location(routes, is_all):
    assert Routes(routes).is_all_of_its_location(routes[0]) is is_all


def test_one_route_stands_for_each_location():
    assert {each.location for each in ROUTES.one_of_each_location()} == {NEAR, FAR}
    assert len(ROUTES.one_of_each_location()) == 2


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        (b"", b""),
        (b"/", b""),
        (b"/a/", b"/a"),
        (b"/a//b/./c", b"/a/b/c"),
        (b"/a/../b", b"/b"),
        (b"/../..", b""),
        (b"/%61%2fb\\c%5Cd", b"/a/b/c/d"),
        (b"/a/%2e%2e/%2E/b", b"/b"),
        (b"/...", b"/..."),
    ],
)
def test_the_plainest_form_of_a_path(path, plain):
    assert plainest(path) == plain


_PIECES = st.sampled_from(
    [b"/", b"a", b"b", b"c", b".", b"..", b"%61", b"%62", b"%2e", b"%2F", b"\\", b"%5c", b"x"]
)


@given(st.lists(_PIECES, max_size=10).map(lambda pieces: b"/" + b"".join(pieces)))
def test_a_request_that_passes_never_reaches_what_another_route_is_for(target):
    routes = Routes([A, AB, REST])
    chosen = routes.choose(target)
    if isinstance(chosen, Refuse):
        return
    request = chosen.request("GET", target, fields(), has_body=False)
    if isinstance(request, Refuse):
        return
    assert is_beneath(object_path(request.target), chosen.prefix)
    if chosen is A:
        # AB's place at the origin is beneath A's.
        assert not is_beneath(plainest(request.target), AB.prefix)
    back = chosen.data_port_target(request.target)
    assert back is not None and chosen.origin_path(back) == request.target


def test_routes_keep_the_order_of_the_settings():
    assert list(ROUTES) == [A, AB, C, SPACED]


@pytest.mark.parametrize(
    ("at", "target"),
    [
        ("/caf%C3%A9", "/café/x".encode()),
        ("/%61", b"/a/x"),
        ("/a%2Bb", b"/a+b/x"),
        ("/my%20data", b"/my data/x"),
    ],
)
def test_the_plain_spelling_of_a_route_does_not_reach_past_it(at, target):
    """To the origin behind the route of all paths both are one."""
    assert isinstance(Routes([REST, route(at, b"/strict")]).choose(target), Refuse)
