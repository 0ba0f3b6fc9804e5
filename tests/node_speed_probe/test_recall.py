"""A restart knows what was published: not less, and not nearer to the other nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_speed_probe.ledger import Ledger
from node_speed_probe.model import ImagePull, NodeSeen, NodesListed, NodeSpeedEstimate, Sample
from node_speed_probe.publication import Published
from node_speed_probe.recall import recalled
from node_speed_probe.settings import Settings

SETTINGS = Settings()
NOW_S = 1000.0


def published(estimate: NodeSpeedEstimate) -> Published:
    return Published(
        estimate.tau_create_s, estimate.reason, NOW_S, estimate.tau_resize_s, estimate.image_pulls,
        estimate.samples, estimate.last_sample_s,
    )  # fmt: skip


def ledger_of(known: dict[str, Sample], resize: Sample | None = None) -> Ledger:
    ledger = Ledger(SETTINGS)
    for node, sample in known.items():
        ledger.remember(node, sample, resize, (ImagePull("i:1", 2.0),))
    ledger.observe(NodesListed(tuple(NodeSeen(node, node) for node in known)), NOW_S)
    return ledger


def restarted(estimates: tuple[NodeSpeedEstimate, ...]) -> tuple[NodeSpeedEstimate, ...]:
    ledger = Ledger(SETTINGS)
    for node, before in recalled({e.node: published(e) for e in estimates}, SETTINGS).items():
        ledger.remember(node, *before)
    ledger.observe(NodesListed(tuple(NodeSeen(e.node, e.node_uid) for e in estimates)), NOW_S)
    return ledger.estimates(NOW_S)


@given(
    st.lists(st.floats(0.1, 10.0), min_size=1, max_size=9).filter(lambda taus: len(taus) % 2 == 1),
    st.integers(1, 20),
)
def test_many_restarts_leave_every_estimate_where_it_is(taus_s: list[float], samples: int) -> None:
    known = {f"n{i}": Sample(NOW_S - tau_s, NOW_S, tau_s, samples) for i, tau_s in enumerate(taus_s)}
    first = estimates = ledger_of(known, Sample(NOW_S - 0.2, NOW_S, 0.2)).estimates(NOW_S)
    for _ in range(5):
        estimates = restarted(estimates)
    for before, after in zip(first, estimates, strict=True):
        assert after.tau_create_s == pytest.approx(before.tau_create_s, rel=0.01)
        assert (after.node, after.samples, after.reason) == (before.node, samples, before.reason)
        assert after.tau_resize_s == pytest.approx(0.2)
        assert after.image_pulls == before.image_pulls


def test_a_node_without_creations_is_remembered_for_its_resizes() -> None:
    before = Published(0.5, "PriorOfPeers", NOW_S, 0.2)
    creations, resize, _ = recalled({"n": before}, SETTINGS)["n"]
    assert (creations.containers, resize) == (0, Sample(NOW_S - 0.2, NOW_S, 0.2))
    ledger = Ledger(SETTINGS)
    ledger.remember("n", creations, resize, ())
    ledger.observe(NodesListed((NodeSeen("n", "u"),)), NOW_S)
    [estimate] = ledger.estimates(NOW_S)
    assert (estimate.source, estimate.samples) == ("prior", 0)
    assert estimate.tau_resize_s == pytest.approx(0.2)


def test_a_speed_that_the_nodes_of_today_do_not_explain_stays_above_nothing() -> None:
    """One container, and all others became much slower since: what is left for it would be below zero."""
    slow = {f"s{i}": Published(10.0, "Measured", NOW_S, samples=9, last_sample_s=NOW_S) for i in range(3)}
    fast = {"n": Published(1.0, "Measured", NOW_S, samples=1, last_sample_s=NOW_S)}
    assert recalled(slow | fast, SETTINGS)["n"][0].tau_s == 0.01
