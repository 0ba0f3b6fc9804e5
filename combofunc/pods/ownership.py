"""Which object a pod belongs to. An owner reference is only a claim: whoever makes a pod can write one.

It holds where such an object exists in the pod's own namespace, which is for the tables to see.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Owner", "owner_of"]

Json = dict[str, Any]
_KINDS = frozenset({"ComboFunc", "InPlaceDeployment"})


class Owner(NamedTuple):
    namespace: str
    uid: str


def owner_of(metadata: Json) -> Owner | None:
    """The ComboFunc or InPlaceDeployment that a pod names as its controller."""
    references = metadata.get("ownerReferences")
    for reference in references if isinstance(references, list) else ():
        if (
            isinstance(reference, dict)
            and str(reference.get("apiVersion")).startswith("surgekit.dev/")
            and reference.get("controller") is True
            and str(reference.get("kind")) in _KINDS
        ):
            return Owner(str(metadata.get("namespace") or ""), str(reference.get("uid")))
    return None
