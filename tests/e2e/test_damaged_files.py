"""Files that change beneath a running sidecar, on either loop: it lives on, and tells no lies."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import StartSidecar
from tests.support.http_client import Connection, exchange
from tests.support.origin import Origin
from tests.support.sidecar import Sidecar

MIB = 1024 * 1024
LENGTH = 16 * MIB


def stored_file(cache_dir: Path) -> Path:
    (path,) = cache_dir.rglob("*.arrow")
    return path


def cut_mid_slice(path: Path) -> None:
    os.truncate(path, 8 * MIB + 12_345)


def cut_all(path: Path) -> None:
    os.truncate(path, 0)


def cut_the_last_bytes(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 40)


def replace_by_a_foreign_file(path: Path) -> None:
    foreign = path.with_name("foreign")
    foreign.write_bytes(os.urandom(LENGTH))
    foreign.replace(path)


@pytest.mark.parametrize(
    "damage", [cut_mid_slice, cut_all, cut_the_last_bytes, replace_by_a_foreign_file, Path.unlink]
)
def test_a_file_that_changes_under_a_slow_reader(
    own_origin: Origin,
    sidecar_on_each_loop: Sidecar,
    cache_dir: Path,
    damage: Callable[[Path], None],
) -> None:
    sidecar, target = sidecar_on_each_loop, "/a/c/0"
    body = os.urandom(LENGTH)
    own_origin.put(target, body)
    assert exchange(sidecar.url, target).body == body
    sidecar.wait_idle()
    with Connection(sidecar.url) as slow:
        slow.send("GET", target)
        head = slow.head()
        begun = slow.exactly(MIB)
        damage(stored_file(cache_dir))
        rest = slow.rest_of(head, len(begun))
    got = begun + rest
    # Cut short or continued from the origin, but never other bytes.
    assert got == body[: len(got)]
    for _ in range(2):
        assert exchange(sidecar.url, target).body == body
    sidecar.wait_idle()
    assert exchange(sidecar.url, target).body == body
    is_cut = damage.__name__.startswith("cut")
    assert (sidecar.metric("chunkside_store_errors_total") > 0) or not is_cut
    assert sidecar.stop() == 0


def zero_filled(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def linked(path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def flipped(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(MIB)
        byte = file.read(1)
        file.seek(MIB)
        file.write(bytes([byte[0] ^ 4]))


def given_away(path: Path) -> None:
    os.chown(path, 12345, 12345)


@pytest.mark.parametrize("damage", [cut_mid_slice, zero_filled, linked, flipped, given_away])
def test_a_file_that_was_damaged_while_no_sidecar_ran(
    own_origin: Origin,
    start_sidecar: StartSidecar,
    cache_dir: Path,
    damage: Callable[[Path], None],
) -> None:
    if damage is given_away and os.geteuid() != 0:
        pytest.skip("only root can give files away")
    target, body = "/a/c/0", os.urandom(3 * MIB)
    own_origin.put(target, body)
    first = start_sidecar()
    assert exchange(first.url, target).body == body
    first.wait_idle()
    first.stop()
    damage(stored_file(cache_dir))
    second = start_sidecar()
    for _ in range(2):
        assert exchange(second.url, target).body == body
        second.wait_idle()
    assert own_origin.count("GET", target) == 2
    assert second.metric('chunkside_store_errors_total{error="corrupt"}') > 0


@pytest.mark.parametrize("other", ["/a/c/1", "/a/c/0 as another"], ids=["key", "partition"])
def test_files_that_were_swapped_while_no_sidecar_ran(
    own_origin: Origin, start_sidecar: StartSidecar, cache_dir: Path, other: str
) -> None:
    target, _, is_another = other.partition(" as ")
    fields = [("Authorization", "Bearer another")] if is_another else []
    own_origin.put("/a/c/0", b"0" * 100_000)
    own_origin.put("/a/c/1", b"1" * 100_000)
    first = start_sidecar()
    exchange(first.url, "/a/c/0")
    exchange(first.url, target, headers=fields)
    first.wait_idle()
    first.stop()
    one, two = sorted(cache_dir.rglob("*.arrow"))
    aside = one.with_name("aside")
    one.rename(aside)
    two.rename(one)
    aside.rename(two)
    second = start_sidecar()
    before = len(own_origin.requests())
    assert exchange(second.url, "/a/c/0").body == b"0" * 100_000
    assert exchange(second.url, target, headers=fields).body == target[-1].encode() * 100_000
    asked = own_origin.requests()[before:]
    assert [bool(request.values("Authorization")) for request in asked] == [False, bool(fields)]
    assert second.metric('chunkside_store_errors_total{error="corrupt"}') > 0
