"""`/map/…`: what it is asked for, and the map as text, picture, page and JSON."""

import json
import re
from collections import Counter
from xml.etree import ElementTree as ET

import pytest

from chunkside.arrays.plane import parse_selection
from chunkside.server.map_page import parse_map, show
from chunkside.server.map_page.as_svg import as_svg
from chunkside.server.map_page.as_text import as_json, as_text
from chunkside.server.map_page.chunk_map import STATES, Cell
from tests.server.test_status_page import Document
from tests.support.shown import EVIL, a_map

SVG = "{http://www.w3.org/2000/svg}"
SHARDS = [{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1]}}]


# Asking.


@pytest.mark.parametrize(
    ("path", "target", "selection"),
    [
        ("/map/a.zarr", b"/a.zarr", None),
        ("/map/a%20b/", b"/a%20b", None),
        ("/map/", b"", None),
        ("/map/a/zarr.json", b"/a", None),
        ("/map/a/.zarray?slice=0,:", b"/a", "0,:"),
        ("/map/a?slice=0,1%3A3,:", b"/a", "0,1:3,:"),
    ],
)
def test_the_array_is_what_follows_and_the_slice_is_in_the_query(path, target, selection):
    asked = parse_map(path, [])
    assert asked.target == target
    assert asked.selection == (None if selection is None else parse_selection(selection))


@pytest.mark.parametrize("path", ["/map", "/mapa", "/map/a?x=1", "/map/a?slice=0&slice=1", "*"])
def test_what_is_no_map_is_refused(path):
    with pytest.raises(ValueError, match=r"."):
        parse_map(path, [])


def test_fields_of_a_reader_go_along_and_those_of_a_browser_do_not():
    brought = [
        *((b"Authorization", b"Bearer x"), (b"X-Project", b"7"), (b"Accept", b"text/html")),
        *((b"Sec-Fetch-Mode", b"navigate"), (b"Range", b"bytes=0-1"), (b"User-Agent", b"x")),
        *((b"If-None-Match", b'"a"'), (b"Cache-Control", b"no-cache")),
    ]
    assert list(parse_map("/map/a", brought).fields) == brought[:2]


# Text.


EVIL_TYPE = "\x1b[2J\u202e\ud800"


@pytest.mark.parametrize("accept", ["*/*", "text/html", "image/svg+xml", "application/json"])
def test_what_an_origin_and_a_client_chose_drives_no_terminal(accept):
    evil = a_map((2, 3), target=b"/\xc2\x9b2J.zarr", data_type=EVIL_TYPE)
    content = show(evil, accept).content
    assert all(line.isprintable() for line in content.split("\n"))
    assert content.encode()


def one(state):
    return cell(**{state: 1})


def cell(**states: int) -> Cell:
    found: Cell = Counter()
    for state in STATES:
        if state in states:
            found[state] = states[state]
    return found


def test_a_text_map_has_a_sign_for_each_chunk_and_says_what_signs_mean():
    cells = {(0, index): one(state) for index, state in enumerate(STATES)}
    text = as_text(a_map((2, 12), cells=cells))
    assert text.splitlines()[:7] == [
        "/a.zarr",
        "zarr3, int16, 2 x 12 in chunks of 1 x 1: a grid of 2 x 12",
        "slice :,: (rows along dimension 0, columns along dimension 1)",
        "",
        "   0         10",
        "0  #+-~........",
        "1  ............",
    ]
    assert "#          1    4.2 %  held\n" in text
    assert ".         20   83.3 %  unknown\n" in text


def test_a_binned_text_map_tells_tenths_of_what_needs_no_origin():
    cells = {
        (0, 0): cell(held=2),
        (0, 1): cell(held=1, unknown=1),
        (0, 2): cell(absent=1, held=1),
        (0, 3): cell(expired=1, unknown=1),
    }
    text = as_text(a_map((1, 128), cells=cells))
    assert "\n0  #590......" in text
    assert "A cell stands for 1 x 2 chunks." in text
    assert "tenths of them answered without the origin" in text


def test_rows_and_columns_are_numbered_by_chunks():
    lines = as_text(a_map((200, 300), "100:,200:")).splitlines()
    at = lines.index("")
    # A hundred rows, two in each; a hundred columns, two in each.
    assert re.split(r" +", lines[at + 1].strip()) == ["200", "220", "240", "260", "280"]
    assert lines[at + 2].startswith("100  .")
    assert lines[at + 3].startswith("102  .")


def test_one_dimension_is_numbered_by_its_rows():
    text = as_text(a_map((70,)))
    assert " 0  " + "." * 64 + "\n64  ......\n" in text
    assert "along dimension 0, row by row" in text


def test_an_array_without_elements_has_a_map_of_nothing():
    shown = a_map((0, 4))
    for accept in ("*/*", "image/svg+xml", "application/json", "text/html"):
        assert show(shown, accept).content


def test_what_must_be_known_is_said():
    text = as_text(a_map((20, 20), codecs=SHARDS))
    assert "A shard is one object, of chunks of 1 x 1" in text
    assert "There are too many: of 4 x 4 one was looked at." in as_text(
        a_map((4096, 4096), cells={})
    )


# JSON.


def test_json_has_counts_for_each_cell_in_the_order_of_states():
    members = json.loads(as_json(a_map((3, 2), cells={(1, 0): one("absent")})))
    assert members["states"] == list(STATES)
    assert members["cells"][1] == [[0, 0, 1, 0, 0], [0, 0, 0, 0, 1]]
    assert members["totals"]["absent"] == 1
    assert (members["grid"], members["slice"], members["dimensions"]) == ([3, 2], ":,:", [0, 1])


# Picture and page.


def test_a_picture_is_xml_with_a_titled_mark_for_each_chunk():
    cells = {(0, index): one(state) for index, state in enumerate(STATES)}
    root = ET.fromstring(as_svg(a_map((2, 5), cells=cells)))
    marks = root.findall(f"{SVG}g")
    assert [mark.findtext(f"{SVG}title") for mark in marks[:2]] == [
        "c/0/0: held",
        "c/0/1: held in part",
    ]
    used = [use.get("href") for use in root.iter(f"{SVG}use")]
    assert used == [f"#s-{state}" for state in STATES] + ["#s-unknown"] * 5
    assert {each.get("id") for each in root.iter(f"{SVG}g")} >= {f"s-{state}" for state in STATES}
    assert root.get("aria-label") == (
        "Of 10 chunks of /a.zarr: 1 held, 1 held in part, 1 known to be absent, 1 no longer fresh,"
        " 6 unknown."
    )


def test_a_bin_is_drawn_by_its_shares():
    shown = a_map((1, 128), cells={(0, 0): cell(held=1, unknown=3)})
    mark = ET.fromstring(as_svg(shown)).findall(f"{SVG}g")[0]
    widths = {
        each.get("class"): float(each.get("width", "0")) for each in mark.findall(f"{SVG}rect")
    }
    assert widths == {"m-held": 0.23, "m-unknown": 0.69}
    assert mark.findtext(f"{SVG}title") == "from c/0/0 on: 1 held, 3 unknown"


@pytest.mark.parametrize("accept", ["text/html", "image/svg+xml"])
def test_a_path_that_would_be_markup_is_text(accept):
    shown = show(a_map((2, 2), target=EVIL.encode()), accept)
    assert "<script" not in shown.content
    assert "&lt;script&gt;" in shown.content


def test_a_page_leads_to_the_slices_beside():
    html = show(a_map((3, 4, 5, 6), "1,0,:,:", target=b"/a%20b"), "text/html").content
    document = Document(html)
    links = [value for tag, name, value in document.attributes if (tag, name) == ("a", "href")]
    assert links == [
        "/",
        "/map/a%20b/?slice=0,0,:,:",
        "/map/a%20b/?slice=2,0,:,:",
        "/map/a%20b/?slice=1,1,:,:",
    ]
    assert "dimension 0: chunk 1 of 0 to 2" in document.text
