"""What older versions left in the cache directory goes; what is anybody else's stays."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from chunkside.store.filesystem import prepare_cache_directory
from chunkside.store.old_formats import STEP_FILES, remove_old_trees
from tests.store.samples import Faults, a_disk_store, a_key, keep, some_bytes


@pytest.fixture
def root(tmp_path) -> Path:
    place = tmp_path / "cache"
    prepare_cache_directory(place, uid=os.geteuid())
    return place


def make_tree(root: Path, name: str, files: int = 3) -> Path:
    tree = root / name
    for number in range(files):
        shard = tree / "0123456789abcdef" / f"{number % 4:02x}"
        shard.mkdir(parents=True, exist_ok=True)
        (shard / f"{number:064x}.arrow").write_bytes(b"old")
    return tree


def remove(root: Path, faults: Faults | None = None) -> list[int]:
    told = faults or Faults()
    return list(remove_old_trees(str(root), lambda what, fault: told(what, str(fault.errno))))


def test_an_older_format_s_tree_goes_in_small_steps(root):
    tree = make_tree(root, "v0", 3 * STEP_FILES)
    steps = remove(root)
    assert sum(steps) == 3 * STEP_FILES
    assert max(steps) <= STEP_FILES
    assert not tree.exists()


@pytest.mark.parametrize("name", ["v1", "v2", "v10", "v", "v0x", "w0", "v-1", "0", "V0"])
def test_today_s_tree_a_newer_one_and_other_names_stay(root, name):
    tree = make_tree(root, name)
    assert sum(remove(root)) == 0
    assert len(list(tree.rglob("*.arrow"))) == 3


def test_without_our_ownership_file_nothing_is_touched(root):
    tree = make_tree(root, "v0")
    (root / ".chunkside").write_text("somebody else's\n")
    assert remove(root) == []
    (root / ".chunkside").unlink()
    assert remove(root) == []
    assert tree.exists()


def test_a_link_is_not_followed(root, tmp_path):
    elsewhere = make_tree(tmp_path, "elsewhere")
    (root / "v0").symlink_to(elsewhere)
    tree = make_tree(root, "v00")
    (tree / "link").symlink_to(elsewhere)
    remove(root)
    assert len(list(elsewhere.rglob("*.arrow"))) == 3
    assert not tree.exists()


@pytest.mark.root
def test_what_belongs_to_another_user_stays(root):
    tree = make_tree(root, "v0")
    foreign = tree / "0123456789abcdef" / "00" / "foreign"
    foreign.write_text("theirs")
    os.chown(foreign, 12345, 12345)
    given_away = make_tree(root, "v00")
    os.chown(given_away, 12345, 12345)
    remove(root)
    assert [path for path in tree.rglob("*") if path.is_file()] == [foreign]
    assert len(list(given_away.rglob("*.arrow"))) == 3


@pytest.mark.root
def test_another_mount_beneath_it_stays(root):
    tree = make_tree(root, "v0")
    mount = tree / "mount"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", mount], check=True)
    try:
        (mount / "file").write_text("x")
        remove(root)
        assert (mount / "file").exists()
    finally:
        subprocess.run(["umount", mount], check=True)


def test_what_can_t_be_removed_is_told(root):
    (root / "v0").write_text("a file in its place")
    faults = Faults()
    remove(root, faults)
    assert faults.seen == [("sweep", str(20))]


def test_the_store_removes_it_while_it_is_alone_and_keeps_today_s(root):
    async def scenario() -> None:
        store, other = a_disk_store(str(root)), a_disk_store(str(root))
        await store.start()
        await other.start()
        await keep(store, some_bytes(100))
        tree = make_tree(root, "v0", 200)
        assert await store.drop_old_formats() == 0
        await other.close()
        assert await store.drop_old_formats() == 200
        assert not tree.exists()
        assert await store.find(a_key()) is not None
        await store.close()
        assert await store.drop_old_formats() == 0

    asyncio.run(scenario())
