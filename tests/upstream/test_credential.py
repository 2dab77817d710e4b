"""What secrets are read from, how they are sent, and how they are exchanged."""

import asyncio
import base64
import json
import logging
import os
import time
from pathlib import Path

import pytest

from chunkside.upstream import watched
from chunkside.upstream.credential import Credential, credential_line, token_expiry
from chunkside.upstream.watched import UnfitFile, Watched

SECRET = "s3cr3t-t0k3n"


@pytest.mark.parametrize(
    ("kind", "held", "line"),
    [
        ("bearer", b"tok\n", (b"Authorization", b"Bearer tok")),
        ("bearer", b"tok\r\n\n", (b"Authorization", b"Bearer tok")),
        ("basic", b"user:pass:word \n", (b"Authorization", b"Basic dXNlcjpwYXNzOndvcmQg")),
        ("basic", "ü:ß".encode(), (b"Authorization", b"Basic w7w6w58=")),
        ("header", b"X-Api-Key:  k e y \n", (b"X-Api-Key", b"k e y")),
        ("header", b"Authorization: Token a:b", (b"Authorization", b"Token a:b")),
    ],
)
def test_what_a_file_holds_becomes_a_field(tmp_path, kind, held, line):
    (tmp_path / "secret").write_bytes(held)
    assert credential_line(kind, tmp_path / "secret") == line


def token(claims: object) -> bytes:
    told = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=")
    return b"e30." + told + b".s3cr3t"


@pytest.mark.parametrize(
    ("line", "expires_at"),
    [
        ((b"Authorization", b"Bearer " + token({"exp": 1800000000})), 1800000000.0),
        (
            (b"Authorization", b"Bearer " + token({"exp": 1800000000.5, "a": "b"})),
            1800000000.5,
        ),
        ((b"X-Token", token({"exp": 1800000000})), 1800000000.0),
        ((b"Authorization", b"Bearer " + token({})), None),
        ((b"Authorization", b"Bearer " + token({"exp": "1800000000"})), None),
        ((b"Authorization", b"Bearer " + token({"exp": True})), None),
        ((b"Authorization", b"Bearer " + token({"exp": -1})), None),
        ((b"Authorization", b"Bearer " + token({"exp": 1 << 60})), None),
        ((b"Authorization", b"Bearer " + token({"exp": float("nan")})), None),
        ((b"Authorization", b"Bearer " + token([1])), None),
        ((b"Authorization", b"Bearer a.b.c"), None),
        ((b"Authorization", b"Bearer e30.!!!!.x"), None),
        ((b"Authorization", b"Bearer e30." + b"W1tb" * 4000 + b".x"), None),
        ((b"Authorization", b"Bearer opaque"), None),
        ((b"Authorization", b"Basic dXNlcjpwYXNz"), None),
    ],
)
def test_a_token_that_says_when_it_ends_is_believed_for_show(line, expires_at):
    assert token_expiry(line) == expires_at


async def test_it_is_told_when_the_secret_that_counts_was_read(tmp_path, at_once, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    mount = Mount(tmp_path, token({"exp": 5000}).decode())
    credential = Credential("bearer", mount.file)
    told = [(credential.loaded_at, credential.expires_at)]
    for held in ("a b", token({"exp": 6000}).decode()):
        now[0] += 100
        mount.exchange(held)
        await credential.line()
        told.append((credential.loaded_at, credential.expires_at))
    # What can't be used changes nothing.
    assert told == [(1000, 5000), (1000, 5000), (1200, 6000)]


@pytest.mark.parametrize(
    ("kind", "held", "why"),
    [
        ("bearer", b"", "empty"),
        ("bearer", b"\n\r\n", "empty"),
        ("bearer", b"Bearer s3cr3t", "a space in it"),
        ("bearer", b"s3cr3t\nmore", "control character"),
        ("bearer", b"s3cr3t\x00", "control character"),
        ("bearer", b"s3cr3t\t", "control character"),
        ("bearer", b"s3cr3t\xff", "not UTF-8"),
        ("bearer", b"s3cr3t" * 10_000, "longer than"),
        ("basic", b"s3cr3t", "no colon"),
        ("header", b"s3cr3t", "no header field"),
        ("header", b"X-Key:", "no header field"),
        ("header", b"X Key: s3cr3t", "no header field"),
        ("header", b"X-A: s3cr3t\r\nX-B: 2", "control character"),
        ("header", b"Host: s3cr3t", "belongs to the connection"),
        ("header", b"content-LENGTH: 3", "belongs to the connection"),
        ("header", b"Proxy-Authorization: s3cr3t", "belongs to the connection"),
    ],
)
def test_what_is_no_secret_is_refused_and_not_shown(tmp_path, kind, held, why):
    (tmp_path / "secret").write_bytes(held)
    with pytest.raises(UnfitFile, match=why) as refused:
        credential_line(kind, tmp_path / "secret")
    assert "s3cr3t" not in str(refused.value)


def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name, why in (("none", "No such file"), (".", "directory|regular"), ("fifo", "regular")):
        with pytest.raises(UnfitFile, match=why):
            credential_line("bearer", tmp_path / name)


class Mount:
    """A secret as Kubernetes mounts it: a link to a directory that is exchanged by a rename."""

    def __init__(self, directory, *held):
        self._directory = directory
        self._number = 0
        self.file = directory / "token"
        self.file.symlink_to("..data/token")
        for each in held:
            self.exchange(each)

    def exchange(self, held):
        self._number += 1
        made = self._directory / f"..{self._number}"
        made.mkdir()
        (made / "token").write_text(held)
        (self._directory / "..new").symlink_to(made.name)
        os.replace(self._directory / "..new", self._directory / "..data")


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(watched, "LOOK_AGAIN_SECONDS", 0.0)


async def test_a_secret_that_was_exchanged_counts_from_the_next_request_on(tmp_path, at_once):
    mount = Mount(tmp_path, "old\n")
    credential = Credential("bearer", mount.file)
    assert await credential.line() == (b"Authorization", b"Bearer old")
    mount.exchange("new\n")
    assert await credential.line() == (b"Authorization", b"Bearer new")


async def test_what_was_refused_is_replaced_at_once_if_there_is_another(tmp_path):
    mount = Mount(tmp_path, "old")
    credential = Credential("bearer", mount.file)
    old = await credential.line()
    assert await credential.line_after(old) is None
    mount.exchange("new")
    assert await credential.line() == old
    new = await credential.line_after(old)
    assert new == (b"Authorization", b"Bearer new")
    # Others who were refused with the old one needn't look again.
    assert await credential.line_after(old) == new
    assert await credential.line_after(new) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda mount: mount.exchange(""),
        lambda mount: mount.exchange(f"{SECRET} {SECRET}"),
        lambda mount: mount.file.unlink(),
    ],
    ids=["empty", "no token", "gone"],
)
async def test_a_file_that_became_useless_is_said_once_and_the_last_secret_goes_on(
    tmp_path, at_once, caplog, spoil
):
    mount = Mount(tmp_path, SECRET)
    credential = Credential("bearer", mount.file)
    line = await credential.line()
    with caplog.at_level(logging.DEBUG):
        spoil(mount)
        for _ in range(3):
            assert await credential.line() == line
            assert await credential.line_after(line) is None
    [said] = [each.getMessage() for each in caplog.records if each.name == watched.__name__]
    assert f"upstream_auth_file {mount.file} can't be used any more" in said
    assert SECRET not in caplog.text


async def test_once_it_is_of_use_again_that_is_said_and_it_counts(tmp_path, at_once, caplog):
    mount = Mount(tmp_path, "old", "")
    with pytest.raises(UnfitFile):
        Credential("bearer", mount.file)
    mount.exchange("old")
    credential = Credential("bearer", mount.file)
    with caplog.at_level(logging.INFO, "chunkside"):
        for held in ("", "new", "", "newer"):
            mount.exchange(held)
            await credential.line()
    assert await credential.line() == (b"Authorization", b"Bearer newer")
    said = ["can't be used" in each.getMessage() for each in caplog.records]
    assert said == [True, False, True, False]


class Looks:
    """Reads nothing, and counts how often."""

    def __init__(self, tmp_path):
        self.file = tmp_path / "file"
        self.file.write_text("1")
        self.count = 0
        self.watched = Watched({"setting": self.file}, self._read)

    def _read(self):
        self.count += 1
        return self.file.read_text()


async def test_a_file_is_looked_at_no_more_than_once_in_a_while(tmp_path, monkeypatch):
    seconds = [100.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: seconds[0], raising=False)
    looks, marked = Looks(tmp_path), watched._mark_of
    marks: list[Path] = []

    def mark_of(file):
        marks.append(file)
        return marked(file)

    monkeypatch.setattr(watched, "_mark_of", mark_of)
    assert await looks.watched.current() == "1"
    assert len(marks) == 1
    looks.file.write_text("22")
    seconds[0] += watched.LOOK_AGAIN_SECONDS - 0.01
    for _ in range(100):
        assert await looks.watched.current() == "1"
    assert len(marks) == 1
    seconds[0] += 0.01
    assert await looks.watched.current() == "22"
    assert looks.count == 2


async def test_many_at_once_make_one_look(tmp_path):
    looks = Looks(tmp_path)
    looks.file.write_text("22")
    held = await asyncio.gather(*(looks.watched.look() for _ in range(100)))
    assert (held, looks.count) == (["22"] * 100, 2)


async def test_a_file_system_that_hangs_holds_nobody_up_for_long(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(watched, "LONGEST_LOOK_SECONDS", 0.05)
    looks, fifo = Looks(tmp_path), tmp_path / "fifo"
    os.mkfifo(fifo)
    asked, marked = [], watched._mark_of

    def hangs(file):
        asked.append(1)
        with fifo.open("rb") as opened:
            opened.read()
        return marked(file)

    monkeypatch.setattr(watched, "_mark_of", hangs)
    for _ in range(5):
        async with asyncio.timeout(5):
            assert await looks.watched.current() == "1"
    # Nor does it take up further threads.
    assert len(asked) == 1
    fifo.open("wb").close()
    looking = looks.watched._looking
    assert looking is not None
    await looking
