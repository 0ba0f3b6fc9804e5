"""Which pods kube-scheduler puts on new nodes, and which stay pending.

Cluster Autoscaler counts nodes by packing them full. kube-scheduler spreads: it takes pods in queue order and
prefers the emptiest node, so small pods take room on every node and large ones later find none. Pods that
stay pending lead to another scale-up.

Only the new nodes are looked at: a pending pod fits on no older one. They are taken to become Ready together.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from cluster_autoscaler_hook.expander.caller_model import Overhead
from cluster_autoscaler_hook.expander.model import Kind, Template
from cluster_autoscaler_hook.expander.stock_scheduler import PodKinds, ScoredNodes, place
from cluster_autoscaler_hook.solver.deadline import Deadline

__all__ = ["new_nodes", "shuffled_order", "spread"]

_CHECK_EVERY = 64


def new_nodes(template: Template, overhead: Overhead, kinds: Sequence[Kind], count: int) -> ScoredNodes:
    """`count` nodes of one group that run their DaemonSets and nothing else."""
    names = sorted({name for kind in kinds for name, _ in kind.demand.others})
    requests = [
        [k.demand.cpu_millis, k.demand.memory_bytes, 1, *(dict(k.demand.others).get(n, 0) for n in names)]
        for k in kinds
    ]
    pods = PodKinds(
        np.array(requests, dtype=np.int64).reshape(len(kinds), 3 + len(names)),
        np.array([kind.demand.alone for kind in kinds], dtype=bool),
        np.array([template.group in kind.groups for kind in kinds], dtype=bool),
    )
    own = overhead.off(template)
    free = [own.cpu_millis, own.memory_bytes, own.max_pods, *(template.others.get(n, 0) for n in names)]
    return ScoredNodes.alike(pods, [template.cpu_millis, template.memory_bytes], free, count)


def spread(
    nodes: ScoredNodes, order: Sequence[int], draw: random.Random, deadline: Deadline | None = None
) -> dict[int, int]:
    """Number of pods of each kind that find a place, tried in `order`; cut short by the deadline."""

    def late(position: int) -> bool:
        return deadline is not None and position % _CHECK_EVERY == 0 and deadline.reached()

    return dict(Counter(kind for kind, _ in place(nodes, order, draw, late)))


def shuffled_order(counts: Mapping[int, int], draw: random.Random) -> list[int]:
    """A queue in which the pods of all Deployments are mixed at random."""
    order = [kind for kind, count in counts.items() for _ in range(count)]
    draw.shuffle(order)
    return order
