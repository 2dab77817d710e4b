"""What a log may show of a target."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.redaction import MOST_SHOWN, shown_target, without_query


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        pytest.param(b"/a/c/0", "/a/c/0", id="a path"),
        pytest.param(b"/a/c/0?", "/a/c/0?", id="a query of nothing"),
        pytest.param(
            b"/b?list-type=2&prefix=a%2Fc/&delimiter=/",
            "/b?list-type=2&prefix=a%2Fc/&delimiter=/",
            id="a listing",
        ),
        pytest.param(b"/b/k?versionId=abc.1", "/b/k?versionId=abc.1", id="whatever its case"),
        pytest.param(b"/b/k?uploads", "/b/k?uploads", id="a known name alone"),
        pytest.param(
            b"/b/k?X-Amz-Date=20260101T000000Z&X-Amz-Credential=AKIA%2Fx&X-Amz-Signature=s3cret",
            "/b/k?X-Amz-Date=20260101T000000Z&X-Amz-Credential=***&X-Amz-Signature=***",
            id="presigned for S3",
        ),
        pytest.param(
            b"/c/k?sv=2024&se=2026-01-01&sp=r&sig=s3cret%3D",
            "/c/k?sv=2024&se=2026-01-01&sp=r&sig=***",
            id="a SAS",
        ),
        pytest.param(b"/k?%73ig=s3cret", "/k?***", id="a name in another spelling"),
        pytest.param(b"/k?api_key=s3cret", "/k?api_key=***", id="what nobody has heard of"),
        pytest.param(b"/k?s3cret", "/k?***", id="a token alone"),
        pytest.param(b"/k?prefix=a;sig=s3cret", "/k?prefix=***", id="behind a semicolon"),
        pytest.param(b"/k?prefix=a?sig=s3cret", "/k?prefix=***", id="behind another mark"),
        pytest.param(b"/k%3fsig=s3cret", "/k%3f***", id="an encoded query"),
        pytest.param(b"/k%253Fsig=s3cret", "/k%253F***", id="a query that is encoded twice"),
        pytest.param(b"/k#sig=s3cret", "/k", id="a fragment"),
        pytest.param(b"/k?prefix=a#s3cret", "/k?prefix=a", id="a fragment behind a query"),
        pytest.param(b"http://u:s3cret@h:1/k?marker=a", "/k?marker=a", id="absolute form"),
        pytest.param(b"http://u:s3cret@h", "/", id="absolute form without a path"),
        pytest.param(b"*", "*", id="of the server itself"),
        pytest.param(b"u:s3cret@h:443", "***", id="of CONNECT"),
        pytest.param(b"/\xff\n", "/\\xff\n", id="no UTF-8: a log line escapes what breaks it"),
    ],
)
def test_what_is_shown(target, shown):
    assert shown_target(target) == shown


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/a/k", b"/a/k"),
        (b"/a/k?sig=s3cret/1", b"/a/k"),
        (b"/a/k%3fsig=s3cret/1", b"/a/k"),
        (b"/a/k%25253Fsig=s3cret/1?x", b"/a/k"),
    ],
)
def test_a_path_is_without_a_query_that_is_encoded_in_it(target, path):
    assert without_query(target) == path


def test_what_is_long_is_cut():
    shown = shown_target(b"/" + b"a" * MOST_SHOWN)
    assert (len(shown), shown[-4:]) == (MOST_SHOWN + 3, "a...")
    assert shown_target(b"/" + b"a" * (MOST_SHOWN - 1)) == "/" + "a" * (MOST_SHOWN - 1)


_NAMES = ("sig", "X-Amz-Signature", "token", "prefix", "k", "", "se", "%73ig", "marker")


@given(
    st.sampled_from(_NAMES), st.sampled_from("&;?#"), st.sampled_from(("sig=", "token=", "k=", "="))
)
def test_no_spelling_shows_a_value_of_a_name_that_is_not_known(name, between, secret_name):
    target = f"/k?{name}=a{between}{secret_name}s3cret"
    assert "s3cret" not in shown_target(target.encode())
