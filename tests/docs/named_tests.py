"""Pages that name tests: which rules they have, and whether the tests are there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_NAMED = r"`(tests/[a-z0-9_/]+\.py)::(\w+)`"


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def named(text: str) -> list[tuple[str, str]]:
    """File and test, each once."""
    return sorted(set(re.findall(_NAMED, text)))


def rules(text: str) -> list[tuple[str, str]]:
    """Each rule with the lines beneath it."""
    return re.findall(r"(?m)^\* (.+)\n((?:  .+\n)*)", text)


def names_a_test(lines: str) -> bool:
    return re.search(_NAMED, lines) is not None


def names_in(file: str) -> set[str]:
    """Tests, and tables of them, at the top of a file."""
    tree = ast.parse((ROOT / file).read_text())
    found = {
        each.name for each in tree.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    assigned = [each for each in tree.body if isinstance(each, ast.Assign)]
    return found | {
        target.id for each in assigned for target in each.targets if isinstance(target, ast.Name)
    }
