"""docs/behaviours.md names tests that exist, and no rule without one."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/behaviours.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[a-z0-9_/]+\.py)::(\w+)`", PAGE)))
RULES = re.findall(r"(?m)^\* (.+)\n((?:  `.+`\n)*)", PAGE)


def test_the_page_has_rules():
    assert len(RULES) > 40


@pytest.mark.parametrize(("rule", "tests"), RULES, ids=[rule[:40] for rule, _ in RULES])
def test_each_rule_names_a_test(rule, tests):
    assert re.search(r"`tests/[a-z0-9_/]+\.py::\w+`", tests), rule


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_each_named_test_exists(file, name):
    tree = ast.parse((ROOT / file).read_text())
    found = {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}
    found |= {each.name for each in tree.body if isinstance(each, ast.AsyncFunctionDef)}
    assigned = [each for each in tree.body if isinstance(each, ast.Assign)]
    found |= {
        target.id for each in assigned for target in each.targets if isinstance(target, ast.Name)
    }
    assert name in found
