"""What an update may change: preconditions, fields the API server keeps, fields of each subresource."""

from __future__ import annotations

import copy
from typing import Any

from surgekit.kube.client import ApiError
from tests.fake_api_server.kinds import Kind

__all__ = ["check_preconditions", "updated"]

Json = dict[str, Any]
_KEPT = ("name", "namespace", "uid", "creationTimestamp", "generation", "deletionTimestamp",
         "deletionGracePeriodSeconds", "resourceVersion")  # fmt: skip
# All of a pod's spec that may change once it is created; scheduling gates may only go.
_POD_MAY_CHANGE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates")


def updated(kind: Kind, old: Json, new: Json, subresource: str, patched: bool = False) -> Json:
    """The object as it is stored; equal to `old` where nothing changes. Raises ApiError."""
    metadata = dict(new.get("metadata") or {})
    if metadata.get("name", old["metadata"]["name"]) != old["metadata"]["name"]:
        raise ApiError(400, "BadRequest", "the name of the object does not match the name on the URL")
    if patched and subresource != "scale":
        _check_patched_uid(kind, old, metadata.pop("uid"), subresource)
    check_preconditions(kind, old, metadata.get("uid"), metadata.get("resourceVersion"))
    if kind.replace_needs_version and not metadata.get("resourceVersion"):
        raise _invalid(kind, old, "metadata.resourceVersion: must be specified for an update")
    kept = {key: old["metadata"][key] for key in _KEPT if key in old["metadata"]}
    metadata = {key: value for key, value in metadata.items() if key not in _KEPT} | kept
    same = {key: old[key] for key in ("apiVersion", "kind")}
    match subresource:
        case "status":
            result = old | {"status": new.get("status") or {}}
            if not kind.custom:
                result["metadata"] = metadata
        case "resize":
            result = old | {"spec": _resized(kind, old, new["spec"])}
        case _:
            result = new | same | {"metadata": metadata}
            if kind.has_status:
                result.pop("status", None)
                result |= {"status": old["status"]} if "status" in old else {}
            if kind.plural == "pods":
                _check_pod_spec(kind, old, result["spec"])
    if kind.has_generation and _wanted(result) != _wanted(old):
        result["metadata"] = result["metadata"] | {"generation": old["metadata"].get("generation", 0) + 1}
    return result


def check_preconditions(kind: Kind, obj: Json, uid: str | None, version: str | None) -> None:
    has = obj["metadata"]
    wrong = ""
    if uid and uid != has["uid"]:
        wrong = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {has['uid']}"
    elif version and version != has["resourceVersion"]:
        wrong = "the object has been modified; please apply your changes to the latest version and try again"
    if wrong:
        on = f'{kind.qualified_plural} "{has["name"]}"'
        raise ApiError(409, "Conflict", f"Operation cannot be fulfilled on {on}: {wrong}")


def _check_patched_uid(kind: Kind, old: Json, uid: str, subresource: str) -> None:
    """The uid in a patch is no precondition but a change, which is not allowed. The status subresource of a
    custom resource ignores it, as all metadata."""
    if uid != old["metadata"]["uid"] and not (kind.custom and subresource == "status"):
        raise _invalid(kind, old, f'metadata.uid: Invalid value: "{uid}": field is immutable')


def _wanted(obj: Json) -> Json:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def _resized(kind: Kind, old: Json, spec: Json) -> Json:
    """The old spec with the new resources of its containers."""
    statuses = (old.get("status") or {}).get("containerStatuses") or []
    if not all("resources" in status for status in statuses):
        raise _invalid(kind, old, "spec: Forbidden: Pod running on node without support for resize")
    result: Json = copy.deepcopy(old["spec"])
    wanted = {container["name"]: container.get("resources") for container in spec["containers"]}
    if wanted.keys() != {container["name"] for container in result["containers"]}:
        raise _invalid(kind, old, "spec.containers: Forbidden: containers may not be added or removed")
    for container in result["containers"]:
        if resources := wanted[container["name"]]:
            container["resources"] = resources
    return result


def _check_pod_spec(kind: Kind, old: Json, spec: Json) -> None:
    def fixed(spec: Json) -> Json:
        spec = copy.deepcopy({key: value for key, value in spec.items() if key not in _POD_MAY_CHANGE})
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            container.pop("image", None)
        return spec

    gates = [gate["name"] for gate in old["spec"].get("schedulingGates") or ()]
    if any(gate["name"] not in gates for gate in spec.get("schedulingGates") or ()):
        raise _invalid(kind, old, "spec.schedulingGates: Forbidden: only deletion is allowed")
    if fixed(spec) != fixed(old["spec"]):
        raise _invalid(kind, old, "spec: Forbidden: pod updates may not change fields other than ...")


def _invalid(kind: Kind, obj: Json, why: str) -> ApiError:
    return ApiError(422, "Invalid", f'{kind.kind} "{obj["metadata"]["name"]}" is invalid: {why}')
