"""Which names lie above an object."""

import pytest

from chunkside.core.ancestry import directory_at, directory_of, names_above
from chunkside.core.key import Object

HERE = "http://here:80"


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (b"/a/b/c", [b"/a/b/c", b"/a/b/", b"/a/", b"/"]),
        (b"/a", [b"/a", b"/"]),
        (b"/", [b"/"]),
        (b"/a/b/", [b"/a/b/", b"/a/", b"/"]),
        (b"/a//b", [b"/a//b", b"/a//", b"/a/", b"/"]),
        (b"//", [b"//", b"/"]),
        (b"*", [b"*"]),
    ],
)
def test_an_object_lies_in_every_directory_above_it(path, names):
    assert list(names_above(Object(HERE, path))) == [Object(HERE, name) for name in names]


@pytest.mark.parametrize(
    ("path", "above", "at"),
    [
        (b"/a/zarr.json", b"/a/", b"/a/zarr.json/"),
        (b"/zarr.json", b"/", b"/zarr.json/"),
        (b"/a/", b"/a/", b"/a/"),
        (b"/", b"/", b"/"),
        (b"*", b"/", b"*/"),
    ],
)
def test_a_directory_is_named_with_a_slash_at_its_end(path, above, at):
    assert directory_of(Object(HERE, path)) == Object(HERE, above)
    assert directory_at(Object(HERE, path)) == Object(HERE, at)
