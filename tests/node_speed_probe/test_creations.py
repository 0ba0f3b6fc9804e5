from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_model.contention import MEASURED, PAPER, Contention
from node_speed_probe.creations import CreationTracker
from node_speed_probe.model import (
    CreationAborted,
    CreationMeasured,
    NodeGone,
    NodeSeen,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
    PullEnded,
    PullStarted,
    Sample,
    Stage,
)
from tests.node_speed_probe.node_simulator import Arrival, simulate

TAUS_S = st.floats(0.05, 20.0)
TIMES_S = st.floats(0.0, 60.0).map(lambda s: round(s, 3))


def arrivals(**kwargs: Any) -> st.SearchStrategy[list[Arrival]]:
    return st.lists(st.builds(Arrival, at_s=TIMES_S, **kwargs), min_size=1, max_size=30)


def samples(told: list[tuple[float, Any]]) -> list[Sample]:
    tracker = CreationTracker(PAPER, lambda _: 1.0)
    outcomes = [o for at_s, fact in told for o in tracker.observe(fact, at_s)]
    return [o.sample for o in outcomes if isinstance(o, CreationMeasured)]


@given(arrivals(containers=st.integers(1, 4), pull_s=st.sampled_from([0.0, 0.0, 2.5])), TAUS_S)
def test_processor_sharing_gives_tau_exactly_for_every_creation(given: list[Arrival], tau_s: float) -> None:
    found = samples(simulate(given, tau_s, "ps"))
    assert len(found) == len(given)
    assert all(s.tau_s == pytest.approx(tau_s, rel=1e-6) for s in found)


@given(arrivals(containers=st.integers(1, 4)), TAUS_S)
def test_first_come_first_served_gives_tau_in_the_mean(given: list[Arrival], tau_s: float) -> None:
    found = samples(simulate(given, tau_s, "fifo"))
    containers = sum(s.containers for s in found)
    assert sum(s.tau_s * s.containers for s in found) / containers == pytest.approx(tau_s, rel=1e-6)


@given(
    arrivals(containers=st.integers(1, 3), fate=st.sampled_from(["start", "fail", "restart", "delete"])),
    TAUS_S,
)
def test_creations_that_end_badly_give_no_sample_and_do_not_disturb_the_others(
    given: list[Arrival], tau_s: float
) -> None:
    found = samples(simulate(given, tau_s, "ps"))
    assert len(found) == sum(a.fate == "start" for a in given)
    assert all(s.tau_s == pytest.approx(tau_s, rel=1e-6) for s in found)


def pod(uid: str = "a", stage: Stage = Stage.CREATING, node: str = "n", **rest: Any) -> PodSeen:
    return PodSeen(uid, node, stage, **rest)


STARTED = Stage.STARTED
LISTED = PodsListed((pod("a"),))
TABLE: dict[str, tuple[list[tuple[float, Any]], list[Any]]] = {
    "alone": ([(0, pod()), (2, pod(stage=STARTED))], [2.0]),
    "two containers": ([(0, pod(containers=2)), (2, pod(stage=STARTED))], [1.0]),
    "told twice": ([(0, pod()), (1, pod()), (2, pod(stage=STARTED)), (3, pod(stage=STARTED))], [2.0]),
    "restarts later": ([(0, pod()), (2, pod(stage=STARTED)), (9, pod()), (11, pod(stage=STARTED))], [2.0]),
    "first seen started": ([(0, pod(stage=STARTED))], []),
    "listed at the start": ([(0, LISTED), (2, pod(stage=STARTED))], ["Unwatched"]),
    "listed in between": ([(0, pod()), (1, LISTED), (2, pod(stage=STARTED))], ["Unwatched"]),
    "gone when listed": ([(0, pod()), (1, PodsListed(()))], ["Deleted"]),
    "done when listed": ([(0, pod()), (1, PodsListed((pod(stage=STARTED),)))], ["Unwatched"]),
    "deleted": ([(0, pod()), (1, PodGone("a"))], ["Deleted"]),
    "node gone": ([(0, pod()), (1, NodeGone("n")), (2, pod(stage=STARTED))], ["NodeGone"]),
    "node gone when listed": ([(0, pod()), (1, NodesListed(()))], ["NodeGone"]),
    "back-off": ([(0, pod()), (1, pod(stage=Stage.BROKEN, broken_by="ErrImagePull"))], ["ErrImagePull"]),
    "pulls": ([(0, pod(images=("i",))), (1, PullStarted("a", "i")), (5, PullEnded("a", "i")),
               (6, pod(stage=STARTED))], [2.0]),
    "pull never told": ([(0, pod(images=("i",))), (6, pod(stage=STARTED))], ["PullUnknown"]),
    "pull never ended": ([(0, pod(images=("i",))), (1, PullStarted("a", "i")), (6, pod(stage=STARTED))],
                         ["PullUnknown"]),
    "was there after all": ([(0, pod(images=("i",))), (1, PullEnded("a", "i")), (2, pod(stage=STARTED))],
                            [2.0]),
    "node has the image": ([(0, NodeSeen("n", "u", frozenset({"i"}))), (0, pod(images=("i",))),
                            (2, pod(stage=STARTED))], [2.0]),
    "image ran here before": ([(0, pod(images=("i",))), (2, pod(stage=STARTED, images=("i",))),
                               (3, pod("b", images=("i",))), (4, pod("b", STARTED))], ["PullUnknown", 1.0]),
    "init program": ([(0, pod(containers=2)), (1, pod(stage=Stage.RUNNING_INIT)), (8, pod()),
                      (9, pod(stage=STARTED))], [1.0]),
    "one pulls, one does not": ([(0, pod("a", images=("i",))), (0, PullStarted("a", "i")), (0, pod("b")),
                                 (2, pod("b", STARTED))], [2.0]),
    "clock steps back": ([(5, pod()), (4, pod("b")), (6, pod("b", STARTED)), (7, pod(stage=STARTED))],
                         [0.5, 1.5]),
}  # fmt: skip


@pytest.mark.parametrize(("told", "expected"), TABLE.values(), ids=TABLE.keys())
def test_tracker(told: list[tuple[float, Any]], expected: list[Any]) -> None:
    tracker = CreationTracker(PAPER, lambda _: 1.0)
    outcomes = [o for at_s, fact in told for o in tracker.observe(fact, at_s)]
    assert [o.sample.tau_s if isinstance(o, CreationMeasured) else o.reason for o in outcomes] == expected


def test_a_hung_creation_soon_stops_making_the_others_look_fast() -> None:
    tracker = CreationTracker(PAPER, lambda _: 1.0)
    tracker.observe(pod("hangs"), 0.0)
    tracker.tick(120.0, 6.0)
    assert tracker.creating("n") == 0
    tracker.observe(pod("b"), 6.0)
    assert tracker.creating("n") == 1
    [done] = tracker.observe(pod("b", STARTED), 7.0)
    assert isinstance(done, CreationMeasured)
    assert done.sample.tau_s == pytest.approx(1.0)
    [unfinished] = tracker.unfinished("n", 8.0)
    assert unfinished.overtaken
    assert tracker.tick(120.0, 130.0) == [CreationAborted("n", "Hung")]
    assert tracker.observe(pod("hangs", STARTED), 131.0) == []


def test_a_node_that_stalled_as_a_whole_is_measured_right_when_it_goes_on() -> None:
    tracker = CreationTracker(PAPER, lambda _: 1.0)
    for uid in "abcd":
        tracker.observe(pod(uid), 0.0)
    for now_s in range(1, 40):
        tracker.tick(120.0, float(now_s))
    outcomes = [o for uid in "abcd" for o in tracker.observe(pod(uid, STARTED), 40.0)]
    assert [o.sample.tau_s for o in outcomes if isinstance(o, CreationMeasured)] == pytest.approx([10.0] * 4)


UIDS, NODES, IMAGES = st.sampled_from("abcde"), st.sampled_from(["n", "m"]), st.sampled_from(["i", "j"])
PODS = st.builds(
    PodSeen, uid=UIDS, node=NODES, stage=st.sampled_from(Stage), containers=st.integers(0, 3),
    images=st.lists(IMAGES, max_size=2).map(tuple), broken_by=st.sampled_from(["", "Failed"]),
)  # fmt: skip
NODE = st.builds(NodeSeen, NODES, st.just("u"), st.frozensets(IMAGES))
FACTS = st.one_of(
    PODS,
    PODS,
    st.builds(PodGone, UIDS),
    st.builds(PodsListed, st.lists(PODS, max_size=5, unique_by=lambda p: p.uid).map(tuple)),
    NODE,
    st.builds(NodeGone, NODES),
    st.builds(NodesListed, st.lists(NODE, max_size=2, unique_by=lambda n: n.name).map(tuple)),
    st.builds(PullStarted, UIDS, IMAGES),
    st.builds(PullEnded, UIDS, IMAGES),
    st.none(),  # a tick
)


@pytest.mark.parametrize("contention", [PAPER, MEASURED])
@given(st.lists(st.tuples(FACTS, st.floats(-1.0, 30.0)), max_size=60))
def test_no_order_of_facts_breaks_it(contention: Contention, told: list[tuple[Any, float]]) -> None:
    tracker = CreationTracker(contention, lambda _: 1.0)
    now_s, virtual_s = 0.0, 0.0
    for fact, later_s in told:
        now_s += later_s
        if isinstance(fact, NodeGone | NodesListed):
            virtual_s = 0.0  # the node's clock may start anew
        outcomes = tracker.observe(fact, now_s) if fact else tracker.tick(10.0, now_s)
        assert all(o.sample.tau_s > 0 for o in outcomes if isinstance(o, CreationMeasured))
        for node in ("n", "m"):
            assert 0 <= tracker.creating(node) <= tracker.in_progress(node) <= 5
            assert all(u.tau_s >= 0 for u in tracker.unfinished(node, now_s))
        assert tracker.virtual_s("n", now_s) >= virtual_s
        virtual_s = tracker.virtual_s("n", now_s)
