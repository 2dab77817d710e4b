"""Threads for calls that may never return."""

import asyncio
import subprocess
import sys
import threading

import pytest

from chunkside.upstream.workers import Done, Raised, Workers
from tests.store.samples import LOOPS
from tests.support.deadline import wait_for
from tests.support.files import Stall
from tests.support.sidecar import clean_environment

NAME = "workers-of-a-test"


@pytest.fixture(params=LOOPS)
def runner(request):
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield runner


@pytest.fixture
def workers():
    workers = Workers(NAME)
    yield workers
    workers.close()
    wait_for(lambda: not alive(), "the end of all threads")


def alive():
    return [each for each in threading.enumerate() if each.name == NAME]


async def outcome(workers, job):
    future = asyncio.get_running_loop().create_future()
    workers.start(job, future.set_result)
    return await future


def test_what_a_job_gives_or_raises_is_told_on_the_loop(workers, runner):
    async def scenario():
        assert await outcome(workers, lambda: 7) == Done(7)
        assert await outcome(workers, threading.get_ident) != Done(threading.get_ident())
        raised = await outcome(workers, lambda: int("no number"))
        assert isinstance(raised, Raised) and isinstance(raised.error, ValueError)

    runner.run(scenario())


def test_there_are_as_many_threads_as_jobs_at_once_and_no_more(workers, runner):
    async def scenario():
        for _ in range(5):
            await outcome(workers, int)
        assert workers.threads == 1
        stall = Stall()
        waiting = [asyncio.create_task(outcome(workers, stall.wait)) for _ in range(3)]
        assert await outcome(workers, lambda: 7) == Done(7)
        assert workers.threads == 4
        stall.goes_on.set()
        await asyncio.gather(*waiting)
        await asyncio.gather(*(outcome(workers, int) for _ in range(4)))
        assert workers.threads == len(alive()) == 4

    runner.run(scenario())


def test_what_is_given_after_the_end_is_done_too(workers, runner):
    async def scenario():
        workers.close()
        assert await outcome(workers, lambda: 7) == Done(7)

    runner.run(scenario())


@pytest.mark.parametrize("name", LOOPS)
def test_what_returns_after_its_loop_has_gone_harms_nobody(workers, name):
    stall = Stall()

    async def scenario():
        workers.start(stall.wait, lambda _: None)

    with asyncio.Runner(loop_factory=LOOPS[name]) as runner:
        runner.run(scenario())
    stall.goes_on.set()
    # What the thread raised would fail this test at its end.
    wait_for(workers._jobs.empty, "the job to be taken")


HANGS = """
import asyncio, threading
from chunkside.upstream.workers import Workers

async def hang():
    Workers("hangs").start(threading.Event().wait, print)

asyncio.run(hang())
"""


def test_a_call_that_hangs_does_not_keep_the_process():
    command = [sys.executable, "-c", HANGS]
    subprocess.run(command, env=clean_environment(), timeout=20, check=True)
