"""What a terminal may be given of others' text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param('"5d8c-1" café 数', '"5d8c-1" café 数', id="text"),
        pytest.param("\x1b[2J", "\\x1b[2J", id="an escape sequence"),
        pytest.param("\x9b31m", "\\x9b31m", id="one of a single character"),
        pytest.param("a\r\nverdict: true", "a\\x0d\\x0averdict: true", id="another line"),
        pytest.param("a\u202egnp", "a\\u202egnp", id="writing turned around"),
        pytest.param("\ud800", "\\ud800", id="half a character"),
        pytest.param("\U000e0041", "\\U000e0041", id="a tag that is not shown"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(text, shown):
    assert printable(text) == shown


@given(st.text(st.characters(codec=None)))
def test_whatever_comes_can_be_printed(text):
    shown = printable(text)
    assert shown.isprintable()
    assert shown.encode().decode() == shown
