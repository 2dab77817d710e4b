"""Metrics of a running sidecar: exact, of few series whatever comes, and as Prometheus has them."""

import json
import re
import subprocess
from collections.abc import Iterator

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from chunkside.metrics import KINDS, RESULTS
from tests.docs.named_tests import page as docs_page
from tests.e2e.conftest import StartSidecar
from tests.plugins.requirements import find_program
from tests.support.http_client import Connection, exchange
from tests.support.origin import Origin, Script
from tests.support.sidecar import Sidecar

OPENMETRICS = ("Accept", "application/openmetrics-text; version=1.0.0")
# As long as the text that says what is wrong.
OF_ERRORS = {'chunkside_response_bytes_total{result="error",route="/"}'}


# What the exchange below comes to, byte for byte.
SCRIPTED = {
    'chunkside_requests_total{class="metadata",method="GET",result="miss",route="/"}': 1,
    'chunkside_requests_total{class="chunk",method="GET",result="miss",route="/"}': 2,
    'chunkside_requests_total{class="chunk",method="GET",result="hit",route="/"}': 4,
    'chunkside_requests_total{class="chunk",method="GET",result="negative_hit",route="/"}': 1,
    'chunkside_requests_total{class="chunk",method="GET",result="bypass",route="/"}': 1,
    'chunkside_requests_total{class="chunk",method="GET",result="error",route="/"}': 1,
    'chunkside_requests_total{class="chunk",method="HEAD",result="hit",route="/"}': 1,
    'chunkside_requests_total{class="chunk",method="OPTIONS",result="bypass",route="/"}': 1,
    'chunkside_requests_total{class="chunk",method="PUT",result="bypass",route="/"}': 1,
    'chunkside_requests_total{class="chunk",method="other",result="bypass",route="/"}': 1,
    'chunkside_responses_total{code="200",route="/"}': 7,
    'chunkside_responses_total{code="204",route="/"}': 2,
    'chunkside_responses_total{code="206",route="/"}': 1,
    'chunkside_responses_total{code="304",route="/"}': 1,
    'chunkside_responses_total{code="404",route="/"}': 2,
    'chunkside_responses_total{code="421",route="/"}': 1,
    # Twice ten and three of a range; two, ten and the origin's page of fifteen.
    'chunkside_response_bytes_total{result="hit",route="/"}': 23,
    'chunkside_response_bytes_total{result="miss",route="/"}': 27,
    'chunkside_response_bytes_total{result="bypass",route="/"}': 10,
    'chunkside_upstream_requests_total{class="metadata",code="200",method="GET",route="/"}': 1,
    'chunkside_upstream_requests_total{class="chunk",code="200",method="GET",route="/"}': 2,
    'chunkside_upstream_requests_total{class="chunk",code="404",method="GET",route="/"}': 1,
    'chunkside_upstream_requests_total{class="chunk",code="204",method="PUT",route="/"}': 1,
    'chunkside_upstream_requests_total{class="chunk",code="200",method="other",route="/"}': 1,
    'chunkside_upstream_received_bytes_total{route="/"}': 37,
    'chunkside_upstream_sent_bytes_total{route="/"}': 5,
    'chunkside_fills_total{outcome="stored"}': 2,
    'chunkside_fills_total{outcome="absent"}': 1,
    'chunkside_invalidations_total{cause="metadata",route="/"}': 1,
    'chunkside_invalidations_total{cause="PUT",route="/"}': 1,
    'chunkside_invalidations_total{cause="other",route="/"}': 1,
    'chunkside_invalidations_total{cause="purge",route="/"}': 1,
    'chunkside_removals_total{kind="body",reason="invalidated"}': 1,
    'chunkside_removals_total{kind="marker",reason="purged"}': 1,
}


def page(sidecar: Sidecar, *headers: tuple[str, str]) -> str:
    return exchange(sidecar.admin_url, "/metrics", headers=headers).body.decode()


def samples(text: str) -> dict[str, float]:
    """By name and labels as they are written, labels in order."""
    told = {}
    for line in text.splitlines():
        found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if found:
            labels = ",".join(sorted(re.findall(r'\w+="[^"]*"', found[2] or "")))
            told[f"{found[1]}{{{labels}}}"] = float(found[3])
    return told


def counters(text: str) -> dict[str, float]:
    """All counts that aren't zero."""
    return {
        name: value
        for name, value in samples(text).items()
        if value and "chunkside_" in name and "_total{" in name and name not in OF_ERRORS
    }


def test_a_scripted_exchange_is_counted_exactly(own_origin: Origin, own_sidecar: Sidecar) -> None:
    origin, sidecar = own_origin, own_sidecar
    origin.put("/a/c/0", b"0123456789", etag='"one"')
    origin.put("/a/zarr.json", b"{}", etag='"doc"')

    def ask(target: str, method: str = "GET", *headers: tuple[str, str], body: bytes | None = None):
        answer = exchange(sidecar.url, target, method, headers, body)
        sidecar.wait_idle()
        return answer

    ask("/a/zarr.json")
    for _ in range(3):
        ask("/a/c/0")
    ask("/a/c/0", "GET", ("Range", "bytes=2-4"))
    ask("/a/c/0", "GET", ("If-None-Match", '"one"'))
    ask("/a/c/0", "HEAD")
    for _ in range(2):
        ask("/a/c/9")
    ask("/a/c/0?X-Amz-Signature=x")
    ask("/", "OPTIONS", ("Max-Forwards", "0"))
    ask("/a/c/0", "PUT", body=b"abc")
    ask("/a/c/0", "PATCH", body=b"ab")
    exchange(sidecar.admin_url, "/purge", "POST", (), json.dumps({"target": "/a/c/9"}).encode())
    with Connection(sidecar.url) as client:
        client.send_raw(b"GET /a HTTP/1.1\r\nHost: rebound.example\r\n\r\n")
        assert client.response().status == 421
    text = page(sidecar)
    assert counters(text) == SCRIPTED
    shown = samples(text)
    assert {kind: shown[f'chunkside_index_entries{{kind="{kind}"}}'] for kind in KINDS} == {
        "body": 1,
        "range": 0,
        "marker": 0,
    }
    assert shown["chunkside_partitions{}"] == 1
    of_requests = {name: n for name, n in SCRIPTED.items() if "_requests_total{" in name}
    for result in RESULTS:
        ended = sum(count for name, count in of_requests.items() if f'"{result}"' in name)
        duration = f'chunkside_request_duration_seconds_count{{result="{result}",route="/"}}'
        assert shown[duration] == ended
    assert shown['chunkside_upstream_request_duration_seconds_count{route="/"}'] == 6


def test_both_formats_tell_the_same(own_origin: Origin, own_sidecar: Sidecar) -> None:
    own_origin.put("/a/c/0", b"body")
    for target in ("/a/c/0", "/a/c/0", "/a/c/9"):
        exchange(own_sidecar.url, target)
        own_sidecar.wait_idle()
    plain, openmetrics = page(own_sidecar), page(own_sidecar, OPENMETRICS)
    assert openmetrics.endswith("# EOF\n")
    # Its parser is strict.
    names = {
        sample.name
        for family in text_string_to_metric_families(openmetrics)
        for sample in family.samples
        if sample.name.startswith("chunkside_")
    }
    told = [
        {
            name: value
            for name, value in samples(text).items()
            # What is free on a disk is others' to say as well.
            if name.startswith("chunkside_") and "disk_free" not in name
        }
        for text in (plain, openmetrics)
    ]
    assert told[0] == told[1]
    assert {name.partition("{")[0] for name in told[1]} == names - {"chunkside_disk_free_bytes"}


@pytest.mark.server("promtool")
def test_promtool_has_nothing_to_say(
    own_origin: Origin, start_sidecar: StartSidecar, tmp_path
) -> None:
    promtool = find_program("promtool")
    assert promtool is not None
    token = tmp_path / "token"
    # {"exp": 4102444800}, which nobody has signed.
    token.write_text("eyJhbGciOiJub25lIn0.eyJleHAiOjQxMDI0NDQ4MDB9.x")
    sidecar = start_sidecar("--upstream-auth", "bearer", "--upstream-auth-file", str(token))
    own_origin.put("/a/c/0", b"body")
    for target in ("/a/c/0", "/a/c/0", "/a/c/9"):
        exchange(sidecar.url, target)
        sidecar.wait_idle()
    text = page(sidecar)
    expires = 'chunkside_upstream_credential_expires_timestamp_seconds{route="/"}'
    assert samples(text)[expires] == 4102444800
    ran = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")


# How many of each are sent; a single one that makes a series would be seen.
ODD_METHODS, ODD_STATUSES, ODD_HOSTS, PATHS = 100, 100, 200, 500
# Those that HTTP's parser knows go on to the origin, which answers them as it likes.
KNOWN_METHODS = (b"PATCH", b"MKCOL", b"LOCK", b"UNLOCK", b"PROPPATCH", b"REPORT", b"PROPFIND")


def odd_requests() -> Iterator[bytes]:
    for method in KNOWN_METHODS:
        yield b"%b /a/c/0 HTTP/1.1\r\nHost: localhost\r\n\r\n" % method
    for number in range(ODD_METHODS):
        yield b"BREW%d /a/c/0 HTTP/1.1\r\nHost: localhost\r\n\r\n" % number
    for number in range(ODD_HOSTS):
        yield b"GET /a/c/0 HTTP/1.1\r\nHost: h%d.example\r\n\r\n" % number
    for number in range(PATHS):
        yield b"GET /p%d/c/%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % (number % 7, number)
    for status in range(ODD_STATUSES):
        yield b"GET /s/%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % (999 - status)


def test_nothing_that_clients_or_origins_send_makes_a_series(
    own_origin: Origin, own_sidecar: Sidecar
) -> None:
    for status in range(999, 999 - ODD_STATUSES, -1):
        own_origin.script(f"/s/{status}", Script(status=status, body=b"odd"))

    def series_after(requests: list[bytes]) -> int:
        client = Connection(own_sidecar.url)
        for request in requests:
            client.send_raw(request)
            if "close" in (client.response().value("Connection") or ""):
                client.close()
                client = Connection(own_sidecar.url)
        client.close()
        own_sidecar.wait_idle()
        return len(samples(page(own_sidecar)))

    every = list(odd_requests())
    # One of each kind makes whatever series there are to be.
    kinds = [request for request in every if re.search(rb" /a/c/0 |^GET /p0/c/0 |/s/999", request)]
    first = series_after([each for each in kinds if not re.search(rb"BREW[1-9]|: h[1-9]", each)])
    assert series_after(every) == first
    writes = [method for method in KNOWN_METHODS if method not in (b"REPORT", b"PROPFIND")]
    told = own_sidecar.metric('chunkside_invalidations_total{cause="other"}')
    assert told == 2 * len(writes)


# The queries of docs/metrics.md.

QUERIES = dict(re.findall(r"<!-- ([a-z ]+) -->\n```promql\n(.+)\n```", docs_page("metrics.md")))
# Counts by minutes: of these the origin was asked 3 times of 20, and 200 of 1000 bytes came anew.
SERIES = {
    'chunkside_requests_total{result="hit"}': 10,
    'chunkside_requests_total{result="negative_hit"}': 6,
    'chunkside_requests_total{result="collapsed"}': 1,
    'chunkside_requests_total{result="miss"}': 3,
    'chunkside_upstream_requests_total{code="200"}': 3,
    'chunkside_response_bytes_total{result="hit"}': 800,
    'chunkside_response_bytes_total{result="miss"}': 200,
}
EXPECTED = {"hit ratio": 16 / 20, "avoided": 17 / 60, "byte ratio": 0.8}


def test_every_query_is_one_line_and_has_an_expected_value() -> None:
    assert QUERIES.keys() == EXPECTED.keys()


@pytest.mark.server("promtool")
def test_prometheus_makes_of_the_queries_what_they_are_said_to_be(tmp_path) -> None:
    promtool = find_program("promtool")
    assert promtool is not None
    tests = {
        "rule_files": [],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": series, "values": f"0+{step}x10"} for series, step in SERIES.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": f"round({QUERIES[name]}, 0.000001)",
                        "eval_time": "10m",
                        "exp_samples": [{"labels": "{}", "value": round(value, 6)}],
                    }
                    for name, value in EXPECTED.items()
                ],
            }
        ],
    }
    file = tmp_path / "queries.json"
    # JSON is YAML.
    file.write_text(json.dumps(tests))
    ran = subprocess.run(
        [promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
