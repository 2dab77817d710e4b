"""The status page and the chunk map in a real browser, before a sidecar that is being read from."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser

from tests.e2e.conftest import StartSidecar
from tests.support.arrays import CHUNKS_PER_SIDE, NAME, sparse_array
from tests.support.http_client import Connection, exchange
from tests.support.origin import Origin, Script
from tests.support.pages import VIEWS, browser, visit
from tests.support.sidecar import Sidecar, run_command

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@contextmanager
def load(sidecar: Sidecar, targets: list[str]) -> Iterator[None]:
    """One client that asks for all of these again and again."""
    is_over = threading.Event()

    def ask() -> None:
        with Connection(sidecar.url) as connection:
            while not is_over.is_set():
                for target in targets:
                    connection.send("GET", target)
                    connection.response()

    reader = threading.Thread(target=ask)
    reader.start()
    try:
        yield
    finally:
        is_over.set()
        reader.join()


def serve(origin: Origin) -> list[str]:
    """An array of which half of the rows are read; its document first, as readers do."""
    array = sparse_array()
    for path, body in array.objects.items():
        origin.put(path, body)
    origin.script("/%3Ci%3E&odd.zarr/c/0", Script(status=500, body=b"no"))
    rows = range(CHUNKS_PER_SIDE // 2)
    return [
        f"/{NAME}/zarr.json",
        *(f"/{NAME}/c/{i}/{j}" for i in rows for j in range(CHUNKS_PER_SIDE)),
        "/%3Ci%3E&odd.zarr/c/0",
    ]


@pytest.fixture
def read(origin: Origin, sidecar: Sidecar) -> list[str]:
    targets = serve(origin)
    for target in targets:
        exchange(sidecar.url, target)
    sidecar.wait_idle()
    return targets


def test_figures_move_under_load_and_neither_the_browser_nor_axe_complains(
    chromium: Browser, sidecar: Sidecar, read: list[str]
) -> None:
    with load(sidecar, read), visit(chromium, f"{sidecar.admin_url}/") as page:
        for _ in range(2):
            page.until_other("#saved", page.text("#saved"))
        assert f"/{NAME}" in page.text("#prefixes")
        assert "/%3Ci%3E&odd.zarr 500" in page.text("#trouble")
        assert page.faults() == []
        assert page.complaints == []


@pytest.mark.parametrize("view", sorted(VIEWS))
@pytest.mark.parametrize("path", ["/", f"/map/{NAME}"])
def test_pages_are_fit_to_be_read_in_every_light_and_on_a_phone(
    chromium: Browser, sidecar: Sidecar, read: list[str], path: str, view: str
) -> None:
    with visit(chromium, f"{sidecar.admin_url}{path}", view) as page:
        page.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert page.faults() == []
        assert not page.is_wider_than_its_window()
        assert page.complaints == []


def test_the_figures_are_there_without_a_script(
    chromium: Browser, sidecar: Sidecar, read: list[str]
) -> None:
    with visit(chromium, f"{sidecar.admin_url}/", java_script_enabled=False) as page:
        shown = json.loads(exchange(sidecar.admin_url, "/status.json").body)
        assert f"{shown['saved']['requests']:,}" in page.text("#saved")
        assert page.page.locator("#traffic svg[role=img]").count() == 1
        assert not page.page.locator("#pause").is_visible()


def test_a_page_that_is_paused_stands_still_and_one_without_a_sidecar_says_so(
    chromium: Browser, own_origin: Origin, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar()
    exchange(sidecar.url, "/a/c/0")
    with visit(chromium, f"{sidecar.admin_url}/") as page:
        page.page.click("#pause")
        assert page.text("#freshness") == "Paused"
        with page.page.expect_request("**/") as asked:
            page.page.click("#pause")
        assert asked.value.headers["accept"] == "text/html"
        sidecar.stop()
        page.until_says("#freshness", "these figures are old")


def test_the_map_of_a_sparse_array_shows_what_was_read(
    chromium: Browser, sidecar: Sidecar, read: list[str]
) -> None:
    array = sparse_array()
    with visit(chromium, f"{sidecar.admin_url}/map/{NAME}") as page:
        titles = page.page.locator("svg.map g > title").all_text_contents()
        wanted = set()
        for i in range(CHUNKS_PER_SIDE):
            for j in range(CHUNKS_PER_SIDE):
                path = f"/{NAME}/c/{i}/{j}"
                known = "held" if path in array.present else "known to be absent"
                wanted.add(f"c/{i}/{j}: {known if i < CHUNKS_PER_SIDE // 2 else 'unknown'}")
        assert set(titles) == wanted
        page.page.click("header a")
        assert page.page.title() == "Chunkside"
        assert page.complaints == []


def test_the_command_line_has_the_map_as_text_as_json_and_as_a_picture(
    sidecar: Sidecar, read: list[str]
) -> None:
    def told(*arguments: str) -> str:
        ended = run_command("map", f"/{NAME}", *arguments, "--admin", sidecar.admin_url)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    assert "0  #------#--\n" in told()
    totals = json.loads(told("--json"))["totals"]
    present = sum(f"/{NAME}/c/{i}/" in path for path in sparse_array().present for i in range(5))
    known = {"held": present, "absent": 50 - present}
    assert totals == {"held": 0, "part": 0, "absent": 0, "expired": 0, "unknown": 50} | known
    assert told("--svg").startswith("<svg ")
    assert "\n0  #\n" in told("--slice", "0,0")
    missing = run_command("map", "/nowhere", "--admin", sidecar.admin_url)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "zarr.json, .zarray, attributes.json" in missing.stderr


def test_curl_gets_words_and_a_picture_where_it_asks_for_one(
    sidecar: Sidecar, read: list[str]
) -> None:
    words = exchange(sidecar.admin_url, "/").body.decode()
    assert words.startswith("Chunkside, admin port")
    text = exchange(sidecar.admin_url, f"/map/{NAME}").body.decode()
    assert "0  #------#--" in text
    fields = [("Accept", "image/svg+xml")]
    picture = exchange(sidecar.admin_url, f"/map/{NAME}", "GET", fields)
    assert picture.value("Content-Type") == "image/svg+xml; charset=utf-8"
    assert picture.body.startswith(b"<svg ")
