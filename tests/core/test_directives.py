import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.directives import Told, cache_control, delta_seconds, told_by
from tests.core.samples import fields

OURS = (b"chunkside-cache-control", b"cdn-cache-control")


@pytest.mark.parametrize(
    ("value", "directives"),
    [
        ("", {}),
        (" , ,", {}),
        ("max-age=300", {b"max-age": b"300"}),
        ("No-Store", {b"no-store": b""}),
        ("public, max-age=60", {b"public": b"", b"max-age": b"60"}),
        ("public,max-age=60", {b"public": b"", b"max-age": b"60"}),
        ("max-age = 60", {b"max-age": b"60"}),
        ('max-age="60"', {b"max-age": b"60"}),
        ("max-age=", {b"max-age": b""}),
        ("=60", {}),
        ("max-age=1, max-age=2", {b"max-age": b"1"}),
        ('no-cache="set-cookie, x", max-age=5', {b"no-cache": b"set-cookie, x", b"max-age": b"5"}),
        ('ext="a, no-store", max-age=5', {b"ext": b"a, no-store", b"max-age": b"5"}),
        ('ext="a=b", max-age=5', {b"ext": b"a=b", b"max-age": b"5"}),
    ],
)
def test_directives_are_split_outside_quotes(value, directives):
    assert cache_control(fields(f"Cache-Control: {value}")) == directives


@pytest.mark.parametrize(
    "value",
    [
        'ext="a\\"", no-store',
        'ext="a\\\\", no-store',
        'ext="a\\\\\\"b", no-store',
        'max-age=300", no-store',
        '"max-age=300, no-store',
        'a="b" , c=", no-store',
        'max-age=300\\", no-store',
    ],
)
def test_no_quote_hides_a_directive_that_follows_it(value):
    assert b"no-store" in cache_control(fields(f"Cache-Control: {value}"))


def test_a_quote_holds_what_is_escaped_in_it():
    held = cache_control(fields('Cache-Control: ext="a\\", no-store, \\"b", max-age=5'))
    assert set(held) == {b"ext", b"max-age"}


def test_directives_of_several_lines_are_one_list():
    held = cache_control(fields("Cache-Control: public", "cache-control: No-Store"))
    assert held == {b"public": b"", b"no-store": b""}


TOKENS = st.sampled_from(["public", "no-store", "max-age=5", "private", 'x="a, b"', 'y="\\""'])


@given(st.lists(TOKENS, max_size=5), st.sampled_from([",", ", ", " ,\t"]))
def test_every_directive_of_a_well_formed_list_is_found(tokens, comma):
    held = cache_control(fields("Cache-Control: " + comma.join(tokens)))
    assert set(held) == {token.partition("=")[0].encode() for token in tokens}


def test_without_a_field_that_is_meant_for_it_a_cache_goes_by_cache_control():
    answered = fields("Cache-Control: max-age=5", "Surrogate-Control: max-age=9")
    assert told_by(answered, OURS) == Told({b"max-age": b"5"}, is_targeted=False)


@pytest.mark.parametrize(
    ("lines", "directives"),
    [
        pytest.param(["CDN-Cache-Control: max-age=9"], {b"max-age": b"9"}, id="one"),
        pytest.param(
            ["CDN-Cache-Control: max-age=9", "Chunkside-Cache-Control: no-store"],
            {b"no-store": b""},
            id="in-the-order-of-the-list",
        ),
        pytest.param(
            ["CDN-Cache-Control: max-age=9", "Chunkside-Cache-Control: No-Store"],
            {b"max-age": b"9"},
            id="the-first-that-is-valid",
        ),
        pytest.param(
            ["CDN-Cache-Control: max-age=9", "Chunkside-Cache-Control:"],
            {b"max-age": b"9"},
            id="an-empty-one-is-as-none",
        ),
        pytest.param(
            ["CDN-Cache-Control: private", "CDN-Cache-Control: max-age=9"],
            {b"private": b"", b"max-age": b"9"},
            id="of-several-lines",
        ),
        pytest.param(["CDN-Cache-Control: none"], {b"none": b""}, id="one-that-nobody-knows"),
        pytest.param(["CDN-Cache-Control: no-store=?0"], {}, id="one-that-is-false"),
        pytest.param(["CDN-Cache-Control: max-age=9;a=b"], {b"max-age": b"9"}, id="parameters"),
        pytest.param(["CDN-Cache-Control: max-age=1, max-age=2"], {b"max-age": b"2"}, id="twice"),
    ],
)
def test_the_first_valid_field_that_is_meant_for_it_says_all(lines, directives):
    answered = fields("Cache-Control: max-age=1, no-cache", *lines)
    assert told_by(answered, OURS) == Told(directives, is_targeted=True)


@pytest.mark.parametrize("value", ["max-age=10, &&&", "max-age =10", "MAX-AGE=10", "max-age=10,"])
def test_one_that_is_no_dictionary_is_as_none(value):
    answered = fields("Cache-Control: no-store", f"CDN-Cache-Control: {value}")
    assert told_by(answered, OURS) == Told({b"no-store": b""}, is_targeted=False)


@pytest.mark.parametrize("value", ['"10"', "10.5", "-10", "ten", ":MTA=:", "(10)", "?1"])
def test_what_is_no_integer_is_no_number_of_seconds(value):
    told = told_by(fields(f"CDN-Cache-Control: max-age={value}"), OURS)
    assert told.is_targeted
    assert delta_seconds(told.directives[b"max-age"]) == 0.0
