"""When "nothing lies beneath it" is remembered, and when it is the answer."""

from dataclasses import replace

import pytest

from chunkside.core.decision import NotStored, PassOn, ServeAbsence, StoreAbsence
from chunkside.core.freshness import Policy
from chunkside.core.listing import nothing, probe_of
from chunkside.core.probing import conclude_probe, decide_probe, probe_asked
from tests.core.samples import NOW, absent, earlier, head, present, request, stored

TARGET = b"/data?list-type=2&prefix=a%2Fc%2F0%2F&delimiter=%2F&max-keys=1"
ALL = Policy(negative_scope="all")


def asking(*lines, **told):
    asked = request(*lines, target=TARGET, key_class="listing", **told)
    return replace(asked, probe=probe_of(asked.key))


PROBE = asking().probe
assert PROBE is not None


@pytest.mark.parametrize(
    ("asked", "policy", "is_remembered"),
    [
        (asking(), ALL, True),
        (asking("Cache-Control: no-cache"), ALL, True),
        (asking("Accept: */*"), ALL, True),
        (request(target=TARGET, key_class="listing"), ALL, False),
        (asking(), Policy(negative_scope="get"), False),
        (asking(), replace(ALL, cache_missing=False), False),
        (asking("Cache-Control: no-cache"), replace(ALL, obeys_clients=True), False),
        (asking("Cache-Control: no-store"), ALL, False),
        (asking("Cache-Control: only-if-cached"), ALL, False),
        (asking("Range: bytes=0-9"), ALL, False),
        (asking('If-None-Match: "a"'), ALL, False),
        (asking("Origin: http://page"), ALL, False),
        (asking(is_signed=True), ALL, False),
        (asking(has_body=True), ALL, False),
        (replace(asking(), control="bypass"), ALL, False),
        (asking(method="HEAD"), ALL, False),
    ],
)
def test_what_is_asked_plainly_may_be_remembered_in_scope_all(asked, policy, is_remembered):
    assert probe_asked(asked, policy) == (PROBE if is_remembered else None)


def decided(of, beneath, policy=ALL, asked=None):
    return decide_probe(asked or asking(), PROBE, (of, beneath), NOW, policy)


def test_it_lives_as_long_as_both_markers():
    old, young = absent(requested_at=earlier(200)), absent(requested_at=earlier(50))
    assert decided(young, old) == ServeAbsence(old, 100)
    assert decided(old, young) == ServeAbsence(young, 100)
    assert decided(old, young, replace(ALL, negative_ttl=210)) == ServeAbsence(
        young._replace(lifetime=210), 10
    )


@pytest.mark.parametrize(
    ("of", "beneath", "policy"),
    [
        (None, absent(), ALL),
        (absent(), None, ALL),
        (None, None, ALL),
        (present(stored()), absent(), ALL),
        (absent(), present(stored()), ALL),
        (absent(requested_at=earlier(300)), absent(), ALL),
        (absent(), absent(requested_at=earlier(300)), ALL),
        (absent(requested_at=earlier(9)), absent(), replace(ALL, negative_ttl=9)),
        (absent(status=410), absent(), replace(ALL, absent_statuses=frozenset({404}))),
    ],
)
def test_it_dies_with_either(of, beneath, policy):
    assert decided(of, beneath, policy) is None


def test_what_lies_beneath_a_document_lives_no_longer_than_the_document():
    probe = replace(PROBE, key_class="metadata")
    held = absent(requested_at=earlier(4)), absent(requested_at=earlier(4))
    assert decide_probe(asking(), probe, held, NOW, ALL) is not None
    held = absent(requested_at=earlier(6)), absent(requested_at=earlier(4))
    assert decide_probe(asking(), probe, held, NOW, ALL) is None


def test_who_wants_it_anew_gets_it_so():
    asked = replace(asking(), control="refresh")
    assert probe_asked(asked, ALL) == PROBE
    assert decided(absent(), absent(), asked=asked) is None


def test_nothing_is_remembered_as_long_as_an_absence_is():
    body = nothing(PROBE)
    assert conclude_probe(PROBE, head(200), body, ALL) == StoreAbsence(300.0, False)
    told = head(200, "Cache-Control: max-age=9")
    assert conclude_probe(PROBE, told, body, ALL) == StoreAbsence(9.0, False)
    document = replace(PROBE, key_class="metadata")
    assert conclude_probe(document, head(200), body, ALL) == StoreAbsence(5.0, False)


@pytest.mark.parametrize(
    ("told", "body", "policy", "why"),
    [
        (head(404), nothing(PROBE), ALL, NotStored.STATUS),
        (head(500), nothing(PROBE), ALL, NotStored.STATUS),
        (head(200, "Cache-Control: no-store"), nothing(PROBE), ALL, NotStored.NO_STORE),
        (head(200, "Vary: X-Who"), nothing(PROBE), ALL, NotStored.VARY),
        (head(200, "Content-Encoding: gzip"), nothing(PROBE), ALL, NotStored.ENCODED),
        (head(200, is_framed=False), nothing(PROBE), ALL, NotStored.CLOSE_DELIMITED),
        (head(200), nothing(PROBE).replace(b">0<", b">1<"), ALL, NotStored.LISTING),
        (head(200), nothing(PROBE), replace(ALL, is_strict=True), NotStored.SWITCHED_OFF),
    ],
)
def test_all_else_is_passed_on(told, body, policy, why):
    assert conclude_probe(PROBE, told, body, policy) == PassOn(why)
