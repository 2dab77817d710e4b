"""docs/cases.md names tests that exist, and no case without one."""

import pytest

from tests.docs.named_tests import named, names_a_test, names_in, page, rules

PAGE = page("cases.md")
NAMED = named(PAGE)
CASES = rules(PAGE)


def test_the_page_has_cases():
    assert len(CASES) > 25


@pytest.mark.parametrize(("case", "tests"), CASES, ids=[case[:40] for case, _ in CASES])
def test_each_case_names_a_test(case, tests):
    assert names_a_test(tests), case


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_each_named_test_exists(file, name):
    assert name in names_in(file)
