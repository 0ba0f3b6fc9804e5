"""Lets a gated pod go to kube-scheduler, with the node that it should try first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from surgekit.kube.api_path import Resource
from surgekit.kube.client import STRATEGIC_MERGE, Kube

__all__ = ["PodRef", "nominate_and_release"]

Json = dict[str, Any]
_PODS = Resource("v1", "pods")


@dataclass(frozen=True, slots=True)
class PodRef:
    """One pod. The uid tells it from a newer pod of the same name."""

    namespace: str
    name: str
    uid: str


def nominate_and_release(kube: Kube, pod: PodRef, gate: str, node: str = "") -> Json:
    """Nominate the pod for `node`, if there is one, then remove `gate`. Return the pod.

    In this order, because the scheduler takes a pod as soon as its last gate is off. Other gates stay. Both
    can be repeated. The API server answers 422 to the uid of an earlier pod of the same name.
    """
    metadata = {"uid": pod.uid}
    if node:
        status = {"metadata": metadata, "status": {"nominatedNodeName": node}}
        kube.patch(_PODS.path(pod.namespace, pod.name, "status"), status)
    gates = [{"$patch": "delete", "name": gate}]
    body = {"metadata": metadata, "spec": {"schedulingGates": gates}}
    return kube.patch(_PODS.path(pod.namespace, pod.name), body, STRATEGIC_MERGE)
