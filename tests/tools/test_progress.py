"""How a long command tells how far it is."""

import io

import pytest

from chunkside.tools.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_on_a_terminal_a_bar_is_drawn_in_place(clock):
    stream = Terminal()
    progress = Progress(stream, 200, clock)
    progress.show(0, "0 files")
    clock.now += 10
    progress.show(100, "5 files")
    first, second = stream.getvalue().split("\r\x1b[K")[1:]
    assert first.startswith("[................]   0%  0 files")
    assert second == "[########........]  50%  5 files, 0:10 left"
    assert "\n" not in stream.getvalue()


def test_a_bar_is_not_drawn_more_often_than_can_be_seen(clock):
    stream = Terminal()
    progress = Progress(stream, 100, clock)
    for done in range(100):
        progress.show(done, "x")
    assert stream.getvalue().count("%") == 1


def test_a_bar_makes_way_for_a_line_and_comes_back(clock):
    stream = Terminal()
    progress = Progress(stream, 100, clock)
    progress.show(1, "x")
    progress.make_way()
    assert stream.getvalue().endswith("\r\x1b[K")
    progress.show(2, "y")
    assert stream.getvalue().endswith("  y, 0:00 left")


def test_a_bar_never_takes_two_lines(clock):
    stream = Terminal()
    Progress(stream, 100, clock).show(1, "x" * 300)
    assert len(stream.getvalue()) < 90


def test_elsewhere_a_plain_line_is_printed_every_few_seconds(clock):
    stream = io.StringIO()
    progress = Progress(stream, 100, clock)
    for second in range(13):
        clock.now = 100.0 + second
        progress.show(second, f"{second} files")
    progress.make_way()
    assert stream.getvalue() == "5%  5 files, 1:35 left\n10%  10 files, 1:30 left\n"


def test_nothing_to_do_is_all_of_it_done(clock):
    stream = Terminal()
    Progress(stream, 0, clock).show(0, "x")
    assert "100%" in stream.getvalue()
