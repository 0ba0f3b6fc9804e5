"""The extender's decisions about pods, held until it is known where the scheduler put each pod. Pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any

from cluster_view.decisions import placement_told
from cluster_view.text import plain

__all__ = ["Placements"]

Json = dict[str, Any]
_BINDS_S = 3.0  # how long the choice of the scheduler is waited for
_MOST_WAITING, _MOST_TAKEN = 1_000, 5_000


class Placements:
    def __init__(self) -> None:
        self._waiting: deque[tuple[str, Json, float]] = deque(maxlen=_MOST_WAITING)  # pod, decision, until
        self._taken: OrderedDict[tuple[str, float], None] = OrderedDict()  # uid and time of each

    def put(self, said: Json, at_s: float) -> None:
        """Take a decision, once however often it is heard.

        Raises LookupError, TypeError or ValueError if it is not what the extender says.
        """
        about = placement_told(said).about
        identity = plain(said["pod"]["uid"]), float(said["decided_at"])
        if identity in self._taken:
            return
        self._taken[identity] = None
        if len(self._taken) > _MOST_TAKEN:
            self._taken.popitem(last=False)
        self._waiting.append((f"{about['namespace']}/{about['name']}", said, at_s + _BINDS_S))

    def due(self, at_s: float, node_of: Callable[[str], str]) -> Iterator[tuple[str, Json]]:
        """Pods and decisions that can be told; `bound_to` is the node, where it is known by now."""
        for _ in range(len(self._waiting)):
            pod, said, until_s = self._waiting.popleft()
            if node := node_of(pod):
                yield pod, said | {"bound_to": node}
            elif at_s >= until_s:
                yield pod, said
            else:
                self._waiting.append((pod, said, until_s))
