"""Counts the containers of an app that still fit a node: cores, memory after aggregation, hard limits.

Used by the variants that fill nodes one after another (`paper` and the first fits)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from cluster_autoscaler_hook.solver.model import TOLERANCE, App, Container, InstanceClass, Node

__all__ = ["FillingNode"]

# Half of the verifier's tolerance: our sums are in floating point.
_ROOM = 1 + TOLERANCE / 2


@dataclass(slots=True)
class FillingNode:
    """A node while it is being filled, with the sums of its contents."""

    instance_class: InstanceClass
    counts: dict[str, int] = field(default_factory=dict)
    cores: float = 0.0
    memory_gib: float = 0.0
    running: int = 0  # containers after aggregation

    def fitting(
        self, app: App, container: Container, most: int, instance_class: InstanceClass | None = None
    ) -> int:
        """The number of minimum-size containers that still fit, up to `most`; with `instance_class`, as if
        the node were of that class. Searched downwards, because memory after aggregation is not monotone: 8
        more can fit where 7 do not."""
        node_class, aggregation = instance_class or self.instance_class, container.aggregation
        have = self.counts.get(app.name, 0)
        if container.cores > 0:
            free = node_class.cores * _ROOM - self.cores
            most = math.floor(min(most, free / container.cores))
        if app.max_per_node is not None:
            most = min(most, app.max_per_node - have)
        if most < 1:
            return 0
        memory = node_class.memory_gib * _ROOM - self.memory_gib + aggregation.memory_of(have)
        if container.least_memory_gib > 0:
            most = math.floor(min(most, memory / container.least_memory_gib * _ROOM - have))
        containers = None
        if node_class.max_containers is not None:
            containers = node_class.max_containers - self.running + aggregation.running(have)
            most = min(most, containers * container.levels[-1] - have)
        for count in range(most, 0, -1):
            if aggregation.memory_of(have + count) <= memory and (
                containers is None or aggregation.running(have + count) <= containers
            ):
                return count
        return 0

    def add(self, app: App, container: Container, count: int) -> None:
        if count == 0:
            return
        have, aggregation = self.counts.get(app.name, 0), container.aggregation
        self.cores += count * container.cores
        self.memory_gib += aggregation.memory_of(have + count) - aggregation.memory_of(have)
        self.running += aggregation.running(have + count) - aggregation.running(have)
        self.counts[app.name] = have + count

    def fill(self, app: App, container: Container, most: int) -> int:
        """Add as many containers as fit, up to `most`; return their number."""
        count = self.fitting(app, container, most)
        self.add(app, container, count)
        return count

    def on(self, instance_class: InstanceClass) -> FillingNode:
        """A copy with another class of the same family, where containers are the same."""
        return replace(self, instance_class=instance_class, counts=dict(self.counts))

    def frozen(self) -> Node:
        return Node(self.instance_class.name, dict(self.counts))
