from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_speed_probe.model import ImagePull, NodeSpeedEstimate, Reason
from node_speed_probe.publication import Published, choose_writes, new_object, read_published, status_of
from node_speed_probe.settings import Settings

SETTINGS = Settings()
WALL = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MEASURED = NodeSpeedEstimate(
    "n", "uid", 1.0, 0.1, 9, "measured", Reason.MEASURED, 2, 0.25, (ImagePull("i:1", 1.23456, 7),), 990.0
)
SAME = Published(1.0, Reason.MEASURED, 1000.0, 0.25, MEASURED.image_pulls)


def named(node: str, tau_s: float, **rest: Any) -> NodeSpeedEstimate:
    return replace(MEASURED, node=node, tau_create_s=tau_s, **rest)


@pytest.mark.parametrize(
    ("estimate", "before", "now_s", "written"),
    [
        (MEASURED, None, 1000.0, True),
        (MEASURED, SAME, 1001.0, False),
        (
            replace(MEASURED, creating=40),
            SAME,
            1001.0,
            False,
        ),  # it changes all the time, and readers count too
        (replace(MEASURED, tau_create_s=1.04), SAME, 1001.0, False),
        (replace(MEASURED, tau_create_s=1.06), SAME, 1001.0, True),
        (replace(MEASURED, tau_create_s=0.94), SAME, 1001.0, True),
        (replace(MEASURED, tau_resize_s=0.5), SAME, 1001.0, True),
        (replace(MEASURED, tau_resize_s=None), SAME, 1001.0, True),
        (replace(MEASURED, reason=Reason.STALE), SAME, 1001.0, True),
        (replace(MEASURED, image_pulls=()), SAME, 1001.0, True),
        (MEASURED, SAME, 1000.0 + 0.79 * SETTINGS.refresh_s, False),
        (MEASURED, SAME, 1000.0 + 1.21 * SETTINGS.refresh_s, True),
    ],
)
def test_a_write_needs_a_reason(
    estimate: NodeSpeedEstimate, before: Published | None, now_s: float, written: bool
) -> None:
    published = {"n": before} if before else {}
    assert choose_writes([estimate], published, 10, now_s, SETTINGS) == ([estimate] if written else [])


def test_the_biggest_change_comes_first_and_a_quarter_is_for_those_who_waited() -> None:
    estimates = [named(f"n{i}", 1.1 + i / 100) for i in range(20)]
    published = {e.node: replace(SAME, at_s=1000.0 + i) for i, e in enumerate(estimates)}
    chosen = [e.node for e in choose_writes(estimates, published, 8, 1100.0, SETTINGS)]
    assert chosen == ["n19", "n18", "n17", "n16", "n15", "n14", "n0", "n1"]


def test_measured_nodes_come_before_priors_when_nothing_is_published_yet() -> None:
    priors = [named(f"a{i}", 1.0, source="prior", reason=Reason.PRIOR_OF_PEERS) for i in range(50)]
    chosen = choose_writes([*priors, named("z", 1.0)], {}, 10, 0.0, SETTINGS)
    assert chosen[0].node == "z"


def test_refreshes_spread_out() -> None:
    estimates = [named(f"n{i}", 1.0) for i in range(1000)]
    published = {e.node: SAME for e in estimates}
    due = [
        len(choose_writes(estimates, published, 5000, 1000.0 + share * SETTINGS.refresh_s, SETTINGS))
        for share in (0.8, 0.9, 1.0, 1.1, 1.2)
    ]
    assert due == sorted(due)
    assert due[0] < 20
    assert due[2] == pytest.approx(500, abs=60)
    assert due[4] > 990


@given(st.integers(1, 12), st.integers(1, 60), st.data())
def test_everything_is_written_in_the_end_whatever_keeps_changing(budget: int, nodes: int, data: Any) -> None:
    """Some nodes change wildly all the time; none waits longer than its turn among all."""
    restless = data.draw(st.sets(st.integers(0, nodes - 1)))
    published: dict[str, Published] = {}
    worst_rounds = math.ceil(nodes / max(1, budget // 4)) + 1
    rounds = 3 * worst_rounds
    last_written = dict.fromkeys(range(nodes), 0)
    for number in range(1, rounds + 1):
        now_s = number * 1e4  # later than any refresh: everything is due in every round
        estimates = [named(f"n{i}", 1.0 + (number % 2) * 50 * (i in restless)) for i in range(nodes)]
        chosen = choose_writes(estimates, published, budget, now_s, SETTINGS)
        assert len(chosen) == min(budget, nodes)
        assert len({e.node for e in chosen}) == len(chosen)
        for e in chosen:
            published[e.node] = replace(SAME, tau_create_s=e.tau_create_s, at_s=now_s)
            last_written[int(e.node[1:])] = number
        assert all(number - last <= worst_rounds for last in last_written.values())


def test_five_thousand_nodes_are_published_within_the_rate() -> None:
    estimates = [named(f"n{i}", 1.0) for i in range(5000)]
    published: dict[str, Published] = {}
    budget = int(SETTINGS.writes_per_s * SETTINGS.publish_interval_s)
    rounds = 0
    while chosen := choose_writes(estimates, published, budget, rounds * 2.0, SETTINGS):
        published |= {e.node: replace(SAME, at_s=rounds * 2.0) for e in chosen}
        rounds += 1
        if rounds == 125:
            break
    assert len(published) == 5000


def test_what_is_written_reads_back() -> None:
    before = Published(1.0, "", 0.0)
    status = status_of(MEASURED, before, 1000.0, WALL)
    assert status["lastSampleTime"] == "2026-01-02T03:03:55Z"
    obj = {"metadata": {"name": "n", "generation": 1}, "status": status}
    found = read_published(obj, 1000.0, WALL)
    assert found is not None
    name, published = found
    assert (name, published.at_s, published.last_sample_s) == ("n", 1000.0, 990.0)
    assert choose_writes([MEASURED], {name: published}, 1, 1001.0, SETTINGS) == []


@pytest.mark.parametrize(
    "status", [None, {}, {"tauCreateSeconds": "x"}, {"tauCreateSeconds": 1, "observedTime": 3}]
)
def test_an_unreadable_status_counts_as_none(status: Any) -> None:
    assert read_published({"metadata": {"name": "n"}, "status": status}, 0.0, WALL) is None


def test_the_condition_changes_its_time_only_when_it_changes() -> None:
    before = replace(SAME, changed_time="2025-01-01T00:00:00Z")
    stale = replace(MEASURED, reason=Reason.STALE, source="prior")
    assert (
        status_of(MEASURED, before, 1.0, WALL)["conditions"][0]["lastTransitionTime"] == before.changed_time
    )
    [condition] = status_of(stale, before, 1.0, WALL)["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "Stale")
    assert condition["lastTransitionTime"] == "2026-01-02T03:04:05Z"


def test_a_node_speed_goes_with_its_node() -> None:
    [owner] = new_object(MEASURED)["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "uid"}
