"""What a pod is like: any uid, a volume of a group, no home, no DNS yet, IPv6 alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import ANY_DISK
from tests.support.deadline import DEADLINE_SECONDS
from tests.support.http_client import exchange
from tests.support.origin import Origin
from tests.support.sidecar import Sidecar, clean_environment

UID, GROUP = 1_234_567, 2_345_678


# It may read whatever root may, since Python itself may lie where nobody else can look.
AS_ANYBODY = (
    *("setpriv", f"--reuid={UID}", "--regid=0", f"--groups={GROUP}"),
    *("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"),
    *("--bounding-set=-all,+dac_read_search", "--no-new-privs"),
    *(sys.executable, "-m", "chunkside"),
)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """What fsGroup makes of an emptyDir: root's, of the pod's group, writable by that group."""
    volume = tmp_path / "volume"
    volume.mkdir()
    os.chown(volume, 0, GROUP)
    volume.chmod(0o2777)
    # Whoever comes has to be able to come here.
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == os.geteuid() and above.stat().st_mode & 0o777 == 0o700:
            above.chmod(0o711)
    return volume


@pytest.mark.root
@pytest.mark.server("setpriv")
@pytest.mark.parametrize("mode", [0o2777, 0o2770], ids=["emptyDir", "of a group alone"])
def test_any_user_without_a_name_or_a_home_keeps_a_cache_in_a_volume_of_its_group(
    own_origin: Origin, volume: Path, mode: int
) -> None:
    volume.chmod(mode)
    own_origin.put("/a/c/0", b"body")
    for _ in range(2):
        with Sidecar(own_origin.url, volume, ANY_DISK, command=AS_ANYBODY) as sidecar:
            assert exchange(sidecar.url, "/a/c/0").body == b"body"
            sidecar.wait_idle()
            assert sidecar.stop() == 0
        # What the kubelet does to such a volume each time it is mounted.
        for path in (volume, *volume.rglob("*")):
            os.chown(path, -1, GROUP)
            path.chmod(path.stat().st_mode | (0o2770 if path.is_dir() else 0o660))
    assert own_origin.count("GET", "/a/c/0") == 1


def test_it_is_ready_before_any_name_can_be_looked_up(cache_dir: Path) -> None:
    with Sidecar("http://chunkside-origin.invalid", cache_dir, ANY_DISK) as sidecar:
        assert exchange(sidecar.admin_url, "/readyz").status == 200
        assert exchange(sidecar.url, "/a/c/0").status == 503
        assert sidecar.stop() == 0


# Takes the only address of the other family away: SIOCSIFFLAGS (up), SIOCSIFADDR (to none).
ONLY_IPV6 = """
import fcntl, os, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
    fcntl.ioctl(control, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x40))
    fcntl.ioctl(control, 0x8916, struct.pack("16sHH4s8x", b"lo", socket.AF_INET, 0, bytes(4)))
os.execv(sys.executable, [sys.executable, "-m", "chunkside", *sys.argv[1:]])
"""
ASK = """
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1]).read().decode(), end="")
"""


@pytest.mark.root
@pytest.mark.server("unshare", "nsenter")
def test_it_listens_where_loopback_has_no_ipv4(tmp_path: Path, cache_dir: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "0").write_text("body")
    command = ("unshare", "--net", sys.executable, "-c", ONLY_IPV6)
    with Sidecar(
        f"file://{tree}", cache_dir, ANY_DISK, command=command, listen="localhost:0"
    ) as sidecar:
        inside = ("nsenter", f"--net=/proc/{sidecar.pid}/ns/net", sys.executable)
        port = sidecar.url.rpartition(":")[2]
        assert said(*inside, "-c", ASK, f"http://[::1]:{port}/0") == "body"
        address = sidecar.admin_url.removeprefix("http://")
        assert said(*inside, "-m", "chunkside", "health", "--admin-listen", address) == "ready\n"
        assert sidecar.stop() == 0


def said(*command: str) -> str:
    return subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(),
        timeout=DEADLINE_SECONDS,
    ).stdout
