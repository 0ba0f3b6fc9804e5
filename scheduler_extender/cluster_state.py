"""The cluster as the extender sees it: nodes, what is bound to them, what it presumes will be.

An extender without `bind` is never told the scheduler's choice, and a binding reaches the watch only
later; so every answer presumes that its best node was taken. A presumption ends when the binding is
seen (wherever it went), or after `presume_s` if it never is.

Owned by one thread. Time is an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from scheduler_extender.cost import NodeColumns
from scheduler_extender.model import PodToPlace

__all__ = ["ClusterState", "NodeFacts", "PodFacts", "SpeedFacts"]

Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class NodeFacts:
    name: str
    cpu_millicores: float
    memory_bytes: float
    images: frozenset[str]


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod bound to a node and not finished."""

    uid: str
    node: str
    cpu_millicores: float
    memory_bytes: float
    creating: bool


@dataclass(frozen=True, slots=True)
class SpeedFacts:
    """A NodeSpeed's status."""

    node: str
    tau_create_s: float
    image_pulls_s: dict[str, float]


@dataclass(slots=True)
class _Held:
    row: int
    cpu_millicores: float
    memory_bytes: float
    creating: int


class ClusterState:
    def __init__(
        self, *, presume_s: float, creation_limit_s: float, max_speed_age_s: float, default_tau_create_s: float,
        default_image_pull_s: float,
    ) -> None:  # fmt: skip
        self._presume_s, self._creation_limit_s = presume_s, creation_limit_s
        self._max_speed_age_s = max_speed_age_s
        self._default_tau_s, self._default_pull_s = default_tau_create_s, default_image_pull_s
        self._row_of: dict[str, int] = {}
        self._names: list[str] = []
        self._known: dict[str, int] = {}  # the rows of nodes that exist
        self._images: list[frozenset[str]] = []
        self._image_rows: dict[str, NDArray[np.bool_]] = {}  # built when an image is first asked for
        self._pulls_s: dict[str, dict[str, float]] = {}  # image -> node -> seconds
        self._bound: dict[str, _Held] = {}
        self._presumed: dict[str, tuple[_Held, float]] = {}  # in order of expiry: one duration for all
        self._creating_until: deque[tuple[float, str]] = deque()
        self._peer_tau_s, self._peers_due = default_tau_create_s, False
        self._allocate(64)

    def _allocate(self, rows: int) -> None:
        def grown(name: str, fill: float) -> NDArray[np.float64]:
            column = np.full(rows, fill)
            old = getattr(self, name, None)
            if old is not None:
                column[: len(old)] = old
            return column

        self._cpu_total = grown("_cpu_total", 0.0)
        self._memory_total = grown("_memory_total", 0.0)
        self._cpu_used = grown("_cpu_used", 0.0)
        self._memory_used = grown("_memory_used", 0.0)
        self._creating = grown("_creating", 0.0)
        self._tau_s = grown("_tau_s", np.nan)
        self._tau_at_s = grown("_tau_at_s", -np.inf)
        self._tie = np.random.default_rng(0).permutation(rows) / rows
        self._image_rows.clear()

    def _row(self, name: str) -> int:
        row = self._row_of.get(name)
        if row is None:
            row = self._row_of[name] = len(self._names)
            self._names.append(name)
            self._images.append(frozenset())
            if row >= len(self._cpu_total):
                self._allocate(2 * row)
        return row

    # --- what the watches tell ---

    def put_node(self, node: NodeFacts) -> None:
        row = self._row(node.name)
        self._known[node.name] = row
        self._cpu_total[row], self._memory_total[row] = node.cpu_millicores, node.memory_bytes
        if self._images[row] != node.images:
            for image in self._images[row] ^ node.images:
                if image in self._image_rows:
                    self._image_rows[image][row] = image in node.images
            self._images[row] = node.images

    def drop_node(self, name: str) -> None:
        """The row stays: a node of that name may come back, and pods may still be leaving it."""
        row = self._known.pop(name, None)
        if row is not None:
            self._cpu_total[row] = self._memory_total[row] = 0.0
            self.drop_speed(name)

    def replace_nodes(self, nodes: Sequence[NodeFacts]) -> None:
        for name in self._known.keys() - {n.name for n in nodes}:
            self.drop_node(name)
        for node in nodes:
            self.put_node(node)

    def put_pod(self, pod: PodFacts, now_s: float) -> None:
        self._forget_presumed(pod.uid)
        before = self._bound.get(pod.uid)
        if before is not None:
            was_creating = before.creating
            self._release(before)
        else:
            was_creating = 1
            if pod.creating:
                self._creating_until.append((now_s + self._creation_limit_s, pod.uid))
        # Once it has counted as created (or as hung), a pod does not count as contention again.
        creating = int(pod.creating and was_creating > 0)
        held = _Held(self._row(pod.node), pod.cpu_millicores, pod.memory_bytes, creating)
        self._bound[pod.uid] = held
        self._hold(held)

    def drop_pod(self, uid: str) -> None:
        self._forget_presumed(uid)
        held = self._bound.pop(uid, None)
        if held is not None:
            self._release(held)

    def replace_pods(self, pods: Sequence[PodFacts], now_s: float) -> None:
        for uid in self._bound.keys() - {p.uid for p in pods}:
            self.drop_pod(uid)
        for pod in pods:
            self.put_pod(pod, now_s)

    def put_speed(self, speed: SpeedFacts, now_s: float) -> None:
        row = self._row(speed.node)
        self._tau_s[row], self._tau_at_s[row] = speed.tau_create_s, now_s
        for image, seconds in speed.image_pulls_s.items():
            self._pulls_s.setdefault(image, {})[speed.node] = seconds
        self._peers_due = True

    def drop_speed(self, name: str) -> None:
        row = self._row_of.get(name)
        if row is not None:
            self._tau_s[row], self._tau_at_s[row] = np.nan, -np.inf
            self._peers_due = True
        for pulls in self._pulls_s.values():
            pulls.pop(name, None)

    def replace_speeds(self, speeds: Sequence[SpeedFacts], now_s: float) -> None:
        for name in self._row_of.keys() - {s.node for s in speeds}:
            self.drop_speed(name)
        for speed in speeds:
            self.put_speed(speed, now_s)

    # --- what the extender itself causes ---

    def presume(self, pod: PodToPlace, node: str, now_s: float) -> None:
        if pod.uid in self._bound:
            return
        self._forget_presumed(pod.uid)
        held = _Held(self._row(node), pod.cpu_millicores, pod.memory_bytes, pod.containers > 0)
        self._presumed[pod.uid] = (held, now_s + self._presume_s)
        self._hold(held)

    def forget(self, uid: str) -> None:
        """The pod is being placed anew: what was presumed of it no longer holds."""
        self._forget_presumed(uid)

    def expire(self, now_s: float) -> int:
        """Drop presumptions that never came true, and hung creations; how many presumptions."""
        expired = 0
        while self._presumed:
            uid, (_, until_s) = next(iter(self._presumed.items()))
            if until_s > now_s:
                break
            self._forget_presumed(uid)
            expired += 1
        while self._creating_until and self._creating_until[0][0] <= now_s:
            held = self._bound.get(self._creating_until.popleft()[1])
            if held is not None and held.creating:
                self._creating[held.row] -= held.creating
                held.creating = 0
        return expired

    def _forget_presumed(self, uid: str) -> None:
        found = self._presumed.pop(uid, None)
        if found is not None:
            self._release(found[0])

    def _hold(self, held: _Held) -> None:
        self._cpu_used[held.row] += held.cpu_millicores
        self._memory_used[held.row] += held.memory_bytes
        self._creating[held.row] += held.creating

    def _release(self, held: _Held) -> None:
        self._cpu_used[held.row] -= held.cpu_millicores
        self._memory_used[held.row] -= held.memory_bytes
        self._creating[held.row] -= held.creating

    # --- what the decision reads ---

    def rows(self, names: Sequence[str]) -> Rows:
        """Rows of those nodes that are known."""
        try:
            return np.fromiter(map(self._known.__getitem__, names), np.intp, len(names))
        except KeyError:  # rare: a node the scheduler saw before we did
            return np.array([self._known[name] for name in names if name in self._known], dtype=np.intp)

    def columns(self, rows: Rows, images: Sequence[str], now_s: float) -> NodeColumns:
        cpu_total, memory_total = self._cpu_total[rows], self._memory_total[rows]
        fresh = self._tau_at_s[rows] > now_s - self._max_speed_age_s
        pull_s = np.zeros(len(rows))
        for image in images:
            pull_s += np.where(self._has_image(image)[rows], 0.0, self.image_pull_s(image))
        return NodeColumns(
            cpu_free_share=_share(cpu_total - self._cpu_used[rows], cpu_total),
            memory_free_share=_share(memory_total - self._memory_used[rows], memory_total),
            tau_create_s=np.where(fresh, self._tau_s[rows], self._peers()),
            creating=self._creating[rows],
            image_pull_s=pull_s,
        )

    def tie_break(self, rows: Rows, seed: int) -> NDArray[np.float64]:
        """An order of the nodes of its own for every seed (a pod's uid)."""
        return self._tie[(rows + seed) % len(self._tie)]

    def image_pull_s(self, image: str) -> float:
        """I_p: what the image took to pull where it was seen; else what other images took; else a default."""
        seen = self._pulls_s.get(image)
        if seen:
            return median(seen.values())
        others = [s for pulls in self._pulls_s.values() for s in pulls.values()]
        return median(others) if others else self._default_pull_s

    def name(self, row: int) -> str:
        return self._names[row]

    def node_of(self, uid: str) -> str | None:
        """Where the watch saw the pod bound."""
        held = self._bound.get(uid)
        return self._names[held.row] if held else None

    @property
    def counts(self) -> dict[str, int]:
        return {"nodes": len(self._known), "bound": len(self._bound), "presumed": len(self._presumed)}

    def _peers(self) -> float:
        """tau of a node nobody measured: the median of those that were."""
        if self._peers_due:
            known = self._tau_s[np.isfinite(self._tau_s)]
            self._peer_tau_s = float(np.median(known)) if len(known) else self._default_tau_s
            self._peers_due = False
        return self._peer_tau_s

    def _has_image(self, image: str) -> NDArray[np.bool_]:
        rows = self._image_rows.get(image)
        if rows is None:
            rows = np.zeros(len(self._cpu_total), dtype=np.bool_)
            for row, present in enumerate(self._images):
                rows[row] = image in present
            if len(self._image_rows) >= 256:
                self._image_rows.pop(next(iter(self._image_rows)))
            self._image_rows[image] = rows
        return rows


def _share(free: NDArray[np.float64], total: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.clip(free / np.maximum(total, 1e-9), 0.0, 1.0)
