"""A stand-in for Azure's instance metadata service, which gives tokens on loopback."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

TENANT, READER = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
ISSUER = f"https://sts.windows.net/{TENANT}/"


def token(expires_on: float, **more: object) -> str:
    """In the form of what Entra gives, signed by nobody."""
    claims = {
        "aud": "https://storage.azure.com",
        "iss": ISSUER,
        "iat": int(time.time()) - 60,
        "nbf": int(time.time()) - 60,
        "exp": int(expires_on),
        "tid": TENANT,
        "oid": READER,
        **more,
    }
    parts = ({"typ": "JWT", "alg": "RS256"}, claims, {"made": time.monotonic_ns()})
    return ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts
    )


@dataclass
class MetadataService:
    """`lives`: seconds that its next tokens are good for. `answer`: status and body in their place.
    `gate`: is waited for before each answer.
    """

    url: str = ""
    lives: float = 86_400.0
    answer: tuple[int, bytes] | None = None
    gate: Callable[[], object] = lambda: None
    tokens: list[str] = field(default_factory=list)
    asked: list[dict[str, list[str]]] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        return {
            "AZURE_POD_IDENTITY_AUTHORITY_HOST": self.url,
            "AZURE_TOKEN_CREDENTIALS": "ManagedIdentityCredential",
            "NO_PROXY": "*",
        }

    def say(self, query: str) -> tuple[int, bytes]:
        self.asked.append(parse_qs(query))
        self.gate()
        if self.answer is not None:
            return self.answer
        expires_on = time.time() + self.lives
        self.tokens.append(token(expires_on))
        told = {
            "access_token": self.tokens[-1],
            "expires_in": str(int(self.lives)),
            "expires_on": str(int(expires_on)),
            "resource": "https://storage.azure.com",
            "token_type": "Bearer",
        }
        return 200, json.dumps(told).encode()


@contextmanager
def metadata_service() -> Iterator[MetadataService]:
    service = MetadataService()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = service.say(urlsplit(self.path).query)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        service.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield service
        finally:
            server.shutdown()
            thread.join()
