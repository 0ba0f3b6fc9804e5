"""The baselines' rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from experiments.combofunc.baselines import Autopilot, Delayed, RandomFit, Stock, deleted_first
from experiments.combofunc.model import Container, Create, NodeView, Remove, Resize, State
from experiments.combofunc.workload import FUNCTIONS, Size

GIB = 1 << 30
SIZES = FUNCTIONS["ml"].sizes  # 0.5 cores a request; 1, 2, 3, 4, 6, 8
NODES = [NodeView(f"node-{i}", 8000, 16 * GIB, 8000, 16 * GIB, 110, 0, 1.0, 0.1) for i in range(3)]


def container(pod: str, node: str, size: Size, ready: bool = True, age: int = 0) -> Container:
    return Container(pod, node, size, ready, False, age)


def test_stock_has_as_many_replicas_as_the_target_needs() -> None:
    found = Stock(SIZES[3], "1").decide(State(NODES, []), 9).actions
    assert [type(a) for a in found] == [Create] * 3
    assert {a.node for a in found if isinstance(a, Create)} == {"node-0", "node-1", "node-2"}  # spread
    there = [container("a", "node-0", SIZES[3]), container("b", "node-1", SIZES[3], ready=False)]
    assert Stock(SIZES[3], "1").decide(State(NODES, there), 4).actions == [Remove("b")]


def test_random_fit_takes_only_what_fits() -> None:
    full = [replace(n, cpu_free_millicores=0) for n in NODES[:2]]
    found = RandomFit(SIZES[5], "1").decide(State([*full, NODES[2]], []), 80).actions
    assert found == [Create("node-2", SIZES[5])] * 2


def test_a_replicaset_takes_away_the_unready_then_the_crowded_then_the_young() -> None:
    there = [
        container("old", "node-0", SIZES[0], age=1),
        container("young", "node-1", SIZES[0], age=9),
        container("crowded", "node-2", SIZES[0], age=2),
        container("crowded-young", "node-2", SIZES[0], age=3),
        container("unready", "node-0", SIZES[0], ready=False, age=4),
    ]
    order = [c.pod for c in deleted_first(there)]
    assert order == ["unready", "crowded-young", "crowded", "young", "old"]


@pytest.mark.parametrize(
    ("target", "size", "created", "removed"),
    [
        (4, SIZES[1], 0, 0),  # two replicas of two are enough
        (5, SIZES[2], 0, 0),
        (16, SIZES[5], 0, 0),  # the largest
        (17, SIZES[5], 1, 0),  # then more replicas
        (1, SIZES[0], 0, 1),
    ],
)
def test_autopilot_grows_in_place_before_it_adds(target: int, size: Size, created: int, removed: int) -> None:
    there = [container("a", "node-0", SIZES[0]), container("b", "node-1", SIZES[0])]
    wanted = Autopilot(SIZES, True, "1").wanted(State(NODES, there), target)
    assert (wanted.size, wanted.replicas - len(wanted.kept), len(wanted.removed)) == (size, created, removed)


def test_autopilot_that_removes_first_keeps_what_the_largest_size_needs() -> None:
    there = [container(name, f"node-{i}", SIZES[5]) for i, name in enumerate("abc")]
    wanted = Autopilot(SIZES, False, "1").wanted(State(NODES, there), 7)
    assert (wanted.size, len(wanted.kept), len(wanted.removed)) == (SIZES[5], 1, 2)
    wanted = Autopilot(SIZES, True, "1").wanted(State(NODES, there), 7)
    assert (wanted.size, len(wanted.kept), len(wanted.removed)) == (SIZES[2], 3, 0)


def test_autopilot_stays_at_the_size_that_all_can_have() -> None:
    """node-1 has room for two more of concurrency only, so nobody gets more."""
    nodes = [NODES[0], replace(NODES[1], cpu_free_millicores=1000), NODES[2]]
    there = [container("a", "node-0", SIZES[0]), container("b", "node-1", SIZES[0])]
    found = Autopilot(SIZES, True, "1").decide(State(nodes, there), 9).actions
    assert set(found[:2]) == {Resize("a", SIZES[2]), Resize("b", SIZES[2])}
    assert [type(a) for a in found[2:]] == [Create]


def test_a_delayed_scaler_keeps_what_was_needed_and_says_how_long() -> None:
    there = [container("a", "node-0", SIZES[3]), container("b", "node-1", SIZES[3])]
    delayed = Delayed(Stock(SIZES[3], "1"), 20.0)
    assert delayed.decide(State(NODES, there, 0.0), 8).actions == []
    kept = delayed.decide(State(NODES, there, 5.0), 4)
    assert (kept.actions, kept.again_at_s, kept.keeps_warm) == ([], 25.0, True)
    assert delayed.decide(State(NODES, there, 6.0, others_short=True), 4).actions == [Remove("a")]
    assert len(delayed.decide(State(NODES, there, 7.0), 4).actions) == 1, "and does not come back to it"


def test_a_delayed_scaler_lets_go_when_its_time_is_over() -> None:
    there = [container("a", "node-0", SIZES[3]), container("b", "node-1", SIZES[3])]
    delayed = Delayed(Stock(SIZES[3], "1"), 20.0)
    delayed.decide(State(NODES, there, 0.0), 8)
    delayed.decide(State(NODES, there, 5.0), 4)
    assert delayed.decide(State(NODES, there, 24.9), 4).actions == []
    assert delayed.decide(State(NODES, there, 25.0), 4).actions == [Remove("a")]
    at_once = Delayed(Stock(SIZES[3], "1"), 0.0)
    at_once.decide(State(NODES, there, 0.0), 8)
    assert at_once.decide(State(NODES, there, 5.0), 4).actions == [Remove("a")]
