import json

from chunkside.core.problem import PROBLEM_MEDIA_TYPE, problem


def test_a_problem_has_the_members_of_rfc_9457():
    body = problem(504, "Too slow", "Nothing came within 8 s. Try again.", slug="origin-too-slow")
    assert json.loads(body) == {
        "type": "urn:chunkside:problem:origin-too-slow",
        "title": "Too slow",
        "status": 504,
        "detail": "Nothing came within 8 s. Try again.",
    }
    assert PROBLEM_MEDIA_TYPE == "application/problem+json"


def test_a_problem_is_one_line_whatever_its_words_hold():
    body = problem(400, "Bad", 'a "quoted"\r\nline, and µ', slug="bad")
    assert body.endswith(b"}\n")
    assert body.count(b"\n") == 1
    assert json.loads(body)["detail"] == 'a "quoted"\r\nline, and µ'
