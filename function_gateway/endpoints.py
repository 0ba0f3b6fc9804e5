"""Find the pods of each function that take requests. Pure.

EndpointSlices list the pods. What a pod takes at once is in its annotation (ComboFunc), or else in its
BurstFunction.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from function_gateway.backends import Pod
from surgekit.kube.checked import checked
from surgekit.kube.numbers import integer

__all__ = [
    "BURST_FUNCTION",
    "COMBOFUNC",
    "CONCURRENCY",
    "Addresses",
    "Burst",
    "Endpoints",
    "Function",
    "Slice",
    "read_addresses",
    "read_burst",
    "read_concurrency",
    "read_pieces",
    "read_slice",
]

Json = dict[str, Any]
COMBOFUNC = "surgekit.dev/combofunc"  # label of pods and Services; its value names the function
BURST_FUNCTION = "surgekit.dev/burst-function"  # label of Services; its value names the BurstFunction
CONCURRENCY = "surgekit.dev/concurrency"  # annotation of pods: requests that the pod takes at once
_PORT = "http"  # of several ports of a Service, the one with this name
_MOST_CONCURRENCY = 1_000_000
_KNATIVE = "serving.knative.dev/"  # API group of targets whose pods are a revision's


@dataclass(frozen=True)
class Function:
    """Identified by the Host of its requests, `name.namespace`."""

    namespace: str
    name: str

    @property
    def host(self) -> str:
        return f"{self.name}.{self.namespace}".lower()


@dataclass(frozen=True)
class Burst:
    """What a BurstFunction says to the load balancer."""

    function: Function
    concurrency: int = 1  # requests that a pod takes at once
    overflow: bool = False  # whether requests may go to the emergency track
    idempotent: bool = False  # whether a request may run again after function code has seen it
    is_knative: bool = False  # its pods are a revision's
    revision: str = ""  # as its controller says; empty: requests go Knative's own way
    observed: str = field(default="", compare=False)  # when the controller said so


@dataclass(frozen=True)
class Addresses:
    """Replicas of the load balancer, whether ready or not."""

    addresses: tuple[str, ...]


@dataclass(frozen=True)
class Slice:
    function: Function
    is_burst: bool  # of a BurstFunction
    service: tuple[str, str] | None  # name and uid of its owner
    order: tuple[str, ...]  # of two slices with the same pod, the first counts: IPv4 before IPv6
    pods: tuple[tuple[str, str, int], ...]  # uid, address, port
    revision: str = ""  # of Knative, whose private Service it belongs to


@dataclass(frozen=True)
class _Known:
    """A function's pods, cached until one of its slices or pods changes."""

    uids: frozenset[str]
    pods: tuple[Pod, ...]
    unknown: int


class Endpoints:
    """Slices and pods, as their watches deliver them. A change recomputes only the functions it touches."""

    def __init__(self) -> None:
        self._slices: dict[str, Slice] = {}
        self._concurrency: dict[str, int] = {}  # by pod uid
        self._bursts: dict[str, Burst] = {}  # by uid
        self._burst_of: dict[Function, Burst] = {}
        self._by_function: dict[Function, dict[str, Slice]] = {}
        self._functions_of: dict[str, set[Function]] = {}  # by pod uid
        self._known: dict[Function, _Known] = {}
        self._stale: set[Function] = set()

    def keep_slices(self, uids: Set[str], is_burst: bool = False) -> None:
        """Drop all slices of this kind but these."""
        for uid in self._slices.keys() - uids:
            if self._slices[uid].is_burst == is_burst and not self._slices[uid].revision:
                self.put_slice(uid, None)

    def keep_bursts(self, uids: Set[str]) -> None:
        """Drop all BurstFunctions but these."""
        for uid in self._bursts.keys() - uids:
            self.put_burst(uid, None)

    def keep_pods(self, uids: Set[str]) -> None:
        """Drop all pods but these."""
        for uid in self._concurrency.keys() - uids:
            self.put_pod(uid, None)

    def functions(self) -> dict[Function, tuple[Pod, ...]]:
        """The pods of each function that take requests. Pods without a known concurrency take none."""
        self._refresh()
        return {function: known.pods for function, known in self._known.items()}

    def unknown(self) -> dict[Function, int]:
        """Ready pods without a usable concurrency annotation, by function."""
        self._refresh()
        return {function: known.unknown for function, known in self._known.items()}

    def overflow(self) -> dict[Function, Burst]:
        """BurstFunctions whose requests may go to the emergency track."""
        return {function: burst for function, burst in self._burst_of.items() if burst.overflow}

    def service(self, function: Function) -> tuple[str, str] | None:
        """Name and uid of the function's Service; of several, any."""
        slices = self._by_function.get(function, {})
        return next((piece.service for piece in slices.values() if piece.service), None)

    def put_slice(self, uid: str, after: Slice | None) -> bool:
        """Set or, with None, drop a slice. True if anything changed."""
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

    def put_burst(self, uid: str, after: Burst | None) -> bool:
        """Set or, with None, drop a BurstFunction. True if anything changed."""
        before = self._bursts.pop(uid, None)
        if before is not None and self._burst_of.get(before.function) == before:
            del self._burst_of[before.function]
        if after is not None:
            self._bursts[uid] = self._burst_of[after.function] = after
        if after == before:
            return False
        changed = {burst.function for burst in (before, after) if burst is not None}
        self._stale |= {function for function in changed if function in self._by_function}
        return True

    def put_pod(self, uid: str, after: int | None) -> bool:
        """Set a pod's concurrency or, with None, drop the pod. True if anything changed."""
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
            known = self._known[function] = self._look(function, list(slices.values()))
            for uid in known.uids:
                self._functions_of.setdefault(uid, set()).add(function)
        self._stale.clear()

    def _look(self, function: Function, slices: list[Slice]) -> _Known:
        where: dict[str, tuple[str, int]] = {}
        for piece in sorted(slices, key=lambda piece: piece.order):
            for uid, address, port in piece.pods:
                where.setdefault(uid, (address, port))
        # A BurstFunction that is not there (yet) says what one says by default.
        usual = self._burst_of.get(function, Burst(function)).concurrency
        of_burst = {uid for piece in slices if piece.is_burst for uid, _, _ in piece.pods}
        takes = {uid: self._concurrency.get(uid, usual if uid in of_burst else None) for uid in where}
        pods = tuple(Pod(*where[uid], most) for uid in sorted(where) if (most := takes[uid]) is not None)
        return _Known(frozenset(where), pods, len(where) - len(pods))


@checked
def read_slice(obj: Json) -> Slice:
    meta = obj["metadata"]
    labels = meta["labels"]
    is_burst = BURST_FUNCTION in labels
    function = Function(meta["namespace"], labels[BURST_FUNCTION if is_burst else COMBOFUNC])
    return read_pieces(obj, function, is_burst=is_burst)


def read_pieces(obj: Json, function: Function, *, is_burst: bool) -> Slice:
    """The slice `obj` of the function's pods."""
    meta = obj["metadata"]
    order = (obj.get("addressType", ""), meta["namespace"], meta["name"])
    owners = (owner for owner in meta.get("ownerReferences") or () if owner["kind"] == "Service")
    service = next(((owner["name"], owner["uid"]) for owner in owners), None)
    port = _port(obj.get("ports") or [])
    if port is None:
        return Slice(function, is_burst, service, order, ())
    ready = (
        (endpoint["targetRef"]["uid"], endpoint["addresses"][0], port)
        for endpoint in obj.get("endpoints") or []
        # A missing `ready` means ready (discovery.k8s.io/v1, EndpointConditions).
        if (endpoint.get("conditions") or {}).get("ready") in (None, True)
        and (endpoint.get("targetRef") or {}).get("kind") == "Pod"
        and endpoint.get("addresses")
        and _is_address(endpoint["addresses"][0])
    )
    return Slice(function, is_burst, service, order, tuple(ready))


def _is_address(text: str) -> bool:
    """Slices of addressType FQDN hold names, and the zone of an IPv6 address may be any text."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def _port(ports: list[Json]) -> int | None:
    tcp = [p for p in ports if p.get("protocol", "TCP") == "TCP" and p.get("port")]
    named = [p for p in tcp if p.get("name") == _PORT] or tcp
    return int(named[0]["port"]) if named else None


def read_concurrency(pod: Json) -> int | None:
    """The pod's concurrency, or None without a usable annotation."""
    text = (pod["metadata"].get("annotations") or {}).get(CONCURRENCY)
    return integer(text, 1, _MOST_CONCURRENCY)


@checked
def read_burst(obj: Json) -> Burst:
    meta, spec = obj["metadata"], obj["spec"]
    status = obj.get("status") or {}
    regular = status.get("regular") or {}
    is_knative = (spec.get("targetRef") or {}).get("apiVersion", "").startswith(_KNATIVE)
    revision = (regular.get("revision") or "") if is_knative else ""
    concurrency = regular.get("concurrency", 1) if revision else spec.get("concurrency", 1)
    if not 1 <= concurrency <= _MOST_CONCURRENCY:
        raise ValueError(f"concurrency: must be from 1 to {_MOST_CONCURRENCY}, is {concurrency!r:.40}")
    conditions = status.get("conditions") or []
    overflow = any(one.get("type") == "Overflow" and one.get("status") == "True" for one in conditions)
    function = Function(meta["namespace"], meta["name"])
    return Burst(
        function,
        concurrency,
        overflow,
        spec.get("idempotent", False),
        is_knative,
        revision,
        str(status.get("observedTime", "")),
    )


@checked
def read_addresses(obj: Json) -> Addresses:
    found = (endpoint["addresses"][0] for endpoint in obj.get("endpoints") or [] if endpoint.get("addresses"))
    return Addresses(tuple(address for address in found if _is_address(address)))
