"""Writes the status of a custom object, and never that of a newer object of the same name."""

from __future__ import annotations

from typing import Any

from surgekit.kube.api_path import Resource
from surgekit.kube.client import ApiError, Kube

__all__ = ["patch_status"]

Json = dict[str, Any]
_TRIES = 3


def patch_status(kube: Kube, resource: Resource, metadata: Json, status: Json) -> Json:
    """Merge `status` into the status of the object with this metadata. Return the object.

    The API server ignores a uid in this patch, so the patch has the version that we saw. If the object
    changed meanwhile, look whether it is still the same one and try again; if it is not, raise the conflict.
    """
    namespace, name, version = metadata["namespace"], metadata["name"], metadata["resourceVersion"]
    tries = 0
    while True:
        body = {"metadata": {"resourceVersion": version}, "status": status}
        try:
            return kube.patch(resource.path(namespace, name, "status"), body)
        except ApiError as error:
            tries += 1
            if error.code != 409 or tries == _TRIES:
                raise
            now = kube.get(resource.path(namespace, name))["metadata"]
            if now["uid"] != metadata["uid"]:
                raise
            version = now["resourceVersion"]
