"""A directory as an origin: what it answers, when it is left alone, and what hangs with it."""

import asyncio
import ctypes
import errno
import logging
import os
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkside.gateway.errors import (
    BodyTorn,
    OriginError,
    OriginNotAsked,
    OriginTooSlow,
    OriginUnreachable,
)
from chunkside.upstream.beneath import best_way, by_walking
from chunkside.upstream.breaker import FAILURES_TO_OPEN, SECONDS_TO_OPEN
from chunkside.upstream.reading import PIECE_BYTES
from chunkside.upstream.wire import Times
from tests.store.samples import LOOPS
from tests.support.deadline import wait_for
from tests.support.descriptors import open_beneath
from tests.support.files import Directory, Stall, ask, failing_way, stalling_way, whole
from tests.support.turns import turns
from tests.support.volume import mounted_over

QUICK = Times(first_byte=0.1, idle=0.1, deadline=0.3)
LARGE = os.urandom(3 * PIECE_BYTES + 5)
NOBODY = 65_534


@pytest.fixture(params=LOOPS)
def runner(request):
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield runner


@pytest.fixture
def directory(tmp_path, runner):
    directory = Directory(tmp_path / "data")
    yield directory
    runner.run(directory.close())


async def status(upstream, *asked, method="GET"):
    response = await upstream.send(ask(*asked, method=method))
    await whole(response)
    return response.head.status


async def got(upstream, *asked):
    response = await upstream.send(ask(*asked))
    return response.head.status, await whole(response)


async def eventually(condition):
    """Waits for what threads tell the loop."""
    await asyncio.to_thread(wait_for, condition, "what threads do")


class TestWhatIsThere:
    @pytest.mark.parametrize(
        ("target", "expected"),
        [
            (b"/c/0", 200),
            (b"/c/0?x-id=GetObject", 200),
            (b"/%63/0", 200),
            (b"/c/1", 404),
            (b"/c/0/0", 404),
            (b"/d/0", 404),
            (b"/c", 404),
            (b"/c/", 404),
            (b"/", 404),
            (b"/nothing/", 404),
            (b"/fifo", 403),
            (b"/socket", 403),
            (b"/out", 403),
            (b"/broken", 502),
            (b"/c%2f0", 400),
            (b"//c/0", 400),
            (b"/c/../c/0", 400),
            (b"/c/0%00", 400),
            (b"/c/%zz", 400),
            (b"/" + b"x" * 256, 414),
            (b"/x" * 4096, 414),
        ],
    )
    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_each_kind_has_its_answer(self, directory, runner, target, expected, method):
        directory.put("/c/0", b"body")
        os.mkfifo(directory.path / "fifo")
        (directory.path / "out").symlink_to("/etc/passwd")
        (directory.path / "broken").symlink_to("nothing")

        async def scenario():
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(str(directory.path / "socket"))
                upstream = directory.make()
                assert await status(upstream, target, method=method) == expected
                assert directory.record.answered == [(method, expected)]

        runner.run(scenario())

    def test_only_the_absence_of_a_name_may_be_remembered(self, directory, runner):
        directory.put("/c/0", b"body")

        async def scenario():
            upstream = directory.make()
            told = {}
            for target in (b"/c/1", b"/c/0/1", b"/c", b"/c/", b"/"):
                response = await upstream.send(ask(target))
                told[target] = response.head.fields.get(b"cache-control")
                response.close()
            unremembered = dict.fromkeys((b"/c", b"/c/", b"/"), b"no-store")
            assert told == {b"/c/1": None, b"/c/0/1": None, **unremembered}

        runner.run(scenario())

    @pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH", "PROPFIND", "MKCOL"])
    def test_nothing_is_changed(self, directory, runner, method):
        file = directory.put("/c/0", b"body")

        async def scenario():
            response = await directory.make().send(ask(method=method))
            assert response.head.status == 405
            assert response.head.fields.get(b"allow") == b"GET, HEAD, OPTIONS"
            assert file.read_bytes() == b"body"

        runner.run(scenario())

    def test_options_tells_what_can_be_done(self, directory, runner):
        async def scenario():
            response = await directory.make().send(ask(method="OPTIONS"))
            assert response.head.status == 204
            assert response.head.fields.get(b"allow") == b"GET, HEAD, OPTIONS"
            assert await whole(response) == b""

        runner.run(scenario())

    @pytest.mark.root
    def test_what_this_process_may_not_read_is_forbidden(self, runner):
        # The directories of tests are for their owner alone.
        top = tempfile.TemporaryDirectory()
        Path(top.name).chmod(0o755)
        directory = Directory(Path(top.name) / "data")
        directory.put("/c/0", b"body").chmod(0)
        directory.put("/closed/0", b"body").parent.chmod(0)
        way, libc = best_way(), ctypes.CDLL(None)

        def as_nobody(root, names, flags, *, follows_links=False):
            libc.setfsuid(NOBODY)
            try:
                return way(root, names, flags, follows_links=follows_links)
            finally:
                libc.setfsuid(0)

        async def scenario():
            upstream = directory.make(way=as_nobody)
            assert await status(upstream, b"/there") == 200
            for target in (b"/c/0", b"/closed/0", b"/closed/1"):
                assert await status(upstream, target) == 403
            await directory.close()

        with top:
            runner.run(scenario())

    def test_a_directory_that_can_only_be_walked_gives_the_same_files(self, directory, runner):
        directory.put("/c/0", b"body")
        (directory.path / "link").symlink_to("c")

        async def scenario():
            upstream = directory.make(way=by_walking)
            assert await got(upstream, b"/c/0") == (200, b"body")
            assert await status(upstream, b"/c/1") == 404
            # Unlike an absence, it is told.
            assert await status(upstream, b"/link/0") == 403
            assert await status(upstream, b"/link/1") == 403

        runner.run(scenario())

    def test_empty_files_are_bodies(self, directory, runner):
        directory.put("/c/0", b"")

        async def scenario():
            upstream = directory.make()
            response = await upstream.send(ask())
            assert (response.head.status, response.head.length) == (200, 0)
            assert await whole(response) == b""
            assert await status(upstream, b"/c/0", (b"Range", b"bytes=0-")) == 416

        runner.run(scenario())


class TestFaults:
    @pytest.mark.parametrize(
        ("code", "error"),
        [
            *((code, OriginUnreachable) for code in ("EIO", "ESTALE", "ENOTCONN", "EMFILE")),
            *((code, OriginUnreachable) for code in ("ENOMEM", "EAGAIN", "EBUSY", "EREMOTEIO")),
            ("ETIMEDOUT", OriginTooSlow),
        ],
    )
    def test_they_are_never_an_absence_and_name_no_path(self, directory, runner, code, error):
        async def scenario():
            upstream = directory.make(way=failing_way(getattr(errno, code)))
            with pytest.raises(error) as raised:
                await upstream.send(ask())
            assert "secret" not in str(raised.value)
            assert directory.record.answered == [("GET", None)]

        runner.run(scenario())

    @pytest.mark.parametrize(
        ("code", "expected"),
        [("EACCES", 403), ("EPERM", 403), ("ELOOP", 403), ("EINVAL", 400), ("EILSEQ", 400)],
    )
    def test_refusals_are_answers(self, directory, runner, code, expected):
        async def scenario():
            upstream = directory.make(way=failing_way(getattr(errno, code)))
            assert await status(upstream) == expected

        runner.run(scenario())

    def test_one_file_that_fails_leaves_the_others_alone(self, directory, runner):
        directory.put("/c/0", b"body")
        way = best_way()

        def fails(root, names, flags, *, follows_links=False):
            if names[-1] == b"bad":
                raise OSError(errno.EIO, "failed")
            return way(root, names, flags, follows_links=follows_links)

        async def scenario():
            upstream = directory.make(way=fails)
            for _ in range(3 * FAILURES_TO_OPEN):
                directory.clock.advance(SECONDS_TO_OPEN)
                with pytest.raises(OriginUnreachable):
                    await upstream.send(ask(b"/bad"))
            assert await got(upstream) == (200, b"body")

        runner.run(scenario())


class TestTheRoot:
    def test_nothing_is_absent_before_it_is_there(self, directory, runner):
        kept = directory.path.rename(directory.path.with_name("kept"))

        async def scenario():
            upstream = directory.make()
            with pytest.raises(OriginUnreachable, match="Is its volume mounted"):
                await upstream.send(ask())
            directory.path.mkdir()
            with pytest.raises(OriginUnreachable, match="empty"):
                await upstream.send(ask())
            directory.path.rmdir()
            kept.rename(directory.path)
            assert await status(upstream) == 404

        runner.run(scenario())

    def test_nothing_is_absent_in_another_one(self, directory, runner):
        async def scenario():
            upstream = directory.make()
            assert await status(upstream) == 404
            kept = directory.path.rename(directory.path.with_name("kept"))
            directory.put("/c/0", b"another's")
            for target in (b"/c/0", b"/c/1", b"/"):
                with pytest.raises(OriginUnreachable, match="Another directory"):
                    await upstream.send(ask(target))
            directory.path.rename(directory.path.with_name("other"))
            kept.rename(directory.path)
            assert await status(upstream) == 404

        runner.run(scenario())

    def test_nothing_is_absent_where_it_goes_meanwhile(self, directory, runner):
        way, kept = best_way(), directory.path.with_name("kept")

        def goes(root, names, flags, *, follows_links=False):
            directory.path.rename(kept)
            return way(root, names, flags, follows_links=follows_links)

        async def scenario():
            with pytest.raises(OriginUnreachable):
                await directory.make(way=goes).send(ask())

        runner.run(scenario())

    def test_the_one_at_the_start_counts_though_nobody_asked_it(self, directory, runner):
        async def scenario():
            upstream = directory.make()
            # Its look at the root is the first job, and there is one thread.
            await eventually(lambda: not upstream._workers._running)
            directory.path.rename(directory.path.with_name("kept"))
            directory.put("/c/0", b"another's")
            with pytest.raises(OriginUnreachable, match="Another directory"):
                await upstream.send(ask())

        runner.run(scenario())

    @pytest.mark.root
    def test_a_volume_that_goes_makes_nothing_absent(self, directory, runner):
        async def scenario():
            with mounted_over(directory.path):
                directory.put("/c/0", b"body")
                upstream = directory.make()
                assert await got(upstream) == (200, b"body")
                assert await status(upstream, b"/c/1") == 404
            for target in (b"/c/0", b"/c/1"):
                with pytest.raises(OriginUnreachable, match="Another directory"):
                    await upstream.send(ask(target))

        runner.run(scenario())


class TestValidators:
    def test_they_stay_while_a_file_does_and_change_with_it(self, directory, runner):
        file = directory.put("/c/0", b"one")

        async def tag(upstream):
            response = await upstream.send(ask())
            await whole(response)
            return response.head.fields.get(b"etag")

        async def scenario():
            upstream = directory.make()
            first = await tag(upstream)
            assert first is not None
            assert await tag(upstream) == first
            assert await status(upstream, b"/c/0", (b"If-None-Match", first)) == 304
            file.write_bytes(b"two")
            directory.clock.advance(10_000)
            second = await tag(upstream)
            assert second not in (None, first)
            assert await got(upstream, b"/c/0", (b"If-None-Match", first)) == (200, b"two")

        runner.run(scenario())

    def test_what_was_just_written_has_none(self, directory, runner):
        file = directory.put("/c/0", b"one")

        async def scenario():
            upstream = directory.make()
            directory.clock.wall = file.stat().st_mtime
            response = await upstream.send(ask())
            names = response.head.fields.names
            assert await whole(response) == b"one"
            assert not {b"etag", b"last-modified"} & names
            assert {b"date", b"accept-ranges"} <= names

        runner.run(scenario())


class TestFilesThatChange:
    @pytest.mark.parametrize(
        "change",
        [
            lambda file: file.write_bytes(LARGE[::-1]),
            lambda file: os.truncate(file, PIECE_BYTES + 1),
            lambda file: os.truncate(file, 0),
            lambda file: os.truncate(file, len(LARGE) + 1),
        ],
        ids=["rewritten", "shorter", "empty", "longer"],
    )
    def test_one_that_is_written_while_it_is_read_is_torn(self, directory, runner, change):
        file = directory.put("/c/0", LARGE)

        async def scenario():
            response = await directory.make().send(ask())
            assert response.head.length == len(LARGE)
            chunks = response.chunks()
            received = len(await anext(chunks))
            change(file)

            async def take_all():
                nonlocal received
                async for chunk in chunks:
                    received += len(chunk)

            with pytest.raises(BodyTorn):
                await take_all()
            # The last piece above all is kept back: what was announced never comes whole.
            assert received < len(LARGE)

        runner.run(scenario())

    def test_one_that_is_replaced_while_it_is_read_is_read_to_its_end(self, directory, runner):
        file = directory.put("/c/0", LARGE)

        async def scenario():
            response = await directory.make().send(ask())
            chunks = response.chunks()
            got = await anext(chunks)
            directory.put("/new", b"new").replace(file)
            assert got + b"".join([chunk async for chunk in chunks]) == LARGE

        runner.run(scenario())

    def test_a_small_one_is_read_anew(self, directory, runner):
        file, left = directory.put("/c/0", b"old"), [b"newer", b"newest"]

        def read_at(descriptor, size, offset):
            piece = os.pread(descriptor, size, offset)
            if left:
                file.write_bytes(left.pop(0))
            return piece

        async def scenario():
            assert await got(directory.make(read_at=read_at)) == (200, b"newest")

        runner.run(scenario())

    def test_one_that_never_rests_is_told_and_not_given(self, directory, runner):
        file = directory.put("/c/0", b"0")

        def read_at(descriptor, size, offset):
            piece = os.pread(descriptor, size, offset)
            file.write_bytes(b"x" * (file.stat().st_size + 1))
            return piece

        async def scenario():
            with pytest.raises(OriginUnreachable, match="being written"):
                await directory.make(read_at=read_at).send(ask())

        runner.run(scenario())

    def test_a_file_that_its_server_replaced_is_looked_up_again(self, directory, runner):
        directory.put("/c/0", b"body")
        way, left = best_way(), [errno.ESTALE]

        def stale(root, names, flags, *, follows_links=False):
            if left:
                raise OSError(left.pop(), "stale")
            return way(root, names, flags, follows_links=follows_links)

        async def scenario():
            assert await got(directory.make(way=stale)) == (200, b"body")

        runner.run(scenario())

    def test_reads_that_give_less_than_asked_are_gone_on_with(self, directory, runner):
        directory.put("/c/0", LARGE)

        def read_at(descriptor, size, offset):
            return os.pread(descriptor, min(size, 100_000), offset)

        async def scenario():
            assert await got(directory.make(read_at=read_at)) == (200, LARGE)

        runner.run(scenario())

    def test_a_disk_that_fails_in_the_midst_tears_the_body(self, directory, runner):
        directory.put("/c/0", LARGE)

        def read_at(descriptor, size, offset):
            if offset > PIECE_BYTES:
                raise OSError(errno.EIO, "failed")
            return os.pread(descriptor, size, offset)

        async def scenario():
            response = await directory.make(read_at=read_at).send(ask())
            with pytest.raises(BodyTorn):
                await whole(response)

        runner.run(scenario())


class TestWhatHangs:
    def test_it_is_told_in_time_and_its_file_not_asked_for_again_until_it_returns(
        self, directory, runner
    ):
        directory.put("/c/0", b"body")
        stall = Stall()

        async def scenario():
            upstream = directory.make(QUICK, way=stalling_way(stall, only=b"hangs"))
            with pytest.raises(OriginTooSlow):
                await upstream.send(ask(b"/hangs"))
            with pytest.raises(OriginNotAsked, match="hangs"):
                await upstream.send(ask(b"/hangs?x=1"))
            assert await got(upstream) == (200, b"body")
            stall.goes_on.set()
            await eventually(lambda: not len(upstream._hanging))
            assert await status(upstream, b"/hangs") == 404

        runner.run(scenario())

    def test_no_more_threads_hang_than_files_may_be_open(self, directory, runner):
        stall = Stall()
        times = Times(first_byte=0.05, deadline=0.5, connections=3)

        async def scenario():
            upstream = directory.make(times, way=stalling_way(stall))
            errors = await asyncio.gather(
                *(upstream.send(ask(b"/c/%d" % number)) for number in range(20)),
                return_exceptions=True,
            )
            assert all(isinstance(error, OriginError) for error in errors)
            kinds = [type(error) for error in errors]
            assert kinds.count(OriginTooSlow) <= times.connections
            assert upstream.threads <= times.connections + 1
            # At once, since waiting for a place would be in vain.
            with pytest.raises(OriginNotAsked, match="3 files hangs"):
                await upstream.send(ask(b"/c/20"))
            stall.goes_on.set()
            await eventually(lambda: not len(upstream._hanging))
            assert await status(upstream, b"/c/21") == 404

        runner.run(scenario())

    def test_a_dead_volume_is_left_alone_and_found_to_be_back_by_what_hung(
        self, directory, runner, caplog
    ):
        stall = Stall()

        async def scenario():
            upstream = directory.make(QUICK, way=stalling_way(stall))
            for number in range(FAILURES_TO_OPEN):
                directory.clock.advance(SECONDS_TO_OPEN)
                with pytest.raises(OriginTooSlow):
                    await upstream.send(ask(b"/c/%d" % number))
            assert directory.record.breaker == ["closed", "open"]
            with pytest.raises(OriginNotAsked, match="failed for some time"):
                await upstream.send(ask(b"/c/other"))
            assert directory.record.spared == ["breaker"]
            stall.goes_on.set()
            await eventually(lambda: directory.record.breaker[-1] == "closed")
            assert await status(upstream, b"/c/other") == 404

        with caplog.at_level(logging.WARNING, "chunkside"):
            runner.run(scenario())
        assert ["fails" in line or "again" in line for line in caplog.messages] == [True, True]
        assert str(directory.path) not in caplog.text

    def test_a_body_that_stalls_is_torn_and_its_file_closed_only_when_the_call_returns(
        self, directory, runner
    ):
        directory.put("/c/0", LARGE)
        stall = Stall()

        def read_at(descriptor, size, offset):
            if offset:
                stall.wait()
                # A descriptor that was another file's by now would give its bytes.
                os.fstat(descriptor)
            return os.pread(descriptor, size, offset)

        async def scenario():
            upstream = directory.make(QUICK, read_at=read_at)
            response = await upstream.send(ask())
            with pytest.raises(BodyTorn):
                await whole(response)
            response.close()
            await turns(5)
            assert open_beneath(directory.path) == 1
            stall.goes_on.set()
            await eventually(lambda: not open_beneath(directory.path))
            assert not len(upstream._hanging)

        runner.run(scenario())

    def test_whoever_leaves_meanwhile_leaves_nothing_open(self, directory, runner):
        directory.put("/c/0", LARGE)
        stall = Stall()

        async def scenario():
            upstream = directory.make(Times(connections=1), way=stalling_way(stall))
            leaving = asyncio.create_task(upstream.send(ask()))
            await asyncio.to_thread(stall.began.acquire)
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
            stall.goes_on.set()
            # The one place is free again only when the file was closed.
            assert await status(upstream, b"/c/1") == 404
            await eventually(lambda: not open_beneath(directory.path))

        runner.run(scenario())


class TestPlaces:
    def test_no_more_files_are_open_than_may_be(self, directory, runner):
        directory.put("/c/0", LARGE)

        async def scenario():
            upstream = directory.make(Times(connections=2))
            first, second = [await upstream.send(ask()) for _ in range(2)]
            third = asyncio.create_task(upstream.send(ask()))
            await turns(20)
            assert not third.done()
            assert await whole(first) == LARGE
            assert await whole(await third) == LARGE
            second.close()
            second.close()
            with pytest.raises(BodyTorn):
                await whole(second)

        runner.run(scenario())

    def test_a_wait_for_one_is_bounded_in_time_and_number(self, directory, runner):
        directory.put("/c/0", LARGE)

        async def scenario():
            upstream = directory.make(Times(connections=1, queue=1, deadline=0.2))
            held = await upstream.send(ask())
            waits = asyncio.create_task(upstream.send(ask()))
            await turns(5)
            with pytest.raises(OriginNotAsked, match="1 requests wait"):
                await upstream.send(ask())
            with pytest.raises(OriginNotAsked, match="as long as this request may take"):
                await waits
            assert directory.record.spared == ["queue", "queue"]
            held.close()
            assert await got(upstream) == (200, LARGE)

        runner.run(scenario())

    def test_what_was_read_and_not_taken_holds_one_and_no_descriptor(self, directory, runner):
        """It takes memory, and that is bounded by them."""
        directory.put("/c/0", b"body")

        async def scenario():
            upstream = directory.make(Times(connections=2))
            held = [await upstream.send(ask()) for _ in range(2)]
            await eventually(lambda: not open_beneath(directory.path))
            waits = asyncio.create_task(upstream.send(ask()))
            await turns(20)
            assert not waits.done()
            assert await whole(held[0]) == b"body"
            assert await whole(await waits) == b"body"
            held[1].close()

        runner.run(scenario())

    def test_answers_without_a_body_hold_none(self, directory, runner):
        directory.put("/c/0", b"body")

        async def scenario():
            upstream = directory.make(Times(connections=1))
            for _ in range(3):
                assert (await upstream.send(ask(method="HEAD"))).head.status == 200
            told = [await status(upstream, b"/c/%d" % number) for number in range(3)]
            assert told == [200, 404, 404]

        runner.run(scenario())


# Segments in many spellings, of which some lead out where they are taken for another's.
SEGMENTS = st.sampled_from(
    [
        *(b"a", b"b", b"c", b"%61", b"a%2fb", b"..", b".", b"%2e%2e", b"", b"%00", b"%", b"%25"),
        *(
            b"%2561",
            b"up",
            b"out",
            b"in",
            b"secret",
            b"x.zarr",
            b"A",
            b"a;b",
            b"..;",
            b"\\..",
            b"~",
        ),
    ]
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Each file holds its own name; links lead in and out."""
    top = tmp_path_factory.mktemp("tree")
    (top / "secret").write_bytes(b"secret")
    directory = Directory(top / "root")
    for path in ("a", "b/a", "b/b", "b/c", "c/a/b", "c/b/a", "x.zarr/c", "%", "%61", "~", "a;b"):
        directory.put(path, path.encode())
    (directory.path / "up").symlink_to("..")
    (directory.path / "out").symlink_to(top)
    (directory.path / "in").symlink_to("b")
    return directory


@settings(max_examples=300, deadline=None)
@given(segments=st.lists(SEGMENTS, min_size=1, max_size=5), query=st.sampled_from([b"", b"?a/b"]))
def test_no_target_gives_another_file_than_it_names(tree, segments, query):
    async def scenario():
        upstream = tree.make()
        try:
            return await got(upstream, b"/" + b"/".join(segments) + query)
        finally:
            await upstream.close()

    status, body = asyncio.run(scenario())
    assert status in (200, 400, 403, 404)
    if status != 200:
        return
    spelt = b"/".join(segments).replace(b"%61", b"a").replace(b"%2561", b"%61")
    assert body == spelt.replace(b"%25", b"%").replace(b"in/", b"b/")
