"""What a status is explained as, and its picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpa_replacement import plot
from hpa_replacement.decision.model import KnownKnee, Sample, Scaling, Spending, State
from hpa_replacement.decision.policy import PolicyError
from hpa_replacement.explanation import NothingToExplain, explain
from hpa_replacement.search import Point, Variant, observe, start
from hpa_replacement.status import status_of
from surgekit.decision import Decision

NOW_S = 1_800_000_000.0
POINTS = tuple(
    Point(r, 20 * (r / (19 + r)) ** 2, 20 * r / (19 + r), 20.0) for r in (31, 12, 60, 45, 38)
)  # 20 closed-loop clients


def policy(state: State | None, **spec: Any) -> dict[str, Any]:
    obj: dict[str, Any] = {
        "metadata": {"namespace": "shop", "name": "cart", "generation": 1},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart"},
            "maxReplicas": 114,
        }
        | spec,
    }
    if state is not None:
        sample = Sample(38, 38, 0.0, NOW_S - 30, NOW_S, 13.3, 0.0, 1.5, 0.35, 76)
        obj["status"] = status_of(
            Decision(Scaling(38, state), ("a", "b"), {"pods": 0.44, "sample": 1.0}), sample, 38, NOW_S
        )
    return obj


def searching(points: tuple[Point, ...], variant: Variant = Variant.BEST) -> State:
    search = start(variant, 1, 76)
    for point in points:
        search = observe(search, point)
    return State(search=search, asked=31)


def test_before_the_first_sample_of_a_search_it_asks_where_knees_usually_are() -> None:
    said = explain(policy(searching(())), NOW_S)
    assert said.searching
    assert said.next_step is not None
    assert not said.next_step.found
    assert (said.next_step.replicas, said.fit, said.knee) == (31, None, None)
    assert plot.text(said) == ""


def test_points_are_in_their_order_with_the_curve_they_tell() -> None:
    said = explain(policy(searching(POINTS)), NOW_S)
    assert [p.replicas for p in said.points] == [31, 12, 60, 45, 38]
    assert said.fit is not None
    assert said.fit.knee == pytest.approx(
        33, abs=6
    )  # farthest above the chord of 20 (r / (19 + r))^2 up to 76
    by_replicas = dict(zip(said.fit.replicas, said.fit.scores, strict=True))
    assert all(by_replicas[p.replicas] == pytest.approx(p.score, rel=0.1) for p in said.points)
    assert said.knee == said.fit.knee


def test_after_a_search_its_points_and_the_knee_it_found() -> None:
    known = (KnownKnee(5.0, 7.0, 11, inferred=True), KnownKnee(13.0, 20.0, 36))
    said = explain(policy(State(known=known, evidence=POINTS, asked=36)), NOW_S)
    assert (said.searching, said.next_step, said.knee) == (False, None, 36)
    assert (said.left, said.right) == (1, 76)  # no more than there is room for
    assert said.points == POINTS
    assert said.reasons == ("a", "b")
    assert said.inputs_age_s == {"pods": 0.4, "sample": 1.0}
    assert said.target_replicas == 36


def test_other_variants_fit_no_curve() -> None:
    said = explain(policy(searching(POINTS[:2], Variant.PAPER), search={"variant": "paper"}), NOW_S)
    assert said.fit is None
    assert said.variant == "paper"
    assert "1" in plot.text(said)


def test_budget() -> None:
    budget = {"replicaIntervals": 1000, "window": "15m", "atEnd": "stop"}
    state = State(spending=Spending(NOW_S - 300, 400.0), asked=30)
    left = explain(policy(state, budget=budget), NOW_S).budget
    assert left is not None
    assert (left.spent, left.left, left.window_left_s, left.at_end) == (400.0, 600.0, 600.0, "stop")
    assert left.each_interval == pytest.approx(30.0)
    assert explain(policy(state), NOW_S).budget is None


def test_no_decision_yet() -> None:
    with pytest.raises(NothingToExplain, match="shop/cart: no decision yet and no condition"):
        explain(policy(None), NOW_S)
    obj = policy(None) | {"status": {"conditions": [{"reason": "NoData", "message": "Prometheus is down"}]}}
    with pytest.raises(NothingToExplain, match="no decision yet, NoData: Prometheus is down"):
        explain(obj, NOW_S)


def test_a_status_as_the_api_server_keeps_it_without_what_was_none() -> None:
    obj = policy(searching(POINTS))
    del obj["status"]["search"]["enough"]
    assert explain(obj, NOW_S).points == POINTS
    del obj["status"]["search"]["left"]
    with pytest.raises(NothingToExplain, match=r"shop/cart: status cannot be read: .*left"):
        explain(obj, NOW_S)


def test_a_policy_that_makes_no_sense() -> None:
    with pytest.raises(PolicyError, match=r"spec\.maxReplicas"):
        explain(policy(State(), minReplicas=200), NOW_S)


def test_the_terminal_shows_points_by_number_curve_chord_and_knee() -> None:
    known = (KnownKnee(13.0, 20.0, 36),)
    lines = plot.text(explain(policy(State(known=known, evidence=POINTS)), NOW_S)).splitlines()
    assert len(lines) == 17
    assert max(map(len, lines)) <= 80
    body = "\n".join(line[11:] for line in lines[:15])
    assert {*"12345.-:"} <= set(body)
    column = {
        number: line.index(number, 11) for number in "12345" for line in lines[:15] if number in line[11:]
    }
    assert sorted(column, key=column.__getitem__) == ["2", "1", "5", "4", "3"]  # 12, 31, 38, 45, 60 replicas
    assert lines[-1].split() == ["1", "76"]


@pytest.mark.parametrize("state", [searching(POINTS), searching(()), State(asked=3)])
def test_the_picture_is_a_png_whatever_is_known(tmp_path: Path, state: State) -> None:
    file = tmp_path / "new" / "search.png"
    plot.png(explain(policy(state), NOW_S), file)
    assert file.read_bytes().startswith(b"\x89PNG")
