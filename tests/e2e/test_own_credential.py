"""A sidecar with a credential of its own: who may use it, what it is kept apart by, and that nobody
sees it.
"""

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import ANY_DISK, StartSidecar
from tests.support.deadline import wait_for
from tests.support.http_client import exchange
from tests.support.origin import Origin, Script
from tests.support.sidecar import Sidecar, run_command

SECRET = "s3cr3t-0123456789abcdef"
THEIRS = ("Authorization", "Bearer theirs-0123")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(SECRET + "\n")
    return file


def bearer(file: Path) -> tuple[str, ...]:
    return "--upstream-auth", "bearer", "--upstream-auth-file", str(file)


def test_all_clients_read_by_it_and_share_what_is_stored(
    own_origin: Origin, start_sidecar: StartSidecar, file: Path
) -> None:
    own_origin.put("/a/c/0", b"body")
    sidecar = start_sidecar(*bearer(file))
    for headers in ([], [THEIRS], [("X-Api-Key", "theirs-0123")]):
        assert exchange(sidecar.url, "/a/c/0", headers=headers).body == b"body"
        assert exchange(sidecar.url, "/a/c/1", headers=headers).status == 404
        sidecar.wait_idle()
    seen = own_origin.requests()
    assert sorted(each.path for each in seen) == ["/a/c/0", "/a/c/1"]
    for each in seen:
        assert each.values("Authorization") == [f"Bearer {SECRET}"]
        assert each.value("X-Api-Key") is None


def test_writes_are_refused_unless_they_are_wanted(
    own_origin: Origin, start_sidecar: StartSidecar, file: Path, tmp_path: Path
) -> None:
    sidecar = start_sidecar(*bearer(file))
    assert exchange(sidecar.url, "/a", "PUT", [], b"x").status == 405
    assert own_origin.count() == 0
    # Where writes are refused absences answer HEAD, too.
    exchange(sidecar.url, "/a/c/1")
    sidecar.wait_idle()
    assert "detail=negative" in (
        exchange(sidecar.url, "/a/c/1", "HEAD").value("Cache-Status") or ""
    )
    flags = (*ANY_DISK, *bearer(file), "--allow-writes")
    with Sidecar(own_origin.url, tmp_path / "writes", flags) as writes:
        assert exchange(writes.url, "/a", "PUT", [THEIRS], b"x").status in (201, 204)
    [put] = own_origin.requests("PUT")
    assert put.values("Authorization") == [f"Bearer {SECRET}"]


def test_what_one_credential_learnt_answers_no_other(
    own_origin: Origin, start_sidecar: StartSidecar, file: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.write_text("another")
    own_origin.put("/a/c/0", b"body")

    def ask(*flags: str) -> str:
        sidecar = start_sidecar(*flags)
        answer = exchange(sidecar.url, "/a/c/0")
        assert answer.body == b"body"
        sidecar.wait_idle()
        sidecar.stop()
        return answer.value("Cache-Status") or ""

    assert "stored" in ask(*bearer(file))
    assert "; hit" in ask(*bearer(file))
    header = ("--upstream-auth", "header", *bearer(file)[2:])
    for flags in ((), bearer(other), header):
        if flags == header:
            file.write_text("X-Key: another")
        assert "fwd=uri-miss" in ask(*flags), flags
    file.write_text(f"{SECRET}-rotated")
    assert "; hit" in ask(*bearer(file))


@pytest.mark.parametrize("way", ["renamed", "linked"])
def test_a_secret_that_is_exchanged_is_used_without_a_restart(
    own_origin: Origin, start_sidecar: StartSidecar, file: Path, way: str
) -> None:
    if way == "linked":
        made = file.with_name("first")
        file.rename(made)
        file.symlink_to(made)
    sidecar = start_sidecar(*bearer(file))
    exchange(sidecar.url, "/a/c/0")
    new = file.with_name("new")
    if way == "linked":
        file.with_name("second").write_text("second")
        new.symlink_to(file.with_name("second"))
    else:
        new.write_text("second")
    os.replace(new, file)
    # Refused with the old one, it looks at once.
    own_origin.script("/a/c/1", Script(status=401))
    exchange(sidecar.url, "/a/c/1")
    assert [each.value("Authorization") for each in own_origin.requests(path="/a/c/1")] == [
        f"Bearer {SECRET}",
        "Bearer second",
    ]


def test_it_is_seen_nowhere(
    own_origin: Origin, start_sidecar: StartSidecar, file: Path, cache_dir: Path
) -> None:
    own_origin.put("/a/c/0", b"body")
    own_origin.script("/a/refused", Script(status=403, body=b"no"))
    own_origin.script("/a/broken", Script(raw=b"no HTTP at all\r\n\r\n"))
    own_origin.script("/a/dead", Script(reset_before_head=True))
    sidecar = start_sidecar(*bearer(file), "--log-level", "debug", "--upstream-retries", "0")
    seen: list[bytes] = []

    def ask(url: str, target: str, *arguments: object) -> None:
        answer = exchange(url, target, *arguments)  # type: ignore[arg-type]
        seen.extend((repr(answer.head).encode(), answer.body))

    for name in ("c/0", "c/1", "refused", "broken", "dead"):
        for method in ("GET", "HEAD"):
            ask(sidecar.url, f"/a/{name}", method, [THEIRS])
    ask(sidecar.url, "/a/c/0?X-Amz-Signature=theirs", "GET")
    sidecar.wait_idle()
    file.write_text("")
    wait_for(lambda: _says_so(sidecar), "the log to say that the file is of no use")
    for page in ("/metrics", "/stats", "/info", "/entries", "/readyz", "/file/a/c/0", "/"):
        ask(sidecar.admin_url, page)
    sidecar.stop()
    seen.extend(text.encode() for text in (sidecar.stderr(), sidecar.stdout()))
    seen.extend(path.read_bytes() for path in cache_dir.rglob("*") if path.is_file())
    assert any(path.suffix == ".arrow" for path in cache_dir.rglob("*"))
    for secret in (SECRET.encode(), b"theirs-0123"):
        assert not [text for text in seen if secret in text]
    assert str(file) in sidecar.stderr()


def _says_so(sidecar: Sidecar) -> bool:
    exchange(sidecar.url, "/a/c/9", headers=[("Chunkside-Control", "refresh")])
    return "can't be used any more: empty" in sidecar.stderr()


def test_pages_read_nothing_by_what_the_origin_allows(
    own_origin: Origin, start_sidecar: StartSidecar, file: Path
) -> None:
    lines = (("Access-Control-Allow-Origin", "*"), ("Access-Control-Allow-Credentials", "true"))
    own_origin.script("/a/c/0", Script(status=200, body=b"body", headers=lines))
    sidecar = start_sidecar(*bearer(file))
    for _ in range(4):
        answer = exchange(sidecar.url, "/a/c/0")
        assert answer.body == b"body"
        assert not [name for name, _ in answer.head.headers if name.lower().startswith("access")]
        sidecar.wait_idle()


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--upstream-auth", "bearer"], "upstream_auth_file: not set"),
        (["--upstream-auth", "aws"], "aws is for s3://"),
        (["--upstream-auth", "bearer", "--upstream-auth-file", "/none"], "No such file"),
        (["--listen", "0.0.0.0:0", "--upstream-auth", "bearer"], "not set"),
    ],
)
def test_what_can_not_work_stops_the_start_in_one_line(flags: list[str], why: str) -> None:
    ended = run_command("serve", "--upstream", "http://127.0.0.1:1", *flags)
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert why in ended.stderr


def test_it_is_not_lent_to_whoever_reaches_the_machine(file: Path) -> None:
    flags = (*bearer(file), "--listen", "0.0.0.0:0")
    ended = run_command("serve", "--upstream", "http://127.0.0.1:1", *flags)
    assert ended.returncode == 2
    assert "set allowed_clients" in ended.stderr
    assert SECRET not in ended.stderr + ended.stdout


def ask_from(source: str, url: str) -> bytes:
    [(host, port)] = re.findall(r"//([\d.]+):(\d+)", url)
    with socket.create_connection((host, int(port)), 10, (source, 0)) as client:
        client.sendall(b"GET /a/c/0 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        told = b""
        while piece := client.recv(65536):
            told += piece
        return told


def test_clients_from_elsewhere_are_refused_and_counted(
    own_origin: Origin, start_sidecar: StartSidecar
) -> None:
    own_origin.put("/a/c/0", b"body")
    sidecar = start_sidecar("--allowed-clients", "127.0.0.1/32")
    assert ask_from("127.0.0.1", sidecar.url).endswith(b"body")
    refused = ask_from("127.0.0.2", sidecar.url)
    assert refused.startswith(b"HTTP/1.1 403 ")
    assert b"application/problem+json" in refused and b"allowed_clients" in refused
    assert sidecar.metric('chunkside_responses_total{code="403"}') == 1
    assert own_origin.count() == 1


class TestRedirects:
    @pytest.fixture
    def away(self) -> Iterator[Origin]:
        with Origin() as origin:
            yield origin

    @staticmethod
    def lead(origin: Origin, away: Origin, target: str) -> None:
        to = f"{away.url}{target}?X-Amz-Signature=s1gn4tur3"
        origin.script(target, Script(status=302, headers=(("Location", to),)))

    def test_what_they_lead_to_is_stored_as_the_origins_own(
        self, own_origin: Origin, away: Origin, start_sidecar: StartSidecar, cache_dir: Path
    ) -> None:
        away.put("/a/c/0", b"0123456789")
        for name in ("0", "1"):
            self.lead(own_origin, away, f"/a/c/{name}")
        host = away.url.removeprefix("http://")
        sidecar = start_sidecar("--follow-redirects", host)
        whole = exchange(sidecar.url, "/a/c/0", headers=[THEIRS])
        assert (whole.status, whole.body) == (200, b"0123456789")
        sidecar.wait_idle()
        part = exchange(sidecar.url, "/a/c/0", headers=[THEIRS, ("Range", "bytes=2-4")])
        assert (part.status, part.body) == (206, b"234")
        assert exchange(sidecar.url, "/a/c/1").status == 404
        sidecar.wait_idle()
        again = exchange(sidecar.url, "/a/c/1")
        assert again.status == 404 and "detail=negative" in (again.value("Cache-Status") or "")
        assert (own_origin.count(), away.count()) == (2, 2)
        assert not [each for each in away.requests() if each.value("Authorization")]
        assert sidecar.metric('chunkside_upstream_requests_total{code="302"}') == 2
        # A write through the sidecar drops it: it is the origin's object.
        assert exchange(sidecar.url, "/a/c/0", "PUT", [], b"x").status == 302
        assert "fwd=uri-miss" in (
            exchange(sidecar.url, "/a/c/0", headers=[THEIRS]).value("Cache-Status") or ""
        )
        pages = [exchange(sidecar.admin_url, page).body for page in ("/entries", "/metrics")]
        sidecar.stop()
        files = [path.read_bytes() for path in cache_dir.rglob("*") if path.is_file()]
        for text in (*pages, *files, sidecar.stderr().encode()):
            assert b"s1gn4tur3" not in text

    def test_by_default_they_pass_through_and_are_not_stored(
        self, own_origin: Origin, away: Origin, start_sidecar: StartSidecar
    ) -> None:
        self.lead(own_origin, away, "/a/c/0")
        sidecar = start_sidecar()
        for _ in range(2):
            answer = exchange(sidecar.url, "/a/c/0")
            assert answer.status == 302
            assert (answer.value("Location") or "").startswith(away.url)
        assert (own_origin.count(), away.count()) == (2, 0)

    def test_what_is_stale_is_validated_where_they_lead(
        self, own_origin: Origin, away: Origin, start_sidecar: StartSidecar
    ) -> None:
        away.put("/a/c/0", b"0123456789")
        self.lead(own_origin, away, "/a/c/0")
        sidecar = start_sidecar(
            "--follow-redirects", "127.0.0.1:" + away.url.rpartition(":")[2], "--ttl", "0"
        )
        assert exchange(sidecar.url, "/a/c/0").body == b"0123456789"
        sidecar.wait_idle()
        again = exchange(sidecar.url, "/a/c/0")
        assert again.body == b"0123456789"
        assert "fwd-status=304" in (again.value("Cache-Status") or "")
        assert [each.status for each in away.requests()] == [200, 304]

    def test_a_circle_is_told_in_words(
        self, own_origin: Origin, start_sidecar: StartSidecar
    ) -> None:
        own_origin.script("/a", Script(status=302, headers=(("Location", "/b?sig=s1gn4tur3"),)))
        own_origin.script("/b?sig=s1gn4tur3", Script(status=302, headers=(("Location", "/a"),)))
        sidecar = start_sidecar("--follow-redirects", own_origin.url.removeprefix("http://"))
        answer = exchange(sidecar.url, "/a")
        assert answer.status == 502
        assert b"redirects in a circle" in answer.body
        assert b"s1gn4tur3" not in answer.body


def test_info_can_be_read_where_files_are_set(start_sidecar: StartSidecar, file: Path) -> None:
    sidecar = start_sidecar(*bearer(file), "--follow-redirects", "a,b:1")
    told = exchange(sidecar.admin_url, "/info")
    assert told.status == 200
    assert str(file).encode() not in told.body
    assert b'"upstream_auth": "bearer"' in told.body
    assert b'"allow_writes": false' in told.body
