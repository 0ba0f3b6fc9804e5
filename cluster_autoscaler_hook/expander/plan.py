"""Turns the pending pods into FCMA's problem: their price if classes could be mixed freely.

An app is a kind of pod, and its workload is the number of pods. So each container has performance 1, and
nothing aggregates. Node groups that help the same kinds form one family, where a container is the same.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster_autoscaler_hook.expander.model import Kind, Template
from cluster_autoscaler_hook.expander.scale_up_request import ScaleUpRequest
from cluster_autoscaler_hook.solver.model import App, Container, InstanceClass, Problem, Solution

__all__ = ["Solve", "as_problem"]

Solve = Callable[[Problem, float], Solution]

_GIB = 1 << 30


def as_problem(request: ScaleUpRequest) -> Problem:
    """Raise InvalidProblem or InfeasibleProblem, as `Problem` does."""
    offer, prices, cpus_per_core = request.offer, request.prices.by_group, request.prices.cpus_per_core
    templates = [request.overhead.off(offer.templates[option.group]) for option in request.priced_options]
    helped = {
        template.group: tuple(
            i for i, kind in enumerate(offer.kinds) if template.group in kind.groups and offer.pending[i]
        )
        for template in templates
    }
    family = {kinds: f"family-{i}" for i, kinds in enumerate(dict.fromkeys(helped.values()))}
    classes = tuple(
        InstanceClass(
            template.group,
            family[helped[template.group]],
            template.cpu_millis / 1000 / cpus_per_core,
            template.memory_bytes / _GIB,
            prices[template.group].per_hour,
            template.max_pods,
        )
        for template in templates
    )
    of_kind = {kind for kinds in family for kind in kinds}
    return Problem(
        tuple(
            App(_name(i), float(offer.pending[i]), max_per_node=_most_on_a_node(offer.kinds[i], templates))
            for i in sorted(of_kind)
        ),
        classes,
        {
            (_name(kind), name): Container(
                offer.kinds[kind].demand.cpu_millis / 1000 / cpus_per_core,
                1.0,
                (1,),
                (offer.kinds[kind].demand.memory_bytes / _GIB,),
            )
            for kinds, name in family.items()
            for kind in kinds
        },
    )


def _name(kind: int) -> str:
    return f"kind-{kind}"


def _most_on_a_node(kind: Kind, templates: list[Template]) -> int | None:
    """FCMA knows only CPU and memory. GPUs and the like limit the pods on a node, by the largest group."""
    if kind.demand.alone:
        return 1
    if not kind.demand.others:
        return None
    room = (
        min(template.others.get(name, 0) // amount for name, amount in kind.demand.others)
        for template in templates
        if template.group in kind.groups
    )
    return max(1, *room)
