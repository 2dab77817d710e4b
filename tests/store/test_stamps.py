"""What holds of the stamp table as a file: other processes, boots, bad disks; and the secret."""

import math
import os
import resource
import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkside.core.key import Object
from chunkside.gateway.errors import StoreFault
from chunkside.store.stamps import FileStampTable, MemoryStampTable, load_secret
from tests.store.samples import ManualClock

ONE = Object("http://h:80", b"/a/0")
OTHER = Object("http://h:80", b"/a/1")


@pytest.fixture
def clock():
    return ManualClock(boot=100.25)


@pytest.fixture
def open_table(tmp_path, clock):
    def open_another(boot_id: bytes | None = None) -> FileStampTable:
        return FileStampTable(str(tmp_path), lambda: clock.boot, boot_id)

    return open_another


@pytest.fixture
def full_disk():
    """Writing to any file fails, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))

    yield fill
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_the_table_outlives_the_process(open_table):
    first = open_table()
    first.renew(ONE, ends=None)
    second = open_table()
    assert second.id == first.id
    assert second.read(ONE) == first.read(ONE)
    assert second.read(OTHER) == first.read(OTHER)


def test_processes_see_each_others_stamps_at_once(open_table):
    first, second = open_table(), open_table()
    before = first.read(ONE)
    second.renew(ONE, ends=None)
    assert first.read(ONE) == second.read(ONE) != before


def test_a_table_of_another_boot_is_made_anew(open_table):
    first = open_table(b"1" * 16)
    second = open_table(b"2" * 16)
    assert second.id != first.id
    assert second.read(ONE) != first.read(ONE)
    assert first.is_displaced()
    assert not second.is_displaced()


@pytest.mark.parametrize("damage", ["truncated", "empty", "foreign", "symlink"])
def test_a_damaged_table_is_made_anew(open_table, tmp_path, damage):
    first_id = open_table().id
    path = tmp_path / "stamps"
    match damage:
        case "truncated":
            os.truncate(path, 100_000)
        case "empty":
            os.truncate(path, 0)
        case "foreign":
            path.write_bytes(bytes(path.stat().st_size))
        case "symlink":
            path.rename(tmp_path / "elsewhere")
            path.symlink_to(tmp_path / "elsewhere")
        case _:
            raise AssertionError(damage)
    assert open_table().id != first_id
    assert not path.is_symlink()


def test_all_blocks_of_the_table_are_taken_at_its_creation(open_table, tmp_path):
    open_table()
    status = (tmp_path / "stamps").stat()
    assert status.st_blocks * 512 >= status.st_size > 8 << 20


def test_table_and_secret_are_owner_only_whatever_the_umask(open_table, tmp_path):
    before = os.umask(0)
    try:
        open_table()
        load_secret(str(tmp_path))
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("first_to_end", [0, 1])
def test_a_write_of_one_process_never_shortens_that_of_another(open_table, clock, first_to_end):
    tables = open_table(), open_table()
    writes = [tables[0].close(ONE, 360.0), tables[1].close(ONE, 10.0)]
    assert tables[0].read(ONE).closed_until() >= 460
    tables[first_to_end].renew(ONE, ends=writes[first_to_end])
    running_until = [460, 110][1 - first_to_end]
    assert tables[0].read(ONE).closed_until() >= running_until


@pytest.mark.parametrize("ends", [(0, 1), (1, 0)])
@pytest.mark.parametrize("seconds", [(360.0, 360.0), (360.0, 10.0), (10.0, 360.0)])
def test_of_overlapping_writes_of_two_processes_the_last_to_end_opens(
    open_table, clock, ends, seconds
):
    tables = open_table(), open_table()
    writes = [table.close(ONE, each) for table, each in zip(tables, seconds, strict=True)]
    for number in ends:
        assert tables[0].read(ONE).closed_until() > clock.boot
        tables[number].renew(ONE, ends=writes[number])
    assert tables[0].read(ONE).closed_until() <= clock.boot


def test_a_write_whose_process_was_killed_stays_closed_whoever_writes_after_it(open_table, clock):
    open_table().close(ONE, 360.0)
    other = open_table()
    other.renew(ONE, ends=other.close(ONE, 360.0))
    assert other.read(ONE).closed_until() >= 460


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "end", "end", "end", "unknown", "purge", "wait"]),
        st.integers(0, 1),
        st.integers(0, 400),
    ),
    max_size=40,
)


@settings(max_examples=50, deadline=None)
@given(steps=STEPS)
def test_an_object_is_closed_while_any_of_two_processes_writes_and_open_soon_after(
    tmp_path_factory, steps
):
    clock = ManualClock(boot=100.25)
    home = str(tmp_path_factory.mktemp("table"))
    tables = [FileStampTable(home, lambda: clock.boot) for _ in range(2)]
    # Of each process, by name: until when.
    running: list[dict[int, float]] = [{}, {}]
    unknown_until = 0.0
    for act, who, number in steps:
        table, mine = tables[who], running[who]
        name = list(mine)[number % len(mine)] if mine else None
        if act == "wait":
            clock.boot += number / 4
        elif act == "write":
            mine[table.close(ONE, number)] = clock.boot + number
        elif act == "purge":
            table.renew(ONE, ends=None)
        elif name is not None and act == "end":
            del mine[name]
            table.renew(ONE, ends=name)
        elif name is not None:
            del mine[name]
            table.close(ONE, 60.0, ends=name)
            unknown_until = clock.boot + 60.0
        still = [until for each in running for until in each.values()]
        closed_until = tables[0].read(ONE).closed_until()
        assert closed_until >= max([unknown_until, *still])
        if not any(running) and not unknown_until:
            assert closed_until <= math.ceil(clock.boot)


def test_a_process_alone_opens_what_it_closed(open_table, clock):
    table, other = open_table(), open_table()
    table.renew(ONE, ends=table.close(ONE, 360.0))
    assert other.read(ONE).closed_until() <= clock.boot


def test_a_stamp_that_can_not_be_written_makes_all_others_unlike_any_before(
    open_table, full_disk, clock
):
    table, bystander = open_table(), open_table()
    targets = [Object(f"http://h:{port}", b"/%d" % n) for port in range(20) for n in range(20)]
    before = {target: table.read(target).token for target in targets}
    old_id, running = table.id, table.close(OTHER, 360.0)
    full_disk()
    with pytest.raises(StoreFault) as fault:
        table.close(ONE, 60.0)
    assert fault.value.operation == "stamp"
    assert table.left_directory
    assert table.id not in (old_id, bystander.id)
    assert all(table.read(target).token != token for target, token in before.items())
    # The same call again can't fail, and writes that run keep their objects closed.
    write = table.close(ONE, 60.0)
    assert table.read(ONE).closed_until() == 161
    assert table.read(OTHER).closed_until() >= 460
    table.renew(ONE, ends=write)
    table.renew(OTHER, ends=running)
    assert table.read(ONE).closed_until() <= clock.boot
    assert table.read(OTHER).closed_until() <= clock.boot


def test_a_table_that_lacks_a_stamp_is_taken_from_those_who_would_trust_it(open_table, full_disk):
    table, bystander = open_table(), open_table()
    assert not bystander.is_displaced()
    full_disk()
    with pytest.raises(StoreFault):
        table.doubt(ONE, 7.0)
    # The others find out by themselves, and who comes later finds none of this name.
    assert bystander.is_displaced()
    assert table.newest_doubt() == 0.0
    table.doubt(ONE, 7.0)
    assert table.doubted_at(ONE) == 7.0


def test_doubts_are_shared_and_outlive_the_process(open_table):
    one, two = open_table(), open_table()
    one.doubt(ONE, 7.0)
    assert two.doubted_at(ONE) == open_table().doubted_at(ONE) == 7.0


def test_a_table_that_left_comes_back_with_a_new_one_that_vouches_for_nothing_from_before(
    open_table, full_disk, clock
):
    table = open_table()
    old_id = table.id
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    full_disk()
    with pytest.raises(StoreFault):
        table.close(ONE, 60.0)
    running = table.close(ONE, 60.0)
    assert not table.repair()
    assert table.left_directory
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits[1], limits[1]))
    assert table.repair()
    assert not table.left_directory
    assert open_table().id == table.id != old_id
    assert table.read(ONE).closed_until() == 161
    table.renew(ONE, ends=running)
    assert open_table().read(ONE) == table.read(ONE)


@pytest.mark.parametrize("is_replaced", [True, False], ids=["by-another", "by-none"])
def test_a_table_that_was_exchanged_is_followed(open_table, tmp_path, is_replaced):
    table = open_table()
    before, old_id = table.read(ONE), table.id
    (tmp_path / "stamps").unlink()
    assert table.is_displaced()
    other = open_table() if is_replaced else None
    assert table.repair()
    assert not table.is_displaced()
    other = other or open_table()
    assert table.id == other.id != old_id
    assert table.read(ONE) != before
    other.renew(ONE, ends=None)
    assert table.read(ONE) == other.read(ONE)


def test_a_directory_without_room_for_a_table_is_told(open_table, full_disk, tmp_path):
    full_disk()
    with pytest.raises(StoreFault):
        open_table()
    with pytest.raises(StoreFault):
        load_secret(str(tmp_path))
    assert not list(tmp_path.glob("*.tmp"))


def test_a_table_that_was_removed_is_displaced(open_table, tmp_path):
    table = open_table()
    assert not table.is_displaced()
    (tmp_path / "stamps").unlink()
    assert table.is_displaced()


def test_tables_of_memory_are_unlike_each_other(clock):
    tables = [MemoryStampTable(lambda: clock.boot) for _ in range(2)]
    assert tables[0].id != tables[1].id
    assert tables[0].read(ONE) != tables[1].read(ONE)


def test_the_secret_is_made_once(tmp_path):
    secret = load_secret(str(tmp_path))
    assert len(secret) == 32
    assert load_secret(str(tmp_path)) == secret


@pytest.mark.parametrize("damage", ["torn", "zeros", "readable", "symlink"])
def test_a_secret_that_is_none_is_made_anew(tmp_path, damage):
    secret = load_secret(str(tmp_path))
    path = tmp_path / "secret"
    match damage:
        case "torn":
            os.truncate(path, 7)
        case "zeros":
            path.write_bytes(bytes(32))
        case "readable":
            path.chmod(0o644)
        case "symlink":
            path.rename(tmp_path / "elsewhere")
            path.symlink_to(tmp_path / "elsewhere")
        case _:
            raise AssertionError(damage)
    again = load_secret(str(tmp_path))
    assert again != secret
    assert any(again)
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert load_secret(str(tmp_path)) == again
