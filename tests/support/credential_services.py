"""What gives credentials away on loopback, in the place of a container's agent, of an instance's
metadata service and of single sign-on: keys as a test has them, for as long as it says, and when.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from chunkside.upstream.aws import Keys
from tests.support.deadline import DEADLINE_SECONDS

_HOUR = timedelta(hours=1)
_ROLE = "/latest/meta-data/iam/security-credentials/"
_START = "https://example.awsapps.com/start"


@dataclass
class Services:
    """`give`: the keys, and when they expire. While `is_open` isn't set nobody is answered.
    `asked`: paths, as they came.
    """

    url: str
    give: Callable[[], tuple[Keys, datetime]]
    is_open: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)

    @property
    def of_a_container(self) -> dict[str, str]:
        return {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{self.url}/container"}

    @property
    def of_an_instance(self) -> dict[str, str]:
        """As patient as the service is slow."""
        return {
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{self.url}/",
            "AWS_METADATA_SERVICE_TIMEOUT": "30",
        }

    def of_single_sign_on(self, home: Path) -> dict[str, str]:
        """Of a user who has signed on, in a home of their own."""
        (home / ".aws/sso/cache").mkdir(parents=True)
        (home / ".aws/config").write_text(
            "[default]\nsso_account_id = 1\nsso_role_name = reader\nsso_region = us-east-1\n"
            f"sso_start_url = {_START}\n"
        )
        until = (datetime.now(UTC) + _HOUR).strftime("%Y-%m-%dT%H:%M:%SZ")
        token = {"startUrl": _START, "region": "us-east-1", "accessToken": "t", "expiresAt": until}
        name = hashlib.sha1(_START.encode()).hexdigest()
        (home / f".aws/sso/cache/{name}.json").write_text(json.dumps(token))
        return {
            "HOME": str(home),
            "AWS_ENDPOINT_URL_SSO": self.url,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def answer(self, path: str) -> object:
        """What is said to a request; a text as it is."""
        if path == "/latest/api/token":
            return "token"
        if path == _ROLE:
            return "reader"
        keys, ends = self.give()
        if path.startswith("/federation/credentials"):
            told = {
                "accessKeyId": keys.access_key,
                "secretAccessKey": keys.secret_key,
                "sessionToken": keys.token or "",
                "expiration": int(ends.timestamp() * 1000),
            }
            return {"roleCredentials": told}
        return {
            "Code": "Success",
            "AccessKeyId": keys.access_key,
            "SecretAccessKey": keys.secret_key,
            "Token": keys.token or "",
            "Expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }


@contextmanager
def credential_services(keys: Keys) -> Iterator[Services]:
    """Open, and these keys are good for an hour."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    services = Services(url, lambda: (keys, datetime.now(UTC) + _HOUR))
    services.is_open.set()
    server.services = services  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield services
    finally:
        services.is_open.set()
        server.shutdown()
        server.server_close()
        thread.join(DEADLINE_SECONDS)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        services: Services = self.server.services  # type: ignore[attr-defined]
        services.asked.append(urlsplit(self.path).path)
        services.is_open.wait()
        told = services.answer(self.path)
        body = (told if isinstance(told, str) else json.dumps(told)).encode()
        try:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            # Whoever asked has gone meanwhile.
            self.close_connection = True

    do_PUT = do_GET  # noqa: N815 - as the class has it

    def log_message(self, *_: object) -> None:
        """Nothing is told."""
