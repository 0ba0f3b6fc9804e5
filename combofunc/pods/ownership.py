"""The object that a pod names as its owner. Anybody who creates a pod can write an owner reference.

So the tables believe it only if the owner exists in the pod's namespace.
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
