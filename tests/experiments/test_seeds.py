"""Seeds: three lists that share nothing, and the option that brings others."""

from __future__ import annotations

import pytest
import typer

from experiments.seeds import REPORTED, SWEEP, TUNING, parse_seeds


def test_nothing_is_tuned_or_swept_on_reported_seeds() -> None:
    assert not set(TUNING) & set(SWEEP)
    assert not (set(TUNING) | set(SWEEP)) & set(REPORTED)


@pytest.mark.parametrize(("text", "seeds"), [("7", range(7, 8)), ("5-9", range(5, 10)), ("0-0", range(1))])
def test_both_ends_are_included(text: str, seeds: range) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "9-5", "1-2-3", "-4", "1-20000", "1 - 2", "1" * 5000])
def test_anything_else_is_refused_with_what_it_should_be(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="A <= B"):
        parse_seeds(text)
