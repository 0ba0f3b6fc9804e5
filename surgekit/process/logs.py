"""JSON logs on standard error, one object a line: a constant message and keys.

Values may come from users. They are cut to a bounded length here, so that callers need not, and no value
can make a line fail.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import orjson
import structlog

__all__ = ["bounded", "configure"]

_VALUE_CHARACTERS, _TRACEBACK_CHARACTERS = 1000, 10_000
_ITEMS = 50  # items of a list or a mapping
_DEPTH = 4


def configure(level: str = "INFO") -> None:
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("message"),
            bounded,
            structlog.processors.JSONRenderer(serializer=lambda event, **_: orjson.dumps(event).decode()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )


def bounded(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor: keep only values that JSON has, cut to a bounded length."""
    return {
        _cut(str(key), _VALUE_CHARACTERS): _cut(value, _TRACEBACK_CHARACTERS)
        if key == "exception" and isinstance(value, str)
        else _value(value, _DEPTH)
        for key, value in event.items()
    }


def _value(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 63 else _cut(hex(value), _VALUE_CHARACTERS)
    if depth and isinstance(value, Mapping):
        items = list(value.items())
        cut = {_cut(str(k), _VALUE_CHARACTERS): _value(v, depth - 1) for k, v in items[:_ITEMS]}
        return cut if len(items) <= _ITEMS else cut | {"...": f"{len(items)} items"}
    if depth and isinstance(value, list | tuple | set | frozenset):
        shown = [_value(item, depth - 1) for item in list(value)[:_ITEMS]]
        return shown if len(value) <= _ITEMS else [*shown, f"... {len(value)} items"]
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return f"{type(value).__name__} of {len(value)}"
    return _cut(str(value), _VALUE_CHARACTERS)


def _cut(text: str, limit: int) -> str:
    """The beginning and the end of a long text. Surrogates, which UTF-8 lacks, are written as escapes."""
    if len(text) > limit:
        text = f"{text[: limit * 3 // 4]} ... {len(text)} characters ... {text[-limit // 4 :]}"
    return text.encode(errors="backslashreplace").decode()
