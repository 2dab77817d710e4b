import pytest

from tests.core.samples import request


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "REPORT"])
def test_a_safe_method_changes_nothing(method):
    assert request(method=method).is_safe


def test_search_is_safe():
    assert request(method="SEARCH").is_safe


@pytest.mark.parametrize(
    "method", ["PUT", "POST", "DELETE", "PATCH", "MOVE", "COPY", "MKCOL", "LOCK", "get", "", "X"]
)
def test_every_other_method_may_change_something(method):
    assert not request(method=method).is_safe
