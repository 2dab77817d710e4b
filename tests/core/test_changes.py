"""What lies beneath a metadata document that changed is of another array, until asked again."""

import math

import pytest

from chunkside.core.changes import Changes
from chunkside.core.key import Object

HERE, THERE = "http://here:80", "http://there:80"


@pytest.mark.parametrize(
    ("document", "path", "is_beneath"),
    [
        pytest.param(b"/a/zarr.json", b"/a/c/0/0", True, id="a-chunk"),
        pytest.param(b"/a/zarr.json", b"/a/zarr.json", False, id="not-itself"),
        pytest.param(b"/a/.zattrs", b"/a/.zarray", True, id="another-document-beside"),
        pytest.param(b"/a/zarr.json", b"/a/b/zarr.json", True, id="an-array-in-the-group"),
        pytest.param(b"/a/zarr.json", b"/ab/c/0", False, id="a-sibling-with-a-longer-name"),
        pytest.param(b"/a/zarr.json", b"/b/c/0", False, id="a-sibling"),
        pytest.param(b"/a/b/zarr.json", b"/a/c/0", False, id="above"),
        pytest.param(b"/zarr.json", b"/a/b/c/0", True, id="the-root"),
        pytest.param(b"/a//zarr.json", b"/a//c", True, id="doubled-slashes"),
        pytest.param(b"/a//zarr.json", b"/a/c", False, id="doubled-slashes-are-a-name"),
    ],
)
def test_a_change_counts_beneath_its_directory_alone(document, path, is_beneath):
    changes = Changes()
    changes.note(Object(HERE, document), 7.0)
    assert changes.last_above(Object(HERE, path)) == (7.0 if is_beneath else -math.inf)
    assert changes.last_above(Object(THERE, path)) == -math.inf


def test_nothing_changed_as_long_as_nothing_is_noted():
    assert Changes().last_above(Object(HERE, b"/a/c/0")) == -math.inf


def test_the_latest_change_on_the_way_up_counts():
    changes = Changes()
    changes.note(Object(HERE, b"/a/b/zarr.json"), 5.0)
    changes.note(Object(HERE, b"/a/zarr.json"), 9.0)
    changes.note(Object(HERE, b"/a/zarr.json"), 8.0)
    assert changes.last_above(Object(HERE, b"/a/b/c/0")) == 9.0


def test_past_the_limit_the_oldest_change_counts_for_its_whole_location():
    changes = Changes(most=2)
    for number, name in enumerate((b"/a/zarr.json", b"/b/zarr.json", b"/c/zarr.json")):
        changes.note(Object(HERE, name), float(number))
    assert changes.last_above(Object(HERE, b"/x")) == 0.0
    assert changes.last_above(Object(HERE, b"/a/x")) == 0.0
    assert changes.last_above(Object(HERE, b"/c/x")) == 2.0
    assert changes.last_above(Object(THERE, b"/a/x")) == -math.inf


def test_a_locations_own_time_outlives_any_number_of_later_changes():
    changes = Changes(most=2)
    seen = []
    for number in range(5):
        changes.note(Object(HERE, b"/%d/zarr.json" % number), float(number))
        seen.append(changes.last_above(Object(HERE, b"/x")))
    assert seen == [-math.inf, -math.inf, 0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("root", "path", "is_alone", "is_with_beneath"),
    [
        pytest.param(b"/a/b", b"/a/b", True, True, id="itself"),
        pytest.param(b"/a/b", b"/a/b/c", False, True, id="beneath"),
        pytest.param(b"/a/b", b"/a/bc", False, False, id="a-longer-name"),
        pytest.param(b"/a/b", b"/a", False, False, id="above"),
        pytest.param(b"/a/", b"/a/", True, True, id="a-listing"),
        pytest.param(b"/a/", b"/a/b", False, True, id="beneath-a-listing"),
        pytest.param(b"/a/", b"/a", False, False, id="without-the-slash"),
        pytest.param(b"/", b"/a/b/c", False, True, id="everything"),
    ],
)
def test_a_doubt_counts_for_what_it_names(root, path, is_alone, is_with_beneath):
    for with_beneath, is_doubted in ((False, is_alone), (True, is_with_beneath)):
        changes = Changes()
        changes.doubt(Object(HERE, root), 7.0, with_beneath=with_beneath)
        expected = 7.0 if is_doubted else -math.inf
        assert changes.last_above(Object(HERE, path)) == expected
        assert changes.last_above(Object(THERE, path)) == -math.inf


def test_a_document_may_be_doubted_though_its_own_change_does_not_count_for_it():
    changes = Changes()
    document = Object(HERE, b"/a/zarr.json")
    changes.note(document, 5.0)
    changes.doubt(document, 4.0, with_beneath=False)
    assert changes.last_above(document) == 4.0
    assert changes.last_above(Object(HERE, b"/a/c/0")) == 5.0


def test_past_the_limit_the_oldest_doubt_counts_for_its_whole_location():
    changes = Changes(most=2)
    for number in range(3):
        changes.doubt(Object(HERE, b"/%d" % number), float(number), with_beneath=False)
    assert changes.last_above(Object(HERE, b"/x")) == 0.0
    assert changes.last_above(Object(HERE, b"/0")) == 0.0
    assert changes.last_above(Object(HERE, b"/2")) == 2.0


def test_past_the_limit_changes_count_for_the_directory_above_and_no_more():
    changes = Changes(most=4)
    for number in range(50):
        changes.doubt(Object(HERE, b"/w/a/c/%d" % number), float(number), with_beneath=True)
    changes.note(Object(HERE, b"/x/zarr.json"), 50.0)
    assert changes.last_above(Object(HERE, b"/w/a/c/7")) >= 7.0
    assert changes.last_above(Object(HERE, b"/w/a/c/49/x")) == 49.0
    assert changes.last_above(Object(HERE, b"/w/b/c/0")) == -math.inf
    assert changes.last_above(Object(HERE, b"/y")) == -math.inf
