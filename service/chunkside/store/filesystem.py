"""Where the cache may live: what kind of file system a path is on, and whose the directory is.

Knows nothing of settings or of what is stored. Judging leaves nothing behind on the disk.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

Kind = Literal["local", "overlay", "memory", "network"]

OWNERSHIP_FILE: Final = ".chunkside"
OWNERSHIP_TEXT: Final = b"chunkside cache v1\n"
PROBE_PREFIX: Final = ".chunkside-probe-"
"""What the write test of another process may show for a moment."""

ROOT_UID: Final = 0
MEMORY_TYPES: Final = frozenset({"tmpfs", "ramfs", "devtmpfs"})
NETWORK_TYPES: Final = frozenset(
    """
    nfs nfs3 nfs4 cifs smb smbfs smb2 smb3 9p virtiofs ncp ncpfs
    ceph lustre gpfs beegfs glusterfs ocfs2 gfs gfs2 afs openafs coda davfs
    wekafs panfs orangefs pvfs2 juicefs quobyte moosefs
    vboxsf vmhgfs prl_fs fakeowner
    fuse.sshfs fuse.s3fs fuse.rclone fuse.gcsfuse fuse.blobfuse fuse.blobfuse2 fuse.cephfs
    fuse.ceph-fuse fuse.ceph fuse.glusterfs fuse.beegfs fuse.davfs fuse.curlftpfs fuse.smbnetfs
    fuse.juicefs fuse.mount-s3 fuse.mountpoint-s3 fuse.goofys fuse.geesefs fuse.alluxio-fuse
    fuse.alluxio fuse.s3fs-fuse fuse.jfs fuse.cunofs fuse.tigrisfs fuse.azure-storage-fuse
    fuse.ossfs fuse.cosfs fuse.obsfs fuse.s3ql fuse.s3backer fuse.seaweedfs fuse.weed fuse.moosefs
    fuse.mfs fuse.quobyte fuse.objectivefs fuse.hdfs fuse.fuse_dfs fuse.vmhgfs-fuse fuse.grpcfuse
    """.split()  # noqa: SIM905 - one line each would bury the rest of the file
)
"""Only what is known to leave the machine; a FUSE that is not listed counts as local."""

UNKNOWN_TYPE: Final = "unknown"
"""Of a path that no mount is known of: macOS tells none."""

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Filesystem:
    kind: Kind
    fstype: str
    mount_point: str


@dataclass(frozen=True, slots=True)
class Volume:
    total_bytes: int
    free_bytes: int
    """What an unprivileged process may still use."""


@dataclass(frozen=True, slots=True)
class Fit:
    """`directory` is the one to use: `path` itself, or its private child."""

    path: Path
    directory: Path
    filesystem: Filesystem
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unfit:
    """`reason` follows the path in a sentence; `remedy` is a clause of its own."""

    path: Path
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A default place, and why it is one."""

    path: Path
    because: str


@dataclass(frozen=True, slots=True)
class Chosen:
    directory: Path
    filesystem: Filesystem
    because: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryOnly:
    """No directory is used."""

    because: str
    warnings: tuple[str, ...] = ()


class UnfitCacheDirectoryError(Exception):
    """Preparing a directory failed that was fit when it was judged."""

    def __init__(self, unfit: Unfit) -> None:
        super().__init__(f"{unfit.path} {unfit.reason}; {unfit.remedy}")
        self.unfit = unfit


def read_mountinfo() -> str:
    """The mounts this process sees; "" where the system doesn't tell."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def classify(path: Path, mountinfo_text: str) -> Filesystem:
    """The file system that `path` is, or would be, on; `local` unless the mounts say otherwise."""
    target = os.path.realpath(path)
    found = Filesystem("local", UNKNOWN_TYPE, "/")
    longest = -1
    for line in mountinfo_text.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 6:
            continue
        mount_point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
        # The last of several mounts on one point hides the others (NFS over autofs).
        if len(mount_point) >= longest and _is_beneath(target, mount_point):
            longest = len(mount_point)
            fstype = _full_type(*after.split(" ")[:2])
            found = Filesystem(_kind_of(fstype), fstype, mount_point)
    return found


def measure(path: Path) -> Volume:
    """Size and free space of the volume that `path` is, or would be, on."""
    figures = os.statvfs(_nearest_existing(path))
    return Volume(figures.f_blocks * figures.f_frsize, figures.f_bavail * figures.f_frsize)


def judge_cache_directory(
    path: Path, *, uid: int, allow_memory: bool, mountinfo_text: str | None = None
) -> Fit | Unfit:
    """Whether `path` may be the cache directory, and which directory that then means."""
    mounts = read_mountinfo() if mountinfo_text is None else mountinfo_text
    filesystem = classify(path, mounts)
    if filesystem.kind == "network":
        return Unfit(
            path,
            f"is on a network file system ({filesystem.fstype} at {filesystem.mount_point})",
            "choose a directory on a local disk",
        )
    if filesystem.kind == "memory" and not allow_memory:
        return Unfit(
            path,
            f"is in memory ({filesystem.fstype} at {filesystem.mount_point})",
            "choose a directory on a disk, or set allow_memory_filesystem",
        )
    fit = Fit(path, path, filesystem)
    if filesystem.kind == "overlay":
        warning = (
            f"{path} is on a container's own layer (overlay): it is gone with the container, and "
            "counts as its node's ephemeral storage; mount a volume there"
        )
        fit = replace(fit, warnings=(warning,))
    try:
        verdict = _judge_standing(fit, uid)
        return verdict if isinstance(verdict, Unfit) else _judge_writing(verdict, uid)
    except OSError as error:
        return _unreachable(path, error, uid)


def choose_cache_directory(
    setting: Path | None,
    candidates: Sequence[Candidate],
    *,
    uid: int,
    allow_memory: bool,
    mountinfo_text: str | None = None,
) -> Chosen | MemoryOnly | Unfit:
    """`setting` if it is fit, else why it is not; without one the first candidate that is fit."""
    mounts = read_mountinfo() if mountinfo_text is None else mountinfo_text
    passed_over: list[str] = []
    places = candidates if setting is None else (Candidate(setting, "cache_dir names it"),)
    for place in places:
        verdict = judge_cache_directory(
            place.path, uid=uid, allow_memory=allow_memory, mountinfo_text=mounts
        )
        match verdict:
            case Fit():
                warnings = _one_warning(passed_over) + verdict.warnings
                return Chosen(verdict.directory, verdict.filesystem, place.because, warnings)
            case Unfit() if setting is not None:
                return verdict
            case Unfit():
                passed_over.append(f"{verdict.path} {verdict.reason}")
    passed_over.append("bodies are kept in memory only, set cache_dir to keep them on disk")
    return MemoryOnly("no default place is fit", _one_warning(passed_over))


def prepare_cache_directory(directory: Path, *, uid: int) -> None:
    """Make the chosen directory, owner-only and marked; raises `UnfitCacheDirectoryError`."""
    try:
        for missing in _missing(directory):
            _make_private(missing)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _take_possession(directory, descriptor, uid)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UnfitCacheDirectoryError(_unreachable(directory, error, uid)) from error


def _full_type(fstype: str, source: str = "") -> str:
    """With the program behind a bare `fuse`, where the mount's source names it: mountpoint-s3."""
    named = f"fuse.{re.split('[:#]', source.lower(), maxsplit=1)[0]}"
    return named if fstype == "fuse" and named in NETWORK_TYPES else fstype


def _kind_of(fstype: str) -> Kind:
    if fstype in NETWORK_TYPES:
        return "network"
    if fstype in MEMORY_TYPES:
        return "memory"
    return "overlay" if fstype in ("overlay", "fuse.fuse-overlayfs", "aufs") else "local"


def _is_beneath(target: str, mount_point: str) -> bool:
    return target == mount_point or target.startswith(mount_point.rstrip("/") + "/")


def _judge_standing(fit: Fit, uid: int) -> Fit | Unfit:
    """By what stands there now: nothing, a directory of ours, a wide one, something else."""
    directory = fit.directory
    try:
        found = os.lstat(directory)
    except FileNotFoundError:
        return fit
    if stat.S_ISLNK(found.st_mode):
        return Unfit(directory, "is a symbolic link", f"name {os.path.realpath(directory)} itself")
    if not stat.S_ISDIR(found.st_mode):
        return Unfit(directory, "is not a directory", "choose a directory")
    is_wide = bool(stat.S_IMODE(found.st_mode) & 0o077)
    is_private_child = directory != fit.path
    if found.st_uid == uid and is_marked(directory, uid):
        return fit
    if is_wide and found.st_uid in (uid, ROOT_UID) and not is_private_child:
        child = directory / f"chunkside-{uid}"
        warning = (
            f"others may enter {directory}: using {child} in it; make it 0700 to use it itself"
        )
        return _judge_standing(
            replace(fit, directory=child, warnings=(*fit.warnings, warning)), uid
        )
    if found.st_uid != uid:
        return Unfit(
            directory,
            f"belongs to another user (uid {found.st_uid}, this process is uid {uid})",
            "choose a directory of your own, or change its owner",
        )
    # In this order: the mark comes first in a new cache, so names without one, then one, are the
    # work of a process that starts on the same directory just now.
    if _holds_anything(directory) and not is_marked(directory, uid):
        return Unfit(
            directory,
            "holds files that are not those of a cache of this version",
            "choose a new or an empty directory",
        )
    return fit


def _judge_writing(fit: Fit, uid: int) -> Fit | Unfit:
    """By making a directory and removing it: permission bits don't tell for root or /proc."""
    probe = _nearest_existing(fit.directory) / f"{PROBE_PREFIX}{secrets.token_hex(8)}"
    try:
        os.mkdir(probe, 0o700)
        os.rmdir(probe)
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        if is_full and is_marked(fit.directory, uid):
            return replace(fit, warnings=(*fit.warnings, f"{fit.directory} has no room left"))
        return _unreachable(fit.directory, error, uid)
    return fit


def _unreachable(path: Path, error: OSError, uid: int) -> Unfit:
    match error.errno:
        case errno.EROFS:
            return Unfit(path, "is on a read-only file system", "choose one that can be written")
        case errno.EACCES | errno.EPERM:
            return Unfit(
                path,
                f"can't be written by uid {uid}",
                "choose a directory of your own, or change its owner",
            )
        case errno.ENOSPC | errno.EDQUOT:
            return Unfit(path, "has no room left", "make room, or choose another disk")
        case errno.ENOTDIR | errno.EEXIST | errno.ELOOP:
            return Unfit(
                path, "has a file or a link where a directory is needed", "choose a directory"
            )
        case _:
            reason = os.strerror(error.errno) if error.errno else "unknown fault"
            return Unfit(path, f"can't be used ({reason})", "choose another directory")


def is_marked(directory: Path, uid: int) -> bool:
    """Whether our ownership file is there, written by this user."""
    try:
        # O_NONBLOCK: a planted FIFO would hold the start.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(directory / OWNERSHIP_FILE, flags)
    except OSError:
        return False
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != uid:
            return False
        # Empty where its writer died, or has only just begun.
        return os.read(descriptor, 64) in (OWNERSHIP_TEXT, b"")
    finally:
        os.close(descriptor)


def _holds_anything(directory: Path) -> bool:
    return any(not name.startswith(PROBE_PREFIX) for name in os.listdir(directory))


def _nearest_existing(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if os.path.lexists(place))


def _missing(directory: Path) -> list[Path]:
    """The directories to make, outermost first."""
    missing = [place for place in (directory, *directory.parents) if not os.path.lexists(place)]
    return missing[::-1]


def _make_private(directory: Path) -> None:
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        return
    # The umask may have taken bits away, a setgid parent added one.
    os.chmod(directory, 0o700)


def _take_possession(directory: Path, descriptor: int, uid: int) -> None:
    found = os.fstat(descriptor)
    if found.st_uid != uid:
        raise PermissionError(errno.EPERM, "not the owner")
    if stat.S_IMODE(found.st_mode) != 0o700:
        # Kubernetes widens all of a volume when it applies a pod's fsGroup.
        os.fchmod(descriptor, 0o700)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        mark = os.open(OWNERSHIP_FILE, flags, 0o600, dir_fd=descriptor)
    except FileExistsError:
        if is_marked(directory, uid):
            return
        raise
    try:
        os.fchmod(mark, 0o600)
        os.write(mark, OWNERSHIP_TEXT)
    finally:
        os.close(mark)


def _one_warning(clauses: list[str]) -> tuple[str, ...]:
    return ("; ".join(clauses),) if clauses else ()
