"""Tasks are owned: finished, or cancelled and waited for; what fails in one is heard."""

import asyncio

from chunkside.gateway.tasks import Tasks
from tests.support.turns import turns


async def test_finish_waits_for_all_and_for_those_they_start():
    tasks, ended = Tasks(), []

    async def inner():
        await turns()
        ended.append("inner")

    async def outer():
        await turns()
        tasks.start(inner(), "inner")
        ended.append("outer")

    tasks.start(outer(), "outer")
    await tasks.finish(5)
    assert ended == ["outer", "inner"]


async def test_finish_cancels_what_is_left_and_waits_for_its_end():
    tasks, ended = Tasks(), []

    async def endless():
        try:
            await asyncio.Event().wait()
        finally:
            await turns()
            ended.append("cleaned up")

    task = tasks.start(endless(), "endless")
    await turns()
    await tasks.finish(0)
    assert task.cancelled() and ended == ["cleaned up"]


async def test_what_fails_is_told_to_the_loop_and_stops_nobody():
    tasks, told = Tasks(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    async def failing():
        raise ValueError("a fault")

    tasks.start(failing(), "a fill")
    await tasks.finish(5)
    [context] = told
    assert (context["message"], str(context["exception"])) == ("a fill failed", "a fault")


async def test_what_cancelled_tasks_start_on_their_way_out_is_finished_too():
    tasks, ended = Tasks(), []

    async def last():
        ended.append("last")

    async def endless():
        try:
            await asyncio.Event().wait()
        finally:
            tasks.start(last(), "last")

    tasks.start(endless(), "endless")
    await turns()
    await tasks.finish(0)
    assert ended == ["last"]


async def test_stopping_in_the_middle_of_a_fill_leaves_nothing_behind(house):
    house.origin.put(b"/a/c/0", b"x" * 3_000_000)
    gate = house.origin.hold(b"/a/c/0", 1_000_000)
    reply = await house.ask("GET", b"/a/c/0")
    await gate.reached()
    await house.edges.tasks.finish(0)
    assert house.gateway.fills.in_flight == 0
    assert house.origin.open_answers == 0
    assert house.entry(b"/a/c/0") is None
    reply.release()
