"""Readers return what they promise, or raise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest

from surgekit.kube.checked import WrongType, checked


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Part:
    name: str


@dataclass(frozen=True, slots=True)
class Facts:
    name: str
    count: int = 0
    share: float = 0.0
    on: bool = False
    colour: Colour = Colour.RED
    maybe: float | None = None
    names: frozenset[str] = frozenset()
    pairs: tuple[tuple[str, int], ...] = ()
    parts: tuple[Part, ...] = ()
    by_name: Mapping[str, Mapping[tuple[str, str], float]] | None = None


@checked
def read(**fields: Any) -> Facts | None:
    return Facts(**({"name": "a"} | fields))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"share": 3, "maybe": 1.5, "count": -7, "on": True},
        {"names": frozenset({"x"}), "pairs": (("a", 1),), "parts": (Part("p"),)},
        {"by_name": {"c": {("requests", "cpu"): 1}}},
    ],
)
def test_what_is_promised_is_returned(fields: dict[str, Any]) -> None:
    assert read(**fields) == Facts(**({"name": "a"} | fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"name": None}, {"name": ["a"]}, {"count": "1"}, {"count": True},
        {"count": 1.5}, {"share": float("nan")}, {"share": float("inf")},
        {"maybe": float("nan")}, {"on": "yes"}, {"colour": "blue"}, {"names": ["x"]},
        {"names": frozenset({1})}, {"pairs": (("a", "1"),)}, {"pairs": (("a", 1, 2),)},
        {"parts": ("p",)}, {"parts": (Part(5),)}, {"by_name": {"c": {"cpu": 1}}},  # type: ignore[arg-type]  # on purpose
        {"by_name": {"c": {("a", "b"): "1"}}},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_promised_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(WrongType, match="must be"):
        read(**fields)


def test_the_message_names_the_field_and_is_short() -> None:
    @checked
    def one() -> Facts:
        return Facts("a", "9" * 5000)  # type: ignore[arg-type]  # on purpose

    with pytest.raises(WrongType, match=r"^\.count: must be int, is str '999") as error:
        one()
    assert len(str(error.value)) < 120
