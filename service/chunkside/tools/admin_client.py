"""Talks to the admin port of a running sidecar, by TCP or a Unix socket."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from chunkside.core.printable import printable
from chunkside.settings.addresses import ANY_ADDRESS, ListenAddress, TcpAddress, UnixAddress
from chunkside.tools.errors import ToolFailed
from chunkside.tools.targets import RouteNames

# /verify waits for the origin, as long as `upstream_deadline` may be and more.
_TIMEOUT_SECONDS: Final = 120.0
_MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024

Field = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    cache_status: str
    body: bytes


class NotAnswered(ToolFailed):
    """No sidecar is there, or none that can be reached."""


class AdminClient:
    """One connection for each question. `where` is how the port is named to people, `port` which of
    the two it is: a metadata document is asked of the data port in the same way.
    """

    def __init__(self, address: ListenAddress, port: Literal["admin", "data"] = "admin") -> None:
        self._address = address
        self._port = port
        self.where = address.url if isinstance(address, TcpAddress) else str(address)

    def ask(
        self,
        method: str,
        target: str,
        fields: Iterable[Field] = (),
        content: bytes | None = None,
    ) -> Answer:
        """Whatever is answered. `target` goes as it is. Raises NotAnswered, ToolFailed."""
        connection = self._connection()
        try:
            connection.putrequest(method, target, skip_accept_encoding=True)
            for name, value in fields:
                connection.putheader(name, value)
            if content is not None:
                connection.putheader("Content-Type", "application/json")
                connection.putheader("Content-Length", str(len(content)))
            connection.endheaders(content)
            response = connection.getresponse()
            body = response.read(_MAX_ANSWER_BYTES)
            return Answer(response.status, response.getheader("Cache-Status") or "", body)
        except TimeoutError as error:
            raise NotAnswered(f"{self.where} does not answer: its sidecar may hang") from error
        except OSError as error:
            raise NotAnswered(self._nobody(error)) from error
        except (http.client.HTTPException, ValueError) as error:
            raise ToolFailed(f"what answers at {self.where} is no sidecar: {error}") from error
        finally:
            connection.close()

    def text(self, target: str, fields: Iterable[Field] = ()) -> str:
        """A page of words that a terminal may be given. Raises ToolFailed with what the sidecar
        says is wrong.
        """
        body = self._usable(self.ask("GET", target, fields)).body
        return "\n".join(map(printable, body.decode(errors="backslashreplace").split("\n")))

    def members(
        self,
        target: str,
        fields: Iterable[Field] = (),
        *,
        sent: dict[str, object] | None = None,
    ) -> dict[str, object]:
        """A JSON object; a POST of `sent` where that is given. Raises ToolFailed."""
        if sent is None:
            answer = self.ask("GET", target, fields)
        else:
            answer = self.ask("POST", target, fields, json.dumps(sent).encode())
        try:
            document = json.loads(self._usable(answer).body)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise ToolFailed(f"what answers at {self.where} is no admin port of Chunkside")
        return document

    def routes(self) -> list[RouteNames]:
        routes = self.members("/info").get("routes")
        told = routes if isinstance(routes, list) else []
        return [RouteNames(str(each["prefix"]), str(each["upstream"])) for each in told]

    def _connection(self) -> http.client.HTTPConnection:
        match self._address:
            case TcpAddress(host, port):
                near = "localhost" if host in ANY_ADDRESS else host
                return http.client.HTTPConnection(near, port, timeout=_TIMEOUT_SECONDS)
            case UnixAddress(path):
                return _UnixConnection(path)

    def _usable(self, answer: Answer) -> Answer:
        if "chunkside" in answer.cache_status:
            raise ToolFailed(
                f"{self.where} is the data port of a sidecar: name its admin port with --admin"
            )
        if answer.status == 200:
            return answer
        try:
            problem = json.loads(answer.body)
            detail = str(problem["detail"])
        except (ValueError, KeyError, TypeError):
            detail = f"what answers at {self.where} is no admin port of Chunkside"
            raise ToolFailed(f"{detail} ({answer.status})") from None
        raise ToolFailed(detail)

    def _nobody(self, error: OSError) -> str:
        reason = error.strerror or str(error)
        return (
            f"no sidecar answers at {self.where} ({reason}): start one with `chunkside serve "
            f"--upstream URL`, or name its {self._port} port with --{self._port} URL"
        )


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_TIMEOUT_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
