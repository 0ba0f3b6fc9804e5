"""Decides for each pod without a node: plan for it, leave it to Karpenter, or ignore it. Pure.

The gate is a promise to plan. A gated pod that will not be planned for loses its gate at once, with the
reason. Pods that stay gated are reported with the reason why they wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from cluster_autoscaler_hook.karpenter.labels import GATE
from cluster_autoscaler_hook.karpenter.model import Kind, PendingPod, PodGroup, WaitingPod
from surgekit.process.modes import Mode

__all__ = ["ClassifiedPods", "HandOver", "classify", "group_by_reason", "unknown_label_reason"]

_MAX_GROUPS = 20  # tenants can cause any number of reasons
_REASON_LENGTH = 200


@dataclass(frozen=True, slots=True)
class HandOver:
    """Remove our gate from a pod and leave it to kube-scheduler and Karpenter's pools. Other gates stay."""

    uid: str
    namespace: str
    pod: str
    reason: str


@dataclass(frozen=True, slots=True)
class ClassifiedPods:
    waiting: tuple[WaitingPod, ...] = ()
    hand_overs: tuple[HandOver, ...] = ()
    held: tuple[PodGroup, ...] = ()
    left_to_karpenter: tuple[PodGroup, ...] = ()


def classify(
    pods: Iterable[PendingPod],
    mode: Mode,
    understood_labels: Collection[str] | None,
    architectures: frozenset[str],
) -> ClassifiedPods:
    """`understood_labels`: the node labels with values known before there is a node; None while the catalogue
    cannot be read. `architectures`: where pods may run that name no architecture."""
    waiting, hand_overs, held, left = [], [], [], []
    for pod in pods:
        gated = GATE in pod.gates
        if mode is not Mode.ENFORCE and gated:
            hand_overs.append(_hand_over(pod, f"the hook's mode is {mode}"))
        if mode is Mode.OFF or not (gated or (pod.opt_in in ("enforce", "shadow") and pod.unschedulable)):
            continue
        reason = pod.unmodelled if pod.kind is None else unknown_label_reason(pod.kind, understood_labels)
        if pod.kind is None or reason:
            if gated and mode is Mode.ENFORCE:
                hand_overs.append(_hand_over(pod, reason))
            if gated or mode is Mode.SHADOW or pod.opt_in == "enforce":
                left.append((pod, reason))
        elif gated and len(pod.gates) > 1:
            held.append((pod, "another scheduling gate holds it as well"))
        elif gated or mode is Mode.SHADOW:
            kind = replace(pod.kind, architectures=architectures)
            waiting.append(
                WaitingPod(pod.uid, pod.namespace, pod.name, kind, pod.nominated, gated, offer=pod.offer)
            )
    return ClassifiedPods(tuple(waiting), tuple(hand_overs), group_by_reason(held), group_by_reason(left))


def _hand_over(pod: PendingPod, reason: str) -> HandOver:
    return HandOver(pod.uid, pod.namespace, pod.name, reason[:_REASON_LENGTH])


def group_by_reason(pods: Iterable[tuple[PendingPod | WaitingPod, str]]) -> tuple[PodGroup, ...]:
    """The largest group first; the last group holds all remaining reasons."""
    found: dict[str, PodGroup] = {}
    for pod, reason in pods:
        text = reason[:_REASON_LENGTH]
        before = found.get(text) or PodGroup(text, 0, f"{pod.namespace}/{pod.name}")
        found[text] = replace(before, pods=before.pods + 1)
    ordered = sorted(found.values(), key=lambda group: (-group.pods, group.reason))
    if len(ordered) <= _MAX_GROUPS:
        return tuple(ordered)
    rest = ordered[_MAX_GROUPS - 1 :]
    others = PodGroup(f"{len(rest)} other reasons", sum(group.pods for group in rest), rest[0].example)
    return (*ordered[: _MAX_GROUPS - 1], others)


def unknown_label_reason(kind: Kind, understood_labels: Collection[str] | None) -> str:
    """Name a node label that the kind selects by and that we know nothing about; empty if there is none."""
    unknown = [] if understood_labels is None else sorted(kind.keys - set(understood_labels))
    return f"it selects by the node label {unknown[0]}, which is not in the catalogue" if unknown else ""
