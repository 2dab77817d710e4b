"""SIGHUP on a running sidecar: what holds from then on, what ends as it began, what is refused."""

import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from tests.e2e.conftest import ANY_DISK
from tests.support.certificates import Authority
from tests.support.deadline import wait_for
from tests.support.http_client import Connection, Response, exchange
from tests.support.origin import Origin, Script
from tests.support.sidecar import Sidecar

READ, REFUSED = "settings were read anew; ", "settings were read anew and stay as they were"
SUCCESSFUL = "chunkside_config_last_reload_successful"
NAME = "cache.example.org"
NOT_FOR_ALL = Script(status=401)
# A few hundred in the long form: RELOADS=200 make test ARGS="tests/e2e/test_reload.py -k many"
RELOADS = int(os.environ.get("RELOADS", "40"))
SUCCEEDED_AT = "chunkside_config_last_reload_success_timestamp_seconds"


class Reloadable:
    """One sidecar and its file of settings."""

    def __init__(
        self, stack: ExitStack, tmp_path: Path, *flags: str, env: Any = None, **told: Any
    ) -> None:
        self._config = tmp_path / "chunkside.yaml"
        self.write(**told)
        flags = (*ANY_DISK, "--config", str(self._config), *flags)
        self.sidecar = stack.enter_context(Sidecar(None, tmp_path / "cache", flags, env))

    def write(self, text: str | None = None, **told: Any) -> None:
        # JSON is YAML.
        new = self._config.with_suffix(".new")
        new.write_text(json.dumps(told) if text is None else text)
        new.replace(self._config)

    def hang_up(self) -> None:
        os.kill(self.sidecar.pid, signal.SIGHUP)

    def reload(self, **told: Any) -> None:
        """Returns once they hold."""
        self.write(**told)
        self._until_said(READ)

    def refuse(self, text: str | None = None, **told: Any) -> str:
        """Returns the line that says why they don't."""
        self.write(text, **told)
        return self._until_said(REFUSED)

    def _until_said(self, words: str) -> str:
        before = self._said(words)
        self.hang_up()
        wait_for(lambda: len(self._said(words)) > len(before), f"a line that says: {words}")
        return self._said(words)[-1]

    def _said(self, words: str) -> list[str]:
        return [line for line in self.sidecar.stderr().splitlines() if words in line]

    def get(self, target: str, method: str = "GET") -> tuple[int, bytes, str]:
        """Status, body, and what `Cache-Status` says. Whatever is to be stored then is."""
        answer = exchange(self.sidecar.url, target, method)
        self.sidecar.wait_idle()
        return answer.status, answer.body, answer.value("Cache-Status") or ""

    def info(self) -> Any:
        return json.loads(exchange(self.sidecar.admin_url, "/info").body)

    def metrics(self) -> str:
        return exchange(self.sidecar.admin_url, "/metrics").body.decode()

    def descriptors(self) -> list[str]:
        """What is open, one line each."""
        folder = f"/proc/{self.sidecar.pid}/fd"
        return sorted(os.readlink(f"{folder}/{each}") for each in os.listdir(folder))


@pytest.fixture
def near() -> Iterator[Origin]:
    with Origin() as origin:
        yield origin


@pytest.fixture
def far() -> Iterator[Origin]:
    with Origin() as origin:
        yield origin


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as entered:
        yield entered


# Lifetimes.


def test_a_shorter_lifetime_counts_at_once_for_what_is_held(stack, tmp_path, near):
    near.put("/c/0", b"body")
    one = Reloadable(stack, tmp_path, upstream=near.url, ttl="1h", negative_ttl="1h")
    with Connection(one.sidecar.url) as client:

        def ask(times: int) -> list[int]:
            """The whole answers are known by then, and all come by the fast lane."""
            asked = []
            for _ in range(times):
                for target in ("/c/0", "/c/1"):
                    client.send("GET", target)
                    asked.append(client.response().status)
            return asked

        assert ask(20) == [200, 404] * 20
        assert near.count() == 2
        one.reload(upstream=near.url, ttl=0, negative_ttl=0)
        assert ask(2) == [200, 404] * 2
    assert [each.status for each in near.requests()[2:]] == [304, 404] * 2
    one.reload(upstream=near.url, ttl="1h", negative_ttl=0)
    assert "; hit" in one.get("/c/0")[2]
    assert near.count() == 6


def test_flags_and_environment_still_go_before_the_file(stack, tmp_path, near):
    near.put("/c/0", b"body")
    env = {"CHUNKSIDE_METADATA_TTL": "7s"}
    one = Reloadable(stack, tmp_path, "--ttl", "1h", env=env, upstream=near.url)
    one.reload(upstream=near.url, ttl=0, metadata_ttl=0, negative_ttl="2s")
    told = one.info()
    assert (told["ttl"], told["metadata_ttl"], told["negative_ttl"]) == (3600.0, 7.0, 2.0)


def test_a_route_that_takes_writes_no_longer_answers_heads_from_its_markers(stack, tmp_path, near):
    one = Reloadable(stack, tmp_path, upstream=near.url, allow_writes=False, negative_ttl="1h")
    assert one.get("/c/1")[0] == 404
    assert one.get("/c/1", "HEAD")[0] == 404
    assert near.count("HEAD") == 0
    one.reload(upstream=near.url, allow_writes=True, negative_ttl="1h")
    # Someone else may write there as well.
    near.put("/c/1", b"written beside")
    assert one.get("/c/1", "HEAD")[0] == 200
    assert exchange(one.sidecar.url, "/c/1", "PUT", body=b"through").status == 204
    assert one.get("/c/1")[:2] == (200, b"through")
    one.reload(upstream=near.url, allow_writes=False, negative_ttl="1h")
    assert exchange(one.sidecar.url, "/c/1", "PUT", body=b"late").status == 405
    assert one.get("/c/1")[:2] == (200, b"through")


# Routes.


def routes(**of: Any) -> list[dict[str, Any]]:
    return [{"prefix": f"/{name}", **told} for name, told in of.items()]


def test_routes_come_and_go(stack, tmp_path, near, far):
    near.put("/c/0", b"near")
    far.put("/c/0", b"far")
    one = Reloadable(stack, tmp_path, routes=routes(near={"upstream": near.url}))
    assert one.get("/near/c/0")[:2] == (200, b"near")
    assert one.get("/far/c/0")[0] == 421
    both = routes(near={"upstream": near.url}, far={"upstream": far.url})
    one.reload(routes=both)
    assert one.get("/far/c/0")[:2] == (200, b"far")
    assert "; hit" in one.get("/near/c/0")[2]
    assert [each["prefix"] for each in one.info()["routes"]] == ["/near", "/far"]
    assert 'route="/far"' in one.metrics()
    hits = json.loads(exchange(one.sidecar.admin_url, "/stats").body)
    one.reload(routes=both[1:])
    assert one.get("/near/c/0")[0] == 421
    assert "; hit" in one.get("/far/c/0")[2]
    wait_for(lambda: 'route="/near"' not in one.metrics(), "the end of the route's series")
    left = json.loads(exchange(one.sidecar.admin_url, "/stats").body)
    assert (left["hits"], left["misses"]) == (hits["hits"] + 1, hits["misses"])
    # Under a single upstream what both left behind is found again, by where it came from.
    one.reload(upstream=near.url)
    assert "; hit" in one.get("/c/0")[2]
    assert (near.count(), far.count()) == (1, 1)


def test_a_route_that_leads_elsewhere_shares_nothing_with_where_it_led(stack, tmp_path, near, far):
    near.put("/c/0", b"near")
    near.put("/c/2", b"near")
    far.put("/c/0", b"far")
    far.put("/c/1", b"far")
    lives = {"ttl": "1h", "negative_ttl": "1h"}
    one = Reloadable(stack, tmp_path, routes=routes(a={"upstream": near.url, **lives}))
    for _ in range(3):
        assert one.get("/a/c/0")[:2] == (200, b"near")
        assert one.get("/a/c/1")[0] == 404
    one.reload(routes=routes(a={"upstream": far.url, **lives}))
    for _ in range(3):
        assert one.get("/a/c/0")[:2] == (200, b"far")
        assert one.get("/a/c/1")[:2] == (200, b"far")
        assert one.get("/a/c/2")[0] == 404
    wait_for(lambda: not open_connections(near), "the end of connections to where it led")


def open_connections(origin: Origin) -> list[int]:
    return list(origin._connections)


def test_what_is_under_way_on_a_route_that_goes_ends_as_it_began(stack, tmp_path, near, far):
    body = os.urandom(4 << 20)
    near.put("/c/0", body)
    one = Reloadable(
        stack, tmp_path, routes=routes(near={"upstream": near.url}, far={"upstream": far.url})
    )
    gate = near.hold("/c/0", after=1 << 20)
    before = near.hold("/c/9", after="request")
    with Connection(one.sidecar.url) as reader, Connection(one.sidecar.url) as absent:
        reader.send("GET", "/near/c/0")
        absent.send("GET", "/near/c/9")
        gate.wait_held()
        before.wait_held()
        one.reload(routes=routes(far={"upstream": far.url}))
        assert exchange(one.sidecar.url, "/near/c/0").status == 421
        gate.release()
        before.release()
        assert reader.response().body == body
        assert absent.response().status == 404
    wait_for(lambda: not open_connections(near), "the end of connections to the route that went")
    wait_for(lambda: 'route="/near"' not in one.metrics(), "the end of the route's series")
    # What it brought is there for a route that leads to the same place.
    one.reload(routes=routes(again={"upstream": near.url}))
    assert one.get("/again/c/0")[1] == body
    assert "; hit" in one.get("/again/c/9")[2]
    assert near.count() == 2


def test_a_route_whose_lifetimes_change_keeps_its_connections(stack, tmp_path, near):
    near.put("/c/0", b"body")
    one = Reloadable(stack, tmp_path, upstream=near.url)
    one.get("/c/0")
    one.reload(upstream=near.url, ttl=0)
    one.get("/c/0")
    assert [each.connection for each in near.requests()] == [1, 1]
    # Another number of connections is another pool.
    one.reload(upstream=near.url, ttl=0, upstream_connections=7)
    one.get("/c/0")
    assert near.requests()[-1].connection == 2


def test_what_was_learnt_with_a_field_that_proves_a_credential_is_forgotten(stack, tmp_path, near):
    near.put("/c/0", b"hers")
    told = {"upstream": near.url, "ttl": "1h"}
    one = Reloadable(stack, tmp_path, **told, credential_headers=["Authorization"])
    for _ in range(2):
        exchange(one.sidecar.url, "/c/0", headers=[("X-Who", "alice")])
        one.sidecar.wait_idle()
    assert near.count() == 1
    gate = near.hold("/c/1")
    with Connection(one.sidecar.url) as alice:
        near.put("/c/1", b"hers, too")
        alice.send("GET", "/c/1", [("X-Who", "alice")])
        gate.wait_held()
        one.reload(**told, credential_headers=["Authorization", "X-Who"])
        gate.release()
        assert alice.response().body == b"hers, too"
    one.sidecar.wait_idle()
    near.script("/c/0", NOT_FOR_ALL)
    near.script("/c/1", NOT_FOR_ALL)
    assert one.get("/c/0")[0] == one.get("/c/1")[0] == 401
    assert f"all of {near.url} is forgotten, since credential_headers changed" in (
        one.sidecar.stderr()
    )


# What holds for the whole sidecar.


def test_names_of_both_ports_and_the_log_level(stack, tmp_path, near):
    near.put("/c/0", b"body")
    told = {"upstream": near.url}
    one = Reloadable(stack, tmp_path, **told)

    def answers(times: int = 1) -> set[int]:
        seen = set()
        for url, target in ((one.sidecar.url, "/c/0"), (one.sidecar.admin_url, "/livez")):
            with Connection(url) as client:
                for _ in range(times):
                    client.send_raw(f"GET {target} HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode())
                    seen.add(client.response().status)
        return seen

    assert answers() == {421}
    one.reload(**told, allowed_hosts=[NAME])
    assert answers(5) == {200}
    one.reload(**told)
    assert answers(2) == {421}
    one.reload(**told, log_level="info")
    said = len(one.sidecar.stderr().splitlines())
    one.write(**told, log_level="error")
    at = one.sidecar.metric(SUCCEEDED_AT)
    one.hang_up()
    wait_for(lambda: one.sidecar.metric(SUCCEEDED_AT) > at, "another reload")
    assert len(one.sidecar.stderr().splitlines()) == said


def test_what_needs_a_restart_is_said_by_name_and_stays(stack, tmp_path, near, cache_dir):
    one = Reloadable(stack, tmp_path, upstream=near.url, max_markers=1000)
    one.reload(upstream=near.url, max_markers=2000, index_memory="64MiB", retention="3d", ttl="9s")
    [line] = [line for line in one.sidecar.stderr().splitlines() if "needs a restart" in line]
    assert "max_markers" in line
    assert "index_memory" in line
    assert "retention" not in line
    assert one.info()["ttl"] == 9.0


# What is bad.


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"ttl": "soon"}, "ttl='soon'"),
        ({"tll": 5}, "did you mean ttl?"),
        ({"upstream": "ftp://origin/"}, "upstream='ftp://origin/'"),
        ({"upstream_ca_file": "/nowhere/ca.pem"}, "upstream_ca_file='/nowhere/ca.pem'"),
        ({"upstream": None}, "upstream"),
        ("ttl: [", "not YAML"),
    ],
)
def test_bad_settings_change_nothing_and_are_said_in_one_line(stack, tmp_path, near, bad, said):
    near.put("/c/0", b"body")
    one = Reloadable(stack, tmp_path, upstream=near.url, ttl="1h")
    one.get("/c/0")
    at, loaded = one.sidecar.metric(SUCCEEDED_AT), one.info()["config_loaded_at"]
    assert one.sidecar.metric(SUCCESSFUL) == 1
    lines = len(one.sidecar.stderr().splitlines())
    line = one.refuse(bad) if isinstance(bad, str) else one.refuse(**{"upstream": near.url, **bad})
    assert said in line
    assert "allowed: " in line
    assert len(one.sidecar.stderr().splitlines()) == lines + 1
    assert one.sidecar.metric(SUCCESSFUL) == 0
    assert one.sidecar.metric(SUCCEEDED_AT) == at
    told = one.info()
    assert told["config_last_reload_successful"] is False
    assert (told["config_loaded_at"], told["ttl"]) == (loaded, 3600.0)
    assert "; hit" in one.get("/c/0")[2]
    one.reload(upstream=near.url, ttl="2h")
    assert one.sidecar.metric(SUCCESSFUL) == 1
    assert one.sidecar.metric(SUCCEEDED_AT) > at
    assert one.info()["ttl"] == 7200.0


def test_a_directory_above_the_cache_is_refused_as_it_is_at_the_start(stack, tmp_path, near):
    """Its files are what others' credentials fetched, and the cache's own secret."""
    one = Reloadable(stack, tmp_path, upstream=near.url)
    line = one.refuse(upstream=f"file://{tmp_path}")
    assert "a directory that no upstream leads to" in line
    assert one.info()["upstream"] == near.url


def test_a_file_of_authorities_that_went_bad_leaves_the_old_ones(stack, tmp_path, near):
    authority = Authority(tmp_path)
    told = {"upstream": near.url, "upstream_ca_file": str(authority.ca_file)}
    one = Reloadable(stack, tmp_path, **told)
    authority.ca_file.write_text("no certificates")
    assert "no certificates in PEM" in one.refuse(**told, ttl="1h")
    assert one.info()["ttl"] == 300.0


# Signals at any time.


@contextmanager
def hung_up(sidecar: Sidecar) -> Iterator[None]:
    """Sends SIGHUP all the time, from when there is a process until it has ended."""
    is_over = threading.Event()

    def send() -> None:
        while not is_over.wait(0.002):
            process = sidecar._process
            if process is not None:
                process.send_signal(signal.SIGHUP)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        is_over.set()
        sender.join()


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_signal_at_any_time_ends_nothing(tmp_path, near, loop):
    near.put("/c/0", b"body")
    sidecar = Sidecar(near.url, tmp_path / "cache", (*ANY_DISK, "--loop", loop))
    # As under nohup, since an interpreter that has read nothing yet knows no better.
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with hung_up(sidecar), sidecar:
            assert exchange(sidecar.url, "/c/0").body == b"body"
            wait_for(lambda: sidecar.stderr().count(READ) > 1, "several reloads")
            assert sidecar.stop() == 0
    finally:
        signal.signal(signal.SIGHUP, ignored)


# Many.


class Crowd:
    """Clients that ask all the time, each on a connection of its own."""

    def __init__(self, url: str, readers: int) -> None:
        self.wrong: list[tuple[str, int, bytes]] = []
        self.answers = 0
        self._url = url
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._read) for _ in range(readers)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _read(self) -> None:
        with Connection(self._url) as client:
            while not self._is_over.is_set():
                for target, right in RIGHT.items():
                    client.send("GET", target)
                    answer = client.response()
                    self.answers += 1
                    if seen(answer) not in right:
                        self.wrong.append((target, *seen(answer)))


def seen(answer: Response) -> tuple[int, bytes]:
    """What it comes to: a remembered absence has no body."""
    return answer.status, answer.body if answer.status == 200 else b""


RIGHT = {
    **{f"/stays/c/{n}": {(200, b"near %d" % n)} for n in range(0, 8, 2)},
    **{f"/stays/c/{n}": {(404, b"")} for n in range(1, 8, 2)},
    **{f"/moves/c/{n}": {(200, b"near %d" % n), (404, b"")} for n in range(0, 8, 2)},
    **{f"/moves/c/{n}": {(404, b""), (200, b"far %d" % n)} for n in range(1, 8, 2)},
}


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_many_reloads_under_load_give_no_wrong_answer_and_keep_nothing(stack, tmp_path, near, far):
    for number in range(0, 8, 2):
        near.put(f"/c/{number}", b"near %d" % number)
        far.put(f"/c/{number + 1}", b"far %d" % (number + 1))

    def told(round_: int) -> Any:
        lives = {"ttl": f"{round_ % 3}s", "negative_ttl": f"{round_ % 2}s"}
        return routes(
            stays={"upstream": near.url, **lives},
            moves={"upstream": (near, far)[round_ % 2].url, "upstream_retries": round_ % 5},
            **{f"guest-{round_}": {"upstream": far.url}},
        )

    one = Reloadable(stack, tmp_path, routes=told(0))
    with Crowd(one.sidecar.url, 4):
        for round_ in range(1, 6):
            one.reload(routes=told(round_))
    held = len(one.descriptors())
    with Crowd(one.sidecar.url, 4) as crowd:
        for round_ in range(6, 6 + RELOADS):
            one.reload(routes=told(round_))
            # Whoever asks from now on asks there.
            for number in range(2):
                is_there = number == round_ % 2
                body = (b"near 0", b"far 1")[number]
                answer = exchange(one.sidecar.url, f"/moves/c/{number}")
                assert seen(answer) == ((200, body) if is_there else (404, b""))
            assert exchange(one.sidecar.url, f"/guest-{round_}/c/1").body == b"far 1"
            assert exchange(one.sidecar.url, f"/guest-{round_ - 1}/c/1").status == 421
    assert crowd.wrong == []
    assert crowd.answers > 5 * RELOADS
    one.sidecar.wait_idle()
    wait_for(lambda: len(one.descriptors()) <= held + 4, f"about {held} descriptors")
    guests = set(re.findall(r'route="/(guest-\d+)"', one.metrics()))
    assert guests == {f"guest-{5 + RELOADS}"}
