"""Trimaran's scores against those of the real plugins, and what follows for pods."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.combofunc.model import Bound, Create, NodeLoad, NodeView, State
from experiments.combofunc.node_load import LoadWatch
from experiments.combofunc.trimaran import PLUGINS, Trimaran
from experiments.combofunc.trimaran_scores import (
    LoadVariationRiskBalancing,
    Plugin,
    TargetLoadPacking,
    risk_score,
    target_score,
)
from experiments.combofunc.workload import FUNCTIONS, MIB, Size, Workload
from kwok.scenario import Scenario

RECORDED = json.loads((Path(__file__).parent / "recorded" / "trimaran_scores.json").read_text())
GIB = 1 << 30
SIZES = FUNCTIONS["ml"].sizes
IDLE = NodeLoad(100.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def node(name: str = "node", cpu: int = 8000, memory: int = 16 * GIB) -> NodeView:
    return NodeView(name, cpu, memory, cpu, memory, 110, 0, 1.0, 0.1)


@pytest.mark.parametrize("case", RECORDED["target_load_packing"])
def test_targets_are_packed_as_the_real_plugin_packs(case: dict[str, Any]) -> None:
    plugin = TargetLoadPacking(
        case["target_percent"], case["requests_multiplier"], case["best_effort_millicores"]
    )
    bound = [Bound(100.0 - case["bound_before_window_end_s"], cpu) for cpu in case["bound_millicores"]]
    load = replace(IDLE, cpu=case["load_percent"] / 100, bound=bound)
    if case["pod_millicores"] is not None:
        pod = Size("", case["pod_millicores"], 0, 1)
        assert plugin.score(node(cpu=case["capacity_millicores"]), load, pod, 60.0) == case["score"]
    else:  # a pod that requests nothing, which functions are not
        late = [b for b in bound if case["bound_before_window_end_s"] < 60]
        coming = sum(plugin.predicted_millicores(b.cpu_millicores) for b in [Bound(0.0, None), *late])
        found = target_score(load.cpu, case["capacity_millicores"], coming, plugin.target_percent)
        assert found == case["score"]


@pytest.mark.parametrize("case", RECORDED["risk_balancing"])
def test_risk_is_balanced_as_the_real_plugin_balances(case: dict[str, Any]) -> None:
    plugin = LoadVariationRiskBalancing(case["margin"], case["sensitivity"])
    keys = ("cpu_mean_percent", "cpu_std_percent", "memory_mean_percent", "memory_std_percent")
    load = NodeLoad(0.0, 0.0, *(case[key] / 100 for key in keys))
    there = node(cpu=case["capacity_millicores"], memory=case["capacity_mebibytes"] * MIB)
    pod = Size("", case["pod_millicores"], case["pod_mebibytes"] * MIB, 1)
    assert plugin.score(there, load, pod, 60.0) == case["score"]


@given(
    load=st.floats(0, 1.2), coming=st.integers(0, 9000), target=st.integers(1, 99), std=st.floats(0, 1),
    margin=st.floats(0, 5), sensitivity=st.floats(0.1, 5),
)  # fmt: skip
def test_scores_are_within_0_and_100(
    load: float, coming: int, target: int, std: float, margin: float, sensitivity: float
) -> None:
    assert 0 <= target_score(load, 8000, coming, target) <= 100
    assert 0 <= risk_score([(load, std, coming / 8000)], margin, sensitivity) <= 100


def placed(plugin: Plugin, loads: dict[str, NodeLoad], count: int) -> Counter[str]:
    nodes = [node(name) for name in loads]
    scaler = Trimaran(SIZES[1], plugin, "1", time_factor=3.0)
    found = scaler.decide(State(nodes, [], 100.0, loads=loads), 2 * count).actions
    return Counter(action.node for action in found if isinstance(action, Create))


def test_a_loaded_node_is_avoided() -> None:
    busy = replace(IDLE, cpu=0.95, cpu_mean=0.95)
    for plugin in PLUGINS.values():
        assert placed(plugin, {"busy": busy, "idle": IDLE}, 1) == {"idle": 1}


def test_packing_prefers_the_node_that_is_nearer_to_its_target() -> None:
    warm = replace(IDLE, cpu=0.2, cpu_mean=0.2)
    assert placed(TargetLoadPacking(), {"warm": warm, "idle": IDLE}, 1) == {"warm": 1}
    assert placed(LoadVariationRiskBalancing(), {"warm": warm, "idle": IDLE}, 1) == {"idle": 1}


def test_what_was_just_placed_counts() -> None:
    """1 CPU each, thought to be 1.5: the third pod takes a node of 8 near its target of 60 %."""
    plugin = TargetLoadPacking(60)
    loads = [replace(IDLE, bound=[Bound(99.0, 1000)] * count) for count in range(6)]
    score_of = [plugin.score(node(), load, SIZES[1], 20.0) for load in loads]
    assert score_of.index(max(score_of)) == 2
    assert score_of[3] < score_of[2]
    assert score_of[5] == 0, "9 CPUs of 8"
    old = replace(IDLE, bound=[Bound(80.0, 1000)] * 5)
    assert plugin.score(node(), old, SIZES[1], 20.0) == score_of[0]


def test_no_more_is_placed_than_fits() -> None:
    found = placed(LoadVariationRiskBalancing(), {"a": IDLE, "b": IDLE}, 100)
    assert found == {"a": 8, "b": 8}


def test_load_watcher_tells_what_was_used_when_it_last_asked() -> None:
    workload = replace(Workload(), resident_share=(0.0, 0.0), load_shows_speed=False)
    size = FUNCTIONS["ml"].sizes[5]  # half a node
    watch = LoadWatch(workload, Scenario.equal(), 1)
    assert watch.loads["node-0"].cpu == 0.0
    for i in range(1, 4):
        watch.sample(5.0 * i, [("node-0", "ml", size, 0.5)])
    assert watch.loads["node-0"].cpu == 0.0, "it asks every 20 s"
    watch.bind("new", "node-0", 12.0, 500)
    watch.sample(20.0, [("node-0", "ml", size, 0.5)])
    load = watch.loads["node-0"]
    assert load.window_end_s == 20.0
    assert load.cpu == pytest.approx(0.25)
    assert load.cpu_mean == pytest.approx(0.2)
    assert load.cpu_std == pytest.approx(0.1)
    memory = (768 + 4 * 192) / (16 << 10)  # its base, and half of its eight requests
    assert load.memory_mean == pytest.approx(0.8 * memory)
    assert list(load.bound) == [Bound(12.0, 500)]
    watch.gone("new", "node-0")
    assert not load.bound
    assert watch.loads["node-1"].cpu_mean == 0.0


def test_a_slow_node_seems_loaded_if_load_shows_speed() -> None:
    workload = replace(Workload(), resident_share=(0.0, 0.0))
    scenario = workload.scenario(1)
    watch = LoadWatch(workload, scenario, 1)
    slowest = max(workload.node_names, key=lambda name: scenario.tau_create_s(name, 0.0))
    assert watch.loads[slowest].cpu == max(load.cpu for load in watch.loads.values())
    assert 0 < watch.loads[slowest].cpu <= 2 / 3 + 1e-9, "speeds differ threefold at most"
    blind = LoadWatch(replace(workload, load_shows_speed=False), scenario, 1)
    assert {load.cpu for load in blind.loads.values()} == {0.0}
