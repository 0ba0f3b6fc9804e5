"""What becomes of each pod without a node: planned for, let go, or left to others. Pure.

The gate is a promise to plan. A pod that nobody will plan for is let go at once, and whoever still waits is
named with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from cluster_autoscaler_hook.karpenter.labels import GATE
from cluster_autoscaler_hook.karpenter.model import Group, Kind, PendingPod, WaitingPod
from surgekit.process.modes import Mode

__all__ = ["LetGo", "Triage", "grouped", "let_go", "triage", "unknown_label"]

_GROUPS = 20  # named one by one; a tenant can make up any number of reasons
_REASON_LENGTH = 200


@dataclass(frozen=True, slots=True)
class LetGo:
    """Take our gate off and leave the pod to kube-scheduler and Karpenter's pools."""

    uid: str
    namespace: str
    pod: str
    gates: tuple[str, ...]  # those of others, which stay
    reason: str


@dataclass(frozen=True, slots=True)
class Triage:
    waiting: tuple[WaitingPod, ...] = ()
    let_go: tuple[LetGo, ...] = ()
    held: tuple[Group, ...] = ()
    left: tuple[Group, ...] = ()


def triage(
    pods: Iterable[PendingPod], mode: Mode, understood: Collection[str] | None, architectures: frozenset[str]
) -> Triage:
    """`understood`: the labels of nodes that we know of before there is a node; None while the catalogue
    cannot be read. `architectures`: what a pod may run on that names none."""
    waiting, gone, held, left = [], [], [], []
    for pod in pods:
        gated = GATE in pod.gates
        if mode is not Mode.ENFORCE and gated:
            gone.append(let_go(pod, f"the hook's mode is {mode}"))
        if mode is Mode.OFF or not (gated or (pod.opt_in in ("enforce", "shadow") and pod.unschedulable)):
            continue
        reason = pod.unmodelled if pod.kind is None else unknown_label(pod.kind, understood)
        if pod.kind is None or reason:
            if gated and mode is Mode.ENFORCE:
                gone.append(let_go(pod, reason))
            if gated or mode is Mode.SHADOW or pod.opt_in == "enforce":
                left.append((pod, reason))
        elif gated and len(pod.gates) > 1:
            held.append((pod, "another scheduling gate holds it as well"))
        elif gated or mode is Mode.SHADOW:
            kind = replace(pod.kind, architectures=architectures)
            waiting.append(WaitingPod(pod.uid, pod.namespace, pod.name, kind, pod.nominated, gated))
    return Triage(tuple(waiting), tuple(gone), grouped(held), grouped(left))


def let_go(pod: PendingPod, reason: str) -> LetGo:
    others = tuple(gate for gate in pod.gates if gate != GATE)
    return LetGo(pod.uid, pod.namespace, pod.name, others, reason[:_REASON_LENGTH])


def grouped(pods: Iterable[tuple[PendingPod | WaitingPod, str]]) -> tuple[Group, ...]:
    """By reason, the most pods first; the last group has all the rest."""
    found: dict[str, Group] = {}
    for pod, reason in pods:
        text = reason[:_REASON_LENGTH]
        before = found.get(text) or Group(text, 0, f"{pod.namespace}/{pod.name}")
        found[text] = replace(before, pods=before.pods + 1)
    ordered = sorted(found.values(), key=lambda group: (-group.pods, group.reason))
    if len(ordered) <= _GROUPS:
        return tuple(ordered)
    rest = ordered[_GROUPS - 1 :]
    others = Group(f"{len(rest)} other reasons", sum(group.pods for group in rest), rest[0].example)
    return (*ordered[: _GROUPS - 1], others)


def unknown_label(kind: Kind, understood: Collection[str] | None) -> str:
    """The label it asks about that we know nothing of, as a reason; empty: there is none."""
    unknown = [] if understood is None else sorted(kind.keys - set(understood))
    return f"the node label {unknown[0]}, which neither settings nor catalogue know" if unknown else ""
