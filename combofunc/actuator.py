"""Carries out actions through the API server. Decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from combofunc.labels import (
    CONCURRENCY_ANNOTATION,
    DRAINING_SINCE_ANNOTATION,
    PLACEMENT_GATE,
    SERVING_LABEL,
    SIZE_LABEL,
)
from combofunc.pods.actions import (
    Action,
    Create,
    Delete,
    Drain,
    Mark,
    Release,
    Resize,
    Undrain,
)
from combofunc.pods.resources import resize_patch
from surgekit.kube.api_path import Resource
from surgekit.kube.client import STRATEGIC_MERGE, ApiError, Kube, KubeUnreachable
from surgekit.kube.nomination import PodRef, nominate_and_release

__all__ = ["ActionResult", "carry_out"]

Json = dict[str, Any]
_PODS = Resource("v1", "pods")
_TRANSIENT = frozenset({408, 429})


@dataclass(frozen=True, slots=True)
class ActionResult:
    action: Action
    pod: Json | None = None  # as the API server returned it
    gone: str = ""  # uid of a pod that no longer exists
    failure: str = ""
    refused: bool = False  # by the API server; trying again does not help


def carry_out(kube: Kube, namespace: str, action: Action) -> ActionResult:
    """Never raises for an answer of the API server."""
    try:
        return _do(kube, namespace, action)
    except ApiError as error:
        if error.overtaken:
            return ActionResult(
                action, gone="" if isinstance(action, Create) or error.code != 404 else action.uid
            )
        refused = error.code < 500 and error.code not in _TRANSIENT
        return ActionResult(action, failure=f"{_name(action)}: {error.message or error}", refused=refused)
    except KubeUnreachable as error:
        return ActionResult(action, failure=f"{_name(action)}: {error}")


def _name(action: Action) -> str:
    return f"{type(action).__name__.lower()} {action.pod}"


def _do(kube: Kube, namespace: str, action: Action) -> ActionResult:
    own = _PODS.path(namespace, action.pod)
    labels: dict[str, str | None]
    annotations: dict[str, str | None]
    match action:
        case Create():
            return ActionResult(action, _create(kube, namespace, action))
        case Release(uid=uid, node=node):
            ref = PodRef(namespace, action.pod, uid)
            return ActionResult(action, nominate_and_release(kube, ref, PLACEMENT_GATE, node))
        case Resize(uid=uid, wanted=wanted):
            # With the uid, here and below, so that a newer pod of the same name is left alone.
            body = {"metadata": {"uid": uid}} | resize_patch(wanted)
            path = _PODS.path(namespace, action.pod, "resize")
            return ActionResult(action, kube.patch(path, body, STRATEGIC_MERGE))
        case Mark(uid=uid, size=size, concurrency=concurrency):
            labels, annotations = {SIZE_LABEL: size}, {CONCURRENCY_ANNOTATION: str(concurrency)}
        case Drain(uid=uid, at_s=at_s):
            labels, annotations = {SERVING_LABEL: None}, {DRAINING_SINCE_ANNOTATION: f"{at_s:.3f}"}
        case Undrain(uid=uid):
            labels, annotations = {SERVING_LABEL: "true"}, {DRAINING_SINCE_ANNOTATION: None}
        case Delete(uid=uid):
            said = kube.delete(own, {"preconditions": {"uid": uid}})
            going = said.get("kind") == "Pod" and "deletionTimestamp" in said["metadata"]
            return (
                ActionResult(action, said)
                if going and not _deleted_at_once(said)
                else ActionResult(action, gone=uid)
            )
    metadata = {"uid": uid, "labels": labels, "annotations": annotations}
    return ActionResult(action, kube.patch(own, {"metadata": metadata}))


def _create(kube: Kube, namespace: str, action: Create) -> Json:
    try:
        pod = kube.create(_PODS.path(namespace), action.body)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        pod = kube.get(_PODS.path(namespace, action.pod))
        owners = [owner["uid"] for owner in pod["metadata"].get("ownerReferences") or ()]
        if action.body["metadata"]["ownerReferences"][0]["uid"] not in owners:
            raise ApiError(422, "Invalid", "a pod of another owner has that name") from error
        # It is ours: an earlier creation succeeded and its answer was lost.
    if not action.release or not pod["spec"].get("schedulingGates"):
        return pod
    ref = PodRef(namespace, action.pod, pod["metadata"]["uid"])
    return nominate_and_release(kube, ref, PLACEMENT_GATE, action.node)


def _deleted_at_once(pod: Json) -> bool:
    """Whether it was deleted without grace: no further news will come."""
    return pod["metadata"].get("deletionGracePeriodSeconds") == 0 and not pod["metadata"].get("finalizers")
