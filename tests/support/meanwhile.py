"""Looks on while others work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def meanwhile(look: Callable[[], None], every_seconds: float) -> Iterator[None]:
    """Calls `look` again and again, in a thread of its own, until it is left; then raises what that
    raised.
    """
    is_over = threading.Event()

    def look_on() -> None:
        while not is_over.wait(every_seconds):
            look()

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look_on)
        try:
            yield
        finally:
            is_over.set()
        looking.result()
