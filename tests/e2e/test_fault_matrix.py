"""The short form of `make faults`: few keys, all faults."""

from pathlib import Path

import pytest

from tests.support.fault_matrix import cells, run, table
from tests.support.faulty_origin import FAULTS

KEYS = 5


@pytest.mark.timeout(240)
async def test_no_fault_makes_an_absence_a_torn_body_a_second_write_or_lasts(
    tmp_path: Path,
) -> None:
    chosen = list(cells())
    await run(chosen, KEYS, tmp_path)
    assert all(sum(cell.answers.values()) == KEYS for cell in chosen)
    assert len(table(chosen).splitlines()) == 2 + 3 * len(FAULTS)
