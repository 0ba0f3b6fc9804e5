"""The pods of Knative revisions, for BurstFunctions whose target is Knative's. Pure.

A BurstFunction's status names its revision (burst_plane writes it). The revision's pods are in the
EndpointSlices of its private Service, which Knative makes. Its public Service may name activators instead.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Any

from function_gateway.endpoints import Burst, Endpoints, Function, Slice, read_pieces
from surgekit.kube.checked import checked

__all__ = ["PRIVATE", "Revisions", "read_private_slice"]

Json = dict[str, Any]
Revision = tuple[str, str]  # namespace, name
# Labels that Knative puts on the Services of a revision (networking, pkg/apis/networking/register.go);
# Kubernetes copies them to the EndpointSlices.
PRIVATE = "networking.internal.knative.dev/serviceType=Private"
_REVISION = "networking.internal.knative.dev/serverlessservice"


class Revisions:
    """Between the watches and `Endpoints`: a function has its own slices of its revision's pods."""

    def __init__(self, endpoints: Endpoints, longest_silence_s: float) -> None:
        """After `longest_silence_s` without a new status of a BurstFunction its controller counts as gone.
        Requests then go Knative's own way: nobody else would wake the revision from zero."""
        self._endpoints, self._longest_s = endpoints, longest_silence_s
        self._slices: dict[Revision, dict[str, Slice]] = {}
        self._revision_of: dict[str, Revision] = {}  # by uid of a slice
        self._bursts: dict[str, Burst] = {}  # by uid, of Knative's
        self._routes: dict[str, tuple[Revision, Function]] = {}  # by uid; what Endpoints has
        self._heard_s: dict[str, float] = {}

    def keep_slices(self, uids: Set[str]) -> None:
        """Drop all slices but these."""
        for uid in self._revision_of.keys() - uids:
            self.put_slice(uid, None)

    def keep_bursts(self, uids: Set[str]) -> None:
        """Drop all BurstFunctions but these."""
        for uid in self._bursts.keys() - uids:
            self._forget(uid)
        self._endpoints.keep_bursts(uids)

    def put_slice(self, uid: str, after: Slice | None) -> bool:
        """Set or, with None, drop a slice of a private Service. True if anything changed."""
        changed = False
        before = self._revision_of.pop(uid, None)
        now = (after.function.namespace, after.revision) if after else None
        if before is not None:
            del self._slices[before][uid]
            if not self._slices[before]:
                del self._slices[before]
            if before != now:
                for function in self._functions_of(before):
                    changed |= self._endpoints.put_slice(_key(uid, function), None)
        if now is not None and after is not None:
            self._revision_of[uid] = now
            self._slices.setdefault(now, {})[uid] = after
            for function in self._functions_of(now):
                changed |= self._endpoints.put_slice(_key(uid, function), replace(after, function=function))
        return changed

    def put_burst(self, uid: str, after: Burst | None, now_s: float) -> bool:
        """Set or, with None, drop a BurstFunction. True if anything changed."""
        before = self._bursts.get(uid)
        if after is None or not after.is_knative:
            self._forget(uid)
        else:
            if before is None or before.observed != after.observed:
                self._heard_s[uid] = now_s
            self._bursts[uid] = after
        changed = self._endpoints.put_burst(uid, after)
        return self._follow(uid, now_s) or changed

    def look(self, now_s: float) -> bool:
        """Let go of functions whose controller is silent. True if anything changed."""
        changed = [self._follow(uid, now_s) for uid in self._bursts]
        return any(changed)

    def _follow(self, uid: str, now_s: float) -> bool:
        """Give a function the slices of the revision that it has now."""
        before, now = self._routes.get(uid), self._route(uid, now_s)
        if before == now:
            return False
        if before is not None:
            for slice_uid in self._slices.get(before[0], {}):
                self._endpoints.put_slice(_key(slice_uid, before[1]), None)
            del self._routes[uid]
        if now is not None:
            self._routes[uid] = now
            for slice_uid, piece in self._slices.get(now[0], {}).items():
                self._endpoints.put_slice(_key(slice_uid, now[1]), replace(piece, function=now[1]))
        return True

    def _route(self, uid: str, now_s: float) -> tuple[Revision, Function] | None:
        burst = self._bursts.get(uid)
        if burst is None or not burst.revision or now_s - self._heard_s[uid] > self._longest_s:
            return None
        return (burst.function.namespace, burst.revision), burst.function

    def _functions_of(self, revision: Revision) -> list[Function]:
        return [function for of, function in self._routes.values() if of == revision]

    def _forget(self, uid: str) -> None:
        self._bursts.pop(uid, None)
        self._heard_s.pop(uid, None)
        self._follow(uid, 0.0)


def _key(uid: str, function: Function) -> str:
    return f"revision/{uid}/{function.name}"


@checked
def read_private_slice(obj: Json) -> Slice:
    """Of a revision's private Service; its function is not known yet."""
    metadata = obj["metadata"]
    function = Function(metadata["namespace"], "")
    return replace(read_pieces(obj, function, is_burst=True), revision=metadata["labels"][_REVISION])
