"""What a reading of the whole cache directory finds, and what it leaves alone."""

import asyncio
import os
from pathlib import Path

import pytest

from chunkside.core.entry import Part
from chunkside.store.verification import BadFile, Verification
from tests.store.damage import DAMAGE
from tests.store.samples import (
    LARGE,
    SMALL,
    STAMPS,
    a_disk_store,
    a_key,
    a_stored,
    keep,
    some_bytes,
)

A_RANGE = Part(100, 100 + SMALL - 1)


@pytest.fixture
def root(tmp_path):
    """Holds a small body, a large one and a range."""
    asyncio.run(fill(str(tmp_path)))
    return tmp_path


async def fill(root: str) -> None:
    store = a_disk_store(root)
    await store.start()
    await keep(store, some_bytes(SMALL), a_key(b"/small"))
    await keep(store, some_bytes(LARGE), a_key(b"/large"))
    writer = await store.begin(a_stored(a_key(b"/shard"), length=10**9), STAMPS, SMALL, A_RANGE)
    await writer.append(some_bytes(SMALL))
    await writer.commit(SMALL)
    await store.close()


def path_of(root: Path, target: bytes, part: Part | None = None) -> Path:
    return Path(a_disk_store(str(root))._directory.path_of(a_key(target), part))


def bad_files(root: Path, **options) -> list[BadFile]:
    return [bad for batch in Verification(str(root), **options).run() for bad in batch]


def contents(root: Path) -> dict[Path, tuple[int, int, bytes]]:
    return {
        path: (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
        for path in root.rglob("*")
        if path.is_file()
    }


def test_good_files_are_counted_read_whole_and_left_as_they_are(root):
    before = contents(root)
    verification = Verification(str(root), remove_bad=True)
    extent = verification.measure()
    assert (extent.files, extent.temp_files) == (3, 0)
    assert [bad for batch in verification.run() for bad in batch] == []
    assert verification.files == 3
    assert verification.read_bytes == extent.size
    assert contents(root) == before


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize(
    ("target", "part"), [(b"/small", None), (b"/shard", A_RANGE)], ids=["body", "range"]
)
def test_a_damaged_file_is_named_with_the_reason_and_stays(root, damage, target, part):
    if damage == "a foreign owner" and os.geteuid() != 0:
        pytest.skip("only root can give files away")
    path = path_of(root, target, part)
    DAMAGE[damage](path)
    (bad,) = bad_files(root)
    assert bad.path == str(path)
    assert bad.reason.isprintable()
    assert (bad.is_unread, bad.is_removed) == (False, False)
    assert os.path.lexists(path)


@pytest.mark.parametrize("damage", DAMAGE)
def test_bad_files_are_unlinked_where_that_is_asked_for(root, damage):
    if damage == "a foreign owner" and os.geteuid() != 0:
        pytest.skip("only root can give files away")
    path = path_of(root, b"/large")
    good = path_of(root, b"/small").read_bytes()
    DAMAGE[damage](path)
    (bad,) = bad_files(root, remove_bad=True)
    assert bad.is_removed
    assert not os.path.lexists(path)
    assert path_of(root, b"/small").read_bytes() == good
    assert bad_files(root) == []


def test_files_that_were_swapped_are_both_bad(root):
    one, other = path_of(root, b"/small"), path_of(root, b"/large")
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)
    assert {bad.path for bad in bad_files(root)} == {str(one), str(other)}
    assert {bad.reason for bad in bad_files(root)} == {"another key's file"}


def test_a_range_under_the_name_of_another_is_bad(root):
    path = path_of(root, b"/shard", A_RANGE)
    other = path_of(root, b"/shard", Part(0, SMALL - 1))
    path.rename(other)
    assert [bad.path for bad in bad_files(root)] == [str(other)]


def test_temp_files_are_told_of_and_left_alone(root):
    temp = path_of(root, b"/small").with_name(
        f".{path_of(root, b'/small').name}.1.00000000ffffffff.tmp"
    )
    temp.write_bytes(b"half of it")
    assert Verification(str(root)).measure().temp_files == 1
    assert bad_files(root, remove_bad=True) == []
    assert temp.exists()


def test_foreign_names_are_not_looked_at(root):
    note = path_of(root, b"/small").with_name("note.txt")
    note.write_text("mine")
    (root / "v1" / "notes").mkdir()
    assert bad_files(root, remove_bad=True) == []
    assert note.exists()


def test_a_file_that_goes_meanwhile_is_not_bad(root, monkeypatch):
    verification = Verification(str(root))
    path = path_of(root, b"/small")
    listed = os.listdir

    def list_then_unlink(directory):
        names = listed(directory)
        if directory == str(path.parent):
            path.unlink()
        return names

    monkeypatch.setattr(os, "listdir", list_then_unlink)
    assert [bad for batch in verification.run() for bad in batch] == []


def test_a_directory_that_can_t_be_read_is_told_and_not_removed(root):
    shard = path_of(root, b"/small").parent
    shard.rename(shard.with_name("aside"))
    shard.write_text("a file in its place")
    (bad,) = bad_files(root, remove_bad=True)
    assert bad == BadFile(str(shard), "Not a directory", is_unread=True)
    assert shard.exists()


def test_where_nothing_is_yet_nothing_is_bad(tmp_path):
    verification = Verification(str(tmp_path / "none"))
    assert verification.measure().files == 0
    assert bad_files(tmp_path / "none") == []


def test_whoever_stops_listening_ends_it(root):
    verification = Verification(str(root), threads=1)
    for _ in verification.run():
        break
    assert verification.files <= 3
