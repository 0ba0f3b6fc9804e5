"""Answers requests as the API server does: discovery, lists, creations, updates, deletions."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from surgekit.kube.client import ApiError
from tests.fake_api_server.deletion import delete_steps
from tests.fake_api_server.kinds import Kind, Target, parse_path
from tests.fake_api_server.patches import apply_patch
from tests.fake_api_server.scale import scale_of, with_replicas
from tests.fake_api_server.selectors import selector
from tests.fake_api_server.store import Key, Store
from tests.fake_api_server.updates import updated

__all__ = ["Answers", "Request"]

Json = dict[str, Any]
_SUCCESS: Json = {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"}


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: Mapping[str, Any]
    body: Any
    content_type: str


class Answers:
    """Callers hold the store's lock."""

    def __init__(self, store: Store, kinds: Iterable[Kind]) -> None:
        self._store = store
        self._kinds = {(kind.api_version, kind.plural): kind for kind in kinds}
        self._pages: dict[str, list[Json]] = {}  # the rest of a list, by its continue token

    def forget_pages(self) -> None:
        self._pages.clear()

    def kinds(self, plural: str) -> list[Kind]:
        return [kind for kind in self._kinds.values() if kind.plural == plural]

    def add(self, obj: Json) -> None:
        """Store it whole, status included."""
        said = (obj["apiVersion"], obj["kind"])
        kind = next(kind for kind in self._kinds.values() if (kind.api_version, kind.kind) == said)
        metadata = obj["metadata"]
        key = Key(kind, metadata.get("namespace", "") if kind.namespaced else "", metadata["name"])
        self._store.put(key, obj | {"metadata": _new_metadata(kind, key) | metadata})

    def answer(self, request: Request) -> Json:
        target = parse_path(request.path)
        if not target.plural:
            return self._discovery(target)
        kind = self.kind(target)
        if target.name:
            return self._answer_about_one(request, target, Key(kind, target.namespace, target.name))
        match request.method:
            case "GET":
                return self._list(target, kind, request.query)
            case "POST":
                return self._create(target, kind, request.body)
            case "DELETE":
                return self._delete_all(target, kind, request.query)
        raise _not_allowed()

    def _answer_about_one(self, request: Request, target: Target, key: Key) -> Json:
        match request.method:
            case "GET":
                obj = self._get(key)
                return scale_of(key.kind, obj) if target.subresource == "scale" else obj
            case "PUT":
                return self._update(target, key, lambda _: request.body, patched=False)
            case "PATCH":
                patch, content_type = request.body, request.content_type
                return self._update(
                    target,
                    key,
                    lambda obj: apply_patch(obj, patch, content_type, key.kind.custom),
                    patched=True,
                )
            case "DELETE":
                return self._delete(key, request.body or {}, request.query)
        raise _not_allowed()

    def kind(self, target: Target) -> Kind:
        kind = self._kinds.get((target.api_version, target.plural))
        if kind is None and not any(version == target.api_version for version, _ in self._kinds):
            raise ApiError(404, "", "404 page not found\n")
        if kind is None or (target.subresource and target.subresource not in kind.subresources):
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return kind

    def _discovery(self, target: Target) -> Json:
        kinds = [kind for kind in self._kinds.values() if kind.api_version == target.api_version]
        if not kinds:
            raise ApiError(404, "", "404 page not found\n")
        resources = []
        for kind in kinds:
            resources.append({"name": kind.plural, "kind": kind.kind, "namespaced": kind.namespaced})
            for subresource in sorted(kind.subresources):
                name, of_kind = (
                    f"{kind.plural}/{subresource}",
                    "Scale" if subresource == "scale" else kind.kind,
                )
                resources.append({"name": name, "kind": of_kind, "namespaced": kind.namespaced})
        return {"kind": "APIResourceList", "groupVersion": target.api_version, "resources": resources}

    def _get(self, key: Key) -> Json:
        if (obj := self._store.get(key)) is None:
            raise ApiError(404, "NotFound", f'{key.kind.qualified_plural} "{key.name}" not found')
        return obj

    def _list(self, target: Target, kind: Kind, query: Mapping[str, Any]) -> Json:
        version = str(self._store.version)
        if token := str(query.get("continue", "")):
            if token not in self._pages:
                raise ApiError(410, "Expired", "The provided continue parameter is too old")
            version, items = token.partition("-")[0], self._pages.pop(token)
        else:
            selects = selector(kind, target.namespace, query)
            items = [obj for obj in self._store.all(kind) if selects(obj)]
        limit, metadata = int(query.get("limit") or 0), {"resourceVersion": version}
        if 0 < limit < len(items):
            items, rest = items[:limit], items[limit:]
            metadata["continue"] = f"{version}-{uuid.uuid4()}"
            self._pages[metadata["continue"]] = rest
        bare = [{k: v for k, v in obj.items() if k not in ("apiVersion", "kind")} for obj in items]
        return {
            "apiVersion": kind.api_version, "kind": f"{kind.kind}List", "metadata": metadata, "items": bare,
        }  # fmt: skip

    def _create(self, target: Target, kind: Kind, body: Json) -> Json:
        metadata = body.get("metadata") or {}
        if metadata.get("namespace", target.namespace) != target.namespace:
            raise ApiError(
                400, "BadRequest",
                "the namespace of the provided object does not match the namespace sent on the request",
            )  # fmt: skip
        name = metadata.get("name")
        if not name and metadata.get("generateName"):
            name = metadata["generateName"] + uuid.uuid4().hex[:5]
        if not name:
            raise ApiError(422, "Invalid", f"{kind.kind} is invalid: metadata.name: Required value")
        if metadata.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        key = Key(kind, target.namespace, name)
        if self._store.get(key):
            raise ApiError(409, "AlreadyExists", f'{kind.qualified_plural} "{name}" already exists')
        obj: Json = {"apiVersion": kind.api_version, "kind": kind.kind} | body
        obj["metadata"] = metadata | _new_metadata(kind, key)
        if kind.has_status:
            obj.pop("status", None)
        if kind.plural == "pods":
            obj["status"] = {"phase": "Pending"}
        return self._store.put(key, obj)

    def _update(self, target: Target, key: Key, change: Callable[[Json], Json], patched: bool) -> Json:
        old = self._get(key)
        if target.subresource == "scale":
            new = with_replicas(key.kind, old, change(scale_of(key.kind, old)))
        else:
            new = change(old)
        result = updated(key.kind, old, new, target.subresource, patched)
        if result != old:
            finished = "deletionTimestamp" in result["metadata"] and not result["metadata"].get("finalizers")
            waits = result["metadata"].get("deletionGracePeriodSeconds")
            old = self._store.put(key, result)
            if finished and not waits:
                self._store.put(key, None)
        return scale_of(key.kind, old) if target.subresource == "scale" else old

    def _delete_all(self, target: Target, kind: Kind, query: Mapping[str, Any]) -> Json:
        selects = selector(kind, target.namespace, query)
        for obj in [obj for obj in self._store.all(kind) if selects(obj)]:
            metadata = obj["metadata"]
            self._delete(Key(kind, metadata.get("namespace", ""), metadata["name"]), {}, query)
        return _SUCCESS

    def _delete(self, key: Key, options: Json, query: Mapping[str, Any]) -> Json:
        obj = self._get(key)
        left = delete_steps(key.kind, obj, options, query.get("gracePeriodSeconds"))
        if left.stays:
            return self._store.put(key, left.obj) if left.obj != obj else obj
        self._store.put(key, None)
        details = {"name": key.name, "kind": key.kind.plural, "uid": obj["metadata"]["uid"]}
        return left.obj if key.kind.plural == "pods" else _SUCCESS | {"details": details}


def _not_allowed() -> ApiError:
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the resource")


def _new_metadata(kind: Kind, key: Key) -> Json:
    metadata: Json = {"name": key.name, "uid": str(uuid.uuid4())}
    if kind.namespaced:
        metadata["namespace"] = key.namespace
    if kind.has_generation:
        metadata["generation"] = 1
    return metadata | {"creationTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
