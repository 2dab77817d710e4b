import io
import json
import logging
import re

import pytest

from chunkside.logs import LineFormatter, Repeats, configure

log = logging.getLogger("chunkside.store")


@pytest.fixture
def stream():
    root, ours = logging.getLogger(), logging.getLogger("chunkside")
    handlers, level = root.handlers[:], ours.level
    stream = io.StringIO()
    configure("info", stream=stream)
    yield stream
    root.handlers[:] = handlers
    ours.setLevel(level)


def lines(stream):
    return stream.getvalue().splitlines()


def test_a_line_is_made_of_keys_and_values(stream):
    log.info("listening", extra={"url": "http://localhost:8100", "workers": 1})
    assert re.fullmatch(
        r"time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=info logger=chunkside\.store "
        r"message=listening url=http://localhost:8100 workers=1",
        *lines(stream),
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('a"b', r'"a\"b"'),
        ("", '""'),
        ("x\nlevel=error", r'"x\nlevel=error"'),
        ("x\u2028y", r'"x\u2028y"'),
        (b"/a", "b'/a'"),
        (None, "None"),
    ],
)
def test_a_value_can_neither_break_its_line_nor_pose_as_another_key(stream, value, shown):
    log.info("seen", extra={"value": value})
    assert lines(stream)[0].endswith(f" message=seen value={shown}")


@pytest.mark.parametrize("is_json", [False, True])
def test_a_traceback_stays_within_its_line(stream, is_json):
    configure("info", is_json=is_json, stream=stream)
    try:
        int("none")
    except ValueError:
        log.exception("fault")
    (line,) = lines(stream)
    assert "ValueError" in line
    assert r"\n" in line


def test_json_lines_hold_the_same_fields(stream):
    configure("info", is_json=True, stream=stream)
    log.warning("slow %s", "disk", extra={"seconds": 1.5, "level": "forged", "path": b"/x"})
    (line,) = lines(stream)
    record = json.loads(line)
    assert record.pop("time").endswith("Z")
    assert record == {
        "level": "warning",
        "logger": "chunkside.store",
        "message": "slow disk",
        "seconds": 1.5,
        "path": "b'/x'",
    }


def test_the_level_is_ours_and_others_are_heard_from_warnings_on(stream):
    log.debug("unheard")
    logging.getLogger("aiohttp.server").info("unheard")
    logging.getLogger("aiohttp.server").warning("heard")
    log.info("heard")
    assert [line.split(" message=")[1] for line in lines(stream)] == ["heard", "heard"]


def test_where_errors_alone_are_wanted_others_warnings_are_unheard(stream):
    configure("error", stream=stream)
    logging.getLogger("aiohttp.server").warning("unheard")
    logging.getLogger("aiohttp.server").error("heard")
    configure("debug", stream=stream)
    logging.getLogger("aiohttp.server").info("unheard")
    logging.getLogger("aiohttp.server").warning("heard")
    assert [line.split(" message=")[1] for line in lines(stream)] == ["heard", "heard"]


def test_configuring_again_replaces_the_stream(stream):
    second = io.StringIO()
    configure("error", stream=second)
    log.warning("unheard")
    log.error("heard")
    assert lines(stream) == []
    assert len(lines(second)) == 1


def test_a_lasting_fault_is_said_when_it_begins_and_counted_when_it_ends(stream):
    for _ in range(5):
        log.warning("no space", extra={"once": "store.write"})
    log.warning("other fault", extra={"once": "store.open"})
    log.warning("space again", extra={"over": "store.write"})
    log.warning("space again", extra={"over": "store.write"})
    log.warning("no space", extra={"once": "store.write"})
    assert [line.split(" message=")[1] for line in lines(stream)] == [
        '"no space"',
        '"other fault"',
        '"space again" times=5',
        '"no space"',
    ]


def test_repeats_keep_a_bounded_number_of_states():
    repeats = Repeats(limit=2)
    assert [repeats.once(key) for key in ("a", "b", "a", "c")] == [True, True, False, True]
    assert (repeats.over("b"), repeats.over("a"), repeats.over("c")) == (0, 2, 1)


def test_a_record_that_asks_for_nothing_passes():
    record = logging.makeLogRecord({"msg": "plain"})
    assert Repeats().filter(record)
    assert LineFormatter().format(record).endswith("message=plain")
