"""Every pending pod is planned for, handed over or ignored; none waits without a reason that is shown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_autoscaler_hook.karpenter.labels import GATE, INSTANCE_TYPE, ZONE
from cluster_autoscaler_hook.karpenter.model import Kind, PendingPod, Requirement
from cluster_autoscaler_hook.karpenter.pending_pods import ClassifiedPods, classify
from surgekit.process.modes import Mode
from tests.cluster_autoscaler_hook.karpenter.builders import GIB

KIND = Kind(500, GIB)
UNDERSTOOD = {INSTANCE_TYPE}
OTHER = "kueue.x-k8s.io/admission"


def pod(**change: object) -> PendingPod:
    return replace(PendingPod("u", "shop", "web-0", KIND, opt_in="enforce", gates=(GATE,)), **change)  # type: ignore[arg-type]


def sort_out(*pods: PendingPod, mode: Mode = Mode.ENFORCE) -> ClassifiedPods:
    return classify(pods, mode, UNDERSTOOD, frozenset({"amd64"}))


def asking(key: str) -> Kind:
    return replace(KIND, terms=((Requirement(key, "Exists"),),))


def test_a_gated_pod_that_is_understood_is_planned_for() -> None:
    for kind in (KIND, asking(INSTANCE_TYPE)):
        found = sort_out(pod(kind=kind))
        (waits,) = found.waiting
        assert waits.gated
        assert waits.kind.architectures == {"amd64"}
        assert (found.hand_overs, found.held, found.left_to_karpenter) == ((), (), ())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": None, "unmodelled": "a request for nvidia.com/gpu"}, "nvidia.com/gpu"),
        ({"kind": asking(ZONE)}, ZONE),
        ({"kind": asking("disk")}, "disk"),
        ({"kind": None, "unmodelled": "x" * 5000}, "xxx"),
    ],
)
def test_a_gated_pod_that_is_not_understood_is_handed_over(change: dict[str, object], reason: str) -> None:
    found = sort_out(pod(**change))
    assert reason in found.hand_overs[0].reason
    assert not found.waiting
    (left,) = found.left_to_karpenter
    assert (left.pods, left.example) == (1, "shop/web-0")
    assert len(left.reason) <= 200
    # Without the gate it is named until others have served it.
    after = sort_out(pod(**change, gates=(), unschedulable=True))
    assert after.left_to_karpenter == found.left_to_karpenter
    assert not after.hand_overs


def test_without_a_catalogue_nobody_is_handed_over_for_a_label() -> None:
    found = classify([pod(kind=asking("disk"))], Mode.ENFORCE, None, frozenset())
    assert len(found.waiting) == 1
    assert not found.hand_overs


def test_gates_of_others_stay() -> None:
    held = sort_out(pod(gates=(OTHER, GATE)))
    assert (held.waiting, held.hand_overs) == ((), ())
    assert held.held[0].pods == 1
    gone = sort_out(pod(gates=(OTHER, GATE), kind=None, unmodelled="no"))
    assert [one.reason for one in gone.hand_overs] == ["no"], (
        "our gate comes off; the actuator leaves the other"
    )


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OFF])
def test_nobody_stays_behind_the_gate_of_a_hook_that_does_not_rent(mode: Mode) -> None:
    for change in ({}, {"kind": None, "unmodelled": "no"}, {"opt_in": ""}, {"gates": (OTHER, GATE)}):
        (gone,) = sort_out(pod(**change), mode=mode).hand_overs
        assert gone.reason == f"the hook's mode is {mode}"


@pytest.mark.parametrize(
    ("mode", "opt_in", "unschedulable", "planned"),
    [
        (Mode.SHADOW, "shadow", True, True),
        (Mode.SHADOW, "enforce", True, True),
        (Mode.SHADOW, "shadow", False, False),  # it may fit a node that runs
        (Mode.SHADOW, "", True, False),
        (Mode.SHADOW, "off", True, False),
        (Mode.ENFORCE, "shadow", True, False),
        (Mode.ENFORCE, "enforce", True, False),  # released: it is the scheduler's and Karpenter's
        (Mode.OFF, "enforce", True, False),
    ],
)
def test_pods_without_the_gate_are_planned_for_in_shadow_only(
    mode: Mode, opt_in: str, unschedulable: bool, planned: bool
) -> None:
    found = sort_out(pod(gates=(), opt_in=opt_in, unschedulable=unschedulable), mode=mode)
    assert bool(found.waiting) is planned
    assert not found.hand_overs


KINDS = st.sampled_from([KIND, asking(ZONE), asking(INSTANCE_TYPE), None])
PODS = st.lists(
    st.builds(
        PendingPod,
        st.uuids().map(str),
        st.just("shop"),
        st.text("ab-", min_size=1),
        KINDS,
        st.text(max_size=300),
        st.sampled_from(["enforce", "shadow", "off", ""]),
        st.sampled_from([(), (GATE,), (OTHER,), (OTHER, GATE), (GATE, OTHER)]),
        st.booleans(),
    ),
    max_size=60,
)


@given(PODS, st.sampled_from(list(Mode)))
def test_every_gated_pod_is_planned_for_or_handed_over_or_held_and_named(
    pods: list[PendingPod], mode: Mode
) -> None:
    found = classify(pods, mode, UNDERSTOOD, frozenset())
    gated = {pod.uid for pod in pods if GATE in pod.gates}
    gone, waits = {pod.uid for pod in found.hand_overs}, {pod.uid for pod in found.waiting if pod.gated}
    assert gone <= gated
    if mode is Mode.ENFORCE:
        assert not gone & waits
        assert len(gated) == len(gone) + len(waits) + sum(group.pods for group in found.held)
    else:
        assert gone == gated
    for groups in (found.held, found.left_to_karpenter):
        assert len(groups) <= 20
        assert all(group.example and len(group.reason) <= 200 for group in groups)
