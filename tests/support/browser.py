"""A real Chromium, and a server for the page that it opens."""

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.plugins.requirements import BROWSERS, SEARCH_PATH
from tests.support.deadline import wait_event

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Nothing but this machine is ever asked for.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
)
_SECONDS = 45.0


class Page:
    """A page at an origin of its own, whose script posts what it found to /report."""

    def __init__(self) -> None:
        self.script = ""
        self.found: dict[str, Any] = {}
        self._is_reported = threading.Event()
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = f"<!doctype html><title>x</title><script>{page.script}</script>".encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                page.found = json.loads(self.rfile.read(length))
                self.send_response(204)
                self.end_headers()
                page._is_reported.set()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        # Not the host that a sidecar has: to a browser the two are different sites.
        self.origin = f"http://localhost:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def visit(self, home: Path, script: str) -> dict[str, Any]:
        """What the script found, run by a browser that keeps its files in `home`.

        `script` is the body of an async function; it fills `found`.
        """
        self.script = (
            "(async () => { const found = {};\n"
            f"{script}\n"
            "await fetch('/report', {method: 'POST', body: JSON.stringify(found)}); })();"
        )
        self._is_reported.clear()
        with _chromium(home, f"{self.origin}/"):
            wait_event(self._is_reported, "the page's report", _SECONDS)
        return self.found


@contextmanager
def _chromium(home: Path, url: str) -> Iterator[None]:
    program = next(filter(None, (shutil.which(name, path=SEARCH_PATH) for name in BROWSERS)))
    process = subprocess.Popen(
        [program, *_FLAGS, f"--user-data-dir={home / 'profile'}", url],
        env={"PATH": SEARCH_PATH, "HOME": str(home), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        # It has children; the session is theirs and its alone.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
