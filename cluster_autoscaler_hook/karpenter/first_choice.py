"""Estimates what Karpenter's own provisioner would rent first for the same pods.

This is its choice before consolidation, with one pool of the same classes. It follows Karpenter v1.14.1,
pkg/controllers/provisioning/scheduling:

- Pods are sorted by CPU, then memory, largest first (queue.go, byCPUAndMemoryDescending).
- A pod goes to the planned node with the fewest pods that can take it, else to a new one (scheduler.go, add).
- A planned node keeps every class that fits all its pods (nodeclaim.go, CanAdd), so it grows until the
  largest class is full. That is why Karpenter rents few, large nodes.
- At the end each node is launched with the cheapest class left, as for on-demand capacity.

Not modelled: weights and limits of pools, preferences, spread, minValues, spot; and kube-scheduler, which
does not follow this packing: pods that then fit nowhere get further nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from cluster_autoscaler_hook.karpenter.model import Kind, Offer

__all__ = ["FirstChoice", "first_choice"]


@dataclass(frozen=True)
class FirstChoice:
    cost_per_hour: float
    classes: Mapping[str, int]  # class -> nodes


@dataclass
class _PlannedNode:
    options: list[Offer]
    cpu_millicores: int = 0
    memory_bytes: int = 0
    pods: int = 0
    exclusive: set[str] = field(default_factory=set)

    def add(self, kind: Kind) -> bool:
        """Add the pod if some class can still hold all; return whether it was added."""
        if not self.exclusive.isdisjoint(kind.exclusive):
            return False
        cpu, memory = self.cpu_millicores + kind.cpu_millicores, self.memory_bytes + kind.memory_bytes
        options = [
            offer
            for offer in self.options
            if cpu <= offer.cpu_millicores
            and memory <= offer.memory_bytes
            and self.pods < offer.pods
            and kind.allows(offer.labels)
        ]
        if options:
            self.options, self.cpu_millicores, self.memory_bytes = options, cpu, memory
            self.pods += 1
            self.exclusive.update(kind.exclusive)
        return bool(options)


def first_choice(counts: Mapping[Kind, int], offered: Collection[Offer]) -> FirstChoice:
    """Rent for `counts` pods of each kind. Pods that no class can hold get no node."""
    nodes: list[_PlannedNode] = []
    for kind in sorted(counts, key=lambda kind: (-kind.cpu_millicores, -kind.memory_bytes, kind.id)):
        refused: set[int] = set()  # a node that refused one pod of a kind refuses all
        for _ in range(counts[kind]):
            # A stable sort in place, as Karpenter does: ties keep their order from the last time.
            nodes.sort(key=lambda node: node.pods)
            for node in nodes:
                if id(node) not in refused:
                    if node.add(kind):
                        break
                    refused.add(id(node))
            else:
                node = _PlannedNode(list(offered))
                if not node.add(kind):
                    break
                nodes.append(node)
    launched = [min(node.options, key=lambda offer: (offer.price_per_hour, offer.name)) for node in nodes]
    cost = sum(offer.price_per_hour for offer in launched)
    return FirstChoice(cost, dict(sorted(Counter(offer.instance_class for offer in launched).items())))
