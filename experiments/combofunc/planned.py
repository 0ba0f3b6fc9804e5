"""ComboFunc's planner as a scaler of the simulated comparison; the lab itself does not know the parts."""

from __future__ import annotations

from dataclasses import replace

from cluster_model.contention import MEASURED
from combofunc.planner.idle import keep_idle
from combofunc.planner.model import Container, Node, PlanRequest, Size, Weights
from combofunc.planner.planning import plan
from combofunc.reconcile.held_target import RecentTargets, ends_at_s, held_target, idle_until_s, note_target
from experiments.combofunc import model as lab
from experiments.combofunc.workload import Function

__all__ = ["Planned", "planned"]


class Planned:
    """Plans whenever it is asked; the controller keeps a plan for as long as the held target stays."""

    def __init__(self, function: Function, weights: Weights, keep_warm_s: float) -> None:
        self._sizes = [Size(s.name, s.cpu_millicores, s.memory_bytes, s.concurrency) for s in function.sizes]
        self._by_name = {size.name: size for size in self._sizes}
        self._lab_sizes = {size.name: size for size in function.sizes}
        self._weights, self._keep_warm_s = weights, keep_warm_s
        self._recent: RecentTargets = ()
        self._idle_until_s = 0.0

    def decide(self, state: lab.State, target: int) -> lab.Decision:
        keep_s = 0.0 if state.others_short else self._keep_warm_s
        before, now_s = self._recent, state.now_s
        self._recent = note_target(before, target, state.concurrency, keep_s, now_s)
        self._idle_until_s = idle_until_s(before, self._recent, self._idle_until_s, keep_s, now_s)
        nodes = [
            Node(
                n.name, n.cpu_millicores, n.memory_bytes, n.cpu_free_millicores, n.memory_free_bytes,
                n.pods_free, n.creating, n.tau_create_s, n.tau_resize_s,
            )
            for n in state.nodes
        ]  # fmt: skip
        containers = [
            Container(c.pod, c.node, self._by_name[c.size.name], c.ready and not c.resizing)
            for c in state.containers
        ]
        held = held_target(self._recent)
        request = PlanRequest(self._sizes, nodes, containers, held, self._weights, MEASURED)
        found = plan(request)
        ends_s = ends_at_s(self._recent, keep_s)
        if now_s < self._idle_until_s:
            found = keep_idle(found, request)
            ends_s = min(ends_s, self._idle_until_s)
        actions: list[lab.Action] = [lab.Remove(c.pod) for c in found.removed]
        actions += [lab.Resize(r.container.pod, self._lab_sizes[r.to.name]) for r in found.resized]
        actions += [lab.Create(c.node, self._lab_sizes[c.size.name]) for c in found.created]
        keeps_warm = held > target or now_s < self._idle_until_s
        return lab.Decision(actions, again_at_s=ends_s, keeps_warm=keeps_warm)


def planned(function: Function, in_place: bool, price_weight: float | None, keep_warm_s: float) -> Planned:
    """With the planner's own default where no weight is given."""
    weights = Weights(in_place=in_place)
    if price_weight is not None:
        weights = replace(weights, price_weight=price_weight)
    return Planned(function, weights, keep_warm_s)
