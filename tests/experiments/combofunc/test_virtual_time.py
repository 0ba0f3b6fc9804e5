"""The simulation against what can be worked out by hand, and what must always hold."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from experiments.combofunc.arms import (
    ARMS,
    AUTOPILOT,
    NO_INPLACE,
    RANDOM_FIT,
    STOCK,
    TRIMARAN,
    Choice,
    Setup,
    candidates,
    scaler,
)
from experiments.combofunc.figures import compared
from experiments.combofunc.model import Action, Create, Decision, Remove, Resize, Scaler, State
from experiments.combofunc.simulation import Outcome, OvercommitError, simulate
from experiments.combofunc.track import Track
from experiments.combofunc.trimaran import PLUGINS
from experiments.combofunc.workload import FUNCTIONS, Function, Targets, Workload
from kwok.scenario import Scenario

FILE = FUNCTIONS["file"].sizes
Script = Callable[[State], Sequence[Action]]


@dataclass
class Scripted:
    """Says what it was told to, one decision after the other."""

    decisions: list[Script]

    def decide(self, state: State, target: int) -> Decision:
        return Decision(self.decisions.pop(0)(state) if self.decisions else [])


@dataclass(frozen=True)
class Quiet(Workload):
    """Nobody else there, speeds that stay, and one function whose target rises twice and falls."""

    minutes: int = 1
    tau_resize_s: float = 0.25
    resident_share: tuple[float, float] = (0.0, 0.0)
    newcomers_every_s: float = 1e9

    def scenario(self, seed: int) -> Scenario:
        return Scenario.equal(tau_create_s=self.tau_create_s, tau_resize_s=self.tau_resize_s)

    def targets(self, seed: int) -> dict[str, Targets]:
        return {"file": Targets("file", "", ((1.0, 8), (10.0, 9), (20.0, 1)))}


def play(*decisions: Script) -> Track:
    scripted = Scripted(list(decisions))
    outcome = simulate(Quiet(), 1, lambda name: scripted if name == "file" else Scripted([]))
    return outcome.tracks["file"]


def test_creations_share_a_node_and_a_resize_takes_tau_u() -> None:
    track = play(
        lambda _: [Create("node-0", FILE[3]), Create("node-0", FILE[3])],
        lambda state: [Resize(state.containers[0].pod, FILE[4])],
    )
    assert track.scaling_s == pytest.approx([2.0, 0.25])
    # A quarter of a core a request: 4 + 4 of them from 1 s, 6 + 4 from 10 s.
    assert track.core_s == pytest.approx(9.0 * 2.0 + 30.0 * 2.5)


def test_what_serves_is_given_up_only_when_something_is_in_its_place() -> None:
    track = play(
        lambda _: [Create("node-0", FILE[5])],
        lambda state: [
            Remove(state.containers[0].pod),
            Create("node-1", FILE[5]),
            Create("node-2", FILE[0]),
        ],
    )
    ready = dict(zip(track.at_s, track.ready, strict=True))
    assert (ready[9.0], ready[10.0], ready[12.0]) == (8, 8, 9)
    assert track.short_s == pytest.approx(8.0 + 1.0)  # one second without 8, one without the ninth


def test_what_is_in_the_way_is_given_up_first() -> None:
    big = FUNCTIONS["video"].sizes[3]  # half a node
    track = play(
        lambda _: [Create("node-0", big), Create("node-0", big)],
        lambda state: [Remove(state.containers[0].pod), Create("node-0", big), Create("node-1", FILE[0])],
    )
    ready = dict(zip(track.at_s, track.ready, strict=True))
    assert (ready[9.0], ready[10.0], ready[12.0]) == (8, 4, 9)


def test_a_scaler_that_asks_for_more_than_there_is() -> None:
    big = FUNCTIONS["video"].sizes[3]
    with pytest.raises(OvercommitError, match=r"file at 1\.000 s: 4000m"):
        play(lambda _: [Create("node-0", big)] * 3)


def test_a_scaler_is_asked_again_when_it_said_so_and_when_others_are_short() -> None:
    asked: list[tuple[float, bool]] = []

    class Keeps:
        def decide(self, state: State, target: int) -> Decision:
            asked.append((state.now_s, state.others_short))
            again_at_s = 5.0 if state.now_s < 5 else math.inf
            return Decision(
                [Create("node-0", FILE[5])][: not state.containers], 0.0, again_at_s, keeps_warm=True
            )

    class Two(Quiet):
        def targets(self, seed: int) -> dict[str, Targets]:
            return {"file": Targets("file", "", ((1.0, 8),)), "web": Targets("web", "", ((10.0, 8),))}

    simulate(Two(), 1, lambda name: Keeps() if name == "file" else Scripted([]))
    assert asked[:3] == [(1.0, False), (5.0, False), (10.0, True)]


def choice(arm: str) -> Choice | None:
    homogeneous = {STOCK: Choice(3), RANDOM_FIT: Choice(4, keep_s=20.0), AUTOPILOT: Choice(5, True)}
    trimaran = Choice(3, plugin="TargetLoadPacking")
    return (homogeneous | {NO_INPLACE: Choice(5), TRIMARAN: trimaran}).get(arm)


def no_planner(function: Function, in_place: bool, price_weight: float | None, keep_warm_s: float) -> Scaler:
    arm = AUTOPILOT if in_place else STOCK
    return scaler(Setup(arm, 1, Choice(2), price_weight, keep_warm_s), function, no_planner)


def simulated(arm: str) -> Outcome:
    workload = replace(Workload(), minutes=8)

    def of(name: str) -> Scaler:
        return scaler(Setup(arm, 2, choice(arm)), FUNCTIONS[name], no_planner)

    return simulate(workload, 2, of)


@pytest.fixture(scope="module")
def played() -> dict[str, Outcome]:
    return {arm: simulated(arm) for arm in ARMS}


def test_all_arms_are_measured_on_the_same_rises(played: dict[str, Outcome]) -> None:
    for name in FUNCTIONS:
        assert len({len(o.tracks[name].scaling_s) for o in played.values()}) == 1
        assert len({tuple(o.tracks[name].target) for o in played.values()}) == 1


def test_no_node_is_overcommitted_and_targets_are_met(played: dict[str, Outcome]) -> None:
    for arm, outcome in played.items():
        assert 0 <= min(outcome.cpu_utilisation) <= max(outcome.cpu_utilisation) <= 1, arm
        assert 0 <= min(outcome.memory_utilisation) <= max(outcome.memory_utilisation) <= 1, arm
        for track in outcome.tracks.values():
            assert track.seconds == pytest.approx(180.0)
            assert track.ready[-1] >= track.target[-1]


def test_the_same_seed_gives_the_same(played: dict[str, Outcome]) -> None:
    assert simulated(STOCK) == played[STOCK]


def test_ratios_are_baseline_over_ours(played: dict[str, Outcome]) -> None:
    found = compared({arm: [outcome] for arm, outcome in played.items()})
    for key in ("time_ratio", "cost_ratio", "unit_cost_ratio"):
        assert set(found[key]) == {"stock", "random_fit", "trimaran", "autopilot", "no_inplace"}
    arms = found["arms"]
    for key, of, least in (("time_ratio", "scaling_s", 0.02), ("cost_ratio", "cost", 0.0)):
        ratio = found[key]["stock"]
        each = {f: (arms["stock"][f][of] + least) / (arms["ours"][f][of] + least) for f in FUNCTIONS}
        assert ratio["by_function"] == pytest.approx(each, abs=1e-3)
        assert ratio["geomean"] == pytest.approx(statistics.geometric_mean(each.values()), abs=1e-3)
        assert ratio["low"] <= ratio["geomean"] <= ratio["high"]


def test_sweeps_try_every_size() -> None:
    assert [c.step for c in candidates(STOCK)] == [0, 1, 2, 3, 4, 5]
    assert {c.shrink_first for c in candidates(AUTOPILOT)} == {True, False}
    assert {(c.step, c.plugin) for c in candidates(TRIMARAN)} == {(s, p) for s in range(6) for p in PLUGINS}
