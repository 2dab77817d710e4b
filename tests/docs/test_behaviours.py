"""docs/behaviours.md names tests that exist, and no rule without one."""

import pytest

from tests.docs.named_tests import named, names_a_test, names_in, page, rules

PAGE = page("behaviours.md")
NAMED = named(PAGE)
RULES = rules(PAGE)


def test_the_page_has_rules():
    assert len(RULES) > 40


@pytest.mark.parametrize(("rule", "tests"), RULES, ids=[rule[:40] for rule, _ in RULES])
def test_each_rule_names_a_test(rule, tests):
    assert names_a_test(tests), rule


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_each_named_test_exists(file, name):
    assert name in names_in(file)
