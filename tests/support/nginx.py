"""nginx as a real origin: files beneath a folder, ranges, conditionals, listings; or before a
store, which it makes answer 403 for missing keys, as S3 does to those who may not list.
"""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.plugins.requirements import find_program
from tests.support.deadline import DEADLINE_SECONDS, wait_for

_CONFIG = """
{user}
worker_processes 1;
daemon off;
pid {home}/nginx.pid;
error_log {home}/nginx.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    default_type application/octet-stream;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    server {{
        listen 127.0.0.1:{port};
        {told}
    }}
}}
"""
_REFUSAL = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
_LISTLESS = """
        location / {{
            proxy_pass {store};
            proxy_set_header Host $http_host;
            proxy_intercept_errors on;
            error_page 404 =403 @refused;
        }}
        location @refused {{
            internal;
            default_type application/xml;
            return 403 '{refusal}';
        }}
"""


@contextmanager
def nginx(root: Path, home: Path) -> Iterator[str]:
    """Serves what is beneath `root`, and gives the URL with no slash at its end."""
    with _running(f"root {root}; autoindex on;", home) as url:
        yield url


@contextmanager
def listless(store: str, home: Path) -> Iterator[str]:
    """Before the store at a URL; gives its own, with no slash at its end."""
    with _running(_LISTLESS.format(store=store, refusal=_REFUSAL), home) as url:
        yield url


@contextmanager
def _running(told: str, home: Path) -> Iterator[str]:
    port = free_port()
    # As root, its workers would be someone else, who may not read a test's directory.
    user = "user root;" if os.geteuid() == 0 else ""
    config = home / "nginx.conf"
    config.write_text(_CONFIG.format(user=user, home=home, told=told, port=port), encoding="utf-8")
    program = find_program("nginx")
    assert program is not None
    with subprocess.Popen([program, "-c", config, "-e", home / "nginx.log"]) as process:
        try:
            wait_for(lambda: answers(port), "nginx to listen")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(DEADLINE_SECONDS)


def free_port() -> int:
    """One that was free a moment ago, for a server that can't tell which it took."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
