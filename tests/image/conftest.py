"""The image as docker/Dockerfile makes it, built once for all tests that run it."""

import os
from collections.abc import Iterator

import pytest

from tests.support.containers import Store

MIB = 1 << 20


@pytest.fixture(scope="session")
def store() -> Iterator[Store]:
    with Store() as store:
        store.need_base()
        yield store


@pytest.fixture(scope="session")
def image(store: Store) -> Iterator[str]:
    """Its tag; gone afterwards, while its layers stay for the next build."""
    tag = f"localhost/chunkside:test-{os.getpid()}"
    store.build(tag)
    yield tag
    store.start("buildah", "rmi", tag)
