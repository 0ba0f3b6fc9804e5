"""The papers' numbers, as ratios."""

from __future__ import annotations

import tomllib
from math import prod
from pathlib import Path

import pytest

from experiments.results import papers
from experiments.results.papers import printed

TABLES = tomllib.loads((Path(papers.__file__).parent / "papers.toml").read_text())


def test_every_number_says_where_it_is_printed() -> None:
    for paper, tables in TABLES.items():
        for name in tables:
            found = printed(f"{paper}.{name}")
            assert "fig" in found.place or "table" in found.place
            assert found.values


def test_a_reduction_is_a_ratio_above_one() -> None:
    (latency,) = (dot for dot in printed("escra.latency").dots(str) if dot.label == "autopilot")
    assert latency.value == pytest.approx(1 / (1 - 0.361))
    assert latency.paper


def test_an_increase_too() -> None:
    assert printed("escra.throughput").values["static_1_5"] == pytest.approx(1.254)


def test_a_range_has_no_value() -> None:
    (found,) = (dot for dot in printed("pulsenet.cost").dots(str) if dot.label == "synchronous")
    assert found.value is None
    assert found.low == pytest.approx(1 / 0.92)
    assert found.high == pytest.approx(1 / 0.3)


def test_of_functions_the_mean_is_geometric() -> None:
    time = printed("combofunc.time")
    values = [3.01, 1.91, 2.44, 2.77]
    assert time.dots(str)[0].value == pytest.approx(prod(values) ** 0.25)
    assert time.dots(str, "video")[0].value == pytest.approx(1.91)
