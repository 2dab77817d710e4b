TESTS = """
def test_one(record_property):
    record_property("read by", ("one", {"a": "1.0", "b": "2"}, 7, 0))

def test_two(record_property):
    record_property("read by", ("two", {"c": "3"}, 5, 4))
    assert False
"""


def test_the_list_of_clients_is_printed_with_versions_and_verdicts(run_with):
    result = run_with("clients", TESTS)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*clients:*",
            "FAILED  two (c 3): origin asked 5 times cold, 4 warm",
            "equal  one (a 1.0, b 2): origin asked 7 times cold, 0 warm",
        ]
    )


def test_a_run_without_clients_says_nothing(run_with):
    assert "clients:" not in run_with("clients", "def test_it(): pass\n").stdout.str()
