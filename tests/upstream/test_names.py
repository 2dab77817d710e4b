"""A target names one file or none; no spelling of it names another."""

from urllib.parse import quote_from_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.upstream.names import NoFileName, names_of

NAMES = st.binary(min_size=1, max_size=12).filter(
    lambda name: b"/" not in name and b"\0" not in name and name not in (b".", b"..")
)


@pytest.mark.parametrize(
    ("target", "names"),
    [
        (b"/a", (b"a",)),
        (b"/x.zarr/c/0/0", (b"x.zarr", b"c", b"0", b"0")),
        (b"/a?b/c", (b"a",)),
        (b"/a%3Fb", (b"a?b",)),
        (b"/a%2520b", (b"a%20b",)),
        (b"/a+b%20c", (b"a+b c",)),
        (b"/%c3%a9/%FF", (b"\xc3\xa9", b"\xff")),
        (b"/...", (b"...",)),
        (b"/..data/x", (b"..data", b"x")),
        (b"/a\\..\\b", (b"a\\..\\b",)),
        (b"/a;v=1", (b"a;v=1",)),
        (b"/", (b"",)),
        (b"/a/", (b"a", b"")),
    ],
)
def test_a_target_is_decoded_once_and_no_further(target, names):
    assert names_of(target) == names


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (b"", "no path"),
        (b"a", "no path"),
        (b"?/a", "no path"),
        (b"/a%2fb", "slash in its name"),
        (b"/a%2Fb", "slash in its name"),
        (b"/%2f", "slash in its name"),
        (b"/%2e%2e%2fetc", "slash in its name"),
        (b"/a%00", "NUL"),
        (b"/a\0b", "NUL"),
        (b"/.", "dot segments"),
        (b"/a/../b", "dot segments"),
        (b"/a/%2e%2E/b", "dot segments"),
        (b"/a/.%2e", "dot segments"),
        (b"/./a", "dot segments"),
        (b"//a", "two slashes"),
        (b"/a//b", "two slashes"),
        (b"/a//", "two slashes"),
        (b"/a%", "percent-encoding"),
        (b"/a%2", "percent-encoding"),
        (b"/%zz", "percent-encoding"),
        (b"/%%32f", "percent-encoding"),
    ],
)
def test_what_no_file_can_be_named_as_is_refused(target, reason):
    with pytest.raises(NoFileName, match=reason):
        names_of(target)


@given(st.lists(NAMES, min_size=1, max_size=6))
def test_every_name_that_a_file_can_have_can_be_asked_for(names):
    target = "/" + "/".join(quote_from_bytes(name, safe="") for name in names)
    assert names_of(target.encode()) == tuple(names)


@given(st.binary(max_size=40))
def test_whatever_comes_no_name_leads_up_or_across(target):
    try:
        names = names_of(b"/" + target)
    except NoFileName:
        return
    assert b"" not in names[:-1]
    assert all(b"/" not in name and b"\0" not in name for name in names)
    assert not {b".", b".."} & set(names)
