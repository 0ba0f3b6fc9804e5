"""One of our custom objects by name; where there is none, which there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from surgekit.kube import ApiError, Kube

__all__ = ["COMBO_FUNC", "KNEE_POLICY", "CustomKind", "NotThere", "find"]


class NotThere(Exception):
    """What to do about it is in the message."""


@dataclass(frozen=True)
class CustomKind:
    kind: str
    plural: str
    manifests: str  # where its CRD is


KNEE_POLICY = CustomKind("KneePolicy", "kneepolicies", "manifests/kneescale")
COMBO_FUNC = CustomKind("ComboFunc", "combofuncs", "manifests/combofunc")


def find(kube: Kube, kind: CustomKind, namespace: str, name: str) -> dict[str, Any]:
    path = f"/apis/surgekit.dev/v1alpha1/namespaces/{namespace}/{kind.plural}"
    try:
        return kube.get(f"{path}/{name}")
    except ApiError as error:
        if error.code != 404:
            raise
    try:
        others, _ = kube.list_all(path)
    except ApiError as error:
        if error.code != 404:
            raise
        raise NotThere(
            f"this cluster knows no {kind.plural}: install the CRD (kubectl apply -k {kind.manifests})"
        ) from error
    names = ", ".join(sorted(o["metadata"]["name"] for o in others)) or "none"
    raise NotThere(f"there is no {kind.kind} {namespace}/{name}; in {namespace} there are: {names}")
