"""A sidecar within the memory limit of a small pod: bodies read twice, then keys that are absent.

Where no cgroup can be made the limit is told by settings, and the process's own memory is judged.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.image import DOCKERFILE, ROOT
from tests.support.absent_origin import AbsentOrigin, Client, absent_origin
from tests.support.memory_group import CannotLimit, Charged, MemoryGroup
from tests.support.sidecar import Sidecar, value_of

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Load:
    """Sizes in bytes. `bound`: of anonymous memory, which is what a limit kills for. `depth`:
    absent keys that are asked for in one breath, on each connection.
    """

    bodies: int
    keys: int
    body_size: int = 4 * MIB
    key_size: int = 200
    limit: int = 256 * MIB
    bound: int = 192 * MIB
    connections: int = 10
    depth: int = 16


@dataclass(frozen=True, slots=True)
class Stage:
    """`charged`: None where there is no cgroup."""

    name: str
    anonymous: int
    file: int
    charged: Charged | None


class OverTheBound(Exception):
    """Says in a sentence what doesn't hold."""


async def run(load: Load, cache_dir: Path, told: Callable[[Stage], None]) -> None:
    """`told` hears how it stands after each stage. Raises OverTheBound."""
    body = bytes(range(256)) * (load.body_size // 256)
    with contextlib.ExitStack() as stack:
        group, command, flags = _limited(load, stack)
        async with absent_origin(body) as origin:
            # A quarter of it may be on its way at once.
            room = 2 * load.bodies + 8 * load.connections * load.body_size
            flags += ("--min-free", "0", "--cache-size", str(room))
            sidecar = stack.enter_context(Sidecar(origin.url, cache_dir, flags, command=command))
            run = _Run(load, sidecar, origin, group, told)
            await run.read_bodies("first reading")
            await run.read_bodies("second reading")
            await run.ask_for_absent()
            code = await asyncio.to_thread(sidecar.stop)
            if code != 0:
                raise OverTheBound(f"The sidecar ended with {code}.")


def image_environment() -> dict[str, str]:
    """What the image tells the C library of when to give memory back."""
    return dict(re.findall(r"(MALLOC_\w+)=(\w+)", (ROOT / DOCKERFILE).read_text()))


def _limited(
    load: Load, stack: contextlib.ExitStack
) -> tuple[MemoryGroup | None, tuple[str, ...], tuple[str, ...]]:
    """The cgroup, the command within it, and what it isn't told by the cgroup."""
    command = (sys.executable, "-m", "chunkside")
    try:
        group = stack.enter_context(MemoryGroup(load.limit))
    except CannotLimit:
        quarter = str(load.limit // 4)
        return None, command, ("--index-memory", quarter, "--memory-size", quarter)
    return group, group.command(*command), ()


class _Run:
    def __init__(
        self,
        load: Load,
        sidecar: Sidecar,
        origin: AbsentOrigin,
        group: MemoryGroup | None,
        told: Callable[[Stage], None],
    ) -> None:
        self._load = load
        self._sidecar = sidecar
        self._origin = origin
        self._group = group
        self._told = told

    async def read_bodies(self, name: str) -> None:
        count = self._load.bodies // self._load.body_size
        await self._with_connections(iter(range(count)), self._read_body)
        await self._look(name)
        asked = self._origin.asked[b"body"]
        if asked != count:
            raise OverTheBound(
                f"The origin was asked {asked} times for {count} bodies. Fills ended so: "
                f"{await self._fills()}"
            )

    async def _fills(self) -> str:
        page = (await self._metrics()).splitlines()
        return ", ".join(line for line in page if line.startswith("chunkside_fills_total"))

    async def _metrics(self) -> str:
        async with await Client.connect(self._sidecar.admin_url) as admin:
            _, page = await admin.get(b"/metrics")
        return page.decode()

    async def _read_body(self, client: Client, number: int) -> None:
        status, body = await client.get(b"/body/c/%d" % number)
        if status != 200 or body != self._origin.body:
            raise OverTheBound(f"Body {number} came with {status} and {len(body)} bytes.")

    async def ask_for_absent(self) -> None:
        # Now and then it is looked at meanwhile.
        every = max(1, self._load.keys // 20)
        for start in range(0, self._load.keys, every):
            numbers = range(start, min(start + every, self._load.keys))
            starts = iter(range(numbers.start, numbers.stop, self._load.depth))
            await self._with_connections(starts, self._ask_for_absent)
            await self._look(f"{numbers.stop:,} absent keys")

    async def _ask_for_absent(self, client: Client, first: int) -> None:
        prefix = b"/absent/array.zarr/c/"
        digits = self._load.key_size - len(prefix)
        numbers = range(first, first + self._load.depth)
        statuses = await client.statuses(*(prefix + b"%0*d" % (digits, each) for each in numbers))
        if set(statuses) != {404}:
            raise OverTheBound(f"Of absent keys some were answered otherwise: {statuses}.")

    async def _with_connections(
        self, numbers: Iterator[int], ask: Callable[[Client, int], Awaitable[None]]
    ) -> None:
        async def work() -> None:
            async with await Client.connect(self._sidecar.url) as client:
                for number in numbers:
                    await ask(client, number)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._load.connections):
                tasks.create_task(work())

    async def _look(self, name: str) -> None:
        charged = None if self._group is None else self._group.charged()
        anonymous = self._sidecar.rss_anon_bytes()
        self._told(Stage(name, anonymous, self._sidecar.rss_file_bytes(), charged))
        if charged is not None and charged.killed:
            raise OverTheBound(f"After {name} the kernel has killed for want of memory.")
        if anonymous > self._load.bound:
            raise OverTheBound(
                f"After {name} {anonymous:,} bytes are anonymous, of {self._load.bound:,} allowed."
            )
        held = value_of(await self._metrics(), "chunkside_index_memory_bytes")
        if held > self._load.limit // 4:
            raise OverTheBound(f"After {name} the index takes {held:,.0f} bytes.")
