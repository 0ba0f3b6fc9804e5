"""A consumer that writes down what a watch tells it."""

from __future__ import annotations

from surgekit.kube.client import Json
from surgekit.kube.watch import Watch

__all__ = ["Picture"]


class Picture:
    watch: Watch

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}  # by name
        self.lists = 0
        self.changes: list[tuple[str, str]] = []  # type and name
        self._raises: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        return sorted(self.objects)

    def raise_for(self, method: str, times: int = 1) -> None:
        self._raises[method] = times

    def replace(self, objects: list[Json], arrival_s: float) -> None:
        self._maybe_raise("replace")
        self.objects = {obj["metadata"]["name"]: obj for obj in objects}
        self.lists += 1

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:
        self._maybe_raise("apply")
        name = obj["metadata"]["name"]
        self.changes.append((kind, name))
        if kind == "DELETED":
            self.objects.pop(name, None)
        else:
            self.objects[name] = obj

    def _maybe_raise(self, method: str) -> None:
        if self._raises.get(method):
            self._raises[method] -= 1
            raise RuntimeError(f"{method} fails")
