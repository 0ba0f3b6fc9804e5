"""What `surgekit explain pod` says of a decision: sentences first, the terms after."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cluster_model.placement_words import sentences
from surgekit.cli.custom_object import NotThere
from surgekit.cli.explain_pod import ask_urls, show_placement
from surgekit.tls import ensure


def candidate(node: str, scaling_s: float, creating: int = 1, pull_s: float = 0.0) -> dict[str, Any]:
    return {
        "node": node, "score": 10, "cost": 1.0, "scaling_s": scaling_s, "resource_price": 1.0,
        "tau_create_s": 0.4, "creating": creating, "image_pull_s": pull_s, "cpu_price": 1.0,
        "memory_price": 1.0,
    }  # fmt: skip


def said(mode: str, bound_to: str | None, valid: bool = True) -> dict[str, Any]:
    ranked = [candidate("node-1", 0.4), candidate("node-0", 2.8, creating=2, pull_s=2.0)]
    return {
        "pod": {"namespace": "shop", "name": "[web]", "cpu_millicores": 100.0, "memory_bytes": 2.0**20},
        "mode": mode, "valid": valid,
        "reasons": ["ranked by cost"] if valid else ["no word of pods for 90 s, more than 60 s"],
        "decided_at": 1.0, "price_weight": 0.25, "price_swing": 0.5, "nodes_offered": 2,
        "inputs_age_s": {"pods": 0.1}, "candidates": ranked if valid else [], "bound_to": bound_to,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "bound_to", "first"),
    [
        (
            "shadow",
            "node-0",
            "shadow: the scheduler got neutral scores; node-1 would have been chosen; it chose node-0",
        ),
        (
            "shadow",
            "node-1",
            "shadow: the scheduler got neutral scores; node-1 would have been chosen; it chose node-1, too",
        ),
        ("enforce", "node-1", "enforce: the scheduler was told that node-1 is best; it chose node-1"),
        (
            "enforce",
            "node-0",
            "enforce: the scheduler was told that node-1 is best; it chose node-0, number 2 of our 2 best: "
            "its own scores weighed more",
        ),
        (
            "enforce",
            "node-7",
            "enforce: the scheduler was told that node-1 is best; it chose node-7, none of our 2 best: "
            "its own scores weighed more",
        ),
        (
            "enforce",
            None,
            "enforce: the scheduler was told that node-1 is best; "
            "it has chosen none yet, as far as the extender has seen",
        ),
    ],
)
def test_what_happened(mode: str, bound_to: str | None, first: str) -> None:
    assert sentences(said(mode, bound_to))[0] == first


def test_why() -> None:
    _, best, chosen = sentences(said("shadow", "node-0"))
    assert best == (
        "node-1: Ready after about 0.4 s; it would be created there alone, in 0.4 s; no image to wait for"
    )
    assert chosen == (
        "node-0: Ready after about 2.8 s; 2 pods with this one would be created there at once; "
        "alone it would take 0.4 s; its image takes 2 s to pull"
    )


def test_a_decision_that_was_none() -> None:
    assert sentences(said("enforce", "node-0", valid=False)) == [
        "enforce: the scheduler got neutral scores, because no word of pods for 90 s, more than 60 s; "
        "it chose node-0"
    ]


def test_an_extender_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    ensure(tmp_path, [], ["me"], datetime.now(UTC))
    for ending in ("crt", "key"):
        (tmp_path / f"tls.{ending}").write_bytes((tmp_path / f"me.{ending}").read_bytes())
    with pytest.raises(NotThere, match=r"https://127.0.0.1:1 did not answer: .*refused"):
        ask_urls(["https://127.0.0.1:1"], tmp_path, "shop/web")


def test_sentences_come_before_the_terms() -> None:
    out = io.StringIO()
    show_placement(said("shadow", "node-0"), Console(file=out, width=200))
    lines = out.getvalue().splitlines()
    assert lines[0] == "shop/[web]"
    assert lines[1].strip().startswith("shadow: the scheduler got neutral scores")
    terms = next(number for number, line in enumerate(lines) if "beta_c" in line)
    assert terms > 4
