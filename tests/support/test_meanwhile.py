import threading

import pytest

from tests.support.meanwhile import meanwhile


def test_looks_on_until_it_is_left():
    looked = threading.Semaphore(0)
    with meanwhile(looked.release, 0.001):
        for _ in range(3):
            assert looked.acquire(timeout=10)
    while looked.acquire(blocking=False):
        pass
    assert not looked.acquire(timeout=0.1)


def test_what_is_raised_while_looking_is_raised():
    has_looked = threading.Event()

    def look():
        has_looked.set()
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"), meanwhile(look, 0.001):
        assert has_looked.wait(10)
