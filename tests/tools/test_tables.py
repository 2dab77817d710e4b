"""Lines for people and for pipes."""

from chunkside.tools.tables import aligned, member_rows, tabbed

ROWS = [("", "total"), ("requests", "7"), ("a", "1,000", "x")]


def test_columns_are_aligned_numbers_to_the_right() -> None:
    assert aligned(ROWS) == ["          total", "requests      7", "a         1,000  x"]
    assert aligned([]) == []


def test_a_pipe_gets_tabs() -> None:
    assert tabbed(ROWS) == ["\ttotal", "requests\t7", "a\t1,000\tx"]


def test_members_are_rows_and_what_lies_deeper_has_a_path() -> None:
    members = {
        "max_size": 2048,
        "is_on": True,
        "none": None,
        "ttl": 300.0,
        "statuses": [404, 410],
        "empty": [],
        "routes": [{"prefix": "/"}, {"prefix": "/a", "more": {"x": 1}}],
    }
    assert dict(member_rows(members, is_terminal=True)) == {
        "max_size": "2048 (2 KiB)",
        "is_on": "yes",
        "none": "-",
        "ttl": "300",
        "statuses": "404, 410",
        "empty": "-",
        "routes[0].prefix": "/",
        "routes[1].prefix": "/a",
        "routes[1].more.x": "1",
    }
    assert dict(member_rows(members, is_terminal=False))["max_size"] == "2048"


def test_members_of_others_drive_no_terminal() -> None:
    assert member_rows({"\x1ba": "\x9b2J"}, is_terminal=True) == [("\\x1ba", "\\x9b2J")]
