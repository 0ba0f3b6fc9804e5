"""Which pods of which function take requests, by EndpointSlices and the pods' annotations. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler_extender.load_balancer.backends import Pod

__all__ = ["COMBOFUNC", "CONCURRENCY", "Endpoints", "Function"]

Json = dict[str, Any]
COMBOFUNC = "surgekit.dev/combofunc"  # label of pods and Services; its value names the function
CONCURRENCY = "surgekit.dev/concurrency"  # annotation of pods: requests it takes at once
_PORT = "http"  # the name of the port that is meant where a Service has several
_MOST_CONCURRENCY = 1_000_000


@dataclass(frozen=True)
class Function:
    """Known by the Host of its requests, `name.namespace`."""

    namespace: str
    name: str

    @property
    def host(self) -> str:
        return f"{self.name}.{self.namespace}".lower()


@dataclass(frozen=True)
class _Slice:
    function: Function
    order: tuple[str, ...]  # of two slices with the same pod the first counts: IPv4 before IPv6
    pods: tuple[tuple[str, str, int], ...]  # uid, address, port


@dataclass(frozen=True)
class _Known:
    """What is known of a function, until one of its slices or pods changes."""

    uids: frozenset[str]
    pods: tuple[Pod, ...]
    unknown: int


class Endpoints:
    """Two collections as their watches tell them. A change costs what its function costs, not all of them."""

    def __init__(self) -> None:
        self._slices: dict[str, _Slice] = {}
        self._concurrency: dict[str, int] = {}  # by pod uid
        self._by_function: dict[Function, dict[str, _Slice]] = {}
        self._functions_of: dict[str, set[Function]] = {}  # by pod uid
        self._known: dict[Function, _Known] = {}
        self._stale: set[Function] = set()

    def replace_slices(self, objects: list[Json]) -> None:
        slices = {obj["metadata"]["uid"]: _read_slice(obj) for obj in objects}
        for uid in self._slices.keys() | slices.keys():
            self._set_slice(uid, slices.get(uid))

    def apply_slice(self, kind: str, obj: Json) -> bool:
        """Whether anything has changed by it."""
        return self._set_slice(obj["metadata"]["uid"], None if kind == "DELETED" else _read_slice(obj))

    def replace_pods(self, objects: list[Json]) -> None:
        known = {obj["metadata"]["uid"]: _read_concurrency(obj, self._concurrency) for obj in objects}
        for uid in self._concurrency.keys() | known.keys():
            self._set_concurrency(uid, known.get(uid))

    def apply_pod(self, kind: str, obj: Json) -> bool:
        """Whether anything has changed by it."""
        number = None if kind == "DELETED" else _read_concurrency(obj, self._concurrency)
        return self._set_concurrency(obj["metadata"]["uid"], number)

    def functions(self) -> dict[Function, tuple[Pod, ...]]:
        """The pods of each function that take requests. One whose concurrency is not known takes none."""
        self._refresh()
        return {function: known.pods for function, known in self._known.items()}

    def unknown(self) -> dict[Function, int]:
        """Ready pods that say nothing usable of their concurrency, by function."""
        self._refresh()
        return {function: known.unknown for function, known in self._known.items()}

    def _set_slice(self, uid: str, after: _Slice | None) -> bool:
        before = self._slices.pop(uid, None)
        if before is not None:
            self._by_function[before.function].pop(uid)
        if after is not None:
            self._slices[uid] = after
            self._by_function.setdefault(after.function, {})[uid] = after
        if after == before:
            return False
        self._stale |= {piece.function for piece in (before, after) if piece is not None}
        return True

    def _set_concurrency(self, uid: str, after: int | None) -> bool:
        before = self._concurrency.pop(uid, None)
        if after is not None:
            self._concurrency[uid] = after
        if after == before:
            return False
        self._stale |= self._functions_of.get(uid, set())
        return True

    def _refresh(self) -> None:
        for function in self._stale:
            before = self._known.pop(function, None)
            for uid in before.uids if before else ():
                self._functions_of[uid].discard(function)
                if not self._functions_of[uid]:
                    del self._functions_of[uid]
            if not (slices := self._by_function[function]):
                del self._by_function[function]
                continue
            known = self._known[function] = self._look(list(slices.values()))
            for uid in known.uids:
                self._functions_of.setdefault(uid, set()).add(function)
        self._stale.clear()

    def _look(self, slices: list[_Slice]) -> _Known:
        where: dict[str, tuple[str, int]] = {}
        for piece in sorted(slices, key=lambda piece: piece.order):
            for uid, address, port in piece.pods:
                where.setdefault(uid, (address, port))
        pods = tuple(
            Pod(*where[uid], self._concurrency[uid]) for uid in sorted(where) if uid in self._concurrency
        )
        return _Known(frozenset(where), pods, len(where) - len(pods))


def _read_slice(obj: Json) -> _Slice:
    meta = obj["metadata"]
    function = Function(meta["namespace"], meta["labels"][COMBOFUNC])
    order = (obj.get("addressType", ""), meta["namespace"], meta["name"])
    port = _port(obj.get("ports") or [])
    if port is None:
        return _Slice(function, order, ())
    ready = (
        (endpoint["targetRef"]["uid"], endpoint["addresses"][0], port)
        for endpoint in obj.get("endpoints") or []
        # Not said is ready (discovery.k8s.io/v1, EndpointConditions).
        if (endpoint.get("conditions") or {}).get("ready") in (None, True)
        and (endpoint.get("targetRef") or {}).get("kind") == "Pod"
        and endpoint.get("addresses")
    )
    return _Slice(function, order, tuple(ready))


def _port(ports: list[Json]) -> int | None:
    tcp = [p for p in ports if p.get("protocol", "TCP") == "TCP" and p.get("port")]
    named = [p for p in tcp if p.get("name") == _PORT] or tcp
    return int(named[0]["port"]) if named else None


def _read_concurrency(pod: Json, before: Mapping[str, int]) -> int | None:
    """An annotation that cannot be read changes nothing: what the pod said before stands."""
    text = (pod["metadata"].get("annotations") or {}).get(CONCURRENCY, "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 7 else 0
    return number if 1 <= number <= _MOST_CONCURRENCY else before.get(pod["metadata"]["uid"])
