from __future__ import annotations

import random
import time
from collections.abc import Iterable
from dataclasses import replace
from statistics import mean
from typing import Literal

import pytest

from cluster_model.contention import ContentionForm
from node_speed_probe.ledger import Ledger
from node_speed_probe.model import (
    Fact,
    ImagePull,
    NodeGone,
    NodeSeen,
    NodesListed,
    NodeSpeedEstimate,
    PodGone,
    PodSeen,
    PodsListed,
    PullEnded,
    Reason,
    Sample,
    Stage,
)
from node_speed_probe.settings import Settings
from tests.node_speed_probe.node_simulator import Arrival, simulate

SETTINGS = Settings(contention=ContentionForm.PAPER)  # as the simulator shares


class Follower:
    """Feeds a ledger as the controller does, with a round every two seconds."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self.ledger = Ledger(SETTINGS)
        self.ledger.observe(NodesListed(tuple(NodeSeen(n, f"uid-{n}") for n in nodes)), 0.0)
        self.rounds: list[dict[str, NodeSpeedEstimate]] = []

    def follow(self, told: Iterable[tuple[float, Fact]], until_s: float) -> Follower:
        round_s = 0.0
        for at_s, fact in [*told, (until_s, NodeGone("none"))]:
            while round_s < min(at_s, until_s):
                self.rounds.append(self.now(round_s))
                round_s += 2.0
            if at_s <= until_s:
                self.ledger.observe(fact, at_s)
        return self

    def now(self, now_s: float) -> dict[str, NodeSpeedEstimate]:
        return {e.node: e for e in self.ledger.snapshot(now_s).estimates}


def follow(told: list[tuple[float, Fact]], nodes: list[str], until_s: float) -> dict[str, NodeSpeedEstimate]:
    return Follower(nodes).follow(told, until_s).now(until_s)


def load(seed: int, until_s: float, per_s: float, fates: float, jitter: float) -> list[Arrival]:
    """Bursts of pods; a share of them with a bad fate or a pull."""
    chance = random.Random(seed)
    found, now_s = [], 0.0
    while (now_s := now_s + chance.expovariate(per_s / 5)) < until_s:
        for _ in range(chance.randint(1, 9)):
            bad = chance.random() < fates
            fate = chance.choice(["fail", "hang", "restart", "delete"]) if bad else "start"
            pull_s = chance.choice([0.0, 0.0, 0.0, 4.0])
            work = chance.uniform(1 - jitter, 1 + jitter)
            found.append(Arrival(now_s, chance.randint(1, 2), pull_s, fate, work))  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("fates", "jitter", "mean_error"),
    [(0.0, 0.0, 0.07), (0.0, 0.2, 0.10), (0.15, 0.0, 0.10), (0.15, 0.2, 0.12)],
)
def test_contention_and_bad_pods_are_not_read_as_slowness(
    seed: int, fates: float, jitter: float, mean_error: float
) -> None:
    """Nodes whose speeds differ threefold, each in bursts of up to nine pods at once for ten minutes."""
    truth_s = {"fast": 0.5, "usual": 1.0, "slow": 1.5}
    told: list[tuple[float, Fact]] = []
    for i, (node, tau_s) in enumerate(truth_s.items()):
        arrivals = load(seed * 10 + i, 600, 0.4 / tau_s, fates, jitter)
        told += [(at_s, _renamed(fact, node)) for at_s, fact in simulate(arrivals, tau_s, "ps", node)]
    told.sort(key=lambda t: t[0])
    rounds = Follower(truth_s).follow(told, 600.0).rounds[60:]
    for node, tau_s in truth_s.items():
        errors = [r[node].tau_create_s / tau_s - 1.0 for r in rounds]
        assert rounds[-1][node].source == "measured"
        assert mean(map(abs, errors)) < mean_error, node


def _renamed(fact: Fact, node: str) -> Fact:
    """Pod uids are unique in a cluster."""
    if isinstance(fact, PodSeen):
        return replace(fact, uid=f"{node}/{fact.uid}")
    uid = "uid" if hasattr(fact, "uid") else "pod_uid"
    return replace(fact, **{uid: f"{node}/{getattr(fact, uid)}"})  # type: ignore[arg-type]


@pytest.mark.parametrize("discipline", ["ps", "fifo"])
def test_a_lone_burst_is_read_right_when_it_is_over(discipline: Literal["ps", "fifo"]) -> None:
    """Also by a node that serves one after the other, whose last pod waited 40 times as long as its first."""
    told = simulate([Arrival(1.0)] * 40, 0.5, discipline)
    assert follow(told, ["n"], 22.0)["n"].tau_create_s == pytest.approx(0.5, rel=0.1)


def test_a_node_never_seen_gets_the_median_of_its_peers() -> None:
    told = [t for n, tau in (("a", 2.0), ("b", 3.0), ("c", 9.0)) for t in _sequence(n, tau, 8)]
    found = follow(sorted(told, key=lambda t: t[0]), ["a", "b", "c", "new"], 75.0)
    assert found["new"].source == "prior"
    assert found["new"].reason is Reason.PRIOR_OF_PEERS
    assert found["new"].tau_create_s == pytest.approx(3.0, rel=0.1)
    assert found["new"].tau_create_rel_error > found["b"].tau_create_rel_error


def _sequence(node: str, tau_s: float, count: int) -> list[tuple[float, Fact]]:
    told: list[tuple[float, Fact]] = []
    for i in range(count):
        told.append((i * tau_s, PodSeen(f"{node}{i}", node, Stage.CREATING)))
        told.append(((i + 1) * tau_s, PodSeen(f"{node}{i}", node, Stage.STARTED)))
    return told


def test_a_stalled_node_is_noticed_while_nothing_completes() -> None:
    told = _sequence("n", 1.0, 10) + [(10.0, PodSeen(f"s{i}", "n", Stage.CREATING)) for i in range(5)]
    assert follow(told, ["n", "m"], 12.0)["n"].tau_create_s == pytest.approx(1.0, rel=0.05)
    assert follow(told, ["n", "m"], 60.0)["n"].tau_create_s > 4.0


def test_nodes_come_and_go_and_come_back_as_other_machines() -> None:
    ledger = Ledger(SETTINGS)
    ledger.observe(NodeSeen("n", "1"), 0.0)
    for at_s, fact in _sequence("n", 5.0, 6):
        ledger.observe(fact, at_s)
    assert ledger.estimates(30.0)[0].samples == 6
    ledger.observe(NodeSeen("n", "2"), 31.0)
    assert (ledger.estimates(31.0)[0].samples, ledger.estimates(31.0)[0].node_uid) == (0, "2")
    ledger.observe(NodeGone("n"), 32.0)
    assert ledger.estimates(32.0) == ()


def test_a_restart_goes_on_from_what_was_published() -> None:
    ledger = Ledger(SETTINGS)
    ledger.remember("n", Sample(87.0, 90.0, 3.0, 12), Sample(89.0, 90.0, 0.2), (ImagePull("i:1", 2.0),))
    ledger.remember("gone", Sample(87.0, 90.0, 3.0, 12), None, ())
    ledger.observe(NodesListed((NodeSeen("n", "u"),)), 100.0)
    [estimate] = ledger.estimates(100.0)
    assert estimate.source == "measured"
    assert estimate.tau_create_s == pytest.approx(3.0, rel=0.25)
    assert estimate.samples == 12
    assert estimate.tau_resize_s == pytest.approx(0.2)
    assert estimate.image_pulls == (ImagePull("i:1", 2.0),)


def test_the_ten_latest_pulls_are_kept() -> None:
    ledger = Ledger(SETTINGS)
    ledger.observe(NodeSeen("n", "u"), 0.0)
    ledger.observe(PodSeen("p", "n", Stage.CREATING, images=tuple(f"i:{i}" for i in range(12))), 0.0)
    for i in range(12):
        ledger.observe(PullEnded("p", f"i:{i}", "n", float(i), i), float(i))
    ledger.observe(PullEnded("p", "i:5", "n", 99.0, 5), 100.0)
    ledger.observe(PullEnded("p", "i:6", "n"), 101.0)  # was there already
    [estimate] = ledger.estimates(102.0)
    assert len(estimate.image_pulls) == 10
    assert estimate.image_pulls[0] == ImagePull("i:5", 99.0, 5)


def test_pulls_are_believed_of_a_pods_own_node_images_and_time() -> None:
    """Tenants may write Events: in the words of a kubelet, about any node, image and time."""
    ledger = Ledger(SETTINGS)
    ledger.observe(NodesListed((NodeSeen("n", "1"), NodeSeen("m", "2"))), 0.0)
    ledger.observe(PodSeen("p", "n", Stage.CREATING, images=("i:1",)), 10.0)
    for forged in (
        PullEnded("p", "i:1", "m", 3.0),
        PullEnded("p", "others:1", "n", 3.0),
        PullEnded("p", "i:1", "n", 90000.0),
        PullEnded("nobody", "i:1", "n", 3.0),
    ):
        ledger.observe(forged, 20.0)
    assert [estimate.image_pulls for estimate in ledger.estimates(20.0)] == [(), ()]
    ledger.observe(PodsListed((PodSeen("p", "n", Stage.STARTED, images=("i:1",)),)), 30.0)
    ledger.observe(PullEnded("p", "i:1", "n", 19.0), 31.0)
    assert [estimate.image_pulls for estimate in ledger.estimates(31.0)] == [(ImagePull("i:1", 19.0),), ()]
    ledger.observe(PodGone("p"), 32.0)
    ledger.observe(PullEnded("p", "i:1", "n", 2.0), 33.0)
    assert ledger.estimates(33.0)[0].image_pulls == (ImagePull("i:1", 19.0),)


def test_five_thousand_nodes_are_a_small_part_of_a_core() -> None:
    ledger = Ledger(SETTINGS)
    ledger.observe(NodesListed(tuple(NodeSeen(f"n{i}", "u") for i in range(5000))), 0.0)
    for i in range(5000):
        for at_s, fact in _sequence(f"n{i}", 1.0, 3):
            ledger.observe(fact, at_s)
    ledger.snapshot(10.0)
    for i in range(0, 5000, 50):
        ledger.observe(PodSeen(f"x{i}", f"n{i}", Stage.CREATING), 11.0)
    began_s = time.process_time()
    assert len(ledger.snapshot(12.0).estimates) == 5000
    assert time.process_time() - began_s < 0.2  # of the two seconds until the next
