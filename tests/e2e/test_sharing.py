"""Sidecars on one directory, with writers. The long form: `python -m tests.bench.sharing`."""

import secrets
from pathlib import Path

import pytest

from tests.support.sharing import LOOPS, MIB, share

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]


def test_processes_on_one_directory_show_nothing_older_than_a_write_and_keep_one_budget(
    cache_dir: Path,
) -> None:
    report = share(1500, cache_dir, secrets.randbits(32))
    print(report)
    assert report.wrong == [], report
    assert report.operations == 1500, report
    assert report.results["hit"] > 0, report
    # The budget was exceeded by far, had nobody made room.
    assert report.body_bytes > 2 * report.budget, report
    assert sum(report.sweeps) > len(LOOPS), report


@pytest.mark.parametrize("loop", LOOPS[:2])
def test_files_never_take_more_than_the_budget_in_a_mixed_run_of_ten_times_as_much(
    cache_dir: Path, loop: str
) -> None:
    report = share(1800, cache_dir, secrets.randbits(32), loops=[loop], budget=9 * MIB)
    print(report)
    assert report.wrong == [], report
    assert report.body_bytes > 10 * report.budget, report
    # It was made use of.
    assert report.most_bytes > report.budget // 2, report
