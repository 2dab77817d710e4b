import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.structured import dictionary

BARE = ["1", "-15", "123456789012345", "1.5", '"a, \\"b\\""', "*a/b:c", ":YQ==:", "?0", '""']
MEMBERS = st.tuples(
    st.sampled_from(["a", "*b", "max-age", "x.y_z*"]),
    st.sampled_from(["", *(f"={each}" for each in [*BARE, "()", "( 1  a;b=?1 )", "(a;c)"])]),
    st.sampled_from(["", ";p", "; p=1;q", ';p="x";q=?0']),
)


@pytest.mark.parametrize(
    ("value", "members"),
    [
        (b"", {}),
        (b"   ", {}),
        (b"a", {b"a": b"?1"}),
        (b"  a=1  ", {b"a": b"1"}),
        (b"a=1,b=2", {b"a": b"1", b"b": b"2"}),
        (b"a=1 \t,\t b", {b"a": b"1", b"b": b"?1"}),
        (b"a=1, a=2", {b"a": b"2"}),
        (b'a="x, b=1"', {b"a": b'"x, b=1"'}),
        (b"a=(1 2);q=1, b", {b"a": b"(1 2)", b"b": b"?1"}),
        (b"a;x=1, b", {b"a": b"?1", b"b": b"?1"}),
    ],
)
def test_members_by_name(value, members):
    assert dictionary(value) == members


@pytest.mark.parametrize(
    "value",
    [
        *(b"A=1", b"a=1,", b",a=1", b"a=1,,b", b"a=1 b=2", b"a =1", b"a= 1", b"a=", b"=1", b"1"),
        *(b"a=1234567890123456", b"a=1.2345", b"a=1.", b"a=1234567890123.1", b"a=+1", b"a=--1"),
        *(b'a="x', b'a="\\x"', b'a="\xc3\xa9"', b"a='x'", b"a=?2", b"a=:x", b"a=(1", b"a=(1,2)"),
        *(b"a;", b"a;=1", b"a;B", b"a ;b", b"a\t=1", b"\ta=1", b"a=@1", b"&&&", b"a=1;p=(1)"),
    ],
)
def test_anything_else_is_none(value):
    assert dictionary(value) is None


@given(st.lists(MEMBERS, max_size=6), st.sampled_from([",", ", ", " \t,\t "]))
def test_every_well_formed_list_has_its_members(members, comma):
    written = comma.join("".join(member) for member in members)
    told = {name: value.removeprefix("=") or "?1" for name, value, _ in members}
    assert dictionary(written.encode()) == {
        name.encode(): value.encode() for name, value in told.items()
    }
    assert dictionary((written + comma + "A").encode()) is None
