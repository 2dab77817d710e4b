"""A web page at another origin, in a real browser, before a sidecar with something stored."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import StartSidecar
from tests.support.browser import Page
from tests.support.http_client import exchange
from tests.support.origin import Origin, Script
from tests.support.sidecar import Sidecar

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

BODY = b"0123456789"
SCRIPT = """
const data = "%(data)s", admin = "%(admin)s";
const attempt = async (name, url, options) => {
  try {
    const answer = await fetch(url, options);
    const told = {};
    for (const field of ["content-range", "etag", "cache-status"])
      told[field] = answer.headers.get(field);
    found[name] = {type: answer.type, status: answer.status, body: await answer.text(), ...told};
  } catch (error) {
    found[name] = {type: "error"};
  }
};
await attempt("get", data + "/held");
await attempt("range", data + "/held", {headers: {Range: "bytes=-4"}});
await attempt("absent", data + "/absent");
await attempt("absent again", data + "/absent");
await attempt("fault", data + "/fault");
await attempt("opaque", data + "/held", {mode: "no-cors"});
for (const method of ["PUT", "POST", "DELETE", "PATCH"])
  await attempt(method, data + "/held", {method, body: "from a page"});
await attempt("blind post", data + "/held", {method: "POST", mode: "no-cors", body: "x"});
navigator.sendBeacon(data + "/held", "x");
for (const body of ['{"all": true}', '{"target": "/held"}'])
  await attempt("purge " + body, admin + "/purge", {method: "POST", mode: "no-cors", body});
await attempt("purge by the data port", data + "/held", {method: "PURGE"});
await attempt("stats", admin + "/stats");
await attempt("entries", admin + "/entries?prefix=/");
await attempt("metrics", admin + "/metrics");
await attempt("the file", admin + "/file/held");
await new Promise((resolve) => {
  const frame = document.createElement("iframe");
  frame.name = "inner";
  frame.onload = resolve;
  document.body.append(frame);
  const form = document.createElement("form");
  form.action = data + "/held";
  form.method = "post";
  form.target = "inner";
  document.body.append(form);
  form.submit();
});
"""


@pytest.fixture
def page() -> Iterator[Page]:
    opened = Page()
    yield opened
    opened.close()


def visited(page: Page, sidecar: Sidecar, origin: Origin, home: Path) -> dict[str, Any]:
    """What the page found where /held is stored; what was done by it is checked here."""
    origin.put("/held", BODY, etag='"one"')
    origin.script("/fault", Script(status=503, body=b"no"))
    assert exchange(sidecar.url, "/held").body == BODY
    sidecar.wait_idle()
    found = page.visit(home, SCRIPT % {"data": sidecar.url, "admin": sidecar.admin_url})
    methods = {each.method for each in origin.requests()}
    assert methods <= {"GET", "HEAD", "OPTIONS"}
    assert origin.objects["/held"].body == BODY
    origin.forget_requests()
    # Nothing was purged: it is still answered from store.
    assert exchange(sidecar.url, "/held").body == BODY
    assert origin.count() == 0
    for name in ("stats", "entries", "metrics", "the file"):
        assert found[name]["type"] == "error", name
    return found


WRITES = ["PUT", "POST", "DELETE", "PATCH", "purge by the data port"]


def test_a_page_that_nobody_listed_can_neither_read_nor_write_nor_purge(
    page: Page, start_sidecar: StartSidecar, own_origin: Origin, tmp_path: Path
) -> None:
    found = visited(page, start_sidecar(), own_origin, tmp_path)
    for name in ("get", "range", "absent", "absent again", "fault", *WRITES):
        assert found[name]["type"] == "error", name
    # Of what it may send blindly it learns nothing.
    assert (found["opaque"]["status"], found["opaque"]["body"]) == (0, "")


def test_a_page_at_another_origin_than_the_listed_one_is_as_foreign(
    page: Page, start_sidecar: StartSidecar, own_origin: Origin, tmp_path: Path
) -> None:
    sidecar = start_sidecar("--cors-origins", "http://localhost:1")
    found = visited(page, sidecar, own_origin, tmp_path)
    for name in ("get", "range", "absent", "absent again", "fault", *WRITES):
        assert found[name]["type"] == "error", name


def test_a_listed_page_reads_what_is_there_and_what_is_not_and_writes_nothing(
    page: Page, start_sidecar: StartSidecar, own_origin: Origin, tmp_path: Path
) -> None:
    sidecar = start_sidecar("--cors-origins", page.origin)
    found = visited(page, sidecar, own_origin, tmp_path)
    assert (found["get"]["status"], found["get"]["body"]) == (200, "0123456789")
    assert found["get"]["etag"] == '"one"'
    assert found["get"]["cache-status"].startswith("chunkside; hit; ttl=")
    assert (found["range"]["status"], found["range"]["body"]) == (206, "6789")
    assert found["range"]["content-range"] == "bytes 6-9/10"
    assert (found["absent"]["status"], found["absent"]["body"]) == (404, "no such object\n")
    assert (found["absent again"]["status"], found["fault"]["status"]) == (404, 503)
    assert "detail=negative" in found["absent again"]["cache-status"]
    # A page that may read is told that it may not write; most aren't even asked by the browser.
    assert found["POST"]["status"] == 403
    for name in ("PUT", "DELETE", "PATCH"):
        assert found[name]["type"] == "error", name


def test_a_page_that_the_origin_lets_in_reads_what_was_stored_for_all(
    page: Page, start_sidecar: StartSidecar, own_origin: Origin, tmp_path: Path
) -> None:
    own_origin.put("/held", BODY, headers=[("Access-Control-Allow-Origin", "*")])
    sidecar = start_sidecar()
    exchange(sidecar.url, "/held")
    sidecar.wait_idle()
    found = page.visit(
        tmp_path,
        f"found.body = await (await fetch('{sidecar.url}/held')).text();",
    )
    assert found["body"] == "0123456789"
    assert own_origin.count("GET") == 1
