"""Which pods need a resize, so that their limits are the ceilings that they should be. Pure.

Admission raises the limits of a new pod and keeps the author's in an annotation. Afterwards a ceiling moves
for two reasons only: the application's limit changed, or the pod is not the application's any more (opted
out, in another mode, its DistributedContainer deleted). Then it gets its author's limits back. Limits that
nobody raised are never touched: a pod without the annotation needs no resize.

Before its author's limits come back, the pod's agent must have taken ours away. Otherwise it would write back
what it found when it began, the ceilings, over what the kubelet has just written.

Ask only while the pictures of pods and DistributedContainers are complete: a DistributedContainer that is not
listed yet looks like a deleted one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from limit_allocator.allowance import Allowance
from limit_allocator.membership import Membership
from limit_allocator.pod import Limits, Pod
from surgekit.kube.quantity import parse

__all__ = ["Resize", "resizes"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Resize:
    namespace: str
    pod: str
    uid: str
    limits: Mapping[str, tuple[str, str]]  # container -> cpu and memory, as Kubernetes writes them
    reason: str

    @property
    def patch(self) -> Json:
        """A strategic merge patch of pods/resize. A newer pod of that name refuses the uid (422)."""
        containers = [
            {"name": name, "resources": {"limits": {"cpu": cpu, "memory": memory}}}
            for name, (cpu, memory) in self.limits.items()
        ]
        return {"metadata": {"uid": self.uid}, "spec": {"containers": containers}}


def resizes(
    pods: Iterable[Pod],
    membership: Membership,
    allowances: Mapping[str, Allowance],
    limited: Set[str] = frozenset(),
) -> tuple[Resize, ...]:
    """`allowances` by namespace/name of the DistributedContainer. A pod whose owner has none stays as it is:
    nobody has decided yet. `limited` are the uids of pods whose agents have limits of ours in force."""
    needed = []
    for pod in pods:
        if not pod.marked or not pod.node or pod.finished or pod.leaving:
            continue
        key = membership.owner.get(pod.uid, "")
        owner = membership.applications.get(key)
        enforced = owner is not None and owner.enforces
        if (enforced and key not in allowances) or (not enforced and pod.uid in limited):
            continue
        allowance = allowances[key] if enforced else None
        if limits := _changes(pod, allowance):
            reason = f"the ceilings of {key}" if enforced else "back to its author's limits"
            needed.append(Resize(pod.namespace, pod.name, pod.uid, limits, reason))
    return tuple(needed)


def _changes(pod: Pod, allowance: Allowance | None) -> dict[str, tuple[str, str]]:
    changes = {}
    for container in pod.containers:
        if container.original and container.limits:
            cpu, memory = _wanted(container.original, allowance)
            now = container.limits
            if parse(cpu) != parse(now.cpu) or parse(memory) != parse(now.memory):
                changes[container.name] = (cpu, memory)
    return changes


def _wanted(original: Limits, allowance: Allowance | None) -> tuple[str, str]:
    """A ceiling is never under the author's limit: requests must fit below it."""
    if allowance is None:
        return original.cpu, original.memory
    return (
        max(original.cpu, allowance.ceiling_cpu or original.cpu, key=parse),
        max(original.memory, allowance.ceiling_memory or original.memory, key=parse),
    )
