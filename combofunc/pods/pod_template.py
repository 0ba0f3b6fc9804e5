"""Checks a pod template, and hashes the parts that only a new pod can change. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

import orjson

from combofunc.labels import (
    DRAINING_SINCE_ANNOTATION,
    PLACEMENT_GATE,
    PLANNED_NODE_ANNOTATION,
    SERVING_LABEL,
    SIZE_OFFER_ANNOTATION,
    TEMPLATE_LABEL,
)
from combofunc.pods.spec_fields import Fields
from surgekit.kube.quantity import parse

__all__ = [
    "MAX_CONTAINERS",
    "RESIZABLE",
    "read_template",
    "resizable_hash",
    "sized_hash",
]

Json = dict[str, Any]
_PARTS = ("requests", "limits")
RESIZABLE = ("cpu", "memory")  # the `resize` subresource can change these
MAX_CONTAINERS = 32


def read_template(spec: Fields, owned_labels: Collection[str]) -> tuple[Json, tuple[str, ...]]:
    """The template and its containers' names. `owned_labels`: more labels that only the controller sets."""
    template = spec.part("template")
    pod = template.part("spec")
    if "spec" not in template:
        template.wrong("spec", "must be a pod's spec")
        return template.of, ()
    names = []
    for container in pod.parts("containers", MAX_CONTAINERS):
        name = container.text("name")
        container.text("image")
        for part in _PARTS:
            listed = container.part("resources").part(part)
            for resource in listed.of:
                listed.quantity(resource)
        if name in names:
            container.wrong("name", "must differ from the containers before")
        names.append(name)
    if "nodeName" in pod:
        pod.wrong("nodeName", "must not be set: use nodeSelector or affinity to choose nodes")
    if pod.of.get("restartPolicy", "Always") != "Always":
        pod.wrong("restartPolicy", "must be Always, or left out")
    labels = template.part("metadata").part("labels")
    for label in (*owned_labels, SERVING_LABEL, TEMPLATE_LABEL):
        if label in labels.of:
            labels.wrong(label, "is set by the controller: remove it from the template")
    annotations = template.part("metadata").part("annotations")
    for annotation in (PLANNED_NODE_ANNOTATION, DRAINING_SINCE_ANNOTATION, SIZE_OFFER_ANNOTATION):
        if annotation in annotations.of:
            annotations.wrong(annotation, "is set by the controller: remove it from the template")
    gates = pod.of.get("schedulingGates") or []
    if not isinstance(gates, list) or any(
        not isinstance(g, dict) or g.get("name") == PLACEMENT_GATE for g in gates
    ):
        pod.wrong("schedulingGates", f"must be a list without {PLACEMENT_GATE}, which the controller sets")
    return template.of, tuple(names)


def sized_hash(template: Json, container: str) -> str:
    """Hash without cpu and memory of `container`, which come from the size."""
    return _hash(template, (container,), container)


def resizable_hash(template: Json) -> str:
    """Hash that is equal for templates between which pods can be resized in place.

    Amounts can change in place. The API server refuses to remove one, or to change the QoS class. It would
    allow to add one; that is rolled as well, so that the order of changes does not matter.
    """
    containers = template["spec"]["containers"]
    said = {c["name"]: sorted((part, name) for part, name, _ in _amounts(c)) for c in containers}
    return _hash(template, tuple(said), [said, all(map(_guaranteed, containers))])


def _hash(template: Json, resized: Collection[str], also: Any) -> str:
    """A valid label value. null, an empty object and an empty list count as left out."""
    spec = template.get("spec") or {}
    containers = [
        _without_resizable(c) if c.get("name") in resized else c for c in spec.get("containers") or ()
    ]
    metadata = template.get("metadata") or {}
    hashed = {
        "labels": metadata.get("labels"),
        "annotations": metadata.get("annotations"),
        "spec": spec | {"containers": containers},
        "also": also,
    }
    text = orjson.dumps(_written(hashed), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:10]


def _amounts(container: Json) -> list[tuple[str, str, Any]]:
    resources = container.get("resources") or {}
    return [
        (part, name, value)
        for part in _PARTS
        for name, value in (resources.get(part) or {}).items()
        if name in RESIZABLE
    ]


def _guaranteed(container: Json) -> bool:
    """Whether QoS is Guaranteed: cpu and memory have limits, and requests equal them (the default)."""
    amounts = {(part, name): parse(value) for part, name, value in _amounts(container)}
    return all(
        ("limits", name) in amounts
        and amounts.get(("requests", name), amounts["limits", name]) == amounts["limits", name]
        for name in RESIZABLE
    )


def _without_resizable(container: Json) -> Json:
    resources = container.get("resources") or {}
    kept = {
        part: (
            {name: value for name, value in (listed or {}).items() if name not in RESIZABLE}
            if part in _PARTS
            else listed
        )
        for part, listed in resources.items()
    }
    return container | {"resources": kept}


def _written(value: Any) -> Any:
    if isinstance(value, dict):
        parts = {key: _written(part) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part not in (None, {}, [])}
    return [_written(part) for part in value] if isinstance(value, list) else value
