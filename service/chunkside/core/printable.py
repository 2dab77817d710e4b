"""Text of others as a terminal may be given it."""

from __future__ import annotations


def printable(text: str) -> str:
    """With what a terminal would obey, or not show, written out: escape sequences and line breaks,
    what turns the direction of writing around, and what is no character at all.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _written_out(each) for each in text)


def _written_out(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
