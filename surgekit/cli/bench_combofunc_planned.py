"""ComboFunc's planner as a scaler of the simulated comparison; the lab itself does not know the parts."""

from __future__ import annotations

import time
from dataclasses import replace

from kwok.combofunc import model as lab
from kwok.combofunc.workload import Function
from scheduler_extender.planner.model import Container, Node, Size, Weights
from scheduler_extender.planner.planning import plan

__all__ = ["Planned", "planned"]


class Planned:
    """Asks the planner whenever it is asked itself, as the controller does."""

    def __init__(self, function: Function, weights: Weights) -> None:
        self._sizes = [Size(s.name, s.cpu_millicores, s.memory_bytes, s.concurrency) for s in function.sizes]
        self._by_name = {size.name: size for size in self._sizes}
        self._lab_sizes = {size.name: size for size in function.sizes}
        self._weights = weights

    def decide(self, state: lab.State, target: int) -> lab.Decision:
        began_s = time.perf_counter()
        found = plan(
            self._sizes,
            [
                Node(
                    n.name, n.cpu_millicores, n.memory_bytes, n.cpu_free_millicores, n.memory_free_bytes,
                    n.pods_free, n.creating, n.tau_create_s, n.tau_resize_s,
                )
                for n in state.nodes
            ],
            [
                Container(c.pod, c.node, self._by_name[c.size.name], c.ready and not c.resizing)
                for c in state.containers
            ],
            target,
            self._weights,
        )  # fmt: skip
        decided_s = time.perf_counter() - began_s
        actions: list[lab.Action] = [lab.Remove(c.pod) for c in found.removed]
        actions += [lab.Resize(r.container.pod, self._lab_sizes[r.to.name]) for r in found.resized]
        actions += [lab.Create(c.node, self._lab_sizes[c.size.name]) for c in found.created]
        return lab.Decision(actions, decided_s)


def planned(function: Function, in_place: bool, price_weight: float | None) -> Planned:
    """With the planner's own default where no weight is given."""
    weights = Weights(in_place=in_place)
    return Planned(function, weights if price_weight is None else replace(weights, price_weight=price_weight))
