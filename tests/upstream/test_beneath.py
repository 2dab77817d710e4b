"""Opening beneath a directory: both ways, before whatever may lie there."""

import errno
import os
import socket
import stat
import subprocess
import sys
from collections import Counter

import pytest

from chunkside.upstream.beneath import (
    DIRECTORY,
    LinkToNothing,
    best_way,
    by_openat2,
    by_walking,
    open_file,
)
from tests.support.deadline import wait_for
from tests.support.descriptors import open_beneath
from tests.support.volume import mounted_over

WAYS = {"openat2": by_openat2, "walking": by_walking}


@pytest.fixture(params=WAYS)
def way(request):
    if request.param == "openat2" and best_way() is by_walking:
        pytest.skip("this kernel has no openat2, or it isn't let through")
    return WAYS[request.param]


@pytest.fixture
def place(tmp_path):
    """A root, and beside it what nobody may reach."""
    root = tmp_path / "root"
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/file").write_bytes(b"in")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_bytes(b"out")
    return root


def read(way, root, *names):
    opened = os.open(root, DIRECTORY)
    try:
        descriptor = open_file(way, opened, [name.encode() for name in names])
    finally:
        os.close(opened)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def fault(way, root, *names):
    try:
        found = read(way, root, *names)
    except OSError as error:
        return error.errno
    raise AssertionError(f"read {found!r}")


def test_what_lies_beneath_is_read(way, place):
    assert read(way, place, "a", "b", "file") == b"in"


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (("nothing",), errno.ENOENT),
        (("a", "nothing", "file"), errno.ENOENT),
        (("a", "b", "file", "beneath"), errno.ENOTDIR),
        (("a", "x" * 256), errno.ENAMETOOLONG),
    ],
)
def test_what_is_not_there_is_told_as_the_system_has_it(way, place, names, code):
    assert fault(way, place, *names) == code


OUT = {
    "an absolute link": "{outside}/file",
    "one that climbs": "../../outside/file",
    "one that climbs and comes back": "../../root/a/b/file",
    "one to a process's own": "/proc/self/cwd",
}


@pytest.mark.parametrize("target", OUT.values(), ids=OUT)
def test_no_link_leads_out(way, place, target):
    (place / "a/link").symlink_to(target.format(outside=place.parent / "outside"))
    refused = (errno.EXDEV, errno.ELOOP)
    assert fault(way, place, "a", "link") in refused
    assert fault(way, place, "a", "link", "file") in refused


def test_a_directory_that_is_a_link_out_is_no_way_either(way, place):
    (place / "away").symlink_to("../outside")
    assert fault(way, place, "away", "file") in (errno.EXDEV, errno.ELOOP)


def test_a_loop_of_links_ends(way, place):
    (place / "one").symlink_to("two")
    (place / "two").symlink_to("one")
    assert fault(way, place, "one") == errno.ELOOP


@pytest.mark.parametrize("names", [("to_file",), ("to_directory", "file")])
def test_links_that_stay_beneath_are_followed_by_openat2_alone(way, place, names):
    (place / "to_file").symlink_to("a/b/file")
    (place / "to_directory").symlink_to("a/b")
    if way is by_walking:
        assert fault(way, place, *names) == errno.ELOOP
    else:
        assert read(way, place, *names) == b"in"


class TestLinksToNothing:
    """A data set whose contents were not fetched yet: a name is there, and leads nowhere."""

    @pytest.mark.parametrize(
        ("target", "names"),
        [
            ("gone", ("link",)),
            ("gone", ("link", "c", "0")),
            ("gone/further/file", ("link",)),
            ("a/b/file/no_directory", ("link",)),
        ],
    )
    def test_they_are_no_absence(self, way, place, target, names):
        (place / "link").symlink_to(target)
        expected = OSError if way is by_walking else LinkToNothing
        with pytest.raises(expected) as raised:
            read(way, place, *names)
        assert not isinstance(raised.value, FileNotFoundError | NotADirectoryError)

    def test_what_is_absent_behind_a_link_is_absent(self, place):
        if best_way() is by_walking:
            pytest.skip("links are followed by openat2 alone")
        (place / "link").symlink_to("a")
        assert fault(by_openat2, place, "link", "nothing") == errno.ENOENT
        assert fault(by_openat2, place, "link", "b", "nothing", "file") == errno.ENOENT
        assert fault(by_openat2, place, "link", "b", "file", "beneath") == errno.ENOTDIR

    def test_a_link_behind_a_link_is_one_too(self, place):
        if best_way() is by_walking:
            pytest.skip("links are followed by openat2 alone")
        (place / "link").symlink_to("a")
        (place / "a/broken").symlink_to("gone")
        with pytest.raises(LinkToNothing):
            read(by_openat2, place, "link", "broken")


def test_opening_waits_for_nobody(way, place):
    os.mkfifo(place / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place / "socket"))
        assert read(way, place, "fifo") == b""
        assert fault(way, place, "socket") == errno.ENXIO


def test_a_directory_can_be_opened_and_seen_to_be_one(way, place):
    opened = os.open(place, DIRECTORY)
    descriptor = open_file(way, opened, [b"a"])
    assert stat.S_ISDIR(os.fstat(descriptor).st_mode)
    os.close(descriptor)
    os.close(opened)


@pytest.mark.root
def test_a_volume_mounted_beneath_is_another_place(way, place):
    with mounted_over(place / "a/b"):
        (place / "a/b/file").write_bytes(b"elsewhere")
        assert fault(way, place, "a", "b", "file") == errno.EXDEV
        assert fault(way, place, "a", "b", "nothing") == errno.EXDEV


def test_descriptors_are_all_closed_again(way, place):
    (place / "link").symlink_to("gone")
    (place / "out").symlink_to("../outside")

    def descriptors():
        return open_beneath(place.parent)

    before = descriptors()
    for names in (("a", "b", "file"), ("nothing",), ("link", "c"), ("out", "file")):
        try:
            read(way, place, *names)
        except (OSError, LinkToNothing):
            continue
    assert descriptors() == before


SWAP = """
import ctypes, sys
libc, at_here, exchange = ctypes.CDLL(None), -100, 2
one, other = (path.encode() for path in sys.argv[1:])
print("swapping", flush=True)
while libc.renameat2(at_here, one, at_here, other, exchange) == 0:
    pass
sys.exit("can't swap")
"""


def test_whoever_swaps_a_directory_for_a_link_meanwhile_gets_nothing_from_outside(way, place):
    """A name on the way is a directory and a link out by turns, and always one of them."""
    (place / "a/link").symlink_to("../../outside")
    command = [sys.executable, "-c", SWAP, str(place / "a/b"), str(place / "a/link")]
    got: Counter[object] = Counter()

    def is_enough():
        for _ in range(100):
            try:
                got[read(way, place, "a", "b", "file")] += 1
            except OSError as error:
                got[error.errno] += 1
        return got[b"in"] >= 500 and got.total() - got[b"in"] >= 500

    with subprocess.Popen(command, stdout=subprocess.PIPE) as swapping:
        assert swapping.stdout is not None
        assert swapping.stdout.readline() == b"swapping\n"
        try:
            wait_for(is_enough, "as many reads through either")
        finally:
            swapping.kill()
    # An absence would be as wrong as what lies outside.
    assert got.keys() <= {b"in", errno.EXDEV, errno.ELOOP, errno.EAGAIN}


def test_a_kernel_without_openat2_is_walked(monkeypatch):
    def refused(*_, **__):
        raise OSError(errno.ENOSYS, "not there")

    monkeypatch.setattr("chunkside.upstream.beneath.by_openat2", refused)
    assert best_way() is by_walking
