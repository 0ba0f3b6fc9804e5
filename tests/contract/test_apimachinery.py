"""Texts as Kubernetes itself reads them (record_apimachinery.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpa_replacement.adapter import selectors
from surgekit.kube import quantity
from surgekit.kube.label_selector import Operator

HERE = Path(__file__).parent
IN, NOT_IN, EXISTS, ABSENT = Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.ABSENT
OPERATORS = {"in": IN, "=": IN, "==": IN, "notin": NOT_IN, "!=": NOT_IN, "exists": EXISTS, "!": ABSENT}


def recorded(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((HERE / f"apimachinery-{name}.json").read_text())["cases"]
    assert sum(case["read"] is not None for case in cases) > 50
    return cases


def test_selectors_are_read_as_the_api_server_reads_them() -> None:
    for case in recorded("selectors"):
        wanted = case["read"]
        if wanted is not None:
            wanted = sorted((key, OPERATORS[operator], sorted(values)) for key, operator, values in wanted)
        try:
            read = selectors.parse(case["text"]).requirements
        except selectors.SelectorError:
            assert wanted is None, case
        else:
            assert sorted((r.key, r.operator, sorted(r.values)) for r in read) == wanted, case


def test_quantities_are_read_as_the_api_server_reads_them() -> None:
    """But for those no machine has, and those without a digit, which Kubernetes takes for 0."""
    for case in recorded("quantities"):
        text, wanted = case["text"], case["read"]
        has_digits = any(character.isdigit() for character in text.split("e")[0].split("E")[0])
        if wanted is None or not 0 <= wanted <= 1e18 or not has_digits:
            with pytest.raises(quantity.QuantityError):
                quantity.parse(text)
        else:
            assert quantity.parse(text) == pytest.approx(wanted, abs=1e-9), case
