"""What stands around a Google store: who gives out tokens, and a private bucket that wants one.

`Tokens` answers as Google's token endpoint (RFC 6749, RFC 7523), its exchange of other clouds'
tokens (RFC 8693) and the metadata service of its machines do. `PrivateStore` stands before an
emulator that lets everybody in, and says what Google documents of its own store: XML codes
(`NoSuchKey`, `NoSuchBucket`, `AccessDenied` to nobody, `AuthenticationRequired` to a token that is
worth nothing, `UserProjectMissing`), "No such object" from its JSON interface, and `Cache-Control`
of what is private.
"""

import json
import re
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Self
from urllib.parse import unquote

from tests.support.http_client import exchange

ACCOUNT = "reader@project.iam.gserviceaccount.com"
PROJECT = "payer-project"
_METADATA = "/computeMetadata/v1/"


class _Server:
    """Ended on exit, with what is under way."""

    handler: ClassVar[type["_Handler"]]

    def __init__(self) -> None:
        server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler)
        server.daemon_threads = True
        server.owner = self  # type: ignore[attr-defined]
        self.authority = f"127.0.0.1:{server.server_port}"
        self.url = f"http://{self.authority}"
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        raise NotImplementedError

    # As the library looks for them.
    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = lambda self: self.answer()  # noqa: N815
    # The head and the body in one packet.
    wbufsize = -1

    @property
    def owner(self) -> Any:
        return self.server.owner  # type: ignore[attr-defined]

    def log_message(self, *_told: Any) -> None:
        pass

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def say(self, status: int, body: bytes, fields: Iterable[tuple[str, str]] = ()) -> None:
        self.send_response_only(status)
        for name, value in (*fields, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        with suppress(OSError):
            self.wfile.flush()


class _TokenHandler(_Handler):
    def answer(self) -> None:
        tokens: Tokens = self.owner
        if self.command == "POST":
            self.exchange(tokens, self.body().decode())
            return
        fields = [("Metadata-Flavor", "Google"), ("Content-Type", "application/json")]
        path = self.path.partition("?")[0]
        if path == "/":
            self.say(200, b"", fields)
        elif path == f"{_METADATA}project/project-id":
            self.say(200, PROJECT.encode(), [fields[0], ("Content-Type", "text/plain")])
        elif path == f"{_METADATA}instance/service-accounts/default/":
            self.say(200, json.dumps({"email": ACCOUNT, "scopes": []}).encode(), fields)
        elif path.endswith("/token"):
            self.say(200, json.dumps(tokens.give(self.path)).encode(), fields)
        else:
            self.say(404, b"", fields)

    def exchange(self, tokens: "Tokens", asked: str) -> None:
        if tokens.refuses:
            said = {"error": "invalid_grant", "error_description": f"what came was {asked}"}
            self.say(400, json.dumps(said).encode(), [("Content-Type", "application/json")])
            return
        self.say(200, json.dumps(tokens.give(asked)).encode())


class Tokens(_Server):
    """`lifetime`: seconds; `delay`: those that each answer takes. `asked`: what it was asked for,
    `given`: what it gave, both in turn.
    """

    handler = _TokenHandler

    def __init__(self, lifetime: int = 3600) -> None:
        super().__init__()
        self.lifetime = lifetime
        self.delay = 0.0
        self.refuses = False
        self.asked: list[str] = []
        self.given: list[str] = []
        self._ends: dict[str, float] = {}

    def give(self, asked: str) -> dict[str, object]:
        self.asked.append(unquote(asked))
        threading.Event().wait(self.delay)
        token = f"ya29.s3cr3t-{len(self.given)}"
        self.given.append(token)
        self._ends[token] = time.monotonic() + self.lifetime
        return {
            "access_token": token,
            "expires_in": self.lifetime,
            "token_type": "Bearer",
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
        }

    def is_good(self, token: str) -> bool:
        return time.monotonic() < self._ends.get(token, 0.0)

    def revoke(self) -> None:
        """All that were given are worth nothing any more."""
        self._ends.clear()


class _StoreHandler(_Handler):
    def answer(self) -> None:
        store: PrivateStore = self.owner
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        store.heard.append((self.command, self.path, dict(self.headers.items())))
        content = self.body()
        if not token:
            self.refuse(403, "AccessDenied", "Anonymous caller does not have storage.objects.get")
        elif not store.tokens.is_good(token):
            self.refuse(401, "AuthenticationRequired", "Authentication required.")
        elif store.payer is not None and self.headers.get("x-goog-user-project") != store.payer:
            self.refuse(400, "UserProjectMissing", "Bucket is a requester pays bucket")
        else:
            self.pass_on(store, content)

    def pass_on(self, store: "PrivateStore", content: bytes) -> None:
        left_out = {"authorization", "host", "content-length", "connection"}
        headers = [each for each in self.headers.items() if each[0].lower() not in left_out]
        answer = exchange(store.behind, self.path, self.command, headers, content or None)
        if answer.status == 404:
            self.miss(store)
            return
        fields = [each for each in answer.head.headers if each[0].lower() != "content-length"]
        if answer.status in (200, 206):
            fields.append(("Cache-Control", "private, max-age=0"))
        if self.command == "HEAD":
            fields.append(("Content-Length", answer.value("Content-Length") or "0"))
            self.send_response_only(answer.status)
            for name, value in fields:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.flush()
            return
        self.say(answer.status, answer.body, fields)

    def miss(self, store: "PrivateStore") -> None:
        path = self.path.partition("?")[0]
        by_json = re.match(r"(?:/download)?/storage/v1/b/([^/]+)(?:/o/(.+))?", path)
        bucket = by_json[1] if by_json else path.split("/")[1]
        has_bucket = exchange(store.behind, f"/storage/v1/b/{bucket}").status == 200
        if by_json is None:
            code = "NoSuchKey" if has_bucket else "NoSuchBucket"
            self.refuse(404, code, "It does not exist.")
            return
        said = "The specified bucket does not exist."
        if has_bucket:
            said = f"No such object: {bucket}/{unquote(by_json[2] or '')}"
        error = {"error": {"code": 404, "message": said, "errors": [{"reason": "notFound"}]}}
        is_content = "alt=media" in self.path
        self.say(404, said.encode() if is_content else json.dumps(error).encode())

    def refuse(self, status: int, code: str, message: str) -> None:
        said = (
            f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
        )
        stamp = [("Content-Type", "application/xml"), ("Cache-Control", "private, max-age=0")]
        self.say(status, said.encode(), stamp)


class PrivateStore(_Server):
    """Before the emulator at `behind`, for whoever has a token. `payer`: the project that requests
    must name, if one must pay. `heard`: method, target and fields of all requests.
    """

    handler = _StoreHandler

    def __init__(self, behind: str, tokens: Tokens) -> None:
        super().__init__()
        self.behind = behind
        self.tokens = tokens
        self.payer: str | None = None
        self.heard: list[tuple[str, str, dict[str, str]]] = []
