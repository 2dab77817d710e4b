"""Which of several representations a request selects (RFC 9111 §4.1)."""

import pytest

from chunkside.core.entry import Variants
from chunkside.core.variants import choose, is_selected_by, variant_of, varied_names
from tests.core.samples import absent, fields, partial, present, stored

BY_LANGUAGE = fields("Vary: Accept-Language")


def of(*lines: str, vary: str = "Accept-Language") -> bytes:
    return variant_of(fields(f"Vary: {vary}"), fields(*lines))


@pytest.mark.parametrize(
    "vary",
    [
        [],
        ["Vary:"],
        ["Vary: Accept-Encoding"],
        ["Vary: origin, Access-Control-Request-Headers", "vary: Access-Control-Request-Method"],
        ["Vary: Range, If-Range, If-None-Match"],
    ],
)
def test_what_a_fill_fixes_selects_nothing(vary):
    asked = fields("Accept-Encoding: gzip", "Origin: https://a.example", "Range: bytes=0-1")
    assert variant_of(fields(*vary), asked) == b""


def test_a_variant_is_named_by_the_values_of_what_vary_names():
    german, english = of("Accept-Language: de"), of("Accept-Language: en")
    assert len(german) == 32
    assert german != english
    assert of("accept-language:  de ", "Accept: x") == german
    assert of("Accept-Language: de", vary="accept-LANGUAGE, Accept-Encoding") == german


def test_a_field_that_is_not_there_is_not_an_empty_one():
    assert len({of(), of("Accept-Language:"), of("Accept-Language: -")}) == 3


def test_lines_of_one_field_are_one_value_and_names_are_not_values():
    both = of("Accept-Language: de", "Accept-Language: en")
    assert both == of("Accept-Language: de, en")
    two = "X-A, X-B"
    assert of("X-A: 1", "X-B: 2", vary=two) == of("X-B: 2", "X-A: 1", vary="X-B, X-A")
    assert of("X-A: 1;x-b=1:2", vary=two) != of("X-A: 1", "X-B: 2", vary=two)


def test_a_star_is_told_from_names():
    assert varied_names(fields("Vary: Accept", "Vary: *")) == {b"accept", b"*"}


def test_what_varies_is_selected_by_the_same_values_alone():
    asked = fields("Accept-Language: de")
    what = stored("Vary: Accept-Language", variant=variant_of(BY_LANGUAGE, asked))
    assert is_selected_by(what, asked)
    assert not is_selected_by(what, fields("Accept-Language: en"))
    assert not is_selected_by(what, fields())
    assert is_selected_by(stored(), fields("Accept-Language: en"))


@pytest.mark.parametrize("entry", [None, absent(), present(stored()), partial(stored(), (0, 9))])
def test_what_does_not_vary_is_for_every_request(entry):
    assert choose(entry, fields("Accept-Language: de")) is entry


def test_of_variants_the_newest_that_is_selected_is_chosen_else_the_newest():
    def held(language: str, nonce: int, vary: str = "Accept-Language"):
        asked = fields(f"Accept-Language: {language}")
        variant = variant_of(fields(f"Vary: {vary}"), asked)
        return present(stored(f"Vary: {vary}", variant=variant), inode=nonce)

    # The origin varied by one field more at first.
    older = held("de", 1, vary="Accept-Language, Accept")
    german, english = held("de", 2), held("en", 3)
    entry = Variants((older, german, english))
    assert choose(entry, fields("Accept-Language: de")) is german
    assert choose(entry, fields("Accept-Language: en")) is english
    assert choose(entry, fields("Accept-Language: fr")) is english
    assert choose(Variants((older,)), fields("Accept-Language: de")) is older
