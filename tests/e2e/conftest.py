"""A real origin, and a sidecar as its own process in front of it.

Starting a process takes most of a second, so `origin` and `sidecar` are shared by the tests of a
module; what keeps those apart is `target`, which no other test uses. A test that stops its origin,
ends its sidecar, or looks at its memory or files takes `own_origin`, and `own_sidecar` or
`start_sidecar`.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.origin import Origin
from tests.support.sidecar import Sidecar

# A test's directory may be on a full disk or in memory, and neither is what is tested.
ANY_DISK = ("--min-free", "0", "--allow-memory-filesystem")

StartSidecar = Callable[..., Sidecar]

_numbers = itertools.count()


@pytest.fixture(scope="module")
def shared_origin() -> Iterator[Origin]:
    with Origin() as origin:
        yield origin


@pytest.fixture(scope="module")
def sidecar(
    shared_origin: Origin, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Sidecar]:
    """Has the flags that the module's SIDECAR_FLAGS tell."""
    cache_dir = tmp_path_factory.mktemp("shared") / "cache"
    flags = getattr(request.module, "SIDECAR_FLAGS", ())
    with Sidecar(shared_origin.url, cache_dir, (*ANY_DISK, *flags)) as running:
        yield running


@pytest.fixture
def origin(shared_origin: Origin) -> Origin:
    """Holds nothing, misbehaves nowhere and has seen nothing."""
    shared_origin.reset()
    return shared_origin


@pytest.fixture
def target() -> str:
    return f"/array{next(_numbers)}/c/0"


@pytest.fixture
def own_origin() -> Iterator[Origin]:
    with Origin() as origin:
        yield origin


@pytest.fixture
def cache_dir(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def start_sidecar(own_origin: Origin, cache_dir: Path) -> Iterator[StartSidecar]:
    """Starts a sidecar with extra flags, always on the same cache directory."""
    with ExitStack() as stack:

        def start(*flags: str) -> Sidecar:
            return stack.enter_context(Sidecar(own_origin.url, cache_dir, (*ANY_DISK, *flags)))

        yield start


@pytest.fixture
def own_sidecar(start_sidecar: StartSidecar) -> Sidecar:
    return start_sidecar()


@pytest.fixture(params=["uvloop", "asyncio"])
def sidecar_on_each_loop(request: pytest.FixtureRequest, start_sidecar: StartSidecar) -> Sidecar:
    return start_sidecar("--loop", request.param)
