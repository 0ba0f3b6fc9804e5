"""What is read of a pod, and which pods are left alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from limit_allocator.pod import ORIGINAL, LeaveAlone, is_system, read_pod
from tests.limit_allocator.objects import LIMITS, container, pod, pod_object


def test_limits_ids_and_the_authors_limits() -> None:
    seen = pod("p", container(), container("d"), original={"c": {"cpu": "250m", "memory": "64Mi"}})
    first, second = seen.containers
    assert (first.id, second.id) == ("id-p-c", "id-p-d")
    assert first.limits
    assert first.original
    assert first.author == first.original
    assert (first.limits.cpu_us, first.limits.memory_bytes) == (50_000, 128 << 20)
    assert (first.original.cpu_us, first.original.memory_bytes) == (25_000, 64 << 20)
    assert second.original is None
    assert second.author == second.limits
    assert seen.marked
    assert seen.leave_alone(exclusive_cpus=True) is None


def test_a_sidecar_is_a_container_and_another_init_container_is_not() -> None:
    initial = [container("s", restartPolicy="Always"), container("i")]
    assert [c.name for c in pod("p", container(), initContainers=initial).containers] == ["c", "s"]


@pytest.mark.parametrize(
    ("containers", "more", "why"),
    [
        ([container(limits=None)], {}, LeaveAlone.NO_LIMITS),
        ([container(limits={"memory": "1Gi"})], {}, LeaveAlone.NO_LIMITS),
        ([container(limits={"cpu": "0", "memory": "1Gi"})], {}, LeaveAlone.NO_LIMITS),
        ([container(), container("d", limits=None)], {}, LeaveAlone.NO_LIMITS),
        ([container()], {"initContainers": [container("i", limits=None)]}, LeaveAlone.NO_LIMITS),
        ([container()], {"resources": {"limits": {"cpu": "1"}}}, LeaveAlone.POD_LEVEL_LIMITS),
        (
            [container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}])],
            {},
            LeaveAlone.RESTARTS_ON_RESIZE,
        ),
        ([container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "NotRequired"}])], {}, None),
        ([container(f"c{i}") for i in range(33)], {}, LeaveAlone.TOO_MANY_CONTAINERS),
        ([container()], {"namespace": "kube-system"}, LeaveAlone.SYSTEM_NAMESPACE),
        ([container(requests=LIMITS)], {}, None),  # Guaranteed, but a share of a CPU
        ([container(requests=None)], {}, None),  # the same, by default
    ],
)
def test_which_pods_are_left_alone(
    containers: list[Any], more: dict[str, Any], why: LeaveAlone | None
) -> None:
    assert pod("p", *containers, **more).leave_alone(exclusive_cpus=True) is why


@pytest.mark.parametrize(
    ("cpu", "requested", "exclusive", "why"),
    [
        ("2", "2", True, LeaveAlone.EXCLUSIVE_CPUS),
        ("2", "2000m", True, LeaveAlone.EXCLUSIVE_CPUS),
        ("2", "2", False, None),
        ("2", "1", True, None),  # Burstable
        ("1500m", "1500m", True, None),
    ],
)
def test_whole_cpus_of_guaranteed_pods_may_be_pinned(
    cpu: str, requested: str, exclusive: bool, why: LeaveAlone | None
) -> None:
    of = container(limits={"cpu": cpu, "memory": "1Gi"}, requests={"cpu": requested, "memory": "1Gi"})
    assert pod("p", of).leave_alone(exclusive) is why


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "5", '{"c": 5}', '{"c": {"cpu": "1"}}', '{"c": {"cpu": "x", "memory": "1"}}', "[" * 9000],
)
def test_an_annotation_that_admission_did_not_write_counts_as_none(text: str) -> None:
    obj = pod_object()
    obj["metadata"]["annotations"] = {ORIGINAL: text}
    assert not read_pod(obj).marked


def test_the_longest_annotation_that_admission_writes_is_read() -> None:
    names = [f"{i:02}{'a' * 61}" for i in range(32)]
    original = {name: {"cpu": "1" * 19, "memory": "1" * 15} for name in names}
    assert len(json.dumps(original)) < 8192
    huge = {"cpu": "500m", "memory": "128Mi"}
    assert pod("p", *(container(n) for n in names), original=dict.fromkeys(names, huge)).marked


@pytest.mark.parametrize(
    ("namespace", "system"),
    [
        ("kube-system", True),
        ("kube-x", True),
        ("surgekit-agents", True),
        ("surgekit-shop", False),
        ("kubes", False),
    ],
)
def test_system_namespaces(namespace: str, system: bool) -> None:
    assert is_system(namespace) is system
