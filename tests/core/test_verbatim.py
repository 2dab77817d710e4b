"""What a client signed, and what a Host may name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.fields import HOP_BY_HOP
from chunkside.core.key import Object
from chunkside.core.verbatim import may_name_a_bucket, name_in, names_signed, other_names, own_name
from tests.core.samples import fields

AWS4 = "Authorization: AWS4-HMAC-SHA256 Credential=AK/20240101/us-east-1/s3/aws4_request"
STORE = "http://store.example:9000"
LOCAL = "http://127.0.0.1:9000"


@pytest.mark.parametrize(
    ("lines", "target", "names"),
    [
        pytest.param([], b"/b/k", set(), id="unsigned"),
        pytest.param(["Authorization: Bearer SignedHeaders"], b"/b/k", set(), id="no-list"),
        pytest.param(
            [f"{AWS4}, SignedHeaders=host;range;x-amz-date, Signature=0"],
            b"/b/k",
            {b"range", b"x-amz-date"},
            id="in-a-field",
        ),
        pytest.param(
            [f"{AWS4},SignedHeaders=Host;TE;;Expect,Signature=0"],
            b"/b/k",
            {b"te", b"expect"},
            id="no-spaces-and-capitals",
        ),
        pytest.param(
            [f"{AWS4} SignedHeaders=host;transfer-encoding;connection Signature=0"],
            b"/b/k",
            {b"connection"},
            id="framing-is-told-anew",
        ),
        pytest.param(
            ["Authorization: GOOG4-RSA-SHA256 Credential=c, SignedHeaders=host;via, Signature=0"],
            b"/b/k",
            {b"via"},
            id="google",
        ),
        pytest.param(
            [], b"/b/k?X-Amz-SignedHeaders=host%3Bx-amz-a&x-amz-date=0", {b"x-amz-a"}, id="in-query"
        ),
        pytest.param([], b"/b/k?x-goog-signedheaders=te;host&a", {b"te"}, id="in-googles-query"),
        pytest.param([], b"/b/SignedHeaders=te?a=SignedHeaders=te", set(), id="elsewhere"),
    ],
)
def test_which_fields_a_signature_holds_for(lines, target, names):
    assert names_signed(target, fields(*lines)) == names


@given(st.sets(st.sampled_from(sorted(HOP_BY_HOP | {b"cookie", b"a"})), min_size=1))
def test_a_signed_field_passes_whatever_it_is(names):
    lines = [f"{name.decode()}: 1" for name in names] + ["Connection: a"]
    signed = names_signed(
        b"/", fields(f"{AWS4}, SignedHeaders={b';'.join(sorted(names)).decode()}, Signature=0")
    )
    passed = fields(*lines).end_to_end(frozenset({b"cookie"}), signed)
    assert names - {b"transfer-encoding"} <= passed.names <= names | {b"connection"}


@pytest.mark.parametrize(
    ("authority", "name"),
    [
        (b"Store.Example.:9000", b"store.example"),
        (b"localhost", b"localhost"),
        (b"127.0.0.1:80", b"127.0.0.1"),
        (b"[::1]:9000", b"[::1"),
    ],
)
def test_a_name_has_neither_port_nor_case(authority, name):
    assert name_in(authority) == name
    assert own_name(f"http://{authority.decode()}") == name


@pytest.mark.parametrize(
    ("host", "location", "may"),
    [
        (b"store.example:9000", STORE, False),
        (b"STORE.example", STORE, False),
        (b"localhost:8100", STORE, False),
        (b"sidecar", STORE, False),
        (b"127.0.0.1:8100", STORE, False),
        (b"[::ffff:127.0.0.1]:8100", STORE, False),
        (b"era5.store.example:9000", STORE, True),
        (b"era5.localhost:8100", LOCAL, True),
        (b"cache.reading.svc:8100", LOCAL, True),
    ],
)
def test_a_host_of_several_labels_may_name_a_bucket(host, location, may):
    assert may_name_a_bucket(host, location) is may


@pytest.mark.parametrize(
    ("path", "host", "location", "paths"),
    [
        pytest.param(b"/era5/k", b"store.example", STORE, [], id="own"),
        pytest.param(b"/era5/k", b"localhost:8100", LOCAL, [], id="one-label-each"),
        pytest.param(b"/era5/x/k", b"localhost:8100", STORE, [b"/x/k"], id="own-may-be-a-bucket"),
        pytest.param(b"/era5", b"localhost:8100", STORE, [b"/"], id="the-bucket-itself"),
        pytest.param(
            b"/k",
            b"era5.localhost:8100",
            LOCAL,
            [b"/era5/k", b"/era5.localhost/k"],
            id="bucket-in-host",
        ),
        pytest.param(
            b"/x/k",
            b"a.b.store.example",
            STORE,
            [b"/k", b"/a/x/k", b"/a.b/x/k", b"/a.b.store/x/k", b"/a.b.store.example/x/k"],
            id="both",
        ),
    ],
)
def test_what_else_a_written_object_may_be_called(path, host, location, paths):
    found = other_names(Object(location, path), host)
    assert found == tuple(Object(location, each) for each in paths)
