"""How soon a sidecar can be reached."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.deadline import wait_for
from tests.support.nginx import free_port


def connected(port):
    try:
        return socket.create_connection(("127.0.0.1", port))
    except ConnectionRefusedError:
        return None


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
def test_its_ports_are_open_before_slow_imports_and_who_asks_meanwhile_is_answered(tmp_path):
    port, admin_port = free_port(), free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "chunkside", "serve", "--upstream", "http://127.0.0.1:9",
         "--listen", f"127.0.0.1:{port}", "--admin-listen", f"127.0.0.1:{admin_port}",
         "--cache-dir", str(tmp_path)],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        with wait_for(lambda: connected(admin_port), "it listens") as client:
            loaded = Path(f"/proc/{process.pid}/maps").read_text()
            client.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            client.settimeout(30)
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        assert "/aiohttp/" not in loaded
        assert "/pyarrow/" not in loaded
    finally:
        process.terminate()
        assert process.wait(30) == 0
