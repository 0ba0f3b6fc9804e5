"""An InPlaceDeployment's status. Each function returns the `status` of a merge patch, or a part. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from combofunc.in_place_deployment.spec import InPlaceDeployment, SpecError
from surgekit.kube.conditions import Condition, conditions

__all__ = ["REASONS", "Counts", "Progress", "invalid_status", "status_of"]

Json = dict[str, Any]
# Reasons by condition; the CRD explains them to users.
REASONS: Mapping[str, tuple[str, ...]] = {
    "Valid": ("Valid", "InvalidSpec"),
    "Ready": ("Ready", "Rolling", "Progressing", "Failing", "Paused", "InvalidSpec"),
    "Resized": ("Resized", "Resizing", "Deferred", "MemoryInUse", "Replacing", "InvalidSpec"),
}


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of pods. Draining pods count only in the numbers about resizes."""

    replicas: int
    ready: int
    updated: int  # match the template, in image and resources
    resizing: int = 0  # resize not done; includes deferred, infeasible and overdue
    deferred: int = 0  # resize waits for room on the node
    infeasible: int = 0  # resize can never fit the node: the pod is replaced
    overdue: int = 0  # deferred for too long: the pod is replaced
    keeping: int = 0  # keep more memory than the template gives because they use it; not in `resizing`


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a deployment is."""

    pods: Counts
    waiting: str = ""  # what is not done yet
    failure: str = ""  # what the API server refused, or which pods cannot be read


def status_of(deployment: InPlaceDeployment, before: Json, progress: Progress, now_s: float) -> Json:
    """`before`: the status so far."""
    pods = progress.pods
    said = (
        Condition("Valid", True, "Valid", "the spec can be carried out"),
        _ready(deployment, progress),
        _resized(pods),
    )
    return {
        "observedGeneration": deployment.generation,
        "selector": deployment.selector,
        "replicas": pods.replicas,
        "readyReplicas": pods.ready,
        "updatedReplicas": pods.updated,
        "resizingReplicas": pods.resizing,
        "conditions": conditions(before, said, deployment.generation, now_s),
    }


def invalid_status(obj: Json, error: SpecError, now_s: float) -> Json:
    """For a spec that cannot be read. The rest of the status and all pods stay as they are."""
    said = [Condition(type_, False, "InvalidSpec", f"{error}; pods stay as they are") for type_ in REASONS]
    generation = obj["metadata"].get("generation", 0)
    return {
        "observedGeneration": generation,
        "conditions": conditions(obj.get("status") or {}, said, generation, now_s),
    }


def _ready(deployment: InPlaceDeployment, progress: Progress) -> Condition:
    pods, wanted = progress.pods, deployment.replicas
    summary = f"{pods.ready} of {wanted} ready, {pods.updated} as the template says"
    enough = pods.ready >= wanted
    if progress.failure:
        return Condition("Ready", enough, "Failing", f"{summary}; {progress.failure}")
    if deployment.paused:
        return Condition("Ready", enough, "Paused", f"{summary}; spec.paused is true, pods stay as they are")
    summary = "; ".join(filter(None, (summary, progress.waiting)))
    if not enough:
        return Condition("Ready", False, "Progressing", summary)
    settled = pods.updated + pods.keeping == pods.replicas == wanted
    return Condition("Ready", True, "Ready" if settled else "Rolling", summary)


def _resized(pods: Counts) -> Condition:
    said = {
        "Replacing": {
            "can never have the new size on their node and are replaced": pods.infeasible,
            "waited too long for room on its node and is replaced": pods.overdue,
        },
        "Deferred": {
            "wait for room on their node, which the kubelet tries again": pods.deferred - pods.overdue
        },
        "MemoryInUse": {
            "keep their memory, more is in use than the template gives (cpu is as it says)": pods.keeping
        },
        "Resizing": {"are being resized": pods.resizing - pods.deferred - pods.infeasible},
    }
    reason = next((reason for reason, counts in said.items() if any(counts.values())), "")
    if not reason:
        return Condition("Resized", True, "Resized", "no resize is under way")
    words = [f"{count} {what}" for counts in said.values() for what, count in counts.items() if count]
    return Condition("Resized", False, reason, ", ".join(words))
