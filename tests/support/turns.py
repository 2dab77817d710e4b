"""Giving other tasks their turns: the only sleep of tests in a loop, and of no time at all."""

import asyncio


async def turns(count: int = 1) -> None:
    for _ in range(count):
        await asyncio.sleep(0)  # polls: turns of the loop, not time
