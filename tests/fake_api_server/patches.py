"""The API server's three patches: merge (RFC 7386), JSON (RFC 6902) and strategic merge."""

from __future__ import annotations

import copy
from typing import Any

from surgekit.kube.client import ApiError

__all__ = ["JSON", "MERGE", "STRATEGIC", "apply_patch", "merge"]

Json = dict[str, Any]
MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
# The lists that a strategic merge patch merges, with their key (patchMergeKey in k8s.io/api/core/v1). It
# replaces any other list, among them containerStatuses, taints and tolerations.
_MERGE_KEYS = {
    "containers": "name", "initContainers": "name", "ephemeralContainers": "name", "schedulingGates": "name",
    "env": "name", "volumes": "name", "imagePullSecrets": "name", "conditions": "type", "addresses": "type",
    "ownerReferences": "uid", "volumeMounts": "mountPath", "topologySpreadConstraints": "topologyKey",
}  # fmt: skip
_MERGED_VALUES = frozenset({"finalizers"})


def apply_patch(obj: Json, patch: Any, content_type: str, custom: bool) -> Json:
    """The patched object; `obj` stays as it is. `custom`: a CRD's object."""
    obj = copy.deepcopy(obj)
    if content_type == JSON:
        return _json_patch(obj, patch)
    if not isinstance(patch, dict):
        raise ApiError(400, "BadRequest", "a merge patch must be an object")
    if content_type == MERGE:
        patched: Json = merge(obj, patch)
        return patched
    if content_type == STRATEGIC and not custom:
        return _strategic(obj, patch)
    raise ApiError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join([JSON, MERGE] + ([] if custom else [STRATEGIC])),
    )


def merge(before: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def _strategic(before: Json, patch: Json) -> Json:
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    result = dict(before)
    for key, value in patch.items():
        if key.startswith("$"):
            raise NotImplementedError(f"the fake API server does not know {key}={value!r}")
        there = result.get(key)
        if value is None or (isinstance(value, dict) and value.get("$patch") == "delete"):
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _strategic(there if isinstance(there, dict) else {}, value)
        elif key in _MERGE_KEYS and isinstance(value, list):
            result[key] = _strategic_list(there or [], value, _MERGE_KEYS[key])
        elif key in _MERGED_VALUES and isinstance(value, list):
            result[key] = [*(there or []), *(item for item in value if item not in (there or []))]
        else:
            result[key] = value
    return result


def _strategic_list(before: list[Json], patch: list[Json], merge_key: str) -> list[Json]:
    if {"$patch": "replace"} in patch:
        return [item for item in patch if item != {"$patch": "replace"}]
    result = {item[merge_key]: item for item in before}
    for item in patch:
        name = item[merge_key]
        if item.get("$patch") == "delete":
            result.pop(name, None)
        else:
            result[name] = _strategic(result.get(name, {}), item)
    return list(result.values())


def _json_patch(obj: Json, operations: list[Json]) -> Json:
    document: Any = obj
    try:
        for operation in operations:
            document = _operate(document, operation)
    except (LookupError, TypeError, ValueError) as error:
        raise ApiError(
            422, "Invalid", f"the server rejected our request due to an error in our request: {error}"
        ) from error
    patched: Json = document
    return patched


def _operate(document: Any, operation: Json) -> Any:
    path, value = _steps(operation["path"]), operation.get("value")
    match operation["op"]:
        case "add":
            return _put(document, path, value, insert=True)
        case "replace":  # a key that is not there is added, against the RFC
            return _put(document, path, value, insert=False)
        case "remove":
            return _removed(document, path)
        case "test":
            if _at(document, path) != value:
                raise ValueError(f"testing path {operation['path']} failed")
            return document
        case "move" | "copy":
            source = _steps(operation["from"])
            value = copy.deepcopy(_at(document, source))
            if operation["op"] == "move":
                document = _removed(document, source)
            return _put(document, path, value, insert=True)
    raise ValueError(f"unknown operation {operation['op']}")


def _steps(pointer: str) -> list[str]:
    """A JSON pointer (RFC 6901)."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _at(document: Any, path: list[str]) -> Any:
    for step in path:
        document = document[int(step) if isinstance(document, list) else step]
    return document


def _put(document: Any, path: list[str], value: Any, insert: bool) -> Any:
    if not path:
        return value
    parent, last = _at(document, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif last == "-":
        parent.append(value)
    elif insert and int(last) <= len(parent):
        parent.insert(int(last), value)
    else:
        parent[int(last)] = value
    return document


def _removed(document: Any, path: list[str]) -> Any:
    parent, last = _at(document, path[:-1]), path[-1]
    del parent[int(last) if isinstance(parent, list) else last]
    return document
