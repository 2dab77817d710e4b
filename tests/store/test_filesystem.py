"""Where the cache may live."""

import os
import socket
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.store.filesystem import (
    MEMORY_TYPES,
    NETWORK_TYPES,
    OWNERSHIP_FILE,
    Candidate,
    Chosen,
    Filesystem,
    Fit,
    MemoryOnly,
    Unfit,
    UnfitCacheDirectoryError,
    choose_cache_directory,
    classify,
    judge_cache_directory,
    measure,
    prepare_cache_directory,
    read_mountinfo,
)
from tests.support.volume import small_volume

UID = os.geteuid()


def mounts(*points: tuple[str, str]) -> str:
    return "".join(
        f"{number} 1 0:{number} / {point} rw,relatime shared:1 - {fstype} source rw\n"
        for number, (point, fstype) in enumerate((("/", "ext4"), *points), start=20)
    )


def judge(path, *, uid=UID, allow_memory=False, mountinfo_text=""):
    return judge_cache_directory(
        path, uid=uid, allow_memory=allow_memory, mountinfo_text=mountinfo_text
    )


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def private(tmp_path):
    """An empty directory of our own."""
    path = tmp_path / "private"
    path.mkdir()
    path.chmod(0o700)
    return path


class TestClassify:
    @pytest.mark.parametrize(
        ("path", "points", "mount_point"),
        [
            pytest.param("/no/mnt/x", [("/no/mnt", "nfs4")], "/no/mnt", id="beneath"),
            pytest.param("/no/mnt", [("/no/mnt", "nfs4")], "/no/mnt", id="the point itself"),
            pytest.param("/no/mnt2", [("/no/mnt", "nfs4")], "/", id="a name that goes on"),
            pytest.param(
                "/no/mnt/a/b",
                [("/no/mnt/a", "xfs"), ("/no/mnt", "nfs4")],
                "/no/mnt/a",
                id="longest",
            ),
            pytest.param(
                "/no/a b/x", [("/no/a\\040b", "nfs")], "/no/a b", id="octal-escaped space"
            ),
            pytest.param("/no/a\\b", [("/no/a\\134b", "nfs")], "/no/a\\b", id="a backslash"),
        ],
    )
    def test_the_longest_mount_at_a_path_boundary_counts(self, path, points, mount_point):
        assert classify(Path(path), mounts(*points)).mount_point == mount_point

    def test_of_two_mounts_on_one_point_the_last_counts(self):
        nfs_over_autofs = mounts(("/no/net", "autofs"), ("/no/net", "nfs4"))
        assert classify(Path("/no/net/x"), nfs_over_autofs) == Filesystem(
            "network", "nfs4", "/no/net"
        )

    def test_links_are_followed_to_where_the_bytes_would_lie(self, tmp_path):
        (tmp_path / "link").symlink_to(tmp_path / "far")
        text = mounts((str(tmp_path / "far"), "nfs"))
        assert classify(tmp_path / "link" / "new", text).kind == "network"

    @pytest.mark.parametrize("fstype", sorted(NETWORK_TYPES))
    def test_what_leaves_the_machine_is_a_network(self, fstype):
        assert classify(Path("/no/x"), mounts(("/no", fstype))).kind == "network"

    @pytest.mark.parametrize(
        ("line", "kind"),
        [
            ("fuse mountpoint-s3 rw,user_id=0", "network"),
            ("fuse.mount-s3 bucket rw", "network"),
            ("fuse.juicefs JuiceFS:volume rw", "network"),
            ("fuse goofys#bucket rw", "network"),
            ("fuse blobfuse2 rw", "network"),
            ("fuse s3fs rw", "network"),
            ("fuse.gcsfuse bucket rw", "network"),
            ("fuse.alluxio-fuse alluxio-fuse rw", "network"),
            ("fuse.ossfs ossfs rw", "network"),
            ("fuse.rclone remote: rw", "network"),
            ("virtiofs share rw", "network"),
            ("wekafs cluster/fs rw", "network"),
            ("panfs panfs://realm rw", "network"),
            ("pvfs2 tcp://host:3334/orangefs rw", "network"),
            ("orangefs tcp://host:3334/orangefs rw", "network"),
            ("nfs4 server:/export rw", "network"),
            ("9p hostshare rw,trans=virtio", "network"),
            ("overlay overlay rw,lowerdir=/a,upperdir=/b", "overlay"),
            ("tmpfs tmpfs rw,size=1g", "memory"),
            ("ext4 /dev/nvme0n1p2 rw", "local"),
            ("fuse /dev/sdb1 rw", "local"),
            ("fuse.ntfs-3g /dev/sdb1 rw", "local"),
            ("fuse", "local"),
        ],
    )
    def test_as_a_real_table_of_mounts_writes_it(self, line, kind):
        root = "22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw"
        text = f"{root}\n612 22 0:71 / /no rw,nosuid,nodev,relatime shared:330 - {line}\n"
        assert classify(Path("/no/cache"), text).kind == kind
        assert classify(Path("/nowhere"), text).kind == "local"

    @pytest.mark.parametrize("fstype", sorted(MEMORY_TYPES))
    def test_what_is_kept_in_memory_is_memory(self, fstype):
        assert classify(Path("/no/x"), mounts(("/no", fstype))).kind == "memory"

    @pytest.mark.parametrize(
        "fstype", ["ext4", "xfs", "btrfs", "zfs", "fuse", "fuseblk", "fuse.bindfs", "autofs", "x"]
    )
    def test_what_is_not_known_to_be_otherwise_is_local(self, fstype):
        assert classify(Path("/no/x"), mounts(("/no", fstype))).kind == "local"

    def test_a_container_s_own_layer_is_an_overlay(self):
        assert classify(Path("/no/x"), mounts(("/no", "overlay"))).kind == "overlay"

    @pytest.mark.parametrize("text", ["", "\n", "garbage", "1 2 3 - x", "1 2 3 4 / rw nfs src"])
    def test_without_a_table_that_can_be_read_it_is_local(self, text):
        assert classify(Path("/x"), text) == Filesystem("local", "unknown", "/")

    @given(st.text())
    def test_no_table_makes_it_fail(self, text):
        classify(Path("/x"), text)

    @pytest.mark.skipif(not os.path.exists("/proc/self/mountinfo"), reason="Linux tells its mounts")
    def test_this_machine_s_own_table_is_read(self):
        assert classify(Path("/proc/self"), read_mountinfo()).fstype == "proc"


class TestJudge:
    def test_a_place_where_nothing_is_yet_is_fit(self, tmp_path):
        path = tmp_path / "a" / "b"
        assert judge(path) == Fit(path, path, Filesystem("local", "unknown", "/"))

    def test_judging_leaves_nothing_behind(self, tmp_path, private):
        judge(tmp_path / "a")
        judge(private)
        assert (list(tmp_path.iterdir()), list(private.iterdir())) == ([private], [])

    def test_an_empty_directory_of_our_own_is_fit(self, private):
        assert judge(private).directory == private

    @pytest.mark.parametrize(
        ("fstype", "allow_memory", "reason"),
        [
            ("nfs4", False, "network file system (nfs4"),
            ("nfs4", True, "network file system (nfs4"),
            ("tmpfs", False, "in memory (tmpfs"),
        ],
    )
    def test_networks_and_memory_are_refused(self, tmp_path, fstype, allow_memory, reason):
        text = mounts((str(tmp_path), fstype))
        verdict = judge(tmp_path / "a", allow_memory=allow_memory, mountinfo_text=text)
        assert isinstance(verdict, Unfit)
        assert reason in verdict.reason

    def test_memory_may_be_allowed(self, tmp_path):
        text = mounts((str(tmp_path), "tmpfs"))
        verdict = judge(tmp_path / "a", allow_memory=True, mountinfo_text=text)
        assert isinstance(verdict, Fit)

    def test_a_container_s_own_layer_is_fit_with_a_warning(self, tmp_path):
        text = mounts((str(tmp_path), "overlay"))
        verdict = judge(tmp_path / "a", mountinfo_text=text)
        assert isinstance(verdict, Fit)
        (warning,) = verdict.warnings
        assert str(tmp_path / "a") in warning
        assert "gone with the container" in warning
        assert "mount a volume" in warning

    @pytest.mark.parametrize(
        ("make", "reason"),
        [
            pytest.param(lambda path: path.write_text(""), "not a directory", id="file"),
            pytest.param(lambda path: path.symlink_to("/"), "symbolic link", id="link"),
            pytest.param(lambda path: path.symlink_to("none"), "symbolic link", id="broken link"),
            pytest.param(os.mkfifo, "not a directory", id="fifo"),
        ],
    )
    def test_what_is_no_directory_is_refused(self, tmp_path, make, reason):
        make(tmp_path / "a")
        verdict = judge(tmp_path / "a")
        assert isinstance(verdict, Unfit)
        assert reason in verdict.reason

    def test_a_place_beneath_a_file_is_refused(self, tmp_path):
        (tmp_path / "file").write_text("")
        assert isinstance(judge(tmp_path / "file" / "a"), Unfit)

    def test_a_place_beneath_a_broken_link_is_refused(self, tmp_path):
        (tmp_path / "link").symlink_to("none")
        assert isinstance(judge(tmp_path / "link" / "a"), Unfit)

    def test_a_name_that_is_too_long_is_refused(self, tmp_path):
        assert isinstance(judge(tmp_path / ("a" * 300)), Unfit)

    @pytest.mark.parametrize("path", ["/proc/chunkside", "/sys/chunkside", "/proc/self"])
    @pytest.mark.skipif(not os.path.exists("/proc/self"), reason="there is no /proc")
    def test_what_can_t_be_written_is_refused_for_root_too(self, path):
        assert isinstance(judge(Path(path)), Unfit)

    @pytest.mark.skipif(UID == 0, reason="root may write anywhere")
    def test_what_others_only_may_write_is_refused(self, private):
        private.chmod(0o500)
        verdict = judge(private / "a")
        assert isinstance(verdict, Unfit)
        assert "can't be written" in verdict.reason

    def test_a_directory_of_another_user_is_refused(self, private):
        verdict = judge(private, uid=UID + 1)
        assert isinstance(verdict, Unfit)
        assert f"uid {UID}," in verdict.reason

    @pytest.mark.root
    @pytest.mark.parametrize("mode", [0o700, 0o777])
    def test_a_directory_given_to_another_user_is_refused(self, private, mode):
        os.chown(private, 12345, 12345)
        private.chmod(mode)
        assert isinstance(judge(private), Unfit)

    def test_a_directory_with_other_files_is_refused(self, private):
        (private / "thesis.tex").write_text("x")
        verdict = judge(private)
        assert isinstance(verdict, Unfit)
        assert "files that are not" in verdict.reason

    def test_the_write_test_of_another_process_is_no_foreign_file(self, private):
        (private / ".chunkside-probe-0123").mkdir()
        assert isinstance(judge(private), Fit)

    def test_a_directory_that_was_prepared_is_fit_with_whatever_is_in_it(self, private):
        prepare_cache_directory(private, uid=UID)
        (private / "v1").mkdir()
        verdict = judge(private)
        assert isinstance(verdict, Fit)
        assert (verdict.directory, verdict.warnings) == (private, ())

    @pytest.mark.parametrize("mode", [0o755, 0o777, 0o1777, 0o2775, 0o750])
    def test_in_a_wide_directory_a_private_child_is_used(self, private, mode):
        private.chmod(mode)
        (private / "others").write_text("x")
        verdict = judge(private)
        assert isinstance(verdict, Fit)
        assert verdict.directory == private / f"chunkside-{UID}"
        assert len(verdict.warnings) == 1
        (warning,) = verdict.warnings
        assert f"others may enter {private}" in warning
        assert str(verdict.directory) in warning
        assert "make it 0700" in warning

    def test_a_private_child_is_used_again(self, private):
        private.chmod(0o777)
        child = judge(private).directory
        prepare_cache_directory(child, uid=UID)
        (child / "v1").mkdir()
        assert judge(private).directory == child

    @pytest.mark.parametrize(
        "plant",
        [
            pytest.param(lambda child: child.symlink_to("/var"), id="a link"),
            pytest.param(lambda child: child.write_text(""), id="a file"),
            pytest.param(lambda child: (child / "x").mkdir(parents=True), id="a foreign directory"),
        ],
    )
    def test_what_was_planted_in_place_of_the_private_child_is_refused(self, private, plant):
        private.chmod(0o777)
        plant(private / f"chunkside-{UID}")
        verdict = judge(private)
        assert isinstance(verdict, Unfit)
        assert verdict.path == private / f"chunkside-{UID}"

    @pytest.mark.parametrize(
        "plant",
        [
            pytest.param(lambda mark: mark.write_text("something else\n"), id="other words"),
            pytest.param(lambda mark: mark.symlink_to("/etc/hostname"), id="a link"),
            pytest.param(os.mkfifo, id="a fifo, which would hold the start"),
            pytest.param(lambda mark: mark.mkdir(), id="a directory"),
        ],
    )
    def test_an_ownership_file_that_is_not_ours_counts_for_nothing(self, private, plant):
        plant(private / OWNERSHIP_FILE)
        assert isinstance(judge(private), Unfit)

    def test_an_ownership_file_whose_writer_died_is_ours(self, private):
        (private / OWNERSHIP_FILE).touch()
        (private / "v1").mkdir()
        assert isinstance(judge(private), Fit)

    @pytest.mark.root
    def test_a_full_disk_is_fit_only_where_a_cache_is_already(self, tmp_path):
        with small_volume(tmp_path / "volume", inodes=3) as volume:
            prepare_cache_directory(volume / "cache", uid=UID)
            old = judge(volume / "cache")
            prepare_cache_directory(volume / "cache", uid=UID)
            new = judge(volume / "new")
        assert isinstance(old, Fit)
        assert "no room left" in old.warnings[0]
        assert isinstance(new, Unfit)
        assert "no room left" in new.reason

    @pytest.mark.root
    def test_a_read_only_file_system_is_refused(self, tmp_path):
        with small_volume(tmp_path / "volume", inodes=9) as volume:
            prepare_cache_directory(volume / "cache", uid=UID)
            subprocess.run(["mount", "-o", "remount,ro", volume], check=True)
            verdict = judge(volume / "cache")
        assert isinstance(verdict, Unfit)
        assert "read-only" in verdict.reason


class TestPrepare:
    @pytest.mark.parametrize("umask", [0o000, 0o022, 0o027, 0o077, 0o277])
    def test_everything_is_owner_only_whatever_the_umask(self, tmp_path, umask):
        before = os.umask(umask)
        try:
            prepare_cache_directory(tmp_path / "a" / "b", uid=UID)
        finally:
            os.umask(before)
        assert mode_of(tmp_path / "a") == 0o700
        assert mode_of(tmp_path / "a" / "b") == 0o700
        assert mode_of(tmp_path / "a" / "b" / OWNERSHIP_FILE) == 0o600

    def test_the_setgid_bit_of_a_volume_is_not_inherited(self, private):
        private.chmod(0o2770)
        prepare_cache_directory(private / "a", uid=UID)
        assert mode_of(private / "a") == 0o700

    def test_the_ownership_file_names_the_format(self, private):
        prepare_cache_directory(private, uid=UID)
        assert (private / OWNERSHIP_FILE).read_text() == "chunkside cache v1\n"

    def test_preparing_twice_is_preparing_once(self, private):
        prepare_cache_directory(private, uid=UID)
        inode = (private / OWNERSHIP_FILE).stat().st_ino
        prepare_cache_directory(private, uid=UID)
        assert (private / OWNERSHIP_FILE).stat().st_ino == inode

    def test_a_directory_of_ours_that_was_widened_is_narrowed_again(self, private):
        prepare_cache_directory(private, uid=UID)
        private.chmod(0o2770)
        assert judge(private).directory == private
        prepare_cache_directory(private, uid=UID)
        assert mode_of(private) == 0o700

    @pytest.mark.parametrize(
        "plant",
        [
            pytest.param(lambda path: path.symlink_to("/var"), id="link"),
            pytest.param(lambda path: path.write_text(""), id="file"),
        ],
    )
    def test_what_was_planted_meanwhile_is_refused(self, tmp_path, plant):
        plant(tmp_path / "a")
        with pytest.raises(UnfitCacheDirectoryError) as error:
            prepare_cache_directory(tmp_path / "a", uid=UID)
        assert error.value.unfit.path == tmp_path / "a"

    def test_a_directory_of_another_user_is_not_taken(self, private):
        with pytest.raises(UnfitCacheDirectoryError):
            prepare_cache_directory(private, uid=UID + 1)
        assert list(private.iterdir()) == []

    @pytest.mark.skipif(not os.path.exists("/proc/self"), reason="there is no /proc")
    def test_a_directory_that_can_t_be_made_is_unfit(self):
        with pytest.raises(UnfitCacheDirectoryError):
            prepare_cache_directory(Path("/proc/chunkside/a"), uid=UID)


class TestChoose:
    def choose(self, setting, *paths, mountinfo_text=""):
        return choose_cache_directory(
            setting,
            [Candidate(path, "a test names it") for path in paths],
            uid=UID,
            allow_memory=False,
            mountinfo_text=mountinfo_text,
        )

    def test_the_setting_goes_before_the_defaults(self, tmp_path):
        choice = self.choose(tmp_path / "set", tmp_path / "default")
        assert isinstance(choice, Chosen)
        assert choice.directory == tmp_path / "set"

    def test_a_setting_that_is_unfit_is_not_passed_over(self, tmp_path):
        (tmp_path / "set").write_text("")
        choice = self.choose(tmp_path / "set", tmp_path / "default")
        assert isinstance(choice, Unfit)
        assert choice.path == tmp_path / "set"

    def test_the_first_fit_default_is_used_without_a_word(self, tmp_path):
        choice = self.choose(None, tmp_path / "a", tmp_path / "b")
        assert isinstance(choice, Chosen)
        assert (choice.directory, choice.warnings) == (tmp_path / "a", ())
        assert choice.because == "a test names it"

    def test_defaults_that_are_unfit_are_passed_over_with_one_warning(self, tmp_path):
        (tmp_path / "a").write_text("")
        (tmp_path / "b").symlink_to("none")
        choice = self.choose(None, tmp_path / "a", tmp_path / "b", tmp_path / "c")
        assert isinstance(choice, Chosen)
        assert choice.directory == tmp_path / "c"
        (warning,) = choice.warnings
        assert str(tmp_path / "a") in warning
        assert str(tmp_path / "b") in warning

    def test_without_a_fit_default_memory_is_used_with_one_warning(self, tmp_path):
        text = mounts((str(tmp_path), "tmpfs"))
        choice = self.choose(None, tmp_path / "a", tmp_path / "b", mountinfo_text=text)
        assert isinstance(choice, MemoryOnly)
        (warning,) = choice.warnings
        assert warning.isprintable()
        assert "memory only" in warning


def test_a_volume_is_measured_where_nothing_is_yet(tmp_path):
    volume = measure(tmp_path / "a" / "b")
    assert 0 < volume.free_bytes <= volume.total_bytes


def test_a_socket_is_no_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("a")
        assert isinstance(judge(tmp_path / "a"), Unfit)
