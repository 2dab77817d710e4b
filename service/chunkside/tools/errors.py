"""What ends a command that was asked for rightly."""

from __future__ import annotations


class ToolFailed(Exception):
    """`str()` is one line: what is wrong, and what to do. Exit code 1."""

    def __str__(self) -> str:
        line = " ".join(str(self.args[0]).split())
        # What others told may hold what would drive a terminal.
        return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)
