"""Exchanges that other caches and proxies got wrong; docs/cases.md says which."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import ANY_DISK, StartSidecar
from tests.support.http_client import Connection, Response, exchange
from tests.support.origin import Origin, Script
from tests.support.raw_client import say
from tests.support.sidecar import Sidecar

BODY = bytes(range(250)) * 4
OTHER = bytes(reversed(BODY))


def ranged(sidecar: Sidecar, target: str, asked: str, *more: tuple[str, str]) -> Response:
    return exchange(sidecar.url, target, headers=[("Range", f"bytes={asked}"), *more])


# Ranges.


RANGES = {
    "0-9": (0, 10),
    "990-": (990, 1000),
    "-16": (984, 1000),
    "-5000": (0, 1000),
    "0-999": (0, 1000),
    "0-": (0, 1000),
    "999-999": (999, 1000),
    "995-2000": (995, 1000),
    "1000-": None,
    "-0": None,
}


@pytest.mark.parametrize("is_ignored", [False, True], ids=["", "the origin ignores ranges"])
@pytest.mark.parametrize("may_be_stored", [True, False], ids=["stored", "no-store"])
@pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
def test_every_form_of_a_range_is_exact(
    origin: Origin,
    sidecar: Sidecar,
    target: str,
    is_warm: bool,
    may_be_stored: bool,
    is_ignored: bool,
) -> None:
    headers = () if may_be_stored else (("Cache-Control", "no-store"),)
    for n, (asked, expected) in enumerate(RANGES.items()):
        key = f"{target}/{n}"
        origin.put(key, BODY, headers=headers)
        origin.script(key, Script(ignore_range=is_ignored))
        if is_warm:
            exchange(sidecar.url, key)
            sidecar.wait_idle()
        for _ in range(2):
            answer = ranged(sidecar, key, asked)
            if expected is None:
                assert (answer.status, answer.value("Content-Range")) == (416, "bytes */1000")
                continue
            first, end = expected
            assert (answer.status, answer.body) == (206, BODY[first:end]), asked
            assert answer.value("Content-Range") == f"bytes {first}-{end - 1}/1000"
            assert answer.value("Content-Length") == str(end - first)


@pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("asked", ["5-4", "a-b", "--5", "5", "", "9" * 400 + "-"])
def test_what_is_no_range_is_ignored(
    origin: Origin, sidecar: Sidecar, target: str, is_warm: bool, asked: str
) -> None:
    origin.put(target, BODY)
    origin.script(target, Script(ignore_range=True))
    if is_warm:
        exchange(sidecar.url, target)
    answer = ranged(sidecar, target, asked)
    assert (answer.status, answer.body) == (200, BODY)


@pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
def test_several_ranges_are_the_origins_to_answer(
    origin: Origin, sidecar: Sidecar, target: str, is_warm: bool
) -> None:
    origin.put(target, BODY)
    origin.script(target, Script(ignore_range=True))
    if is_warm:
        exchange(sidecar.url, target)
        sidecar.wait_idle()
    answer = ranged(sidecar, target, "0-1,5-6")
    assert (answer.status, answer.body) == (200, BODY)
    assert origin.requests()[-1].value("Range") == "bytes=0-1,5-6"


@pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
def test_a_range_of_what_is_encoded_says_so_and_is_of_the_encoded_bytes(
    origin: Origin, sidecar: Sidecar, target: str, is_warm: bool
) -> None:
    more = (("Content-Encoding", "gzip"), ("x-amz-meta-a", "b"), ("Cache-Control", "max-age=60"))
    origin.put(target, BODY, etag='"g"', headers=more)
    if is_warm:
        exchange(sidecar.url, target)
        sidecar.wait_idle()
    answer = ranged(sidecar, target, "0-9")
    assert (answer.status, answer.body) == (206, BODY[:10])
    assert answer.value("Content-Range") == "bytes 0-9/1000"
    for name, value in (*more, ("ETag", '"g"')):
        assert answer.value(name) == value
    assert ranged(sidecar, target, "0-1,5-6").status == 200


@pytest.mark.parametrize("asked", ["0-9", "-5", "0-"])
@pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
def test_an_empty_object_has_no_part(
    origin: Origin, sidecar: Sidecar, target: str, is_warm: bool, asked: str
) -> None:
    origin.put(target, b"")
    origin.script(target, Script(ignore_range=True))
    if is_warm:
        exchange(sidecar.url, target)
        sidecar.wait_idle()
    answer = ranged(sidecar, target, asked)
    assert answer.status in (200, 416) and answer.body == b""


def test_pieces_of_two_versions_are_never_joined(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    origin.put(target, b"1" * 1000, etag='"one"')
    assert ranged(sidecar, target, "0-499").body == b"1" * 500
    sidecar.wait_idle()
    origin.put(target, b"2" * 1000, etag='"two"')
    assert ranged(sidecar, target, "500-999").body == b"2" * 500
    sidecar.wait_idle()
    assert ranged(sidecar, target, "0-999").body == b"2" * 1000
    assert ranged(sidecar, target, "0-499").body == b"2" * 500


# Conditions.


@pytest.mark.parametrize("status", [304, 204, 205])
def test_the_empty_answer_to_one_is_not_the_body_of_another(
    origin: Origin, sidecar: Sidecar, target: str, status: int
) -> None:
    stored = origin.put(target, BODY, etag='"one"')
    origin.script(target, Script(status=status, body=b"", without=("Content-Length",)), times=1)
    first = exchange(sidecar.url, target, headers=[("If-None-Match", '"one"')])
    assert first.status in (304, 502)
    second = exchange(sidecar.url, target)
    assert (second.status, second.body) == (200, BODY)
    sidecar.wait_idle()
    for value in ('"one"', 'W/"one"', '"x", "one"', "*"):
        held = exchange(sidecar.url, target, headers=[("If-None-Match", value)])
        assert (held.status, held.value("ETag")) == (304, stored.etag)
    for value in ('"two"', '""', "one"):
        assert exchange(sidecar.url, target, headers=[("If-None-Match", value)]).status == 200


def test_an_absence_answers_the_condition_of_one_who_knows_of_it(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    """TensorStore asks so for keys that it knows to be absent."""
    for _ in range(2):
        assert exchange(sidecar.url, target, headers=[("If-None-Match", '""')]).status == 404
        sidecar.wait_idle()
    assert origin.count() == 1


# Targets.


def test_each_spelling_keeps_its_own_outcome(origin: Origin, sidecar: Sidecar, target: str) -> None:
    refused, found = f"{target}%2bplus", f"{target}%2Bplus"
    origin.script(refused, Script(status=403, body=b"no"))
    origin.put(f"{target}+plus", BODY)
    seen = [exchange(sidecar.url, each).status for each in (refused, refused, found, found) * 2]
    assert seen == [403, 403, 200, 200] * 2


SPELLINGS = [
    "a%2Fb",
    "a%2fb",
    "a+b",
    "a%2Bb",
    "a%20b",
    "a%27b",
    "a%7Eb",
    "a~b",
    "a%3Ab",
    "a[0]",
    "a;b",
    "a%23b",
    "a%25b",
    "a%252Fb",
    "%E4%B8%AD",
    "e%CC%81",
    "%C3%A9",
    "a?",
    "a",
    "a?x=1%2B2&y=a+b",
    "k" * 3000,
]


def test_every_answer_names_its_own_target(origin: Origin, sidecar: Sidecar, target: str) -> None:
    targets = [f"{target}/{spelling}" for spelling in SPELLINGS]
    for each in targets:
        origin.script(each, Script(status=200, body=each.encode()))
    for _ in range(2):
        assert [exchange(sidecar.url, each).body.decode() for each in targets] == targets
        sidecar.wait_idle()
    assert [each.target.decode() for each in origin.requests()] == targets


@pytest.fixture
def trap() -> Iterator[socket.socket]:
    """Listens where nobody may ever connect."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_no_target_and_no_host_leads_anywhere_but_to_the_upstream(
    origin: Origin, sidecar: Sidecar, trap: socket.socket
) -> None:
    elsewhere = f"127.0.0.1:{trap.getsockname()[1]}"
    targets = [
        f"http://{elsewhere}/x",
        f"https://{elsewhere}/x",
        f"//{elsewhere}/x",
        f"/http://{elsewhere}/x",
        f"/\\\\{elsewhere}/x",
        f"/@{elsewhere}/x",
        f"/x?u=http://{elsewhere}/",
    ]
    for host in ("localhost", elsewhere, "169.254.169.254"):
        for target in targets:
            message = f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
            said = say(sidecar.url, message)
            assert said.answers[0].status == 404
    for line in (f"CONNECT {elsewhere}", f"CONNECT http://{elsewhere}/", "GET *"):
        said = say(sidecar.url, f"{line} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert said.answers[0].status in (400, 405)
    targets_seen = {each.target.decode() for each in origin.requests()} - {"/the-end"}
    assert targets_seen == {"/x", *targets[2:]}
    hosts = {value for each in origin.requests() for value in each.values("Host")}
    assert hosts == {origin.url.removeprefix("http://")}


def test_a_proxy_of_the_environment_is_not_used(
    own_origin: Origin, cache_dir: Path, trap: socket.socket
) -> None:
    proxy = f"http://127.0.0.1:{trap.getsockname()[1]}"
    names = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY")
    own_origin.put("/k", BODY)
    with Sidecar(own_origin.url, cache_dir, ANY_DISK, dict.fromkeys(names, proxy)) as sidecar:
        assert exchange(sidecar.url, "/k").body == BODY


# Whole bodies.


SIZES = [0, 1, 4095, 4096, 65_535, 65_536, 262_144, 262_145, (16 << 20) - 1, (16 << 20) + 1]


def test_bodies_of_all_sizes_are_whole_with_a_request_behind_them(
    sidecar_on_each_loop: Sidecar, own_origin: Origin
) -> None:
    sidecar = sidecar_on_each_loop
    body = bytes(range(256)) * ((16 << 12) + 1)
    own_origin.put("/next", b"next")
    for size in SIZES:
        own_origin.put(f"/{size}", body[:size])
    for _ in range(2):
        for size in SIZES:
            with Connection(sidecar.url) as connection:
                connection.send("GET", f"/{size}")
                connection.send("GET", "/next")
                whole, following = connection.response(), connection.response()
            assert (whole.status, whole.value("Content-Length")) == (200, str(size))
            assert whole.body == body[:size]
            assert following.body == b"next"
        sidecar.wait_idle()
    assert own_origin.count("GET") == len(SIZES) + 1


def test_a_login_page_is_not_kept_for_a_chunk(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    page = Script(status=200, body=b"<html>", headers=(("Content-Type", "text/html"),))
    origin.script(target, page, times=1)
    assert exchange(sidecar.url, target).body == b"<html>"
    origin.put(target, BODY)
    assert exchange(sidecar.url, target).body == BODY


def test_a_remembered_404_looks_like_the_first_but_for_its_body(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    xml = b"<Error><Code>NoSuchKey</Code></Error>"
    origin.script(target, Script(status=404, body=xml))
    first, again = exchange(sidecar.url, target), exchange(sidecar.url, target)
    assert (first.status, first.body) == (404, xml)
    assert (again.status, again.body) == (404, b"")
    assert "detail=negative" in (again.value("Cache-Status") or "")
    assert "ttl=" in (again.value("Cache-Status") or "")


# Preflights, and what else is only passed on.


@pytest.mark.parametrize("status", [200, 204, 405])
def test_a_preflight_is_passed_on_and_changes_nothing(
    origin: Origin, sidecar: Sidecar, target: str, status: int
) -> None:
    origin.put(target, BODY)
    exchange(sidecar.url, target)
    sidecar.wait_idle()
    allowed = (("Access-Control-Allow-Origin", "*"), ("Access-Control-Allow-Headers", "range"))
    origin.script(target, Script(status=status, headers=allowed), method="OPTIONS")
    asked = [
        ("Origin", "http://page.example"),
        ("Access-Control-Request-Method", "GET"),
        ("Access-Control-Request-Headers", "range"),
    ]
    for _ in range(2):
        answer = exchange(sidecar.url, target, "OPTIONS", asked)
        assert (answer.status, answer.value("Access-Control-Allow-Headers")) == (status, "range")
    assert origin.count("OPTIONS") == 2
    exchange(sidecar.url, target)
    assert origin.count("GET") == 1


def test_no_inference_makes_an_absence(origin: Origin, sidecar: Sidecar) -> None:
    origin.put("/bucket/a/c/0", BODY)
    exchange(sidecar.url, "/bucket/a/c/0")
    sidecar.wait_idle()
    empty = Script(status=200, body=b"<ListBucketResult/>")
    origin.script("/bucket?list-type=2&prefix=a/&start-after=zzz", empty)
    exchange(sidecar.url, "/bucket?list-type=2&prefix=a/&start-after=zzz")
    exchange(sidecar.url, "/bucket/a/")
    for status in (404, 403, 405):
        origin.script("/bucket/a/c/1", Script(status=status), method="HEAD", times=1)
        exchange(sidecar.url, "/bucket/a/c/1", "HEAD")
    origin.script("/bucket/a/c/1", Script(status=416), method="GET", times=1)
    ranged(sidecar, "/bucket/a/c/1", "0-9")
    origin.put("/bucket/a/c/1", BODY)
    entries = json.loads(exchange(sidecar.admin_url, "/entries?prefix=/bucket").body)
    assert {each["kind"] for each in entries["entries"]} == {"body"}
    assert exchange(sidecar.url, "/bucket/a/c/1").body == BODY


def test_a_name_that_is_allowed_is_answered_on_both_ports(
    own_origin: Origin, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar("--allowed-hosts", "cache.example.org")
    own_origin.put("/k", BODY)
    for url, path in ((sidecar.url, "/k"), (sidecar.admin_url, "/stats")):
        for host, status in (("cache.example.org", 200), ("evil.example", 421)):
            message = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
            assert say(url, message).answers[0].status == status
