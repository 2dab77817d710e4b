"""Where a sidecar keeps what it holds, and whether that is what was meant."""

import gc
import logging
from pathlib import Path

import pytest

from chunkside.cache import cache_of
from chunkside.settings import load_settings
from tests.support.volume import small_volume


@pytest.mark.root
def test_memory_in_place_of_a_directory_is_told_where_a_directory_was_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # A line that is kept would hold the fault, and with it a file of the volume.
    caplog.set_level(logging.CRITICAL, "chunkside.cache")
    # Too small for the stamps.
    with small_volume(tmp_path / "volume", inodes=100) as volume:
        monkeypatch.setenv("XDG_CACHE_HOME", str(volume))
        degraded = cache_of(load_settings({"allow_memory_filesystem": "true"}, {}))
        # A fault and its traceback hold each other, and that file, until they are collected.
        gc.collect()
    assert degraded.chosen is None
    assert degraded.is_degraded


def test_memory_that_was_asked_for_is_no_fault() -> None:
    asked_for = cache_of(load_settings({"cache_size": "0"}, {}))
    assert asked_for.chosen is None
    assert not asked_for.is_degraded


def test_a_directory_that_is_used_is_no_fault(tmp_path: Path) -> None:
    flags = {"cache_dir": str(tmp_path / "cache"), "allow_memory_filesystem": "true"}
    used = cache_of(load_settings(flags, {}))
    assert used.chosen is not None
    assert not used.is_degraded
