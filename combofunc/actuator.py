"""Carries actions out through the API server. Thin: what to do was decided before."""

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
from surgekit.kube.client import ApiError, Kube, KubeUnreachable

__all__ = ["Done", "carry_out"]

Json = dict[str, Any]
_PODS = Resource("v1", "pods")
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
# It is gone, or was changed or bound meanwhile: the next look tells.
_OVERTAKEN = frozenset({404, 409})
_PASSING = frozenset({408, 429})


@dataclass(frozen=True, slots=True)
class Done:
    """What came of one action."""

    action: Action
    pod: Json | None = None  # as it is now, where the API server said
    gone: str = ""  # uid of a pod that is gone for good
    failure: str = ""
    refused: bool = False  # the API server understood, and will not have it


def carry_out(kube: Kube, namespace: str, action: Action) -> Done:
    """Never raises for what the API server says."""
    try:
        return _do(kube, namespace, action)
    except ApiError as error:
        if error.code in _OVERTAKEN and not _unknown(error):
            return Done(action, gone="" if isinstance(action, Create) or error.code != 404 else action.uid)
        refused = error.code < 500 and error.code not in _PASSING
        return Done(action, failure=f"{_name(action)}: {error.message or error}", refused=refused)
    except KubeUnreachable as error:
        return Done(action, failure=f"{_name(action)}: {error}")


def _unknown(error: ApiError) -> bool:
    """A server without the `resize` subresource: it is the path that is not found."""
    return error.code == 404 and "could not find the requested resource" in error.message


def _name(action: Action) -> str:
    return f"{type(action).__name__.lower()} {action.pod}"


def _do(kube: Kube, namespace: str, action: Action) -> Done:
    own = _PODS.path(namespace, action.pod)
    labels: dict[str, str | None]
    annotations: dict[str, str | None]
    match action:
        case Create():
            return Done(action, _create(kube, namespace, action))
        case Release(uid=uid, node=node):
            return Done(action, _release(kube, namespace, action.pod, uid, node))
        case Resize(uid=uid, wanted=wanted):
            # The uid, here and below, so that a pod of the same name that came meanwhile is left alone.
            body = {"metadata": {"uid": uid}} | resize_patch(wanted)
            return Done(
                action, kube.patch(_PODS.path(namespace, action.pod, "resize"), body, STRATEGIC_MERGE)
            )
        case Mark(uid=uid, size=size, concurrency=concurrency):
            labels, annotations = {SIZE_LABEL: size}, {CONCURRENCY_ANNOTATION: str(concurrency)}
        case Drain(uid=uid, at_s=at_s):
            labels, annotations = {SERVING_LABEL: None}, {DRAINING_SINCE_ANNOTATION: f"{at_s:.3f}"}
        case Undrain(uid=uid):
            labels, annotations = {SERVING_LABEL: "true"}, {DRAINING_SINCE_ANNOTATION: None}
        case Delete(uid=uid):
            said = kube.delete(own, {"preconditions": {"uid": uid}})
            going = said.get("kind") == "Pod" and "deletionTimestamp" in said["metadata"]
            return Done(action, said) if going and not _at_once(said) else Done(action, gone=uid)
    metadata = {"uid": uid, "labels": labels, "annotations": annotations}
    return Done(action, kube.patch(own, {"metadata": metadata}))


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
        # Ours, of a creation whose answer was lost.
    if not action.release or not pod["spec"].get("schedulingGates"):
        return pod
    return _release(kube, namespace, action.pod, pod["metadata"]["uid"], action.node)


def _release(kube: Kube, namespace: str, pod: str, uid: str, node: str) -> Json:
    """Nominated first: the scheduler looks at a pod as soon as its gate is off."""
    if node:
        status = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": node}}
        kube.patch(_PODS.path(namespace, pod, "status"), status)
    gates = {"$patch": "delete", "name": PLACEMENT_GATE}
    body = {"metadata": {"uid": uid}, "spec": {"schedulingGates": [gates]}}
    return kube.patch(_PODS.path(namespace, pod), body, STRATEGIC_MERGE)


def _at_once(pod: Json) -> bool:
    """Deleted without grace: the answer is the last that is heard of it."""
    return pod["metadata"].get("deletionGracePeriodSeconds") == 0 and not pod["metadata"].get("finalizers")
