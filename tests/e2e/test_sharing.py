"""Three sidecars on one directory, with writers. The long form: `python -m tests.bench.sharing`."""

import secrets
from pathlib import Path

import pytest

from tests.support.sharing import PROCESSES, share

OPERATIONS = 1500


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_processes_on_one_directory_show_nothing_older_than_a_write_and_keep_one_budget(
    cache_dir: Path,
) -> None:
    report = share(OPERATIONS, cache_dir, secrets.randbits(32))
    print(report)
    assert report.wrong == [], report
    assert report.operations == OPERATIONS, report
    assert report.results["hit"] > 0, report
    # The budget was exceeded by far, had nobody made room.
    assert report.body_bytes > 2 * report.most_bytes, report
    assert len(report.sweeps) == PROCESSES, report
    assert sum(report.sweeps) > PROCESSES, report
