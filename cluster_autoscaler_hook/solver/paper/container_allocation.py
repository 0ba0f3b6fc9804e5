"""Phase 3: Algorithm 1. Places containers on nodes in up to five attempts: within the SFMPL, then beyond it,
then by promoting nodes, finally by adding nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cluster_autoscaler_hook.solver.model import TOLERANCE, App, Container, InstanceClass, Problem
from cluster_autoscaler_hook.solver.node_filling import FillingNode

__all__ = ["PlacedNode", "allocate", "most_by_sfmpl"]


@dataclass(slots=True)
class PlacedNode:
    filling: FillingNode
    # The node before its last promotion, to which the final optimisation reverts.
    before_promotion: FillingNode | None = None


def allocate(
    problem: Problem, nodes: Mapping[str, int], containers: Mapping[tuple[str, str], int]
) -> list[PlacedNode]:
    """`nodes` by class and `containers` by (app, family), as phases 1 and 2 leave them."""
    placed: list[PlacedNode] = []
    for family in dict.fromkeys(c.family for c in problem.classes):
        placed += _Family(problem, family).allocate(nodes, containers)
    return placed


def most_by_sfmpl(app: App, container: Container) -> int:
    """Eq. 9. At least one, since fewer cannot be placed; all of them without an SFMPL."""
    if app.sfmpl >= 1:
        return math.ceil(app.workload / container.performance * (1 - TOLERANCE))
    return max(1, math.floor(app.sfmpl * app.workload / container.performance * (1 + TOLERANCE)))


class _Family:
    """One run of Algorithm 1, within a root family."""

    def __init__(self, problem: Problem, family: str) -> None:
        self._problem = problem
        self._family = family
        self._classes = sorted(
            (c for c in problem.classes if c.family == family), key=lambda c: (c.price_per_hour, c.name)
        )
        self._nodes: list[PlacedNode] = []

    def allocate(
        self, nodes: Mapping[str, int], containers: Mapping[tuple[str, str], int]
    ) -> list[PlacedNode]:
        self._nodes = [
            PlacedNode(FillingNode(c))
            for c in sorted(self._classes, key=lambda c: (c.cores, c.name))
            for _ in range(nodes.get(c.name, 0))
        ]
        mine = [
            (app, self._problem.containers[app.name, self._family], containers[app.name, self._family])
            for app in self._problem.apps
            if (app.name, self._family) in containers
        ]
        for app, container, count in sorted(mine, key=lambda row: (-row[1].cores, row[0].name)):
            left = self._on_present_nodes(app, container, count)
            left = self._by_promotion(app, container, left)
            self._by_addition(app, container, left)
        return self._nodes

    def _on_present_nodes(self, app: App, container: Container, left: int) -> int:
        """Attempts 1 to 3. Return the containers that are left."""
        wish = most_by_sfmpl(app, container)
        if app.max_per_node is not None:
            wish = min(wish, app.max_per_node)
        full, partly = [], []
        for node in self._nodes:  # 1: as many as the SFMPL allows, which needs least memory
            allocatable = node.filling.fitting(app, container, max(wish, left))
            if allocatable >= wish:
                left -= node.filling.fill(app, container, min(wish, left))
                full.append(node)
            elif allocatable:
                partly.append((allocatable, node))
            if left == 0:
                return 0
        # 2: fewer on a node. 3: more than the SFMPL allows.
        partly.sort(key=lambda row: -row[0])
        for node in [node for _, node in partly] + full:
            left -= node.filling.fill(app, container, left)
            if left == 0:
                return 0
        return left

    def _by_promotion(self, app: App, container: Container, left: int) -> int:
        """Attempt 4. Return the containers that are left."""
        while left:
            promotion = self._cheapest_promotion(app, container, left)
            if promotion is None:
                return left
            node, instance_class = promotion
            node.before_promotion = node.filling
            node.filling = node.filling.on(instance_class)
            left -= node.filling.fill(app, container, left)
        return 0

    def _cheapest_promotion(
        self, app: App, container: Container, left: int
    ) -> tuple[PlacedNode, InstanceClass] | None:
        """The class of the family, with any memory, that fits a node's containers and one more at the lowest
        rise in cost."""
        best, rise = None, math.inf
        seen = set()
        for node in self._nodes:
            now = node.filling.instance_class
            alike = (now.name, tuple(sorted(node.filling.counts.items())))
            if alike in seen:
                continue
            seen.add(alike)
            for c in self._classes:  # by price
                if c.price_per_hour - now.price_per_hour >= rise:
                    break
                if c is not now and _is_higher(c, now) and node.filling.fitting(app, container, left, c):
                    best, rise = (node, c), c.price_per_hour - now.price_per_hour
                    break
        return best

    def _by_addition(self, app: App, container: Container, left: int) -> None:
        """Attempt 5: add the class that fits most containers, as often as it is filled, then the next
        class."""
        capacity: dict[int, InstanceClass] = {}
        for c in self._classes:  # by price: the cheapest of the classes that fit equally many
            count = FillingNode(c).fitting(app, container, left)
            if count:
                capacity.setdefault(count, c)
        for count in sorted(capacity, reverse=True):
            for _ in range(left // count):
                left -= self._add(app, container, count, capacity[count])
        while left:  # fewer than the smallest class fits
            cheapest = min(
                (c for c in self._classes if FillingNode(c).fitting(app, container, left)),
                key=lambda c: c.price_per_hour / FillingNode(c).fitting(app, container, left),
            )
            left -= self._add(app, container, left, cheapest)

    def _add(self, app: App, container: Container, count: int, instance_class: InstanceClass) -> int:
        node = PlacedNode(FillingNode(instance_class))
        self._nodes.append(node)
        return node.filling.fill(app, container, count)


def _is_higher(promoted: InstanceClass, now: InstanceClass) -> bool:
    return promoted.cores > now.cores or promoted.memory_gib > now.memory_gib
