"""The servers of the benchmark: an origin, Chunkside, and nginx as a cache; each on loopback."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tests.support.deadline import wait_for

SIZES = {"4k": 4 << 10, "64k": 64 << 10, "1m": 1 << 20, "16m": 16 << 20}
SPARSE_KEYS = 10_000
"""Of these one in ten is there, of 4 KiB."""
_TICKS = os.sysconf("SC_CLK_TCK")

NGINX = """
worker_processes 1;
daemon off;
pid {home}/{name}.pid;
error_log {home}/{name}.log;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush off;
    open_file_cache max=10000 inactive=1h;
    keepalive_timeout 65;
    keepalive_requests 100000000;
    {extra}
    server {{
        listen 127.0.0.1:{port} backlog=2048;
        {server}
    }}
}}
"""


@dataclass(frozen=True)
class Server:
    name: str
    url: str
    pid: int

    def cpu_seconds(self) -> float:
        """User and system time of the process and its children so far."""
        return sum(_cpu_seconds(pid) for pid in (self.pid, *_children(self.pid)))


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in text.split()]


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _start_nginx(
    home: Path, name: str, running: ExitStack, core: int | str, *, extra: str, server: str
) -> Server:
    port = _free_port()
    config = home / f"{name}.conf"
    config.write_text(
        NGINX.format(home=home, name=name, port=port, extra=extra, server=server), encoding="utf-8"
    )
    process = subprocess.Popen(["taskset", "-c", str(core), "nginx", "-c", str(config)])
    running.callback(_end, process)
    wait_for(lambda: _answers(port), f"{name} listens")
    return Server(name, f"http://127.0.0.1:{port}", process.pid)


def start_origin(home: Path, running: ExitStack) -> str:
    files = home / "files"
    files.mkdir(mode=0o755)
    for name, size in SIZES.items():
        (files / name).write_bytes(os.urandom(size))
    sparse = files / "sparse/c"
    sparse.mkdir(parents=True, mode=0o755)
    (files / "sparse").chmod(0o755)
    for number in range(0, SPARSE_KEYS, 10):
        (sparse / str(number)).write_bytes(os.urandom(4 << 10))
    # Beneath /new/SIZE/ there is whatever one asks for.
    server = f"""
        root {files};
        default_type application/octet-stream;
        rewrite ^/new/([^/]+)/ /$1 last;
    """
    return _start_nginx(home, "origin", running, 1, extra="", server=server).url


def start_nginx_cache(home: Path, origin: str, running: ExitStack, core: int | str) -> Server:
    extra = f"proxy_cache_path {home}/nginx-cache keys_zone=k:16m max_size=1g inactive=1h;"
    server = f"""
        location / {{
            proxy_pass {origin};
            proxy_cache k;
            proxy_cache_valid 200 404 1h;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }}"""
    return _start_nginx(home, "nginx", running, core, extra=extra, server=server)


def start_chunkside(home: Path, origin: str, running: ExitStack, core: int | str) -> Server:
    process = subprocess.Popen(
        ["taskset", "-c", str(core), sys.executable, "-m", "chunkside", "serve",
         "--upstream", origin, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
         "--cache-dir", str(home / "chunkside"), "--min-free", "0",
         "--ttl", "1h", "--negative-ttl", "1h"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    running.callback(_end, process)
    assert process.stdout is not None
    found = re.match(r"data port: (http://\S+)/", process.stdout.readline())
    assert found is not None
    return Server("chunkside", found[1], process.pid)


VCL = """
vcl 4.1;
backend origin {{ .host = "127.0.0.1"; .port = "{port}"; }}
sub vcl_backend_response {{ set beresp.ttl = 1h; set beresp.grace = 0s; }}
"""


def start_varnish(home: Path, origin: str, running: ExitStack, core: int | str) -> Server:
    """In memory, which is where it is quickest."""
    port, place = _free_port(), home / "varnish"
    place.mkdir(mode=0o755)
    program = home / "origin.vcl"
    program.write_text(VCL.format(port=origin.rpartition(":")[2]), encoding="utf-8")
    process = subprocess.Popen(
        ["taskset", "-c", str(core), "varnishd", "-F", "-n", str(place), "-f", str(program),
         "-a", f"127.0.0.1:{port}", "-s", "malloc,1g", "-t", "3600",
         "-p", "thread_pools=1", "-p", "thread_pool_min=50"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    running.callback(_end, process)
    wait_for(lambda: _answers(port), "Varnish listens")
    return Server("varnish", f"http://127.0.0.1:{port}", process.pid)


def start_floor(running: ExitStack, core: int | str) -> Server:
    port = _free_port()
    process = subprocess.Popen(
        ["taskset", "-c", str(core), sys.executable, "-m", "tests.bench.floor", str(port)]
    )
    running.callback(_end, process)
    wait_for(lambda: _answers(port), "the floor listens")
    return Server("floor", f"http://127.0.0.1:{port}", process.pid)


def versions() -> str:
    """Of all that took part."""
    told = [f"Python {platform.python_version()}", f"Chunkside {version('chunkside')}"]
    for command in (["nginx", "-v"], ["varnishd", "-V"], ["wrk", "-v"]):
        if shutil.which(command[0]):
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            said = re.search(r"(?:nginx/|varnish-|wrk (?:debian/)?)[\d.]+", ran.stderr + ran.stdout)
            told.append(said[0] if said else command[0])
    return ", ".join(told)


def _end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(30)
