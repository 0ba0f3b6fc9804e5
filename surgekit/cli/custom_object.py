"""One of our custom objects by name; where there is none, which there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from surgekit.errors import UserError
from surgekit.kube.api_path import InvalidPath, Resource
from surgekit.kube.client import ApiError, Kube
from surgekit.shipped_manifests import MANIFESTS

__all__ = [
    "BURST_FUNCTION",
    "COMBO_FUNC",
    "DISTRIBUTED_CONTAINER",
    "KNEE_POLICY",
    "CustomKind",
    "NotThere",
    "find",
]


class NotThere(UserError):
    """What to do about it is in the message."""


@dataclass(frozen=True)
class CustomKind:
    kind: str
    plural: str
    part: str  # the directory of manifests/ with its CRD


KNEE_POLICY = CustomKind("KneePolicy", "kneepolicies", "kneescale")
COMBO_FUNC = CustomKind("ComboFunc", "combofuncs", "combofunc")
BURST_FUNCTION = CustomKind("BurstFunction", "burstfunctions", "burst-plane")
DISTRIBUTED_CONTAINER = CustomKind("DistributedContainer", "distributedcontainers", "limit-allocator")


def find(kube: Kube, kind: CustomKind, namespace: str, name: str) -> dict[str, Any]:
    objects = Resource("surgekit.dev/v1alpha1", kind.plural)
    try:
        return kube.get(objects.path(namespace, name))
    except InvalidPath as error:
        raise NotThere(str(error)) from error
    except ApiError as error:
        if error.code != 404:
            raise
    try:
        others, _ = kube.list_all(objects.path(namespace))
    except ApiError as error:
        if error.code != 404:
            raise
        raise NotThere(
            f"this cluster knows no {kind.plural}: "
            f"kubectl apply --server-side -k {MANIFESTS / kind.part} installs them"
        ) from error
    names = ", ".join(sorted(o["metadata"]["name"] for o in others)) or "none"
    raise NotThere(f"there is no {kind.kind} {namespace}/{name}; in {namespace} there are: {names}")
