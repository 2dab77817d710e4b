"""How often an origin is asked the same, when it is left alone, and who waits for a connection."""

import asyncio
import contextlib
import logging

import pytest

from chunkside.core.fields import Fields
from chunkside.gateway.errors import (
    OriginError,
    OriginNonsense,
    OriginNotAsked,
    OriginTooSlow,
    OriginUnreachable,
    RequestAborted,
)
from chunkside.gateway.ports import Content, OriginRequest
from chunkside.upstream import wire
from chunkside.upstream.breaker import FAILURES_TO_OPEN, FIRST_REST_SECONDS, SECONDS_TO_OPEN
from chunkside.upstream.http import HttpUpstream
from chunkside.upstream.retries import FEWEST_RETRIES, RETRIED_STATUSES, RETRIES_PER_REQUEST
from chunkside.upstream.wire import Times
from tests.store.samples import LOOPS
from tests.support.house import HandClock, Record
from tests.support.raw_origin import OK, RawOrigin, closes, says
from tests.support.turns import turns

PATIENT = Times(connect=5.0, first_byte=10.0, idle=10.0, deadline=20.0, write=10.0, retries=2)


def answers(status, body=b"", *lines):
    head = b"HTTP/1.1 %d Said\r\nContent-Length: %d\r\n" % (status, len(body))
    return says(head + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body)


def one_after_the_other(*speaks):
    """The last one for all that come after."""
    left = list(speaks)

    async def speak(heard, writer):
        await (left.pop(0) if len(left) > 1 else left[0])(heard, writer)

    return speak


def ask(method="GET", target=b"/a/c/0", *fields, content=None):
    return OriginRequest(method, target, Fields(fields), "chunk", content)


def content(*chunks):
    async def each():
        for chunk in chunks:
            yield chunk

    return Content(each(), sum(map(len, chunks)))


async def whole(response):
    return b"".join([chunk async for chunk in response.chunks()])


class World:
    """An upstream whose clock stands still unless it pauses, or a test moves it."""

    def __init__(self, url, times=PATIENT):
        self.clock = HandClock()
        self.record = Record()
        self.pauses = []
        self.upstream = HttpUpstream(
            url, times, self.record, via=b"1.1 t", clock=self.clock, pause=self._pause
        )

    async def _pause(self, seconds):
        self.pauses.append(seconds)
        self.clock.advance(seconds)
        await turns()

    async def status(self, *asked):
        response = await self.upstream.send(ask(*asked))
        await whole(response)
        return response.head.status

    async def fail(self, count):
        for number in range(count):
            with contextlib.suppress(OriginError):
                await self.status("GET", b"/%d" % number)

    async def fail_until_open(self):
        """Without retries."""
        await self.fail(1)
        self.clock.advance(SECONDS_TO_OPEN)
        await self.fail(FAILURES_TO_OPEN - 1)


@pytest.fixture(params=LOOPS)
def run(request):
    """Runs a scenario before an origin that speaks so: `await scenario(world, raw)`."""

    def run(speak, scenario, times=PATIENT):
        async def main():
            async with RawOrigin(speak) as raw:
                world = World(raw.url, times)
                try:
                    await scenario(world, raw)
                finally:
                    await world.upstream.close()

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(main())

    return run


def test_nothing_is_told_of_a_head_that_breaks_off(run):
    async def scenario(world, raw):
        with pytest.raises(OriginUnreachable) as told:
            await world.upstream.send(ask())
        assert str(told.value) == f"{raw.url} broke the connection off"

    begun = b"HTTP/1.1 200 OK\r\nSet-Cookie: session=s3cr3t\r\nX-A: b"
    run(says(begun, then_closes=True), scenario, Times(retries=0))


@pytest.mark.parametrize("proxy", [None, "HTTPS_PROXY", "all_proxy"])
def test_where_nobody_answers_a_proxy_that_is_not_asked_is_named(run, monkeypatch, proxy):
    for name in wire._PROXIES:
        monkeypatch.delenv(name, raising=False)
    if proxy is not None:
        monkeypatch.setenv(proxy, "http://proxy:3128")

    async def scenario(_world, raw):
        nobody = World(raw.url.rpartition(":")[0] + ":1", Times(retries=0))
        with pytest.raises(OriginUnreachable, match="can't be connected to") as told:
            await nobody.upstream.send(ask())
        await nobody.upstream.close()
        said = f" {proxy} is set, but no origin is asked by a proxy."
        assert str(told.value).endswith("upstream right?" + ("" if proxy is None else said))

    run(OK, scenario)


class TestRetries:
    @pytest.mark.parametrize("status", sorted(RETRIED_STATUSES))
    @pytest.mark.parametrize("size", [0, 5, 3_000_000])
    def test_what_another_try_may_mend_is_asked_again(self, run, status, size):
        async def scenario(world, raw):
            response = await world.upstream.send(ask())
            assert (response.head.status, await whole(response)) == (200, b"ok")
            assert [each.target for each in raw.heard] == [b"/a/c/0"] * 2
            # What was not read is on a connection that can't be used again.
            assert raw.connections <= 2
            assert world.record.answered == [("GET", status), ("GET", 200)]
            assert world.record.retries == 1

        run(one_after_the_other(answers(status, b"x" * size), OK), scenario)

    @pytest.mark.parametrize("first", [closes, says()], ids=["dies", "silent"])
    def test_a_connection_that_fails_or_stalls_is_replaced(self, run, first):
        async def scenario(world, raw):
            assert await world.status() == 200
            assert len(raw.heard) == raw.connections == 2

        run(one_after_the_other(first, OK), scenario, Times(first_byte=0.2, deadline=20.0))

    def test_where_a_kept_connection_died_the_next_try_trusts_no_other(self, run):
        goes_on = asyncio.Event()

        async def speak(heard, writer):
            if heard.number == 1:
                await goes_on.wait()
            await (OK if heard.number == 1 else closes)(heard, writer)

        async def scenario(world, raw):
            kept = [asyncio.create_task(world.status()) for _ in range(8)]
            while len(raw.heard) < 8:
                await turns()
            goes_on.set()
            assert await asyncio.gather(*kept) == [200] * 8
            assert await world.status() == 200
            assert (len(raw.heard), raw.connections) == (10, 9)

        run(speak, scenario)

    @pytest.mark.parametrize("status", sorted(RETRIED_STATUSES))
    def test_once_tries_are_used_up_the_last_answer_is_passed_on_as_it_is(self, run, status):
        said = [answers(status, body, b"X-Said: " + body) for body in (b"first", b"second")]
        said.append(answers(status, b"third", b"X-Said: third", b"Retry-After: 0"))

        async def scenario(world, raw):
            response = await world.upstream.send(ask())
            assert (response.head.status, await whole(response)) == (status, b"third")
            assert response.head.fields.get(b"x-said") == b"third"
            assert len(raw.heard) == 1 + PATIENT.retries

        run(one_after_the_other(*said), scenario)

    @pytest.mark.parametrize("status", [200, 206, 301, 304, 401, 403, 404, 410, 416, 501, 505])
    def test_what_no_other_try_mends_is_asked_once(self, run, status):
        async def scenario(world, raw):
            assert await world.status() == status
            assert len(raw.heard) == 1

        run(answers(status), scenario)

    def test_nonsense_is_asked_once(self, run):
        async def scenario(world, raw):
            with pytest.raises(OriginNonsense):
                await world.upstream.send(ask())
            assert len(raw.heard) == 1

        run(says(b"no HTTP\r\n\r\n", then_closes=True), scenario)

    @pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "DELETE", "MKCOL"])
    @pytest.mark.parametrize("status", sorted(RETRIED_STATUSES))
    def test_no_write_is_sent_again(self, run, method, status):
        async def scenario(world, raw):
            assert await world.status(method) == status
            assert len(raw.heard) == 1

        run(answers(status, b"no"), scenario)

    @pytest.mark.parametrize("method", ["GET", "PROPFIND", "SEARCH"])
    def test_nothing_with_a_body_is_sent_again(self, run, method):
        async def scenario(world, raw):
            response = await world.upstream.send(ask(method, content=content(b"abc")))
            assert response.head.status == 503
            assert [each.body for each in raw.heard] == [b"abc"]
            response.close()

        run(answers(503), scenario)

    def test_the_origin_is_given_the_time_it_asks_for(self, run):
        async def scenario(world, raw):
            assert await world.status() == 200
            [pause] = world.pauses
            assert pause >= 7

        run(one_after_the_other(answers(429, b"", b"Retry-After: 7"), OK), scenario)

    def test_where_that_is_longer_than_the_deadline_its_answer_is_passed_on_at_once(self, run):
        async def scenario(world, raw):
            assert await world.status() == 429
            assert (world.pauses, len(raw.heard)) == ([], 1)

        run(answers(429, b"", b"Retry-After: 20"), scenario)

    def test_pauses_count_against_the_deadline(self, run):
        async def scenario(world, raw):
            assert await world.status() == 503
            assert len(world.pauses) == 2
            assert sum(world.pauses) < PATIENT.deadline

        run(answers(503, b"", b"Retry-After: 8"), scenario, Times(deadline=20.0, retries=100))

    def test_what_the_last_try_met_is_told_where_no_further_one_fits_the_deadline(self, run):
        async def scenario(world, raw):
            with pytest.raises(OriginUnreachable):
                await world.upstream.send(ask())
            # Each had a tenth of the deadline left at least.
            assert sum(world.pauses) <= 18
            assert len(raw.heard) == 1 + len(world.pauses) > 4

        run(closes, scenario, Times(deadline=20.0, retries=1000))

    def test_the_last_try_may_take_what_is_left_of_the_deadline_and_no_longer(self, run):
        async def scenario(world, raw):
            with pytest.raises(OriginTooSlow, match=r"within 0\.\d+ s"):
                await world.upstream.send(ask())
            [pause] = world.pauses
            assert (len(raw.heard), 4 <= pause < 4.5) == (2, True)

        speak = one_after_the_other(answers(503, b"", b"Retry-After: 4"), says())
        run(speak, scenario, Times(deadline=5.0, first_byte=5.0, retries=1))

    @pytest.mark.parametrize(("asked_for", "tries"), [(17, 2), (18, 1)])
    def test_with_less_than_a_tenth_of_the_deadline_left_there_is_no_further_try(
        self, run, asked_for, tries
    ):
        async def scenario(world, raw):
            await world.status()
            assert len(raw.heard) == tries

        told = answers(503, b"", b"Retry-After: %d" % asked_for)
        run(told, scenario, Times(deadline=20.0, retries=1))

    def test_many_failures_are_not_multiplied(self, run):
        async def scenario(world, raw):
            for _ in range(100):
                assert await world.status() == 503
            # The clock goes on by the pauses alone.
            allowed = FEWEST_RETRIES + 100 * RETRIES_PER_REQUEST + sum(world.pauses)
            assert FEWEST_RETRIES < len(raw.heard) - 100 <= allowed
            assert world.record.retries == len(raw.heard) - 100

        run(answers(503), scenario, Times(connections=1, retries=3))


class TestBreaker:
    NO_RETRIES = Times(retries=0, first_byte=0.2, deadline=20.0)

    @pytest.mark.parametrize(
        "speak",
        [closes, says(), says(b"no HTTP\r\n\r\n", then_closes=True), answers(429), answers(503)],
        ids=["dies", "silent", "garbage", "429", "503"],
    )
    def test_an_origin_that_fails_for_a_while_is_left_alone_until_one_finds_it_back(
        self, run, speak, caplog
    ):
        is_back = asyncio.Event()

        async def speaks(heard, writer):
            await (OK if is_back.is_set() else speak)(heard, writer)

        async def scenario(world, raw):
            await world.fail_until_open()
            heard = len(raw.heard)
            for _ in range(50):
                with pytest.raises(OriginNotAsked) as refused:
                    await world.upstream.send(ask())
                assert refused.value.status == 503
                assert refused.value.retry_after_seconds >= 1
            assert (len(raw.heard), heard) == (heard, FAILURES_TO_OPEN)
            is_back.set()
            world.clock.advance(FIRST_REST_SECONDS)
            assert await world.status() == 200
            assert await world.status() == 200
            assert world.record.breaker == ["closed", "open", "half_open", "closed"]
            assert world.record.spared == ["breaker"] * 50

        with caplog.at_level(logging.INFO, "chunkside"):
            run(speaks, scenario, self.NO_RETRIES)
        said = [each.getMessage() for each in caplog.records]
        assert ["left alone" in each for each in said] == [True, False]
        assert said[1].endswith("answers again")

    def test_one_at_a_time_finds_out(self, run):
        goes_on, speak = asyncio.Event(), [closes]

        async def speaks(heard, writer):
            if speak[0] is OK:
                await goes_on.wait()
            await speak[0](heard, writer)

        async def scenario(world, raw):
            await world.fail_until_open()
            before, speak[0] = len(raw.heard), OK
            world.clock.advance(FIRST_REST_SECONDS)
            probe = asyncio.create_task(world.status())
            await turns()
            for _ in range(20):
                with pytest.raises(OriginNotAsked):
                    await world.upstream.send(ask())
            goes_on.set()
            assert await probe == 200
            assert len(raw.heard) == before + 1

        run(speaks, scenario, Times(retries=0))

    def test_a_probe_is_one_try(self, run):
        async def scenario(world, raw):
            await world.fail_until_open()
            before = len(raw.heard)
            world.clock.advance(FIRST_REST_SECONDS)
            with pytest.raises(OriginUnreachable):
                await world.upstream.send(ask())
            assert len(raw.heard) == before + 1

        run(closes, scenario, Times(retries=3, connections=1))

    def test_a_probe_that_is_given_up_leaves_the_next_one_to_another(self, run):
        speak = [closes]

        async def speaks(heard, writer):
            await speak[0](heard, writer)

        async def scenario(world, raw):
            await world.fail_until_open()
            world.clock.advance(FIRST_REST_SECONDS)
            speak[0] = says()
            probe = asyncio.create_task(world.status())
            await turns(5)
            probe.cancel()
            with pytest.raises(asyncio.CancelledError):
                await probe
            speak[0] = OK
            assert await world.status() == 200

        run(speaks, scenario, Times(retries=0))

    def test_others_that_pause_between_tries_give_up_once_it_opens(self, run):
        async def scenario(world, raw):
            ends = asyncio.Event()

            async def pause(seconds):
                await ends.wait()

            world.upstream._rest = pause
            waiting = asyncio.create_task(world.status())
            while world.upstream._budget._left == PATIENT.connections:
                await turns()
            world.upstream._times = Times(retries=0)
            await world.fail_until_open()
            heard = len(raw.heard)
            ends.set()
            with pytest.raises(OriginNotAsked):
                await waiting
            assert len(raw.heard) == heard

        run(closes, scenario)

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 416, 501])
    def test_answers_that_are_no_failures_open_nothing(self, run, status):
        async def scenario(world, raw):
            await world.fail_until_open()
            assert await world.status() == status
            assert world.record.breaker == ["closed"]

        run(answers(status), scenario)

    def test_a_write_that_was_not_sent_says_so(self, run):
        async def scenario(world, raw):
            await world.fail_until_open()
            heard = len(raw.heard)
            with pytest.raises(OriginNotAsked):
                await world.upstream.send(ask("PUT", content=content(b"abc")))
            assert len(raw.heard) == heard

        run(closes, scenario, Times(retries=0))

    def test_clients_that_break_off_their_uploads_are_no_failing_origin(self, run):
        async def breaks_off():
            yield b"abc"
            raise RequestAborted

        async def scenario(world, raw):
            for number in range(3 * FAILURES_TO_OPEN):
                world.clock.advance(SECONDS_TO_OPEN)
                with pytest.raises(OriginUnreachable):
                    await world.upstream.send(
                        ask("PUT", b"/%d" % number, content=Content(breaks_off(), 10))
                    )
            assert world.record.breaker == ["closed"]

        run(OK, scenario)


class Held:
    """Speaks once it is told to."""

    def __init__(self):
        self.goes_on = asyncio.Event()

    async def __call__(self, heard, writer):
        await self.goes_on.wait()
        await OK(heard, writer)


class TestQueue:
    def test_no_more_connections_are_open_than_may_be_and_all_who_wait_get_theirs(self, run):
        async def scenario(world, raw):
            statuses = await asyncio.gather(*(world.status("GET", b"/%d" % n) for n in range(500)))
            assert set(statuses) == {200}
            assert (len(raw.heard), raw.connections) == (500, 5)

        run(OK, scenario, Times(connections=5, deadline=60.0))

    def test_beyond_a_bounded_number_those_who_come_are_told_at_once(self, run):
        held = Held()

        async def scenario(world, raw):
            asked = [asyncio.create_task(world.status()) for _ in range(5)]
            while len(raw.heard) < 2 or world.upstream._wire._waiting < 3:
                await turns()
            for _ in range(10):
                with pytest.raises(OriginNotAsked, match="wait for one of the 2"):
                    await world.status()
            assert world.record.spared == ["queue"] * 10
            held.goes_on.set()
            assert await asyncio.gather(*asked) == [200] * 5
            assert (raw.connections, len(raw.heard)) == (2, 5)

        run(held, scenario, Times(connections=2, queue=3, deadline=60.0))

    @pytest.mark.parametrize("method", ["GET", "PUT"])
    def test_the_wait_ends_at_the_deadline_and_is_no_fault_of_the_origin(self, run, method):
        held = Held()

        async def scenario(world, raw):
            first = asyncio.create_task(world.upstream.send(ask("PUT", content=content(b"abc"))))
            while not raw.heard:
                await turns()
            with pytest.raises(OriginNotAsked, match="busy"):
                await world.status(method)
            assert len(raw.heard) == 1
            assert (world.record.retries, world.record.answered) == (0, [])
            held.goes_on.set()
            (await first).close()

        run(held, scenario, Times(connections=1, first_byte=0.1, deadline=0.3, write=20.0))

    def test_the_wait_does_not_count_as_the_origins_time(self, run):
        async def late(heard, writer):
            await asyncio.sleep(0.15)  # polls: what takes time is the answer before
            await OK(heard, writer)

        async def scenario(world, raw):
            assert await asyncio.gather(*(world.status() for _ in range(6))) == [200] * 6
            assert (len(raw.heard), world.record.retries) == (6, 0)

        run(late, scenario, Times(connections=1, first_byte=0.6, deadline=60.0))

    def test_those_who_leave_the_queue_take_nobodys_turn(self, run):
        held = Held()

        async def scenario(world, raw):
            first = asyncio.create_task(world.status())
            while not raw.heard:
                await turns()
            leaving = [asyncio.create_task(world.status()) for _ in range(50)]
            last = asyncio.create_task(world.status())
            while world.upstream._wire._waiting < 51:
                await turns()
            held.goes_on.set()
            # Whoever was told that it is his turn leaves in the same moment.
            connector = world.upstream._wire._client._connector
            while first in asyncio.all_tasks() and not first.done():
                await turns()
            for task in leaving:
                task.cancel()
            assert await last == 200
            await asyncio.gather(first, *leaving, return_exceptions=True)
            assert (world.upstream._wire._waiting, len(connector._acquired)) == (0, 0)

        run(held, scenario, Times(connections=1, deadline=60.0))


def test_an_origin_that_answers_nothing_is_too_slow_by_its_deadline(run):
    async def scenario(world, raw):
        with pytest.raises(OriginTooSlow):
            await world.upstream.send(ask())

    run(says(), scenario, Times(first_byte=5.0, deadline=0.2))
