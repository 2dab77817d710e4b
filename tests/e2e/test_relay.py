"""What passes through untouched: targets, end-to-end fields, methods; and what does not."""

import pytest

from tests.e2e.conftest import StartSidecar
from tests.support.http_client import Connection, exchange
from tests.support.origin import Origin, Script
from tests.support.sidecar import Sidecar

TARGETS = [
    "/plain",
    "/a%2fb",
    "/a%2Fb",
    "//a",
    "/a//b",
    "/a/",
    "/a+b",
    "/a%2Bb",
    "/a%20b",
    "/a[0]",
    "/it%27s",
    "/it's",
    "/a?",
    "/a?b",
    "/a?b=",
    "/a?b=%2f&c=+&&d",
    "/a?x-id=GetObject",
    "/%7Ea",
    "/~a",
    "/%61",
    "/a/./b",
    "/a/../b",
    "/a/%2e%2e/b",
    "/a;v=1",
    "/a:b@c",
    "/a|b",
    '/a"b',
    "/a^b{c}",
    "/%",
    "/%zz",
    "/%C3%A9",
    "/%FF",
]


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_raw_target_reaches_the_origin_byte_for_byte(
    origin: Origin, sidecar: Sidecar, method: str
) -> None:
    with Connection(sidecar.url) as connection:
        for target in TARGETS:
            connection.send(method, target, body=b"" if method == "PUT" else None)
            connection.response()
    assert [each.target.decode() for each in origin.requests(method)] == TARGETS


def test_two_spellings_of_one_path_are_two_keys(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    origin.put(target, b"body")
    other = target.replace("/c/", "/c%2F")
    for spelling in (target, other, target, other):
        assert exchange(sidecar.url, spelling).body == b"body"
    assert [each.target.decode() for each in origin.requests()] == [target, other]


def test_an_ignored_parameter_is_forwarded_and_no_part_of_the_key(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    origin.put(target, b"body")
    for spelling in (f"{target}?tensorstore=1f2e", f"{target}?tensorstore=77aa", target):
        assert exchange(sidecar.url, spelling).body == b"body"
    assert [each.target.decode() for each in origin.requests()] == [f"{target}?tensorstore=1f2e"]


def test_end_to_end_fields_pass_and_hop_by_hop_fields_do_not(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    origin.put(target, b"body", headers=[("X-Kept", "1"), ("X-Hop", "1"), ("Connection", "X-Hop")])
    sent = [
        ("User-Agent", "reader/1"),
        ("X-Request", "Ünïcode".encode().decode("latin-1")),
        ("X-Secret-Hop", "1"),
        ("Connection", "keep-alive, X-Secret-Hop"),
        ("TE", "trailers"),
        ("Proxy-Authorization", "Basic eA=="),
        ("Upgrade", "h2c"),
    ]
    response = exchange(sidecar.url, target, headers=sent)
    (request,) = origin.requests()
    assert request.value("User-Agent") == "reader/1"
    assert request.value("X-Request") == "Ünïcode".encode().decode("latin-1")
    assert (request.value("Via") or "").startswith("1.1 ")
    for name in ("X-Secret-Hop", "TE", "Proxy-Authorization", "Upgrade"):
        assert request.value(name) is None, name
    assert request.value("Accept-Encoding") == "identity"
    assert request.value("Host") == origin.url.removeprefix("http://")
    assert response.value("X-Kept") == "1"
    assert response.value("X-Hop") is None


@pytest.mark.parametrize("method", ["OPTIONS", "PROPFIND", "REPORT", "SEARCH"])
def test_a_safe_method_is_relayed_and_drops_nothing(
    origin: Origin, sidecar: Sidecar, method: str, target: str
) -> None:
    origin.put(target, b"body")
    exchange(sidecar.url, target)
    origin.script(target, Script(status=207, body=b"<x/>"), method=method)
    response = exchange(sidecar.url, target, method, body=b"<q/>")
    assert (response.status, response.body) == (207, b"<x/>")
    assert origin.requests(method)[0].body == b"<q/>"
    exchange(sidecar.url, target)
    assert origin.count("GET") == 1


@pytest.mark.parametrize("method", ["TRACE", "PURGE"])
def test_methods_that_are_refused_never_reach_the_origin(
    origin: Origin, sidecar: Sidecar, method: str, target: str
) -> None:
    response = exchange(sidecar.url, target, method)
    assert response.status == 405
    assert response.value("Content-Type") == "application/problem+json"
    assert origin.count() == 0


def test_a_redirect_is_not_followed(origin: Origin, sidecar: Sidecar, target: str) -> None:
    origin.script(target, Script(status=302, headers=(("Location", "/b"),)))
    response = exchange(sidecar.url, target)
    assert (response.status, response.value("Location")) == (302, "/b")
    assert origin.count() == 1


@pytest.mark.parametrize(
    "second",
    [[("Authorization", "Bearer b")], []],
    ids=["another credential", "no credential"],
)
def test_what_was_learned_with_a_credential_answers_only_that_one(
    origin: Origin, sidecar: Sidecar, second: list[tuple[str, str]], target: str
) -> None:
    first = [("Authorization", "Bearer a")]
    origin.put(target, b"body")
    for _ in range(2):
        assert exchange(sidecar.url, target, headers=first).body == b"body"
    assert origin.count() == 1
    origin.script(target, Script(status=403, body=b"no"))
    assert exchange(sidecar.url, target, headers=second).status == 403
    assert exchange(sidecar.url, target, headers=first).body == b"body"
    assert [each.value("Authorization") for each in origin.requests()] == [
        "Bearer a",
        second[0][1] if second else None,
    ]


SIGNED = {
    "SigV4": ("", [("Authorization", "AWS4-HMAC-SHA256 Credential=AK/x, Signature=00")]),
    "presigned": ("?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=00", []),
    "SharedKey": ("", [("Authorization", "SharedKey account:00"), ("x-ms-version", "2021")]),
    "SAS": ("?sv=2021&sig=00%2B&se=2027", []),
}


@pytest.mark.parametrize("kind", SIGNED)
def test_a_signed_request_goes_to_the_origin_each_time(
    origin: Origin, sidecar: Sidecar, kind: str, target: str
) -> None:
    query, headers = SIGNED[kind]
    origin.put(target, b"body")
    for _ in range(2):
        assert exchange(sidecar.url, target + query, headers=headers).body == b"body"
    assert [each.target.decode() for each in origin.requests()] == [target + query] * 2


NOT_STORED = {
    "no-store": (("Cache-Control", "no-store"),),
    "private": (("Cache-Control", "private"),),
    "Vary on all": (("Vary", "*"),),
}


@pytest.mark.parametrize("kind", NOT_STORED)
def test_what_may_not_be_stored_is_relayed(
    origin: Origin, sidecar: Sidecar, kind: str, target: str
) -> None:
    origin.put(target, b"body", headers=NOT_STORED[kind])
    for _ in range(2):
        assert exchange(sidecar.url, target).body == b"body"
    assert origin.count() == 2


@pytest.mark.parametrize(("mode", "seen"), [("drop", None), ("forward", "a=b")])
def test_cookies_pass_only_where_they_are_forwarded(
    own_origin: Origin, start_sidecar: StartSidecar, mode: str, seen: str | None
) -> None:
    sidecar = start_sidecar("--cookies", mode)
    own_origin.put("/c/0", b"body", headers=(("Set-Cookie", "a=b"),))
    answer = exchange(sidecar.url, "/c/0", headers=[("Cookie", "c=d")])
    assert answer.value("set-cookie") == seen
    sent = own_origin.requests()[-1].values("Cookie")
    assert sent == (["c=d"] if mode == "forward" else [])


def test_a_purge_makes_the_next_get_ask_again(origin: Origin, sidecar: Sidecar) -> None:
    for path in ("/a/0", "/a/1", "/b/0"):
        origin.put(path, b"old")
        exchange(sidecar.url, path)
        origin.put(path, b"new")
    purge = [("Content-Type", "application/json")]
    one = exchange(sidecar.admin_url, "/purge", "POST", purge, b'{"target": "/a/0"}')
    assert one.status == 200
    assert [exchange(sidecar.url, path).body for path in ("/a/0", "/a/1")] == [b"new", b"old"]
    exchange(sidecar.admin_url, "/purge", "POST", purge, b'{"prefix": "/a/"}')
    assert [exchange(sidecar.url, path).body for path in ("/a/1", "/b/0")] == [b"new", b"old"]


def test_the_ports_say_that_they_live(origin: Origin, sidecar: Sidecar, target: str) -> None:
    for path in ("/livez", "/readyz", "/metrics", "/stats"):
        assert exchange(sidecar.admin_url, path).status == 200
    # The data port has no such paths of its own.
    exchange(sidecar.url, "/metrics")
    assert origin.requests()[-1].target == b"/metrics"
