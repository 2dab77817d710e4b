"""The last lines of a run say which clients read through the sidecar, and with what result.

A test of one client says what it ran with `record_property(PROPERTY, (name, versions, requests to
the origin on a cold cache, on a warm one))`.
"""

import pytest

PROPERTY = "read by"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = sorted(
        _line(value, outcome)
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        if report.when == "call"
        for name, value in report.user_properties
        if name == PROPERTY
    )
    if not lines:
        return
    terminalreporter.section("clients: read straight, on a cold cache and on a warm one")
    for line in lines:
        terminalreporter.line(line)


def _line(value: tuple[str, dict[str, str], int, int], outcome: str) -> str:
    client, versions, cold, warm = value
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    verdict = "equal" if outcome == "passed" else "FAILED"
    return f"{verdict}  {client} ({told}): origin asked {cold} times cold, {warm} warm"
