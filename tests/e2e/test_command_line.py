"""The commands that ask a running sidecar, beside one, in front of a real origin."""

import io
import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from chunkside.cli import main
from tests.arrays.samples import zarr2, zarr3
from tests.e2e.conftest import ANY_DISK, StartSidecar
from tests.support.http_client import exchange
from tests.support.origin import Origin, Script
from tests.support.sidecar import Sidecar, clean_environment

CHUNKS = 100
PRESENT = range(0, CHUNKS, 25)


def put_array(origin: Origin, at: str, shape=(4, 6), chunks=(2, 2), present=((0, 0), (1, 2))):
    origin.put(f"{at}/zarr.json", zarr3(shape, chunks))
    for coordinates in present:
        origin.put(f"{at}/c/{'/'.join(map(str, coordinates))}", b"abcdefgh")


@dataclass(frozen=True)
class Ended:
    returncode: int
    stdout: str
    stderr: str


def command(*arguments: str) -> Ended:
    """Run in this process: what is tested is what passes between it and the sidecar's."""
    with redirect_stdout(io.StringIO()) as stdout, redirect_stderr(io.StringIO()) as stderr:
        code = main(list(arguments))
    return Ended(code, stdout.getvalue(), stderr.getvalue())


def run(sidecar: Sidecar, *arguments: str) -> Ended:
    return command(*arguments, "--admin", sidecar.admin_url)


def json_of(ended) -> dict:
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.slow
def test_warm_killed_and_started_again_asks_for_no_chunk_twice(
    own_origin: Origin, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar()
    own_origin.put("/a/zarr.json", zarr3((CHUNKS, CHUNKS), (1, 1)))
    for row in PRESENT:
        for column in range(CHUNKS):
            own_origin.put(f"/a/c/{row}/{column}", b"xx")
    warm = ("warm", "/a", "--data", sidecar.url, "--admin", sidecar.admin_url)
    with subprocess.Popen(
        [sys.executable, "-m", "chunkside", *warm],
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as first:
        own_origin.wait_count(2000)
        first.kill()
    # What was under way goes on without the one who asked for it.
    sidecar.wait_idle()
    asked = own_origin.count()
    assert asked < CHUNKS * CHUNKS
    plan = json_of(command(*warm, "--dry-run", "--json"))
    assert (plan["chunks"], plan["held"] + plan["requests"]) == (10_000, 10_000)
    assert plan["held"] >= 1900
    told = json_of(command(*warm, "--json"))
    chunks = {path: n for path, n in own_origin.gets_by_path().items() if "/c/" in path}
    assert len(chunks) == CHUNKS * CHUNKS
    assert set(chunks.values()) == {1}
    assert told["held"] == plan["held"]
    assert told["present"] + told["absent"] == plan["requests"]
    assert (told["errors"], told["not_stored"]) == (0, 0)
    sidecar.wait_idle()
    third = json_of(command(*warm, "--json"))
    assert (third["held"], third["requests"]) == (10_000, 0)
    assert own_origin.gets_by_path()["/a/c/0/0"] == 1


def test_warm_says_what_it_brought_and_what_it_would_bring(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    at = target.removesuffix("/c/0")
    put_array(origin, at)
    ended = run(sidecar, "warm", f"{sidecar.url}{at}/", "--dry-run")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[1].split("\t") == [at, "6", "0", "6", "48"]
    assert origin.count(path=f"{at}/c/0/0") == 0
    told = json_of(run(sidecar, "warm", f"{sidecar.url}{at}/zarr.json", "--json"))
    assert (told["present"], told["absent"], told["bytes"], told["held"]) == (2, 4, 16, 0)
    assert exchange(sidecar.url, f"{at}/c/0/0").body == b"abcdefgh"
    assert exchange(sidecar.url, f"{at}/c/0/1").status == 404
    assert set(origin.gets_by_path().values()) == {1}


def test_warm_goes_by_the_upstream_s_url_and_asks_only_for_the_block(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    at = target.removesuffix("/c/0")
    put_array(origin, at)
    block = ("--slice", "0:2,-1", "--data", sidecar.url, "--json")
    told = json_of(run(sidecar, "warm", f"{origin.url}{at}", *block))
    assert (told["chunks"], told["absent"]) == (1, 1)
    assert [path for path in origin.gets_by_path() if "/c/" in path] == [f"{at}/c/0/2"]


def test_warm_goes_through_a_group_and_keeps_to_each_format(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    at = target.removesuffix("/c/0")
    array = json.loads(zarr2((4, 2), (2, 2), dimension_separator="/"))
    metadata = {".zgroup": {"zarr_format": 2}, "a b/.zarray": array, "c/.zarray": array}
    origin.put(f"{at}/.zmetadata", json.dumps({"metadata": metadata}).encode())
    told = json_of(run(sidecar, "warm", f"{sidecar.url}{at}", "--json"))
    assert (told["arrays"], told["chunks"], told["absent"]) == (2, 4, 4)
    asked = {each.target.decode() for each in origin.requests()}
    assert asked >= {f"{at}/a%20b/0/0", f"{at}/a%20b/1/0", f"{at}/c/0/0", f"{at}/c/1/0"}


def test_warm_keeps_to_a_query_and_to_the_reader_s_credential(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    at = target.removesuffix("/c/0")
    put_array(origin, at, (2,), (1,), ())
    warm = ("warm", f"{sidecar.url}{at}?v=%26", "-H", "Authorization: Bearer x", "--json")
    assert json_of(run(sidecar, *warm))["absent"] == 2
    assert json_of(run(sidecar, *warm))["held"] == 2
    chunks = [each for each in origin.requests() if "/c/" in each.path]
    asked = sorted(each.target.decode() for each in chunks)
    assert asked == [f"{at}/c/{n}?v=%26" for n in (0, 1)]
    assert {each.value("Authorization") for each in chunks} == {"Bearer x"}
    # What another credential learned is none of this one's.
    other = json_of(run(sidecar, *warm[:3], "Authorization: Bearer y", "--json"))
    assert (other["held"], other["absent"]) == (0, 2)


def test_warm_takes_no_other_sidecar_s_word_for_what_is_held(
    origin: Origin, sidecar: Sidecar, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = target.removesuffix("/c/0")
    put_array(origin, at)
    # That the admin port of the settings is of this data port is told by nothing.
    monkeypatch.setenv("CHUNKSIDE_ADMIN_LISTEN", sidecar.admin_url.removeprefix("http://"))
    warm = ("warm", f"{sidecar.url}{at}", "--json")
    ended = [command(*warm)]
    sidecar.wait_idle()
    ended.append(command(*warm))
    first, second = map(json_of, ended)
    assert "no admin port is known to be this sidecar's (--admin URL)" in ended[0].stderr
    assert (first["held"], first["answered_by_cache"]) == (0, 0)
    assert (second["held"], second["answered_by_cache"]) == (0, 6)


def test_warm_goes_on_without_an_admin_port(origin: Origin, sidecar: Sidecar, target: str) -> None:
    at = target.removesuffix("/c/0")
    put_array(origin, at)
    with Origin() as stopped:
        nobody = stopped.url
    ended = command("warm", f"{sidecar.url}{at}", "--admin", nobody, "--json")
    assert json_of(ended)["present"] == 2
    assert "Without it all chunks are asked for" in ended.stderr


def test_warm_tells_errors_and_what_is_not_kept(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    at = target.removesuffix("/c/0")
    put_array(origin, at)
    origin.script(f"{at}/c/0/1", Script(status=403))
    origin.script(f"{at}/c/1/2", Script(headers=(("Cache-Control", "no-store"),)))
    ended = run(sidecar, "warm", f"{sidecar.url}{at}", "--json")
    told = json.loads(ended.stdout)
    assert (ended.returncode, told["errors"], told["absent"], told["not_stored"]) == (1, 1, 3, 1)
    assert f"{at}/c/0/1: 403" in ended.stderr
    assert f"such as that of {at}/c/1/2" in ended.stderr


@pytest.mark.parametrize(
    ("name", "document", "sentence"),
    [
        ("zarr.json", b'{"zarr_format": 3, "node_type": "group"}', "name one of them"),
        (".zgroup", b'{"zarr_format": 2}', "name one of them"),
        ("zarr.json", zarr3(chunk_grid={"name": "rectilinear"}), "rectilinear"),
        ("zarr.json", b"<html>", "not JSON"),
        ("nothing", b"", "there is no array"),
        ("zarr.json", zarr3((2**40,), (1,)), "--slice"),
    ],
)
def test_warm_refuses_in_one_line_what_it_can_t_walk(
    origin: Origin, sidecar: Sidecar, target: str, name: str, document: bytes, sentence: str
) -> None:
    at = target.removesuffix("/c/0")
    origin.put(f"{at}/{name}", document)
    ended = run(sidecar, "warm", f"{sidecar.url}{at}")
    assert (ended.returncode, len(ended.stderr.splitlines())) == (1, 1), ended.stderr
    assert sentence in ended.stderr


def test_stats_tell_what_was_saved(origin: Origin, sidecar: Sidecar, target: str) -> None:
    before = json_of(run(sidecar, "stats", "--json"))
    for _ in range(3):
        assert exchange(sidecar.url, target).status == 404
    after = json_of(run(sidecar, "stats", "--json"))
    assert after["negative_hits"] - before["negative_hits"] == 2
    assert after["requests"]["negative_hit"] - before["requests"]["negative_hit"] == 2
    assert after["saved_requests"] - before["saved_requests"] == 2
    piped = dict(line.split("\t")[:2] for line in run(sidecar, "stats").stdout.splitlines())
    assert int(piped["requests saved"]) == after["saved_requests"]


def test_stats_and_warm_draw_on_a_terminal(origin: Origin, sidecar: Sidecar, target: str) -> None:
    at = target.removesuffix("/c/0")
    put_array(origin, at)
    code, printed = terminal_of("warm", f"{sidecar.url}{at}")
    assert code == 0
    assert "\r\x1b[K[" in printed
    assert "present" in printed
    code, printed = terminal_of(
        "stats", "--watch", "0.05", "--admin", sidecar.admin_url, until="\x1b[J", times=2
    )
    assert code == 0
    assert "per second" in printed
    assert "requests saved" in printed


def test_warm_that_is_interrupted_says_how_far_it_came(
    own_origin: Origin, own_sidecar: Sidecar
) -> None:
    put_array(own_origin, "/a")
    gate = own_origin.hold("/a/c/1/1", times=None)
    warm = ("warm", f"{own_sidecar.url}/a")
    code, printed = terminal_of(*warm, until="\r\x1b[K[")
    gate.release()
    assert code == 130
    assert "given up: " in printed
    assert "Traceback" not in printed


def terminal_of(*arguments: str, until: str | None = None, times: int = 1) -> tuple[int, str]:
    """Exit code and what a terminal was sent. `until`: Ctrl-C once that was sent so often."""
    ours, theirs = pty.openpty()
    printed = ""
    with subprocess.Popen(
        [sys.executable, "-m", "chunkside", *arguments],
        env=clean_environment({"TERM": "xterm"}),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        try:
            while True:
                part = os.read(ours, 65536)
                printed += part.decode()
                if until is not None and printed.count(until) >= times:
                    process.send_signal(signal.SIGINT)
                    until = None
        except OSError:
            # The terminal's other side is closed by the last who held it.
            pass
        finally:
            os.close(ours)
        return process.wait(), printed.replace("\r\n", "\n")


def test_info_tells_how_it_is_set_up(sidecar: Sidecar, origin: Origin) -> None:
    told = json_of(run(sidecar, "info", "--json"))
    assert told["routes"][0]["upstream"] == origin.url
    assert f"routes[0].upstream\t{origin.url}" in run(sidecar, "info").stdout.splitlines()


@pytest.mark.parametrize("odd", ["/{at}/c/0?x=1&y=%2F", "/{at}/a%20b/%41", "/{at}//c"])
def test_why_is_asked_of_the_target_to_the_byte(
    origin: Origin, sidecar: Sidecar, target: str, odd: str
) -> None:
    asked = odd.format(at=target.strip("/"))
    assert exchange(sidecar.url, asked).status == 404
    for spelled in (asked, f"{sidecar.url}{asked}", f"{origin.url}{asked}"):
        told = json_of(run(sidecar, "why", spelled, "--json"))
        assert told["target"] == asked
        assert "remembered as absent" in told["verdict"]
    assert "remembered as absent" in run(sidecar, "why", asked).stdout


def test_why_is_asked_as_the_reader_asks(origin: Origin, sidecar: Sidecar, target: str) -> None:
    field = ("-H", "Authorization: Bearer x")
    exchange(sidecar.url, target, headers=[("Authorization", "Bearer x")])
    assert "remembered as absent" in run(sidecar, "why", target, *field).stdout
    assert "Nothing is remembered" in run(sidecar, "why", target).stdout


def test_why_has_the_origin_say_whether_what_is_held_is_so(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    def verdict() -> tuple[int, str]:
        ended = run(sidecar, "why", target, "--verify", "--json")
        return ended.returncode, json.loads(ended.stdout)["verdict"]

    assert verdict() == (0, "not_held")
    exchange(sidecar.url, target)
    assert verdict() == (0, "true")
    origin.put(target, b"body")
    told = run(sidecar, "why", target, "--verify")
    assert (told.returncode, "changed" in told.stdout) == (1, True)
    assert "Nothing is remembered" in run(sidecar, "why", target).stdout


def test_purge_forgets_what_is_named(origin: Origin, sidecar: Sidecar, target: str) -> None:
    def read_twice(*purge: str) -> dict:
        exchange(sidecar.url, target)
        sidecar.wait_idle()
        return json_of(run(sidecar, "purge", *purge, "--json"))

    origin.put(target, b"body")
    directory = target.removesuffix("/c/0")
    assert read_twice(target)["bodies"] == 1
    assert read_twice(f"{origin.url}{target}")["bodies"] == 1
    assert read_twice("--prefix", directory)["bodies"] == 1
    assert read_twice("--prefix", directory, "--soft")["bodies"] == 1
    assert read_twice("--route", "/")["bodies"] >= 1
    assert read_twice("--all", "--yes")["bodies"] == 1
    assert origin.count(path=target) == 6
    nowhere = run(sidecar, "purge", "--route", "/none")
    assert (nowhere.returncode, "No route is called so" in nowhere.stderr) == (1, True)


def test_a_probe_says_what_follows_for_caching(origin: Origin, target: str) -> None:
    origin.put(target, b"body")
    probe = ("check", "--probe", f"{origin.url}{target}", "--upstream", origin.url, *ANY_DISK)
    told = json_of(command(*probe, "--json"))
    ratings = {each["about"]: each["rating"] for each in told["findings"]}
    assert ratings == dict.fromkeys(
        ["reachable", "HEAD", "Range", "validator", "missing key", "validation"], "good"
    ) | {"Cache-Control": "good"}
    assert origin.count("HEAD", target) == 1
    gone = command("check", "--probe", "/none", "--upstream", origin.url, *ANY_DISK)
    assert (gone.returncode, "name a target that is there" in gone.stdout) == (1, True)


def test_a_probe_of_an_origin_that_does_not_answer_says_so() -> None:
    with Origin() as stopped:
        url = stopped.url
    ended = command("check", "--probe", "/a", "--upstream", url, *ANY_DISK)
    assert (ended.returncode, "answered 503" in ended.stdout) == (1, True), ended


def test_the_data_port_is_not_taken_for_the_admin_port(sidecar: Sidecar) -> None:
    ended = command("stats", "--admin", sidecar.url)
    assert (ended.returncode, "is the data port" in ended.stderr) == (1, True)


def test_commands_reach_ports_on_unix_sockets(
    own_origin: Origin, start_sidecar: StartSidecar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_array(own_origin, "/a")
    data, admin = (f"unix:{tmp_path}/{name}" for name in ("d", "a"))
    start_sidecar("--listen", data, "--admin-listen", admin)
    monkeypatch.setenv("CHUNKSIDE_LISTEN", data)
    monkeypatch.setenv("CHUNKSIDE_ADMIN_LISTEN", admin)
    told = json_of(command("warm", "/a", "--json"))
    assert (told["present"], told["absent"]) == (2, 4)
    assert json_of(command("warm", "/a", "--json"))["held"] == 6
    assert json_of(command("stats", "--json"))["markers"] >= 4


def test_output_that_nobody_reads_is_no_traceback(sidecar: Sidecar) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        [sys.executable, "-m", "chunkside", "info", "--admin", sidecar.admin_url],
        env=clean_environment(),
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(writing)
        _, stderr = process.communicate()
    assert (process.returncode, stderr) == (141, "")


def test_names_and_fields_that_an_origin_chose_drive_no_terminal(
    origin: Origin, sidecar: Sidecar, target: str
) -> None:
    at, evil = target.removesuffix("/c/0"), "\x1b]0;owned\x07\x9b2J"
    array = zarr3((2, 2), (2, 2), data_type=evil)
    origin.put(f"{at}/zarr.json", array, etag=f'"{evil}"')
    group = {f"{evil}/.zarray": {"zarr_format": 1}, "b/.zarray": json.loads(zarr2((2,), (2,)))}
    origin.put(f"{at}/g/.zmetadata", json.dumps({"metadata": group}).encode())
    exchange(sidecar.url, f"{at}/zarr.json")
    sidecar.wait_idle()
    probe = ("check", "--probe", f"{at}/zarr.json", "--upstream", origin.url, *ANY_DISK)
    for ended in (
        run(sidecar, "why", f"{at}/zarr.json"),
        run(sidecar, "why", "--verify", f"{at}/zarr.json"),
        run(sidecar, "map", at),
        run(sidecar, "warm", f"{at}/g", "--data", sidecar.url),
        command(*probe),
    ):
        told = ended.stdout + ended.stderr
        assert "owned" in told
        assert told.replace("\n", "").replace("\t", "").isprintable()
