"""The short form of `make mutants`: every patch applies, and the rules that matter most are held.

A patch that no longer applies must follow the code it changes; don't drop it.
"""

import pytest

from tests.mutants.mutants import ROOT, judge, mutants, would_apply

ALL = {each.name: each for each in mutants()}
# A wrong answer from any of these is silent wrong data.
MOST_NEEDED = (
    "lease_allows_everything",
    "adoption_without_the_stamp_check",
    "partition_left_out_of_the_key",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", MOST_NEEDED)
def test_a_broken_rule_turns_the_tests_red(name, tmp_path):
    assert judge(ALL[name], tmp_path) == "caught"


@pytest.mark.parametrize("mutant", ALL.values(), ids=ALL)
def test_a_patch_applies_and_names_tests_that_exist(mutant):
    assert would_apply(mutant)
    for test in mutant.tests:
        path, *names = test.split("::")
        text = (ROOT / path).read_text()
        assert all(f"def {name}(" in text or f"class {name}:" in text for name in names), test
