"""Reads what a bench wrote with `--json`. A file may come from anybody: what it says of itself has a form,
numbers are finite, and its names cannot become markup."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec

from kwok.errors import LabError

__all__ = ["About", "UnknownBench", "about_of", "bench_of", "escaped", "read_figures"]

_MOST_BYTES = 200 * 2**20  # a bench with all raw measurements writes some tens of MiB
# Each has a section of its own.
_WAYS = ("--simulated", "--live", "--pulls-only", "--starts", "--joint")
_MARKUP = re.compile(r"([\\`*\[\]<>&|!~#])|(?<![^\W_])_|_(?![^\W_])")
_Word = Annotated[str, msgspec.Meta(pattern=r"^[\w.+~-]{1,100}$")]


class UnknownBench(LabError):
    """The file is not of a bench, or not of one that can be shown; the message says why."""


class About(msgspec.Struct, frozen=True):
    """Where, when and how a bench ran (about.py writes it)."""

    command: Annotated[str, msgspec.Meta(pattern=r"^surgekit bench [^\n\r`]{1,2000}$")]
    date: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\d$")]
    cores: Annotated[int, msgspec.Meta(ge=1)]
    memory_gib: Annotated[float, msgspec.Meta(ge=0)]
    version: _Word | None = None
    commit: _Word | None = None
    python: _Word | None = None
    kernel: _Word | None = None


def read_figures(file: Path) -> Any:
    """The content of a file, of which only its being JSON is certain."""
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise UnknownBench(f"{file}: more than {_MOST_BYTES >> 20} MiB, no bench writes that")
        return json.loads(file.read_text(), parse_constant=_no_number, parse_float=_finite)
    except OSError as error:
        raise UnknownBench(f"{file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UnknownBench(f"{file} is not JSON: {error}") from error


def about_of(figures: Any) -> About:
    if not isinstance(figures, Mapping) or "about" not in figures:
        raise UnknownBench("a file without `about` is not of `surgekit bench ... --json FILE`")
    try:
        return msgspec.convert(figures["about"], About)
    except msgspec.ValidationError as error:
        raise UnknownBench(f"its `about` is not of a bench: {error}") from error


def bench_of(figures: Any) -> str:
    """The name of the bench, with `--simulated` and the like as in `combofunc --simulated`."""
    try:
        words = shlex.split(about_of(figures).command)[2:]
    except ValueError as error:  # a quotation mark without its other half
        raise UnknownBench(f"its `about` is not of a bench: {error}") from error
    ways = [word for word in words[1:] if word in _WAYS]
    return " ".join([*words[:1], *ways])


def escaped(figures: Any) -> Any:
    """The same with every string, of keys too, as Markdown that shows it and nothing else."""
    if isinstance(figures, str):
        return _MARKUP.sub(lambda found: f"\\{found[0]}", " ".join(figures.split()))
    if isinstance(figures, list):
        return [escaped(value) for value in figures]
    if isinstance(figures, dict):
        return {escaped(key): escaped(value) for key, value in figures.items()}
    return figures


def _finite(text: str) -> float:
    return value if isfinite(value := float(text)) else _no_number(text)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
