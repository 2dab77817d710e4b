import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.fields import Fields, list_members
from tests.core.samples import fields

NAMES = st.sampled_from([b"A", b"a", b"B", b"Connection", b"connection", b"TE", b"X-Y"])
VALUES = st.sampled_from([b"", b"1", b"close", b"a, b", b"X-Y"])
LINES = st.lists(st.tuples(NAMES, VALUES), max_size=8)


def test_lines_stay_as_they_came():
    lines = ((b"ETag", b'"a"'), (b"x-B", b"1"), (b"etag", b'"b"'))
    assert Fields(lines).lines == lines
    assert tuple(Fields(lines)) == lines
    assert repr(Fields(lines[:1])) == "Fields([(b'ETag', b'\"a\"')])"


def test_names_are_found_without_regard_to_case():
    held = fields("ETag: x")
    assert b"etag" in held
    assert b"e-tag" not in held
    assert held.get(b"etag") == b"x"


def test_a_repeated_field_has_no_single_value():
    held = fields("Age: 1", "age: 1")
    assert held.get(b"age") is None
    assert held.get(b"date") is None
    assert held.combined(b"age") == b"1, 1"
    assert held.combined(b"date") == b""
    assert (held.count(b"age"), held.count(b"date")) == (2, 0)


def test_equality_is_of_lines_in_order_and_case():
    assert fields("A: 1", "B: 2") == fields("A: 1", "B: 2")
    assert hash(fields("A: 1")) == hash(fields("A: 1"))
    assert fields("A: 1", "B: 2") != fields("B: 2", "A: 1")
    assert fields("A: 1") != fields("a: 1")
    assert fields() != ()


def test_fields_are_taken_away_and_put_at_the_end():
    held = fields("A: 1", "B: 2", "a: 3")
    assert held.without(frozenset({b"a"})) == fields("B: 2")
    assert held.plus((b"C", b"4")) == fields("A: 1", "B: 2", "a: 3", "C: 4")


@pytest.mark.parametrize(
    "line",
    [
        "Connection: close",
        "Keep-Alive: timeout=5",
        "Proxy-Authenticate: Basic",
        "Proxy-Authorization: Basic eA==",
        "Proxy-Connection: keep-alive",
        "TE: trailers",
        "Trailer: Expires",
        "Transfer-Encoding: chunked",
        "Upgrade: h2c",
        "HTTP2-Settings: AAMAAABk",
    ],
)
def test_a_hop_by_hop_field_never_passes(line):
    assert fields("ETag: x", line).end_to_end() == fields("ETag: x")


def test_what_connection_names_never_passes_in_any_case_or_line():
    held = fields("X-A: 1", "Connection: close, X-A", "connection: x-b", "x-B: 2", "X-C: 3")
    assert held.end_to_end() == fields("X-C: 3")


def test_more_may_be_kept_back():
    held = fields("Host: h", "X-A: 1", "Connection: X-A", "X-B: 2")
    assert held.end_to_end(frozenset({b"host"})) == fields("X-B: 2")
    assert fields("host: h", "TE: x").end_to_end(frozenset({b"host"})) == fields()


@pytest.mark.parametrize(
    ("value", "members"),
    [
        (b"", []),
        (b" , ,\t", []),
        (b"Accept-Encoding", [b"accept-encoding"]),
        (b"A,b ,\tC", [b"a", b"b", b"c"]),
        (b"*", [b"*"]),
    ],
)
def test_members_of_a_list(value, members):
    assert list_members(value) == members


@given(LINES)
def test_looking_up_agrees_with_reading_line_by_line(lines):
    held = Fields(lines)
    for name in (b"a", b"b", b"connection", b"te", b"x-y", b"none"):
        values = [value for line, value in lines if line.lower() == name]
        assert (name in held) == bool(values)
        assert held.count(name) == len(values)
        assert held.combined(name) == b", ".join(values)
        assert held.get(name) == (values[0] if len(values) == 1 else None)


@given(LINES)
def test_what_passes_a_proxy_passes_the_next(lines):
    once = Fields(lines).end_to_end()
    assert once.end_to_end() == once
    assert set(once) <= set(lines)
