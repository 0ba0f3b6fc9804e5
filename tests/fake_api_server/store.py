"""Objects by key, and the changes since the last compaction. An object that is stored is never changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from surgekit.kube.client import ApiError
from tests.fake_api_server.kinds import Kind

__all__ = ["Change", "Key", "Store"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Key:
    kind: Kind
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Change:
    version: int
    kind: Kind
    before: Json | None
    after: Json | None

    def event(self, selects: Callable[[Json], bool]) -> Json | None:
        """What a watch with this selector tells of it: an object that leaves the selection is DELETED."""
        was = self.before is not None and selects(self.before)
        is_ = self.after is not None and selects(self.after)
        if is_:
            return {"type": "MODIFIED" if was else "ADDED", "object": self.after}
        if was and self.before is not None:
            metadata = self.before["metadata"] | {"resourceVersion": str(self.version)}
            return {"type": "DELETED", "object": self.before | {"metadata": metadata}}
        return None


class Store:
    def __init__(self) -> None:
        self.changed = threading.Condition()  # its lock guards everything here
        self.version = 1
        self._objects: dict[Key, Json] = {}
        self._changes: list[Change] = []
        self._compacted = 0

    def get(self, key: Key) -> Json | None:
        return self._objects.get(key)

    def all(self, kind: Kind) -> Iterator[Json]:
        keys = sorted((k for k in self._objects if k.kind == kind), key=lambda k: (k.namespace, k.name))
        return (self._objects[key] for key in keys)

    def put(self, key: Key, obj: Json | None) -> Json:
        """Store the object under a new version; None removes it."""
        with self.changed:
            self.version += 1
            before = self._objects.pop(key, None)
            if obj is not None:
                obj = obj | {"metadata": obj["metadata"] | {"resourceVersion": str(self.version)}}
                self._objects[key] = obj
            self._changes.append(Change(self.version, key.kind, before, obj))
            self.changed.notify_all()
            return obj or before or {}

    def since(self, version: int, kind: Kind) -> list[Change]:
        if version < self._compacted:
            raise ApiError(410, "Expired", f"too old resource version: {version} ({self._compacted})")
        return [change for change in self._changes if change.version > version and change.kind == kind]

    def compact(self) -> None:
        with self.changed:
            self._compacted = self.version
            self._changes.clear()
