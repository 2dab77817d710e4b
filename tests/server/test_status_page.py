"""The status page: its figures without a script, and nothing that a browser would run."""

import re
from html.parser import HTMLParser

import pytest

from chunkside.server.status_page import prefers_html, render
from chunkside.server.status_page.chart import chart
from chunkside.server.status_page.markup import bar, count, share, size
from tests.support.shown import EVIL, a_status


class Document(HTMLParser):
    """Elements and text of a page; raises AssertionError where tags don't close in their order."""

    VOID = frozenset({"meta", "link"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str | None] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *each) for each in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *each) for each in attrs]

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self._open[-1:]):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def test_all_figures_stand_in_the_page_as_it_is_served():
    text = Document(render(a_status())).text
    for told in (
        *("80 80 %", "of 100; 50 of them were remembered absences.", "29.3 KiB"),
        *("From store 30 30 %", "Remembered absence 50 50 %", "No usable answer 5 5 %"),
        *("/a.zarr ≈ 31", "/b.zarr 503 1 now", "body cache_size is used up 3 now"),
        *("commit ENOSPC 1 now", "version 1.2.3, up 1 min 1 s", "ready"),
        *("ttl 300.0", "cache_missing yes", "absent_statuses 404, 410", "100 ms"),
    ):
        assert told in text, told


def test_a_sidecar_that_is_young_has_a_page():
    status = a_status()
    status["window"]["points"] = status["window"]["points"][-1:]
    status["saved"] = dict.fromkeys(status["saved"], 0) | {"share": None, "seconds": None}
    status["prefixes"] = {"hits": [], "absences": []}
    status["errors"] = status["evictions"] = status["store_errors"] = []
    text = Document(render(status)).text
    for told in (
        "Nothing was read from store yet.",
        "Nothing had to make room.",
        "Waiting saved \N{EN DASH}",
    ):
        assert told in text, told


@pytest.mark.parametrize("obstacle", ["the disk is gone", EVIL], ids=["plain", "evil"])
def test_what_is_wrong_is_said_in_the_head(obstacle):
    document = Document(render(a_status(obstacle=obstacle)))
    assert f"not ready: {obstacle}" in document.text


def test_what_comes_from_outside_is_text_wherever_it_stands():
    status = a_status(version=EVIL)
    status["routes"][0] |= {"route": EVIL, "upstream": EVIL}
    status["prefixes"]["hits"][0]["prefix"] = EVIL
    status["errors"][0] |= {"prefix": EVIL, "status": EVIL}
    status["evictions"][0] |= {"kind": EVIL, "reason": EVIL}
    status["store_errors"][0] |= {"operation": EVIL, "error": EVIL}
    status["audits"] = [{"kind": EVIL, "verdict": EVIL, "count": 1}]
    status["configuration"] |= {EVIL: EVIL}
    status["configuration"]["routes"][0] |= {"prefix": EVIL, EVIL: [EVIL]}
    document = Document(render(status))
    assert document.tags.count("script") == 1
    assert document.text.count(EVIL) == 18
    handlers = [each for each in document.attributes if each[1].startswith("on")]
    assert handlers == []


def test_nothing_is_loaded_from_anywhere():
    document = Document(render(a_status()))
    loads = [each for each in document.attributes if each[1] in ("src", "srcset", "data")]
    links = [value for tag, name, value in document.attributes if (tag, name) == ("link", "href")]
    assert (loads, links) == ([], ["data:,"])
    assert not re.search(r"@import|url\(", render(a_status()))
    # What a policy without unsafe-inline would refuse.
    assert [each for each in document.attributes if each[1] == "style"] == []


def test_a_prefix_leads_to_its_map_as_it_is_spelled():
    status = a_status()
    status["prefixes"]["hits"][0]["prefix"] = "/caf%C3%A9 b/x?"
    assert ("a", "href", "/map/caf%C3%A9%20b/x%3F") in Document(render(status)).attributes


def test_parts_that_are_renewed_are_named_once():
    document = Document(render(a_status()))
    assert len(set(document.ids)) == len(document.ids)
    assert sum(name == "data-live" for _, name, _ in document.attributes) == 6


def test_audits_are_shown_where_there_are_any():
    wrong = [{"kind": "body", "verdict": "wrong", "count": 2}]
    html = render(a_status(audits=wrong))
    assert "body wrong 2" in Document(html).text
    assert '<b class="bad">2</b>' in html
    assert "No answer was audited yet." in Document(render(a_status(audits=[]))).text


def test_a_broken_origin_is_said_to_be_left_alone():
    status = a_status()
    status["routes"][0]["breaker"] = "open"
    assert "failing, left alone" in Document(render(status)).text


# The chart.


def window(*totals):
    points = [{"store": n, "absence": 0, "origin": n, "error": 0} for n in (*totals, 999)]
    return {"step_seconds": 5.0, "steps": 180, "points": points}


def test_columns_stand_on_those_below_them_and_the_step_under_way_is_left_out():
    drawn = chart(window(5, 10))
    # Ten in five seconds from each: at most 4 a second, the top of the scale.
    assert '<path class="f-store" d="M22 100.00v-25.00h.86v25.00zM23 100.00v-50.00h' in drawn
    assert '<path class="f-origin" d="M22 75.00v-25.00h.86v25.00zM23 50.00v-50.00h' in drawn
    assert "f-error" not in drawn
    assert "4/s" in drawn
    assert "at most 4.0." in drawn


def test_a_chart_of_nothing_is_an_empty_one():
    assert "1/s" in chart(window())
    assert '<path class="f-' not in chart(window(0, 0))


@pytest.mark.parametrize(
    ("steps", "told"), [(3, "2 minutes"), (60, "5 minutes"), (180, "15 minutes")]
)
def test_a_chart_is_as_long_as_there_is_something_to_show(steps, told):
    assert f"{told} ago" in chart(window(*[1] * steps))


# Words.


def test_only_who_names_html_gets_it():
    assert prefers_html("text/html,*/*;q=0.8")
    assert prefers_html("application/xml, Text/HTML;q=0.9")
    for accept in ("", "*/*", "text/*", "text/plain", "application/xhtml+xml"):
        assert not prefers_html(accept)


@pytest.mark.parametrize(
    ("number", "told"),
    [
        *((0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB")),
        *((102_300, "100 KiB"), (2**20 - 1, "1.0 MiB"), (5 * 2**40, "5.0 TiB"), (None, "&ndash;")),
    ],
)
def test_sizes_are_told_in_their_largest_unit(number, told):
    assert size(number) == told


@pytest.mark.parametrize(
    ("part", "whole", "told"),
    [
        *((0, 0, "&ndash;"), (0, 5, "0 %"), (5, 5, "100 %"), (1, 3, "33.3 %")),
        *((1, 10_000, "< 0.1 %"), (9_999, 10_000, "> 99.9 %")),
    ],
)
def test_a_share_rounds_to_all_or_nothing_only_what_is_that(part, whole, told):
    assert share(part, whole) == told


def test_counts_have_marks_and_bars_have_a_width():
    assert count(1_234_567) == "1,234,567"
    assert 'width="50.0"' in bar(1, 2)
    assert 'width="0.0"' in bar(0, 0)
