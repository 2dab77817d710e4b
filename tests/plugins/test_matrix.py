TESTS = """
import pytest

@pytest.fixture(params=["uvloop", "asyncio"])
def world(request, record_property):
    record_property("contract", ("body store", "disk", request.param))

def test_one(world): pass
def test_other(world, request): assert "asyncio" not in request.node.name
def test_without(): pass
"""


def test_the_matrix_of_contracts_is_printed(run_with):
    result = run_with("matrix", TESTS)
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*contracts:*", "body store  disk * uvloop 2/2  asyncio 1/2"])


def test_a_run_without_contracts_says_nothing(run_with):
    assert "contracts:" not in run_with("matrix", "def test_it(): pass\n").stdout.str()
