"""What the log says of a disk that fails, that a lost table of stamps is mended, and that the
garbage collector is kept from what the scan takes in.
"""

import asyncio
import gc
import logging
import weakref

import pytest

from chunkside.store.stamps import FileStampTable
from chunkside.upkeep import TableUpkeep, TellingMetrics, spare_from_collection


def messages(caplog):
    return [record.getMessage() for record in caplog.records]


def test_a_failing_store_is_said_once_and_so_is_its_recovery(caplog):
    metrics = TellingMetrics("1")
    for _ in range(3):
        metrics.store_failed("commit", "ENOSPC")
    metrics.fill_ended("not_stored_disk")
    metrics.fill_ended("stored")
    metrics.fill_ended("stored")
    first, last = messages(caplog)
    assert "commit: ENOSPC" in first
    assert "works again" in last


def test_a_table_that_is_in_its_place_is_left_alone(tmp_path, caplog):
    table = FileStampTable(str(tmp_path), lambda: 100.0)
    before = table.id
    TableUpkeep(table).look()
    assert table.id == before
    assert messages(caplog) == []


def test_a_lost_table_is_mended_and_said(tmp_path, caplog):
    table = FileStampTable(str(tmp_path), lambda: 100.0)
    upkeep = TableUpkeep(table)
    (tmp_path / "stamps").unlink()
    upkeep.look()
    assert not table.is_displaced()
    assert len(messages(caplog)) == 1


def test_a_table_that_can_not_be_mended_is_said_once(tmp_path, caplog):
    home = tmp_path / "home"
    home.mkdir()
    table = FileStampTable(str(home), lambda: 100.0)
    upkeep = TableUpkeep(table)
    home.rename(tmp_path / "gone")
    # A directory that is gone is made again; this can't be one.
    home.write_text("")
    for _ in range(3):
        upkeep.look()
    [only] = caplog.records
    assert only.levelno == logging.ERROR


# The collector.


class Knot:
    """Only a collection frees it."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture
def collector():
    yield
    gc.unfreeze()
    assert gc.isenabled()


async def test_what_is_scanned_is_looked_at_by_no_collection_and_garbage_goes_all_the_same(
    collector,
):
    is_read = asyncio.Event()
    scan = asyncio.create_task(is_read.wait())
    sparing = asyncio.create_task(spare_from_collection(scan))
    await asyncio.sleep(0)  # polls: its first turn
    assert not gc.isenabled()
    gone = asyncio.Event()
    knot = Knot()
    weakref.finalize(knot, gone.set).atexit = False
    del knot
    await asyncio.wait_for(gone.wait(), 20)
    is_read.set()
    await sparing
    assert gc.get_freeze_count() > 0


async def test_the_collector_works_again_where_a_scan_is_given_up(collector):
    scan = asyncio.create_task(asyncio.Event().wait())
    sparing = asyncio.create_task(spare_from_collection(scan))
    await asyncio.sleep(0)  # polls: its first turn
    sparing.cancel()
    await asyncio.wait([sparing])
    assert gc.isenabled()
    scan.cancel()
    await asyncio.wait([scan])
