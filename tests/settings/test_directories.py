"""Directories that are upstreams: looked at by `check`, all together, and for no longer than a
moment.
"""

import os
import threading

from chunkside.settings import forecast, load_settings
from tests.support.deadline import DEADLINE_SECONDS
from tests.support.files import Stall


def warnings(tmp_path, **values):
    settings = load_settings({"cache_dir": str(tmp_path / "cache"), **values}, {})
    outlook = forecast(settings, {})
    assert not outlook.problems
    return [line for line in outlook.lines if line.startswith("warning: upstream")]


def test_one_that_is_not_there_is_told_and_stops_nothing(tmp_path):
    data = tmp_path / "data"
    [line] = warnings(tmp_path, upstream=f"file://{data}")
    assert "data can't be read: The upstream's directory can't be opened: No such file" in line
    data.mkdir()
    [line] = warnings(tmp_path, upstream=f"file://{data}")
    assert "directory is empty. Is its volume mounted? Requests are answered 503" in line
    (data / "x").touch()
    assert warnings(tmp_path, upstream=f"file://{data}") == []


def test_all_volumes_are_looked_at_together(tmp_path, monkeypatch):
    """None answers before all are asked."""
    all_are_asked = threading.Barrier(50)

    def waits_for_the_others(_):
        all_are_asked.wait(DEADLINE_SECONDS)
        return os.open(tmp_path, os.O_RDONLY)

    monkeypatch.setattr("chunkside.settings.directories.LOOK_SECONDS", DEADLINE_SECONDS)
    monkeypatch.setattr("chunkside.upstream.root.Root.open", waits_for_the_others)
    routes = [
        {"prefix": f"/{number}", "upstream": f"file://{tmp_path}/{number}"} for number in range(50)
    ]
    assert warnings(tmp_path, routes=routes) == []


def test_volumes_that_do_not_answer_are_told_in_time(tmp_path, monkeypatch):
    stall = Stall()

    def stalls(_):
        stall.wait()
        # The test may be over by then.
        return os.open("/", os.O_RDONLY)

    monkeypatch.setattr("chunkside.settings.directories.LOOK_SECONDS", 0.05)
    monkeypatch.setattr("chunkside.upstream.root.Root.open", stalls)
    routes = [
        {"prefix": f"/{number}", "upstream": f"file://{tmp_path}/{number}"} for number in range(50)
    ]
    lines = warnings(tmp_path, routes=routes)
    stall.goes_on.set()
    assert len(lines) == 50
    assert all("doesn't answer within 0.05 s" in line for line in lines)
