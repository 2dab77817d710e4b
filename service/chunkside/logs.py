"""One line for each thing said, to people as `key=value` or to machines as JSON.

Whoever logs uses the standard library alone and passes fields in `extra`. Two of them are
instructions to the handler here: `once=KEY` says a fault when its state begins and counts it from
then on; `over=KEY` ends that state, and says how often it was met. A line that ends a state that
never began is left out. Both must be logged at one level, or the level may let one pass only.

    log.warning("bodies can't be written", extra={"once": "store.write", "error": "ENOSPC"})
    log.warning("bodies can be written again", extra={"over": "store.write"})
"""

from __future__ import annotations

import json
import logging
import sys
from collections import OrderedDict
from datetime import UTC, datetime
from threading import Lock
from typing import Final, TextIO

_PACKAGE: Final = "chunkside"
_OWN_ATTRIBUTES: Final = frozenset(logging.makeLogRecord({}).__dict__) | {
    "message",
    "asctime",
    "taskName",
    "once",
    "over",
}
_MAX_STATES: Final = 256


class Repeats:
    """Which faults have been said and last on. Safe to use from any thread.

    At most `limit` states are kept; one more, and that met longest ago is forgotten, so that it
    would be said again.
    """

    def __init__(self, limit: int = _MAX_STATES) -> None:
        self._limit = limit
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._lock = Lock()

    def once(self, key: str) -> bool:
        """Counts the fault `key`; True where its state begins with this one."""
        with self._lock:
            count = self._counts.pop(key, 0) + 1
            self._counts[key] = count
            if len(self._counts) > self._limit:
                self._counts.popitem(last=False)
            return count == 1

    def over(self, key: str) -> int:
        """Ends the state of `key`; how often it was met, 0 where it never began."""
        with self._lock:
            return self._counts.pop(key, 0)

    def filter(self, record: logging.LogRecord) -> bool:
        """Obeys `once` and `over` of a record: the `logging` protocol of filters."""
        if (key := getattr(record, "once", None)) is not None:
            return self.once(key)
        if (key := getattr(record, "over", None)) is not None:
            times = self.over(key)
            record.__dict__["times"] = times
            return times > 0
        return True


class LineFormatter(logging.Formatter):
    """A record as one line. Whatever breaks lines is escaped, so that no value can forge one."""

    def __init__(self, *, is_json: bool = False) -> None:
        super().__init__()
        self._is_json = is_json

    def format(self, record: logging.LogRecord) -> str:
        fields = self._fields(record)
        if self._is_json:
            return json.dumps(fields, default=str)
        return " ".join(f"{name}={_plain(value)}" for name, value in fields.items())

    def _fields(self, record: logging.LogRecord) -> dict[str, object]:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, object] = {
            "time": when.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in record.__dict__.items():
            if name not in _OWN_ATTRIBUTES:
                fields.setdefault(name, value)
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return fields


def _plain(value: object) -> str:
    """A value as it is, or as a JSON string where it might be taken for more than a value."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    if text.isascii() and text.isprintable() and text and not set(text) & set(' "='):
        return text
    return json.dumps(text)


class _Handler(logging.StreamHandler[TextIO]):
    """Ours, so that configuring again replaces it and nobody else's."""


def configure(level: str, *, is_json: bool = False, stream: TextIO | None = None) -> None:
    """Sends our lines from `level` (`debug` to `error`) on, and others' warnings, to the stream.

    The stream is stderr where none is given. Each call replaces what the last one set.
    """
    handler = _Handler(stream or sys.stderr)
    handler.addFilter(Repeats())
    root = logging.getLogger()
    for earlier in [one for one in root.handlers if isinstance(one, _Handler)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    take(level, is_json=is_json)


def take(level: str, *, is_json: bool) -> None:
    """Lets our lines from `level` on pass, and others' from a warning on, and writes them so; the
    rest stays as configured.
    """
    for handler in logging.getLogger().handlers:
        if isinstance(handler, _Handler):
            handler.setFormatter(LineFormatter(is_json=is_json))
    logging.getLogger(_PACKAGE).setLevel(level.upper())
    logging.getLogger().setLevel(
        max(logging.WARNING, logging.getLevelNamesMapping()[level.upper()])
    )
