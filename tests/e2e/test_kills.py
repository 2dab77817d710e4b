"""Ten SIGKILLs while bodies are being filled. The long form: `python -m tests.bench.kills`."""

import secrets
from pathlib import Path

import pytest

from tests.support.kills import kill_often

KILLS = 10


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_no_kill_in_the_midst_of_fills_makes_a_wrong_byte_or_leaves_a_temp_file(
    cache_dir: Path,
) -> None:
    report = kill_often(KILLS, cache_dir, secrets.randbits(32))
    print(report)
    assert report.wrong == [], report
    assert report.kills == KILLS, report
    assert report.temps_left > 0, "no kill fell into a fill"
