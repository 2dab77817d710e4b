"""`/file/…` over HTTP: what is asked, and how a file is sent."""

import asyncio
import os
from dataclasses import dataclass, field

import aiohttp
import pytest
from aiohttp.test_utils import TestClient

from chunkside.core.decision import Refuse
from chunkside.core.entry import Part
from chunkside.core.fields import Fields
from chunkside.server.admin import admin_app
from chunkside.server.stored_file import FileRequest, HeldFile, parse_file_request
from chunkside.store.directory import OpenFile
from tests.server.test_admin import FakeConsole, FakeExposition, problem_of
from tests.support.http_client import Connection

CONTENT = os.urandom(3_000_000)


@dataclass
class FilingConsole(FakeConsole):
    answer: HeldFile | Refuse = field(default_factory=lambda: Refuse(404, "not-held", "No", "None"))
    asked: list[FileRequest] = field(default_factory=list)

    async def file(self, request: FileRequest) -> HeldFile | Refuse:
        self.asked.append(request)
        return self.answer


@pytest.fixture
def console(tmp_path) -> FilingConsole:
    path = tmp_path / "a.arrow"
    path.write_bytes(CONTENT)
    file = OpenFile(os.open(path, os.O_RDONLY))
    return FilingConsole(answer=HeldFile(file, len(CONTENT), None))


@pytest.fixture
async def client(aiohttp_client, console) -> TestClient:
    return await aiohttp_client(admin_app(console, FakeExposition()))


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/file/a/c/0", b"/a/c/0"),
        ("/file/a%20b//c?x=1&y=%2F", b"/a%20b//c?x=1&y=%2F"),
        ("/file/", b"/"),
        ("/file/file/a", b"/file/a"),
        ("/file/a?", b"/a?"),
        ("http://localhost:8101/file/a", b"/a"),
        ("/file/a/../b", b"/a/../b"),
    ],
)
def test_the_target_is_all_that_follows(path, target):
    assert parse_file_request(path, []) == FileRequest(target)


@pytest.mark.parametrize("path", ["/fil%65/a", "/file", "/filea", "*"])
def test_another_spelling_is_refused(path):
    with pytest.raises(ValueError, match=r"."):
        parse_file_request(path, [])


def test_fields_ask_for_a_range_and_a_partition():
    fields = [(b"chunkside-range", b" 5-9"), (b"Chunkside-Partition", b"0123abcd")]
    asked = FileRequest(b"/a", Part(5, 9), b"0123abcd", Fields(fields))
    assert parse_file_request("/file/a", fields) == asked


@pytest.mark.parametrize(
    "line",
    [
        (b"Chunkside-Range", b"9-5"),
        (b"Chunkside-Range", b"bytes=0-9"),
        (b"Chunkside-Range", b"0-9, 20-29"),
        (b"Chunkside-Range", b"-9"),
        (b"Chunkside-Partition", b"0123"),
        (b"Chunkside-Partition", b"../../../etc"),
    ],
)
async def test_what_makes_no_sense_is_told(client, console, line):
    response = await client.get("/file/a", headers={line[0].decode(): line[1].decode()})
    assert (await problem_of(response, 400))["type"].endswith("bad-file")
    assert console.asked == []


async def test_the_whole_file_is_sent_as_arrow(client, console):
    response = await client.get("/file/x.zarr/c/0%20%22/1")
    assert response.status == 200
    assert response.content_type == "application/vnd.apache.arrow.stream"
    assert response.content_length == len(CONTENT)
    named = response.headers["Content-Disposition"]
    assert named == 'attachment; filename="x.zarr_c_0_1.arrow"'
    assert await response.read() == CONTENT
    [asked] = console.asked
    assert (asked.target, asked.part, asked.partition) == (b"/x.zarr/c/0%20%22/1", None, b"")
    assert b"user-agent" in asked.fields
    assert (await client.get("/livez")).status == 200


async def test_the_target_reaches_the_console_byte_for_byte(client, console):
    server = client.server
    target = "/file/a//b/%C3%A9/../c?q=%2f&&?"

    def ask() -> int:
        with Connection(f"http://{server.host}:{server.port}") as connection:
            connection.send("GET", target)
            return len(connection.response().body)

    assert await asyncio.to_thread(ask) == len(CONTENT)
    assert [each.target for each in console.asked] == [target.removeprefix("/file").encode()]


async def test_a_range_s_file_is_named_for_it(client, console):
    console.answer = HeldFile(console.answer.file, len(CONTENT), Part(5, 9))
    response = await client.get("/file/", headers={"Chunkside-Range": "5-9"})
    assert response.headers["Content-Disposition"].endswith('"body.r5-9.arrow"')


async def test_head_tells_the_length_alone(client):
    response = await client.head("/file/a")
    assert (response.status, response.content_length) == (200, len(CONTENT))
    assert await response.read() == b""


async def test_what_is_not_held_is_a_problem(client, console):
    console.answer = Refuse(404, "not-held", "There is no such file", "Nothing is held.")
    members = await problem_of(await client.get("/file/a"), 404)
    assert members["type"] == "urn:chunkside:problem:not-held"


async def test_a_file_that_is_too_short_never_ends_well(client, console, tmp_path):
    os.truncate(tmp_path / "a.arrow", 1_000_000)
    with pytest.raises(aiohttp.ClientPayloadError):
        await (await client.get("/file/a")).read()
    assert (await client.get("/livez")).status == 200


async def test_neighbours_are_given_no_file(client):
    response = await client.get("/file/a", headers={"Origin": "http://evil.example"})
    assert response.status == 403
