"""The numbers that the papers print (papers.toml), as ratios baseline / theirs where they compare. Pure."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.results.plot import Dot

__all__ = ["Printed", "printed"]

_FILE = Path(__file__).parent / "papers.toml"
_AS_RATIO: Mapping[str, Callable[[float], float]] = {
    "ratio": lambda value: value,
    "reduction": lambda percent: 1 / (1 - percent / 100),
    "increase": lambda percent: 1 + percent / 100,
    "value": lambda value: value,
}


@dataclass(frozen=True)
class Printed:
    """What a paper prints at one place. Of a range, the value is None."""

    place: str
    up_to: bool
    values: Mapping[str, float | tuple[float, float] | Mapping[str, float]]

    def dots(self, labels: Callable[[str], str], function: str | None = None) -> list[Dot]:
        """The arms' dots, of one function if it is named, else of the mean over functions."""
        return [_dot(labels(arm), found, function) for arm, found in self.values.items()]


def printed(key: str) -> Printed:
    """By its name in papers.toml, like `combofunc.time`."""
    paper, _, name = key.partition(".")
    table = dict(_papers()[paper][name])
    place, up_to = table.pop("place"), table.pop("up_to", False)
    as_ratio = _AS_RATIO[table.pop("printed")]
    return Printed(place, up_to, {arm: _converted(value, as_ratio) for arm, value in table.items()})


@cache
def _papers() -> Mapping[str, Any]:
    return tomllib.loads(_FILE.read_text())


def _converted(value: Any, as_ratio: Callable[[float], float]) -> Any:
    if isinstance(value, list):
        low, high = value
        return as_ratio(low), as_ratio(high)
    if isinstance(value, dict):
        return {function: as_ratio(of) for function, of in value.items()}
    return as_ratio(value)


def _dot(label: str, found: Any, function: str | None) -> Dot:
    if isinstance(found, tuple):
        low, high = found
        return Dot(label, None, low, high, paper=True)
    if isinstance(found, Mapping):
        value = found[function] if function else exp(fmean(log(of) for of in found.values()))
        return Dot(label, value, paper=True)
    return Dot(label, found, paper=True)
