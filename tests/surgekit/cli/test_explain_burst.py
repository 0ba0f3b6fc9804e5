"""`surgekit explain burst` against an API server of one BurstFunction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from burst_plane.conditions import Readiness, conditions
from burst_plane.explanation import NothingToExplain
from burst_plane.model import Function, Prepared
from burst_plane.status import Facts, Regular, status_of
from burst_plane.traffic import Totals, View
from surgekit.cli.custom_object import NotThere
from surgekit.cli.explain_burst import explain_burst
from surgekit.process.modes import Mode
from tests.burst_plane.objects import burst_function
from tests.fake_api_server import FakeApiServer

TOTALS = Totals(arrivals=100, started=20, hits=15, refused=3, failed=2)


def decided(
    counts: bool = True, percentile_s: float | None = 4.0, reason: str = "Eligible"
) -> dict[str, Any]:
    prepared = Prepared(function=Function("shop", "resize"), template="t", image_present=True, created=2)
    readiness = Readiness(1, (("n1", prepared),))
    facts = Facts(
        3, Mode.ENFORCE, View(3.2, 0.3, 2.0, 0.5, 1.0, 1.0, 0.025, TOTALS, percentile_s, counts),
        ((4.0, 99),) if percentile_s else (), Regular(4, 5, "3.50 requests at once"), readiness,
    )  # fmt: skip
    said = conditions(Mode.ENFORCE, reason, "spec.volumes[0]: no volumes", readiness)
    return burst_function(mode="enforce") | {"status": status_of({}, said, facts, 1.0)}


def said(capsys: pytest.CaptureFixture[str], *objects: dict[str, Any], json_file: Path | None = None) -> str:
    explain_burst(FakeApiServer(*objects), "shop", "resize", json_file)
    return capsys.readouterr().out


def test_sentences_first_then_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, decided())
    assert "shop/resize (enforce): 3.2 requests a second" in text
    assert "finds no free pod goes to an emergency instance" in text
    assert "2 requests are in 4 regular instances, 0.5 wait for one, 1 are in emergency instances" in text
    assert "Excess traffic counts toward regular scaling: the keepalive of 60 s is longer than 4 s" in text
    assert "5 regular instances are wanted: 3.50 requests at once" in text
    assert "2 instances are prepared on 1 nodes" in text
    assert "20 were started, 75 % of them from a prepared one, 3 requests were sent back to wait" in text
    (row,) = [line for line in text.splitlines() if line.strip().startswith("emergency")]
    assert "2.50%" in row


@pytest.mark.parametrize(
    ("obj", "sentence"),
    [
        (decided(False, 90.0), "does not count toward regular scaling: the keepalive of 60 s is not longer"),
        (decided(False, None), "does not count toward regular scaling: no two requests"),
        (
            decided(reason="CannotBeHonoured"),
            "waits for one: excess requests wait: spec.volumes[0]: no volumes",
        ),
        (decided(reason="CannotBeHonoured"), "No instance is prepared"),
    ],
)
def test_why_not(capsys: pytest.CaptureFixture[str], obj: dict[str, Any], sentence: str) -> None:
    assert sentence in said(capsys, obj)


def test_json_has_every_number(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, decided(), json_file=Path("-")))
    assert (found["inter_arrival_s"], found["inter_arrivals"], found["counts"]) == (4.0, 99, True)
    assert found["emergency"]["coldStartsAvoided"] == 18
    assert len(found["sentences"]) == 5


def test_nothing_known_or_nothing_there() -> None:
    with pytest.raises(NothingToExplain, match="Is the controller running"):
        explain_burst(FakeApiServer(burst_function()), "shop", "resize", None)
    with pytest.raises(NotThere, match="there is no BurstFunction shop/resize"):
        explain_burst(FakeApiServer(), "shop", "resize", None)
