"""The sizes that functions are asked for, as NodePlans have them. Owned by one thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from combofunc.labels import MAX_CONCURRENCY

__all__ = ["ChosenSizeTable", "read_requests"]

Json = dict[str, Any]
# By function's uid and batch: number of pods by name of size.
_Requests = Mapping[str, Mapping[str, Mapping[str, int]]]


def read_requests(obj: Json) -> _Requests:
    """A request that makes no sense is left out."""
    found: dict[str, dict[str, Mapping[str, int]]] = {}
    for entry in (obj.get("status") or {}).get("sizeRequests") or ():
        try:
            function, batch, sizes = str(entry["function"]), str(entry["batch"]), dict(entry["sizes"])
        except (LookupError, TypeError, ValueError):
            continue
        counts = [count for count in sizes.values() if isinstance(count, int) and count > 0]
        if sizes and len(counts) == len(sizes) and sum(counts) <= MAX_CONCURRENCY:
            found.setdefault(function, {})[batch] = sizes
    return found


class ChosenSizeTable:
    def __init__(self) -> None:
        self._of: dict[str, _Requests] = {}  # by NodePlan

    def put(self, node_plan: str, requests: _Requests) -> set[str]:
        """Returns the uids of the functions to reconcile."""
        before = self._of.pop(node_plan, {})
        if requests:
            self._of[node_plan] = requests
        return {uid for uid, asked in requests.items() if before.get(uid) != asked}

    @property
    def node_plans(self) -> set[str]:
        return set(self._of)

    def of(self, function: str) -> Mapping[str, Mapping[str, int]]:
        """By batch."""
        return {
            batch: sizes
            for requests in self._of.values()
            for batch, sizes in requests.get(function, {}).items()
        }
