"""What a sidecar writes: a line at the start and one at the end, request lines, and no secret."""

import base64
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import ANY_DISK, StartSidecar
from tests.support.deadline import wait_for
from tests.support.http_client import Connection, exchange
from tests.support.origin import Origin, Script
from tests.support.sidecar import Sidecar, run_command

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
IDS = [("traceparent", PARENT), ("tracestate", "rojo=00f067"), ("X-Request-Id", "req-1")]
SECRET = "s3cr3t-0123456789abcdef"
# Where nobody can know it for one, it is a part of what is asked for, and so of the key.
UNKNOWN = "unkn0wn-0123456789abcdef"
AS_JSON = ("--log-format", "json")


def records(sidecar: Sidecar, message: str | None = None) -> list[dict[str, Any]]:
    told = [json.loads(line) for line in sidecar.stderr().splitlines()]
    return [record for record in told if message in (None, record["message"])]


def request_lines(sidecar: Sidecar, count: int) -> list[dict[str, Any]]:
    wait_for(lambda: len(records(sidecar, "request")) >= count, "the lines of all requests")
    return records(sidecar, "request")


def test_in_json_nothing_else_is_written_from_the_start_to_the_end(
    own_origin: Origin, start_sidecar: StartSidecar, cache_dir: Path
) -> None:
    own_origin.put("/a/c/0", b"0123456789")
    sidecar = start_sidecar(*AS_JSON, "--cache-size", "1GiB", "--max-markers", "77")
    for target in ("/a/c/0", "/a/c/0", "/a/c/0", "/a/c/9", "/a/c/9"):
        exchange(sidecar.url, target)
        sidecar.wait_idle()
    [started] = records(sidecar, "serving")
    assert sidecar.stop() == 0
    [stopped] = records(sidecar, "stopped")
    assert sidecar.stdout() == ""
    told = {name: started[name] for name in ("url", "routes", "data", "admin", "cache_dir")}
    assert told == {
        "url": f"{sidecar.url}/",
        "routes": [f"{sidecar.url}/ -> {own_origin.url}/"],
        "data": [f"{sidecar.url}/"],
        "admin": [f"{sidecar.admin_url}/"],
        "cache_dir": str(cache_dir),
    }
    assert started["cache_bytes"] == 1 << 30
    assert started["max_markers"] == 77
    assert started["index_memory_bytes"] > 0
    assert re.match(r"\d+\.\d+", started["version"])
    assert stopped["uptime_seconds"] > 0
    saved = {
        "requests": 5,
        "without_origin": 3,
        "negative_hits": 1,
        "collapsed": 0,
        "upstream_requests": 2,
        "bytes_from_store": 20,
    }
    assert {name: stopped[name] for name in saved} == saved
    assert stopped == records(sidecar)[-1]


def test_on_a_console_ports_and_routes_are_printed_beside_the_one_line(
    own_origin: Origin, start_sidecar: StartSidecar, cache_dir: Path
) -> None:
    sidecar = start_sidecar()
    assert sidecar.stop() == 0
    assert sidecar.stdout().splitlines() == [
        f"data port: {sidecar.url}/",
        f"route: {sidecar.url}/ -> {own_origin.url}/",
        f"admin port: {sidecar.admin_url}/",
    ]
    [started] = [line for line in sidecar.stderr().splitlines() if " message=serving " in line]
    assert f' url={sidecar.url}/ routes="{sidecar.url}/ -> {own_origin.url}/" ' in started
    assert f" cache_dir={cache_dir} " in started
    last = sidecar.stderr().splitlines()[-1]
    assert " message=stopped uptime_seconds=" in last
    assert " requests=0 without_origin=0 " in last


def test_lines_say_how_often_the_origin_was_asked_and_ids_pass_on_untouched(
    own_origin: Origin, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar(*AS_JSON, "--log-requests", "1", "--log-level", "error")
    own_origin.put("/a/c/0", b"0123456789")
    own_origin.script("/a/c/1", Script(status=503))
    gate = own_origin.hold("/a/c/0")
    with Connection(sidecar.url) as first, Connection(sidecar.url) as second:
        first.send("GET", "/a/c/0", IDS)
        gate.wait_held()
        second.send("GET", "/a/c/0")
        wait_for(lambda: sidecar.metric("chunkside_fill_waiters") == 2, "the second to join")
        gate.release()
        assert first.response().body == second.response().body == b"0123456789"
    sidecar.wait_idle()
    exchange(sidecar.url, "/a/c/0")
    exchange(sidecar.url, "/a/c/1")
    lines = request_lines(sidecar, 4)
    by_result = {line["result"]: line for line in lines if line["target"] == "/a/c/0"}
    told = {result: line["upstream_requests"] for result, line in by_result.items()}
    assert told == {"miss": 1, "collapsed": 0, "hit": 0}
    assert (by_result["miss"]["request_id"], by_result["miss"]["trace_id"]) == ("req-1", TRACE)
    assert len({line["request_id"] for line in lines}) == 4
    assert "trace_id" not in by_result["collapsed"]
    [failed] = [line for line in lines if line["target"] == "/a/c/1"]
    assert (failed["upstream_requests"], failed["upstream_status"]) == (4, 503)
    # With a fill goes what its first client sent, and nothing is made up.
    [filled] = own_origin.requests(path="/a/c/0")
    for name, value in IDS:
        assert filled.values(name) == [value]
    assert all(each.value("X-Request-Id") is None for each in own_origin.requests(path="/a/c/1"))
    assert all(each.value("traceparent") is None for each in own_origin.requests(path="/a/c/1"))


def test_a_hangup_switches_lines_on_and_off_for_connections_that_are_there(
    own_origin: Origin, start_sidecar: StartSidecar, tmp_path: Path
) -> None:
    own_origin.put("/a/c/0", b"0123456789")
    config = tmp_path / "chunkside.yaml"
    config.write_text("{}")
    sidecar = start_sidecar("--config", str(config))

    def reload(**told: object) -> None:
        before = sidecar.stderr().count("settings were read anew")
        config.write_text(json.dumps(told))
        os.kill(sidecar.pid, signal.SIGHUP)
        wait_for(lambda: sidecar.stderr().count("settings were read anew") > before, "a reload")

    def lines() -> list[str]:
        return [line for line in sidecar.stderr().splitlines() if "chunkside.requests" in line]

    with Connection(sidecar.url) as client:

        def ask(times: int) -> None:
            for _ in range(times):
                client.send("GET", "/a/c/0")
                assert client.response().status == 200
                sidecar.wait_idle()

        ask(5)
        assert lines() == []
        reload(log_requests=1)
        ask(5)
        wait_for(lambda: len(lines()) == 5, "a line of each")
        reload(log_requests=1, log_format="json")
        ask(5)
        wait_for(lambda: len(lines()) == 10, "a line of each")
        reload()
        ask(5)
    assert all(" message=request " in line for line in lines()[:5])
    assert {json.loads(line)["result"] for line in lines()[5:]} == {"hit"}
    sidecar.stop()
    assert len(lines()) == 10


def test_failures_are_said_unasked_and_not_each_time(
    own_origin: Origin, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar(*AS_JSON, "--upstream-retries", "0")
    own_origin.script("/a/c/0", Script(reset_before_head=True))
    for _ in range(4):
        assert exchange(sidecar.url, "/a/c/0", headers=IDS).status in (502, 503)
    wait_for(lambda: records(sidecar, "a request failed"), "a line of the failure")
    [line] = records(sidecar, "a request failed")
    assert (line["level"], line["target"], line["request_id"]) == ("warning", "/a/c/0", "req-1")
    assert line["fault"] == line["detail"]
    assert "broke the connection off" in line["says"]


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_no_secret_is_written_or_shown(
    own_origin: Origin, start_sidecar: StartSidecar, tmp_path: Path, log_format: str
) -> None:
    """At the level that tells most, with a line for each request, whatever goes wrong."""
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 4102444800, "jti": SECRET}).encode())
    token = f"eyJhbGciOiJub25lIn0.{claims.decode().rstrip('=')}.{SECRET}"
    file = tmp_path / "token"
    file.write_text(token)
    sidecar = start_sidecar(
        *("--upstream-auth", "bearer", "--upstream-auth-file", str(file)),
        *("--log-level", "debug", "--log-requests", "1", "--log-format", log_format),
        *("--upstream-retries", "0", "--client-credentials", "partition"),
    )
    basic = base64.b64encode(f"user:{SECRET}".encode()).decode()
    theirs = [
        [("Authorization", f"Bearer {SECRET}")],
        [("Authorization", f"Basic {basic}")],
        [("Authorization", f"AWS4-HMAC-SHA256 Credential=A/b, Signature={SECRET}")],
        [("Cookie", f"session={SECRET}"), ("X-Api-Key", SECRET)],
        [("X-Amz-Security-Token", SECRET), ("X-Goog-Encryption-Key", SECRET)],
        [("X-Request-Id", "req 1"), ("traceparent", "nonsense"), ("Private-Token", SECRET)],
    ]
    own_origin.put("/a/c/0", b"0123456789")
    own_origin.script("/a/c/refused", Script(status=403))
    own_origin.script("/a/c/dead", Script(reset_before_head=True))
    own_origin.script("/a/c/torn", Script(status=200, body=b"0123456789", end_after_bytes=3))
    own_origin.script("/a/c/nonsense", Script(raw=b"HTTP/9 what\r\n\r\n"))
    queries = (
        *("", f"?X-Amz-Credential={SECRET}&X-Amz-Signature={SECRET}", f"?sv=1&sig={SECRET}"),
        *(f"?token={UNKNOWN}", f"?{UNKNOWN}", f"?prefix=a;sig={UNKNOWN}", f"#{UNKNOWN}"),
        f"%3fsig={UNKNOWN}",
    )
    names = ("0", "9", "refused", "dead", "torn", "nonsense")
    sent = 0
    for number, query in enumerate(queries):
        for name in names:
            for method in ("GET", "HEAD"):
                headers = theirs[(number + len(name)) % len(theirs)]
                exchange(sidecar.url, f"/a/c/{name}{query}", method, headers)
                sent += 1
    authority = sidecar.url.removeprefix("http://")
    for _ in range(3):
        exchange(sidecar.url, f"http://user:{SECRET}@{authority}/a/c/0?sig={SECRET}")
    for message in (
        f"GET /a/c/0?sig={SECRET} x HTTP/1.1\r\n\r\n",
        f"CONNECT user:{SECRET}@h:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        f"GET /a/c/0 HTTP/1.1\r\nHost: localhost\r\nAuthorization : Bearer {SECRET}\r\n\r\n",
        f"GET /a/c/0?sig={SECRET} HTTP/1.1\r\nHost: user:{SECRET}@h\r\n\r\n",
    ):
        with Connection(sidecar.url) as client:
            client.send_raw(message.encode())
            assert client.response().status >= 400
    sidecar.wait_idle()
    pages = [
        exchange(sidecar.admin_url, page, headers=[("Authorization", f"Bearer {SECRET}")]).body
        for page in ("/metrics", "/stats", "/info", "/entries", "/why/a/c/0", "/why/a/c/9", "/")
    ]
    sidecar.stop()
    written = sidecar.stderr() + sidecar.stdout()
    assert written.count("chunkside.requests") > sent
    assert written.count("chunkside.request_lines") == 0
    assert UNKNOWN not in written
    for secret in (SECRET, basic, token, claims.decode().rstrip("=")):
        assert secret not in written
        assert not [page for page in pages if secret.encode() in page]


def test_an_upstream_with_a_password_is_refused_and_not_shown(tmp_path: Path) -> None:
    ran = run_command(
        *("serve", "--upstream", f"http://user:{SECRET}@127.0.0.1:1/", *ANY_DISK),
        *("--cache-dir", str(tmp_path / "cache"), *AS_JSON, "--log-level", "debug"),
    )
    assert ran.returncode == 2
    assert "upstream" in ran.stderr
    assert SECRET not in ran.stderr + ran.stdout
