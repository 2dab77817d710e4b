"""What is said, in one line, to whoever configured the sidecar wrongly."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST_VALUE = 200


class ConfigurationError(Exception):
    """A setting that stops the start: exit code 2, `str()` is the one line.

    `value` is shown as given unless it is None; whoever raises this removes secrets first.
    `allowed` and `remedy` are clauses without a full stop. `source` says where the value was
    written (a flag, an environment name, a file).
    """

    def __init__(
        self,
        setting: str,
        value: object,
        allowed: str,
        remedy: str | None = None,
        *,
        reason: str | None = None,
        source: str | None = None,
    ) -> None:
        super().__init__(setting, value, allowed, remedy)
        self.setting = setting
        self.value = value
        self.allowed = allowed
        self.remedy = remedy
        self.reason = reason
        self.source = source

    def __str__(self) -> str:
        subject = self.setting
        if self.value is not None:
            subject += f"={_shown(self.value)}"
        if self.source is not None:
            subject += f" ({self.source})"
        clauses = [self.reason, f"allowed: {self.allowed}", self.remedy]
        line = f"chunkside: {subject}: " + "; ".join(clause for clause in clauses if clause)
        return _printable(line)


class NotAllowedError(ValueError):
    """A value that its setting does not take; `load_settings` adds the setting's name."""

    def __init__(
        self, reason: str, allowed: str, remedy: str | None = None, *, shown: str | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.allowed = allowed
        self.remedy = remedy
        self.shown = shown
        """What to show in place of the value, where that may hold a secret."""


class RouteNotAllowedError(NotAllowedError):
    """What a route of `routes` does not take. `setting`: as the one line names it, such as
    `routes[/a].ttl`; `value`: None where there is none that may be shown.
    """

    def __init__(self, setting: str, value: object, refusal: NotAllowedError) -> None:
        super().__init__(refusal.reason, refusal.allowed, refusal.remedy)
        self.setting = setting
        self.value = value if refusal.shown is None else refusal.shown


def did_you_mean(name: str, names: Iterable[str], *, prefix: str = "") -> str | None:
    """A remedy that gives the nearest known name; what all names start with tells nothing."""
    folded = {known.removeprefix(prefix).casefold(): known for known in names}
    written = name.removeprefix(prefix).casefold()
    matches = difflib.get_close_matches(written, folded, n=1)
    return f"did you mean {folded[matches[0]]}?" if matches else None


def _shown(value: object) -> str:
    text = repr(value if isinstance(value, (str, int, float, list, dict)) else str(value))
    if len(text) > LONGEST_VALUE:
        return text[: LONGEST_VALUE - 1] + "…"
    return text


def _printable(line: str) -> str:
    """Control and surrogate characters, which paths can hold, would break the line."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in line
    )
