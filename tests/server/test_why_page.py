"""`/why/…`: the target to the byte, words for people, JSON for programs."""

import json

import pytest

from chunkside.core.fields import Fields
from chunkside.server.why_page import WhyRequest, as_json, as_text, parse_why, wants_json

TOLD = {
    "verdict": "It is so.",
    "would_be_answered": {"GET": "404 from memory"},
    "target": "/a",
    "partition": None,
    "held": [{"kind": "body", "evidence": {}, "files": [{"path": "/x", "bytes": "0-9"}]}],
    "others": [],
    "a_fill_is_under_way": False,
    "is_held": True,
}


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/why/a/c/0", b"/a/c/0"),
        ("/why/a%20b//c?x=1&y=%2F&&z=%25?", b"/a%20b//c?x=1&y=%2F&&z=%25?"),
        ("/why/", b"/"),
        ("/why/why/a", b"/why/a"),
        ("http://localhost:8101/why/a?", b"/a?"),
    ],
)
def test_the_target_is_all_that_follows(path, target):
    fields = [(b"Authorization", b"Bearer x")]
    assert parse_why(path, fields) == WhyRequest(target, Fields(fields))


@pytest.mark.parametrize("path", ["/wh%79/a", "/why", "/whya", "*"])
def test_another_spelling_is_refused(path):
    with pytest.raises(ValueError, match=r"."):
        parse_why(path, [])


@pytest.mark.parametrize(
    ("accept", "is_json"),
    [
        ("", False),
        ("*/*", False),
        ("application/json", True),
        ("Application/JSON;q=0.9, */*;q=0.1", True),
        ("text/html,application/json", False),
        ("application/json, text/plain", False),
    ],
)
def test_json_is_for_those_who_accept_it_alone(accept, is_json):
    assert wants_json(accept) is is_json


def test_words_begin_with_the_verdict_and_leave_out_what_is_not():
    assert as_text(TOLD).splitlines() == [
        "It is so.",
        "",
        "would be answered:",
        "  GET: 404 from memory",
        "target: /a",
        "held, 1 of 1:",
        "  kind: body",
        "  files, 1 of 1:",
        "    path: /x",
        "    bytes: 0-9",
        "a fill is under way: no",
        "is held: yes",
    ]


def test_json_has_all_of_it():
    assert json.loads(as_json(TOLD)) == TOLD


def test_fields_that_an_origin_chose_drive_no_terminal_and_make_no_line():
    etag = '"\x1b]0;owned\x07\x9b2J"'
    told = {"verdict": "true", "held": {"etag": etag, "target": "/a\nverdict: false"}}
    text = as_text(told)
    assert all(line.isprintable() for line in text.split("\n"))
    assert text.count("\n") == 5
    assert json.loads(as_json(told)) == told
