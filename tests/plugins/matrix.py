"""The last lines of a run say which implementation passed which contract, on which loop.

A contract suite's fixtures say what they stand for with `record_property(PROPERTY, (contract,
implementation, loop))`.
"""

from collections import Counter, defaultdict

import pytest

PROPERTY = "contract"

_COLUMNS = ("uvloop", "asyncio")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    cells: dict[tuple[str, str], dict[str, Counter[str]]] = defaultdict(
        lambda: defaultdict(Counter)
    )
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in report.user_properties:
                if name == PROPERTY and report.when == "call":
                    contract, implementation, loop = value
                    cells[contract, implementation][loop][outcome] += 1
    if not cells:
        return
    terminalreporter.section("contracts: tests passed, by implementation and loop")
    for (contract, implementation), loops in sorted(cells.items()):
        shown = [f"{loop} {_cell(loops[loop])}" for loop in _COLUMNS if loop in loops]
        terminalreporter.line(f"{contract:12}{implementation:16}{'  '.join(shown)}")


def _cell(counted: Counter[str]) -> str:
    return f"{counted['passed']}/{counted.total()}"
