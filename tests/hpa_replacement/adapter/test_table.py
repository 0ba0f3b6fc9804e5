"""KneePolicies as they come from the watch."""

from __future__ import annotations

from typing import Any, cast

import pytest

from hpa_replacement.adapter.table import Policies, read_policy
from surgekit.kube.client import Kube
from surgekit.process.modes import Mode
from tests.events_at_once import unreadable
from tests.hpa_replacement.adapter.builders import policy


def test_a_whole_policy() -> None:
    obj = policy(replicas=7, samplingInterval="7.5s") | {"status": {
        "targetReplicas": 7, "decidedAt": "2026-11-16T10:00:00.250Z", "observedGeneration": 1,
    }}  # fmt: skip
    read = read_policy(obj)
    assert (read.namespace, read.name, read.mode, read.via_metrics) == (
        "shop",
        "checkout",
        Mode.ENFORCE,
        True,
    )
    assert (read.target_replicas, read.decided_at_s) == (7, 1794823200.25)
    assert (read.sampling_interval_s, read.generation, read.observed_generation) == (7.5, 1, 1)
    assert not read.paused
    assert not read.fault


def test_what_a_policy_does_not_say_does_not_serve_it() -> None:
    read = read_policy({"metadata": {"name": "a", "namespace": "b"}})
    assert (read.mode, read.via_metrics, read.sampling_interval_s) == (Mode.SHADOW, False, 30.0)
    assert read.target_replicas is None
    assert read.decided_at_s is None


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"spec": {"mode": "on"}}, "spec.mode: 'on' is not one of off, shadow, enforce"),
        ({"spec": {"samplingInterval": "soon"}}, "spec.samplingInterval: 'soon' is not a duration"),
        ({"status": {"targetReplicas": 0}}, "status.targetReplicas: 0 is not a whole number of at least 1"),
        ({"status": {"targetReplicas": 2.5}}, "status.targetReplicas: 2.5"),
        ({"status": {"targetReplicas": True}}, "status.targetReplicas: True"),
        ({"status": {"targetReplicas": "3"}}, "status.targetReplicas: '3'"),
        ({"status": {"decidedAt": "yesterday"}}, "status.decidedAt: 'yesterday' is not an RFC 3339 time"),
        ({"status": {"decidedAt": "2026-11-16T10:00:00"}}, "status.decidedAt"),  # of which time zone?
        ({"status": {"decidedAt": 5}}, "status.decidedAt: 5"),
    ],
)
def test_bad_fields_are_named(changed: dict[str, Any], fault: str) -> None:
    assert fault in read_policy(policy() | changed).fault


def test_the_watch_replaces_changes_and_deletes() -> None:
    kube = cast(Kube, None)  # never started
    policies = Policies(kube, unreadable(kube))
    policies.replace([policy("a"), policy("b"), policy("a", "other")], 0.0)
    before = policies.table
    policies.apply("MODIFIED", policy("a", replicas=5), 1.0)
    policies.apply("DELETED", policy("b"), 2.0)
    policies.apply("ADDED", policy("c", "third"), 3.0)
    assert {(ns, n) for ns, known in policies.table.items() for n in known} == {
        ("shop", "a"), ("other", "a"), ("third", "c"),
    }  # fmt: skip
    assert policies.table["shop"]["a"].target_replicas == 5
    assert policies.count() == 3
    assert before["shop"]["a"].target_replicas == 21, "a picture taken before does not change"
    assert "b" in before["shop"]
    policies.replace([], 4.0)
    assert policies.count() == 0
