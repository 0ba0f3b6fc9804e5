"""Builds the pods to create: the template, with labels, owner and the size's resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from combofunc.labels import PLACEMENT_GATE, SERVING_LABEL, TEMPLATE_LABEL
from combofunc.pods.resources import Resources, written

__all__ = ["Owner", "pod_body"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Owner:
    api_version: str
    kind: str
    name: str
    uid: str
    label: str  # key of the label that holds the owner's name on its pods

    def reference(self) -> Json:
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            # Without blockOwnerDeletion, which would need a right on the owner's finalizers.
            "controller": True,
        }


def pod_body(
    template: Json,
    template_hash: str,
    owner: Owner,
    name: str,
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    resources: Resources,
    gated: bool,
) -> Json:
    """`resources` replace those of the template's containers with the same name."""
    metadata, spec = template.get("metadata") or {}, dict(template["spec"])
    spec["containers"] = [_resized(container, resources) for container in spec["containers"]]
    if gated:
        spec["schedulingGates"] = [*(spec.get("schedulingGates") or ()), {"name": PLACEMENT_GATE}]
    own = {owner.label: owner.name, TEMPLATE_LABEL: template_hash, SERVING_LABEL: "true"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": (metadata.get("labels") or {}) | own | dict(labels),
            "annotations": (metadata.get("annotations") or {}) | dict(annotations),
            "ownerReferences": [owner.reference()],
        },
        "spec": spec,
    }


def _resized(container: Json, resources: Resources) -> Json:
    wanted = resources.get(container["name"])
    if not wanted:
        return container
    given = container.get("resources") or {}
    merged = {part: dict(given.get(part) or {}) for part in ("requests", "limits")}
    for (part, resource), amount in wanted.items():
        merged[part][resource] = written(resource, amount)
    return container | {"resources": given | merged}
