"""Which directory counts: the one that was there first, and nothing in its place."""

import ctypes
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from chunkside.upstream.root import Root, RootGone
from tests.support.descriptors import open_beneath
from tests.support.volume import mounted_over

NOBODY = 65_534


@pytest.fixture
def place(tmp_path):
    place = tmp_path / "data"
    place.mkdir()
    (place / "x").touch()
    return place


@pytest.fixture
def root(place):
    root = Root(os.fsencode(place))
    look(root)
    return root


def look(root):
    os.close(root.open())


def gone(root):
    with pytest.raises(RootGone) as raised:
        look(root)
    with pytest.raises(RootGone):
        root.check()
    return str(raised.value)


def test_it_holds_as_long_as_the_directory_is_that_one(place, root):
    (place / "x").unlink()
    look(root)
    root.check()


def test_one_that_is_gone_is_told_without_its_path(place, root):
    place.rename(place.with_name("elsewhere"))
    told = gone(root)
    assert "No such file or directory" in told
    assert str(place) not in told


def test_one_that_is_no_directory_is_none(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RootGone, match="Not a directory"):
        look(Root(os.fsencode(tmp_path / "file")))


def test_another_one_in_its_place_never_counts(place, root):
    kept = place.rename(place.with_name("kept"))
    place.mkdir()
    (place / "x").touch()
    assert "Another directory" in gone(root)
    for each in place.iterdir():
        each.unlink()
    place.rmdir()
    kept.rename(place)
    look(root)
    root.check()


def test_one_that_was_made_anew_is_another_one_whatever_its_number(place, root):
    for _ in range(5):
        shutil.rmtree(place)
        place.mkdir()
        (place / "x").touch()
        assert "Another directory" in gone(root)


def test_a_link_that_leads_elsewhere_now_is_another_one(place, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    link = tmp_path / "link"
    link.symlink_to(place)
    root = Root(os.fsencode(link))
    look(root)
    link.unlink()
    link.symlink_to(other)
    assert "Another directory" in gone(root)


def test_an_empty_one_is_taken_for_a_volume_that_is_not_mounted(tmp_path):
    root = Root(os.fsencode(tmp_path))
    assert "empty" in gone(root)
    (tmp_path / "x").touch()
    look(root)


def test_what_appears_after_the_start_counts_from_then_on(tmp_path):
    place = tmp_path / "late"
    root = Root(os.fsencode(place))
    assert "No such file" in gone(root)
    place.mkdir()
    (place / "x").touch()
    look(root)
    root.check()


@pytest.mark.root
@pytest.mark.parametrize("mode", [0o600, 0o000])
def test_one_that_may_not_be_entered_is_told(mode):
    # The directories of tests are for their owner alone.
    with tempfile.TemporaryDirectory() as top:
        place = Path(top, "data")
        place.mkdir()
        place.chmod(mode)
        Path(top).chmod(0o755)
        libc = ctypes.CDLL(None)
        libc.setfsuid(NOBODY)
        try:
            assert "Permission denied" in gone(Root(os.fsencode(place)))
        finally:
            libc.setfsuid(0)


@pytest.mark.root
class TestVolumes:
    def test_one_that_goes_leaves_no_directory_that_counts(self, place):
        with mounted_over(place):
            root = Root(os.fsencode(place))
            look(root)
        assert (place / "x").exists()
        assert "Another directory" in gone(root)

    def test_one_that_comes_over_it_is_another_one_and_goes_again(self, place, root):
        with mounted_over(place):
            assert "Another directory" in gone(root)
        look(root)

    def test_the_next_one_is_another_one_whatever_its_numbers(self, place):
        root = Root(os.fsencode(place))
        with mounted_over(place):
            look(root)
        for _ in range(5):
            with mounted_over(place):
                assert "Another directory" in gone(root)

    def test_an_empty_one_is_as_good_as_any(self, place):
        with mounted_over(place):
            look(Root(os.fsencode(place)))


def test_no_descriptor_is_left_open(place, root, tmp_path):
    before = open_beneath(tmp_path)
    look(root)
    (tmp_path / "empty").mkdir()
    gone(Root(os.fsencode(tmp_path / "empty")))
    place.rename(place.with_name("kept"))
    place.mkdir()
    gone(root)
    assert open_beneath(tmp_path) == before
