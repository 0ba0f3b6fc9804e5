"""The probe against the lab's node model as a real node was measured: contention is taken out."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from cluster_model.contention import ContentionForm
from kwok.node_model import Created, NodeModel, Resized
from kwok.physics import MEASURED, Physics
from kwok.scenario import Scenario
from node_speed_probe.ledger import Ledger
from node_speed_probe.model import NodeSeen, NodeSpeedEstimate, PodSeen, Stage
from node_speed_probe.settings import Settings

NODE = "n"
TAU_CREATE_S, TAU_RESIZE_S = 0.5, 0.2
EXACT = replace(MEASURED, spread=0.0)


def bursts(pods: int) -> list[float]:
    return [12.0 * burst for burst in range(40) for _ in range(pods)]


def steady(every_s: float) -> list[float]:
    draw, at_s = random.Random(1), 0.0
    times: list[float] = []
    while len(times) < 200:
        at_s += draw.expovariate(1.0 / every_s)
        times.append(at_s)
    return times


def estimate(
    arrivals_s: list[float],
    physics: Physics,
    form: ContentionForm = ContentionForm.MEASURED,
    containers: int = 1,
) -> NodeSpeedEstimate:
    """What the probe says after these creations."""
    scenario = Scenario.equal(tau_create_s=TAU_CREATE_S, tau_resize_s=TAU_RESIZE_S, physics=physics)
    model, ledger = NodeModel(scenario), Ledger(Settings(contention=form))
    ledger.observe(NodeSeen(NODE, "uid"), 0.0)
    told: list[tuple[float, PodSeen]] = []
    for number, at_s in enumerate(arrivals_s):
        model.bind(f"p{number}", NODE, containers, [], at_s)
        told.append((at_s, PodSeen(f"p{number}", NODE, Stage.CREATING, containers)))
        told += [
            (event.at_s, PodSeen(event.pod, NODE, Stage.STARTED, containers))
            for event in model.advance(arrivals_s[number + 1] if number + 1 < len(arrivals_s) else 1e6)
            if isinstance(event, Created)
        ]
    round_s = 0.0
    for at_s, fact in sorted(told, key=lambda t: t[0]):
        while round_s < at_s:
            ledger.snapshot(round_s)
            round_s += 2.0
        ledger.observe(fact, at_s)
    (found,) = ledger.estimates(max(at_s for at_s, _ in told))
    return found


@pytest.mark.parametrize("containers", [1, 2, 4])
@pytest.mark.parametrize("pods", [1, 2, 5, 16])
def test_pods_that_come_together_are_read_exactly(pods: int, containers: int) -> None:
    found = estimate(bursts(pods), EXACT, containers=containers)
    assert found.tau_create_s == pytest.approx(TAU_CREATE_S, rel=0.01)


@pytest.mark.parametrize("arrivals_s", [bursts(8), steady(1.0), steady(0.4), steady(0.3)])
def test_however_pods_come_tau_is_within_15_percent(arrivals_s: list[float]) -> None:
    assert estimate(arrivals_s, MEASURED).tau_create_s == pytest.approx(TAU_CREATE_S, rel=0.15)


def test_the_papers_form_misreads_such_a_node() -> None:
    found = estimate(bursts(8), EXACT, ContentionForm.PAPER)
    assert found.tau_create_s < 0.75 * TAU_CREATE_S


@pytest.mark.parametrize("pods", [1, 2, 4, 8])
def test_resizes_that_come_together_are_read_as_if_alone(pods: int) -> None:
    scenario = Scenario.equal(tau_create_s=TAU_CREATE_S, tau_resize_s=TAU_RESIZE_S, physics=EXACT)
    model, ledger = NodeModel(scenario), Ledger(Settings())
    ledger.observe(NodeSeen(NODE, "uid"), 0.0)
    sizes = [(("c", 1.0 + step, -1.0, -1.0, -1.0),) for step in range(9)]
    for number in range(pods):
        ledger.observe(PodSeen(f"p{number}", NODE, Stage.STARTED, wanted=sizes[0], actual=sizes[0]), 0.0)
    for step in range(1, 9):
        began_s = 10.0 * step
        for number in range(pods):
            seen = PodSeen(f"p{number}", NODE, Stage.STARTED, wanted=sizes[step], actual=sizes[step - 1])
            ledger.observe(seen, began_s)
            model.resize(f"p{number}", NODE, step, began_s)
        for event in model.advance(began_s + 9.0):
            if isinstance(event, Resized):
                seen = PodSeen(event.pod, NODE, Stage.STARTED, wanted=sizes[step], actual=sizes[step])
                ledger.observe(seen, event.at_s)
    (found,) = ledger.estimates(100.0)
    assert found.tau_resize_s == pytest.approx(TAU_RESIZE_S, rel=0.01)


def test_a_resize_that_hangs_does_not_make_others_look_fast() -> None:
    ledger = Ledger(Settings())
    ledger.observe(NodeSeen(NODE, "uid"), 0.0)
    small, large = (("c", 1.0, -1.0, -1.0, -1.0),), (("c", 2.0, -1.0, -1.0, -1.0),)
    for pod in ("hangs", "works"):
        ledger.observe(PodSeen(pod, NODE, Stage.STARTED, wanted=small, actual=small), 0.0)
    for number in range(8):
        ledger.observe(PodSeen(f"hangs-{number}", NODE, Stage.STARTED, wanted=small, actual=small), 0.0)
        ledger.observe(PodSeen(f"hangs-{number}", NODE, Stage.STARTED, wanted=large, actual=small), 1.0)
    ledger.observe(PodSeen("works", NODE, Stage.STARTED, wanted=large, actual=small), 20.0)
    ledger.observe(PodSeen("works", NODE, Stage.STARTED, wanted=large, actual=large), 20.5)
    (found,) = ledger.estimates(21.0)
    assert found.tau_resize_s == pytest.approx(0.5)
