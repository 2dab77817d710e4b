"""A sidecar that audits all hits of one route and only observes another, before a real origin."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import ANY_DISK
from tests.support.audit_storm import storm
from tests.support.deadline import wait_for
from tests.support.http_client import exchange
from tests.support.origin import Origin, Script
from tests.support.sidecar import Sidecar

OLD = "Fri, 01 Jan 2016 00:00:00 GMT"
STORE = (("X-Amz-Request-Id", "QX7"),)
JSON = [("Accept", "application/json")]
AUDITED, OBSERVED = "/audited", "/observed"


@pytest.fixture(scope="module")
def audited(shared_origin: Origin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    routes = [
        {"prefix": AUDITED, "upstream": shared_origin.url + AUDITED, "audit_share": 1},
        {"prefix": OBSERVED, "upstream": shared_origin.url + OBSERVED, "mode": "observe"},
        {"prefix": "/quiet", "upstream": shared_origin.url + "/quiet"},
    ]
    flags = (*ANY_DISK, "--routes", json.dumps(routes))
    cache_dir = tmp_path_factory.mktemp("audited") / "cache"
    with Sidecar(None, cache_dir, flags) as running:
        yield running


def verdicts(sidecar: Sidecar, kind: str) -> tuple[int, int, int]:
    name = "chunkside_audits_total"
    agree, changed, wrong = (
        int(sidecar.metric(f'{name}{{kind="{kind}",verdict="{verdict}"}}'))
        for verdict in ("agree", "changed", "wrong")
    )
    return agree, changed, wrong


def hold(sidecar: Sidecar, target: str) -> None:
    exchange(sidecar.url, target)
    sidecar.wait_idle()


def after_a_hit(sidecar: Sidecar, target: str, kind: str) -> tuple[int, int, int]:
    """How many verdicts of each a hit brought: one in all."""
    before = verdicts(sidecar, kind)
    answer = exchange(sidecar.url, target)
    assert answer.status in (200, 404)
    wait_for(lambda: verdicts(sidecar, kind) != before, "a verdict")
    agree, changed, wrong = (
        now - then for now, then in zip(verdicts(sidecar, kind), before, strict=True)
    )
    return agree, changed, wrong


@pytest.mark.parametrize("route", [AUDITED, OBSERVED])
def test_what_is_so_agrees(origin: Origin, audited: Sidecar, target: str, route: str) -> None:
    target = route + target
    origin.put(target, b"body")
    hold(audited, target)
    hold(audited, target + "0")
    assert after_a_hit(audited, target, "body") == (1, 0, 0)
    assert after_a_hit(audited, target + "0", "marker") == (1, 0, 0)


@pytest.mark.parametrize("route", [AUDITED, OBSERVED])
def test_an_object_that_changed_at_the_origin_is_changed(
    origin: Origin, audited: Sidecar, target: str, route: str
) -> None:
    target = route + target
    origin.put(target, b"old")
    hold(audited, target)
    hold(audited, target + "0")
    origin.put(target, b"new")
    origin.put(target + "0", b"new")
    assert after_a_hit(audited, target, "body") == (0, 1, 0)
    assert after_a_hit(audited, target + "0", "marker") == (0, 1, 0)
    for each in (target, target + "0"):
        assert exchange(audited.url, each).body == b"new"


@pytest.mark.parametrize("route", [AUDITED, OBSERVED])
def test_a_planted_wrong_body_is_named_wrong_with_its_evidence(
    origin: Origin, audited: Sidecar, target: str, route: str
) -> None:
    target = route + target
    origin.put(target, b"one" * 100_000, etag='"v"')
    hold(audited, target)
    origin.put(target, b"two" * 100_000, etag='"v"')
    assert after_a_hit(audited, target, "body") == (0, 0, 1)
    wait_for(lambda: f"target={target}" in audited.stderr(), "a line of the log")
    [line] = [each for each in audited.stderr().splitlines() if f"target={target}" in each]
    assert "what was held was wrong" in line
    assert "held_xxh3_64=" in line
    assert "origin_xxh3_64=" in line
    assert exchange(audited.url, target).body == b"two" * 100_000


@pytest.mark.parametrize("route", [AUDITED, OBSERVED])
def test_a_planted_wrong_marker_is_named_wrong(
    origin: Origin, audited: Sidecar, target: str, route: str
) -> None:
    """The store said that it is absent, and it was there all the time."""
    target = route + target
    origin.put(target, b"was there", last_modified=OLD, headers=STORE)
    origin.script(target, Script(status=404))
    hold(audited, target)
    origin.behave()
    assert after_a_hit(audited, target, "marker") == (0, 0, 1)
    assert exchange(audited.url, target).body == b"was there"


def test_audits_are_requests_to_the_origin_like_any_other(
    origin: Origin, audited: Sidecar, target: str
) -> None:
    target = AUDITED + target
    origin.put(target, b"body")
    hold(audited, target)
    sample = f'chunkside_upstream_requests_total{{route="{AUDITED}"}}'
    before = audited.metric(sample)
    after_a_hit(audited, target, "body")
    assert audited.metric(sample) == before + 1
    assert origin.count("GET", target) == 2


def test_in_mode_observe_all_is_answered_by_the_origin(
    origin: Origin, audited: Sidecar, target: str
) -> None:
    target = OBSERVED + target
    origin.put(target, b"body")
    hold(audited, target)
    answer = exchange(audited.url, target)
    assert answer.value("Cache-Status") == "chunkside; fwd=bypass; fwd-status=200; detail=observe"
    assert answer.value("Age") is None
    # One that stored it, and each reader's own.
    assert origin.count("GET", target) == 3
    results = f'chunkside_requests_total{{route="{OBSERVED}",result='
    assert audited.metric(results + '"hit"}') == 0
    assert audited.metric(results + '"negative_hit"}') == 0
    assert audited.metric(results + '"bypass"}') > 0


def test_an_unaudited_route_asks_nothing_twice(
    origin: Origin, audited: Sidecar, target: str
) -> None:
    target = "/quiet" + target
    origin.put(target, b"body")
    hold(audited, target)
    for _ in range(20):
        exchange(audited.url, target)
    assert origin.count("GET", target) == 1


# /verify and /why.


def verify(sidecar: Sidecar, target: str) -> str:
    answer = exchange(sidecar.admin_url, f"/verify{target}", headers=JSON)
    assert answer.status == 200, answer.body
    told = json.loads(answer.body)
    assert next(iter(told)) == "verdict"
    assert told["sentence"]
    return str(told["verdict"])


def test_the_origin_is_asked_now_and_what_is_not_so_is_forgotten(
    origin: Origin, audited: Sidecar, target: str
) -> None:
    target = "/quiet" + target
    assert verify(audited, target) == "not_held"
    hold(audited, target)
    assert verify(audited, target) == "true"
    origin.put(target, b"new", etag='"v"')
    assert verify(audited, target) == "changed"
    assert verify(audited, target) == "not_held"
    hold(audited, target)
    assert verify(audited, target) == "true"
    origin.put(target, b"NEW", etag='"v"')
    assert verify(audited, target) == "wrong"
    assert verify(audited, target) == "not_held"
    words = exchange(audited.admin_url, f"/verify{target}").body.decode()
    assert words.startswith("not_held: Nothing is held of it. The origin answers 200 now.\n")


def why(sidecar: Sidecar, target: str, *fields: tuple[str, str]) -> str:
    answer = exchange(sidecar.admin_url, f"/why{target}", headers=fields)
    assert answer.status == 200, answer.body
    return answer.body.decode().splitlines()[0]


def test_whether_a_404_is_true_is_told_in_words(
    origin: Origin, audited: Sidecar, target: str
) -> None:
    target = "/quiet" + target
    alice = ("Authorization", "Bearer alice")
    assert why(audited, target) == (
        "Nothing is remembered of it: a GET asks the origin, and a 404 is the origin's."
    )
    for odd in ("", "?a=1&b=%2F", "%25?&&"):
        hold(audited, target + odd)
        assert why(audited, target + odd).startswith("It is remembered as absent: the origin ")
    assert why(audited, target, alice).startswith("Nothing is remembered of it")
    exchange(audited.url, target, headers=[alice])
    audited.wait_idle()
    assert why(audited, target, alice).startswith("It is remembered as absent")
    exchange(audited.url, target, "PUT", body=b"new")
    told = why(audited, target)
    assert told.startswith("Nothing is remembered of it")
    assert told.endswith("by a PUT through this sidecar.")
    hold(audited, target)
    assert why(audited, target).startswith("It is stored")
    purge = json.dumps({"target": target}).encode()
    exchange(audited.admin_url, "/purge", "POST", (), purge)
    assert why(audited, target).endswith("by a purge.")


# The long form: make audits.


def test_audited_reads_under_writes_show_nothing_wrong(cache_dir: Path) -> None:
    report = storm(1_000, cache_dir, secrets.randbits(32), deadline_seconds=15)
    print(report)
    assert report.verdicts["wrong"] == 0, report
    assert report.audits >= 1_000, report
    assert report.verdicts["changed"] > 0, report
    assert report.left_out["error"] == 0, report
