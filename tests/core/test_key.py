import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.key import (
    METADATA_NAMES,
    CacheKey,
    Namespace,
    Object,
    classify,
    has_dot_segment,
    is_array_document,
    is_plain,
    key_target,
    leaves_its_root,
    object_path,
    origin_target,
    target_authority,
)

IGNORED = frozenset({b"x-id", b"tensorstore"})
PARTS = st.text(st.characters(min_codepoint=1, max_codepoint=0x7F), max_size=4)


def test_all_spellings_and_queries_are_one_object():
    space = Namespace("http://o:80", "", b"p")
    plain = Object("http://o:80", b"/a b")
    for target in (b"/a b", b"/a%20b", b"/%61%20b?x=1", b"/a%20b?"):
        assert CacheKey(space, target).object == plain


def test_an_encoded_question_mark_is_part_of_the_path():
    assert object_path(b"/a%3Fb?c=%20") == b"/a?b"


def test_what_is_no_escape_stays():
    assert object_path(b"/a%zz%4") == b"/a%zz%4"
    assert object_path(b"/%C3%A9") == "/é".encode()


def test_objects_are_the_same_in_all_partitions_and_not_at_two_origins():
    one = CacheKey(Namespace("http://o:80", "", b"p"), b"/a")
    other = CacheKey(Namespace("http://o:80", "aws", b"q"), b"/a")
    assert one != other
    assert one.object == other.object
    assert CacheKey(Namespace("http://o:81"), b"/a").object != one.object


def test_a_key_is_serialised_whole():
    key = CacheKey(Namespace("http://o:80", "aws:prod", b"0a"), b"/a%20b?c")
    assert key.serialised() == b"http://o:80\0aws:prod\x000a\0/a%20b?c"


@given(*[st.tuples(PARTS, PARTS, PARTS, PARTS)] * 2)
def test_no_two_keys_are_serialised_alike(one, other):
    def serialised(location, identity, partition, target):
        space = Namespace(location, identity, partition.encode())
        return CacheKey(space, target.encode()).serialised()

    assert (serialised(*one) == serialised(*other)) == (one == other)


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        (b"/a", b"/a"),
        (b"/a?", b"/a?"),
        (b"/a?b=1", b"/a?b=1"),
        (b"/a?x-id=GetObject", b"/a"),
        (b"/a?x-id=GetObject&x-id=Again", b"/a"),
        (b"/a?x-id", b"/a"),
        (b"/a?b=1&x-id=GetObject&c", b"/a?b=1&c"),
        (b"/a?tensorstore=1&versionId=7&x-id=2", b"/a?versionId=7"),
        (b"/a?x-ids=1", b"/a?x-ids=1"),
        (b"/a?X-Id=1", b"/a?X-Id=1"),
        (b"/a?x%2Did=1", b"/a?x%2Did=1"),
        (b"/a?b=x-id", b"/a?b=x-id"),
        (b"/a?&x-id=1", b"/a?"),
        (b"/a?b=1&&c=2", b"/a?b=1&&c=2"),
        (b"/a?b=1?x-id=2", b"/a?b=1?x-id=2"),
    ],
)
def test_only_ignored_parameters_leave_the_key(target, kept):
    assert key_target(target, IGNORED) == kept


def test_with_nothing_ignored_the_key_is_the_target():
    assert key_target(b"/a?x-id=1&b", frozenset()) == b"/a?x-id=1&b"


QUERY = st.lists(st.sampled_from([b"x-id=1", b"x-id", b"a=1", b"", b"b", b"tensorstore=&"]))


@given(QUERY)
def test_taking_parameters_out_twice_takes_nothing_more(parts):
    once = key_target(b"/a?" + b"&".join(parts), IGNORED)
    assert key_target(once, IGNORED) == once
    assert once.startswith(b"/a")


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/", b"/"),
        (b"/a%20b?c", b"/a%20b?c"),
        (b"//a", b"//a"),
        (b"/http://x/y", b"/http://x/y"),
        (b"http://host/a?b", b"/a?b"),
        (b"HTTPS://host:8100/a", b"/a"),
        (b"http://host", b"/"),
        (b"http://host?b=/c", b"/?b=/c"),
        (b"http://host/a?u=http://x/", b"/a?u=http://x/"),
    ],
)
def test_origin_form_and_absolute_form_name_a_path(target, path):
    assert origin_target(target) == path


@pytest.mark.parametrize(
    ("target", "authority"),
    [
        (b"/a", None),
        (b"//host/a", None),
        (b"/http://host/a", None),
        (b"*", None),
        (b"host:443", None),
        (b"ftp://host/a", None),
        (b"http://host:8100/a?b", b"host:8100"),
        (b"HTTPS://[::1]/a", b"[::1]"),
        (b"http://host", b"host"),
        (b"http://host?a", b"host"),
        (b"http://user@host/a", b"user@host"),
        (b"http:///a", b""),
    ],
)
def test_absolute_form_names_a_host(target, authority):
    assert target_authority(target) == authority


@pytest.mark.parametrize("target", [b"", b"*", b"a", b"host:443", b"ftp://host/a", b"?a", b"://a"])
def test_other_forms_name_none(target):
    with pytest.raises(ValueError, match="neither a path nor an http URL"):
        origin_target(target)


@pytest.mark.parametrize(
    ("target", "leaves"),
    [
        (b"/", False),
        (b"/a/b", False),
        (b"/a..b/..c/d..", False),
        (b"/a/..", False),
        (b"/a/../b", False),
        (b"/a/./../b", False),
        (b"/?q=/../..", False),
        (b"/...", False),
        (b"/..", True),
        (b"/../a", True),
        (b"/a/../..", True),
        (b"/a/./../../b", True),
        (b"/a//../..", True),
        (b"//..", True),
        (b"/%2e%2E/a", True),
        (b"/a/%2e./.%2e/b", True),
        (b"/a%2f..%2F../b", True),
        (b"/..\\a", True),
        (b"/a\\..%5c..\\b", True),
        (b"/..?q", True),
        (b"/..;v=1/a", True),
        (b"/a/..%3b/..;/b", True),
        (b"/a;v=1/../b", False),
        (b"/;/..", True),
    ],
)
def test_dot_segments_that_climb_out_are_seen_in_any_spelling(target, leaves):
    assert leaves_its_root(target) is leaves


@given(st.lists(st.sampled_from([b"a", b"b", b"..", b".", b"...", b"a.."]), max_size=8))
def test_climbing_out_agrees_with_walking(segments):
    here: list[bytes] = []
    leaves = False
    for segment in segments:
        if segment == b"..":
            leaves = leaves or not here
            here = here[:-1]
        elif segment != b".":
            here.append(segment)
    assert leaves_its_root(b"/" + b"/".join(segments)) is leaves


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (b"/", "listing"),
        (b"/a/", "listing"),
        (b"/a/?x", "listing"),
        (b"/a%2F", "listing"),
        (b"/bucket?list-type=2&prefix=a%2Fc%2F0%2F&delimiter=%2F&max-keys=1", "listing"),
        (b"/bucket?prefix=a&encoding-type=url", "listing"),
        (b"/storage/v1/b/bucket/o?prefix=a%2F&delimiter=%2F", "listing"),
        (b"/container?restype=container&comp=list", "listing"),
        (b"/container/blob?comp=block", "chunk"),
        (b"/a/c/0?x=list-type", "chunk"),
        (b"/a/c/0?", "chunk"),
        (b"/zarr.json", "metadata"),
        (b"/a/zarr.json?x-id=1", "metadata"),
        (b"/a/zarr%2Ejson", "metadata"),
        (b"/a/.zarray", "metadata"),
        (b"/a/.zgroup", "metadata"),
        (b"/a/.zattrs", "metadata"),
        (b"/a/.zmetadata", "metadata"),
        (b"/a/attributes.json", "metadata"),
        (b"/a/info", "metadata"),
        (b"/a/manifest.ocdbt", "metadata"),
        (b"/a/repo", "metadata"),
        (b"/a/catalog.yaml", "metadata"),
        (b"/a/.json", "metadata"),
        (b"/a/refs/branch.main/ref", "metadata"),
        (b"/refs/x", "metadata"),
        (b"/a/refs/b/c/d", "metadata"),
        (b"/a/refs", "chunk"),
        (b"/a/myrefs/x", "chunk"),
        (b"/a/info/0", "chunk"),
        (b"/a/zarr.json/c/0", "chunk"),
        (b"/a/xinfo", "chunk"),
        (b"/a/c/0/0", "chunk"),
        (b"/a/x.json?/", "metadata"),
        (b"/a/0.0.0", "chunk"),
        (b"/a/x.JSON", "chunk"),
    ],
)
def test_the_class_of_a_target(target, expected):
    assert classify(target) == expected


@pytest.mark.parametrize(
    ("target", "pattern"),
    [
        (b"/a/index.dat", "index.*"),
        (b"/a/HEAD", "HEAD"),
        ("/a/données".encode(), "données"),
        (b"/a/donn%C3%A9es", "données"),
    ],
)
def test_settings_extend_the_table_of_metadata(target, pattern):
    assert classify(target) == "chunk"
    assert classify(target, ("nothing", pattern)) == "metadata"


def test_a_pattern_is_of_names_and_not_of_paths():
    assert classify(b"/index.d/0", ("index.*",)) == "chunk"
    assert classify(b"/index.d/", ("index.*",)) == "listing"


@pytest.mark.parametrize("pattern", METADATA_NAMES)
def test_each_name_of_the_table_is_metadata(pattern):
    assert classify(b"/a/" + pattern.replace("*", "x").encode()) == "metadata"


@pytest.mark.parametrize(
    ("target", "path", "is_its_own"),
    [
        pytest.param(b"/a/b", b"/a/b", True, id="plain"),
        pytest.param(b"/a/.zarray", b"/a/.zarray", True, id="a-name-with-a-dot"),
        pytest.param(b"/a/..b", b"/a/..b", True, id="a-name-with-two"),
        pytest.param(b"/a/./b", b"/a/b", False, id="here"),
        pytest.param(b"/a/x/../b", b"/a/b", False, id="up"),
        pytest.param(b"/a/x/%2e%2E/b", b"/a/b", False, id="up-encoded"),
        pytest.param(b"/a/..", b"/", False, id="up-at-the-end"),
        pytest.param(b"/a/b/..", b"/a/", False, id="up-one-at-the-end"),
        pytest.param(b"/a/.", b"/a/", False, id="here-at-the-end"),
        pytest.param(b"/../../a", b"/a", False, id="above-the-root"),
        pytest.param(b"/..", b"/", False, id="above-the-root-at-the-end"),
        pytest.param(b"/a//../b", b"/a/b", False, id="an-empty-segment-is-one"),
        pytest.param(b"/a/b?x=/../y", b"/a/b", False, id="a-query"),
    ],
)
def test_all_spellings_of_an_object_have_one_path(target, path, is_its_own):
    assert object_path(target) == path
    assert is_plain(target) is is_its_own


@pytest.mark.parametrize(
    ("target", "is_one"),
    [
        (b"/a/zarr.json", True),
        (b"/a/%2Ezarray?x=1", True),
        (b"/a/.zattrs", True),
        (b"/attributes.json", True),
        (b"/a/info", True),
        (b"/a/item.json", False),
        (b"/a/repo", False),
        (b"/a/c/0", False),
        (b"/a/zarr.json/", False),
    ],
)
def test_which_documents_tell_an_arrays_shape(target, is_one):
    assert is_array_document(target) is is_one


@pytest.mark.parametrize(
    ("path", "has_one"),
    [(b"/a/./b", True), (b"/a/..", True), (b"/.zarray", False), (b"/a.b/..c", False)],
)
def test_a_dot_segment_is_a_whole_segment(path, has_one):
    assert has_dot_segment(path) is has_one
