"""A real Chromium, and a server for the page that it opens."""

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from mimetypes import guess_type
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.plugins.requirements import BROWSERS, SEARCH_PATH
from tests.support.deadline import wait_event

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    # Readers that draw want WebGL, and no machine need have a card.
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--window-size=800,800",
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
    """A page at an origin of its own, whose script posts what it found to /report.

    It serves what is beneath `files` as /files/, and `imports` names modules by what they are
    imported as.
    """

    def __init__(
        self, files: Path | None = None, imports: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.script = ""
        self.found: dict[str, Any] = {}
        self._is_reported = threading.Event()
        self._files = files
        self._import_map = json.dumps({"imports": dict(imports)})
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                kind, body = page._answer(self.path)
                self.send_response(404 if body is None else 200)
                body = body or b""
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                body = self.rfile.read(length)
                # A reader's own page may post what it likes to a server that it takes for its own.
                is_report = self.path == "/report"
                self.send_response(204 if is_report else 404)
                self.end_headers()
                if is_report:
                    page.found = json.loads(body)
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

    def _answer(self, path: str) -> tuple[str, bytes | None]:
        """The media type and the body of what the page itself consists of."""
        if self._files is None or not path.startswith("/files/"):
            imports = f'<script type="importmap">{self._import_map}</script>'
            script = f"<script>{self.script}</script>"
            return "text/html", f"<!doctype html><title>x</title>{imports}{script}".encode()
        file = self._files / unquote(urlsplit(path).path.removeprefix("/files/"))
        kind = "text/javascript" if file.suffix in {".js", ".mjs"} else guess_type(file.name)[0]
        return kind or "application/octet-stream", file.read_bytes() if file.is_file() else None

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


def chromium_version() -> str:
    """Its four numbers."""
    command = [program(), "--version"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"\d+(?:\.\d+)+", shown)
    assert found is not None, shown
    return found[0]


def program() -> str:
    return next(filter(None, (shutil.which(name, path=SEARCH_PATH) for name in BROWSERS)))


@contextmanager
def _chromium(home: Path, url: str) -> Iterator[None]:
    process = subprocess.Popen(
        [program(), *_FLAGS, f"--user-data-dir={home / 'profile'}", url],
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
