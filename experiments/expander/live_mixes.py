"""The simulated mixes of `bench expander`, as a real Cluster Autoscaler can play them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from cluster_autoscaler_hook.catalogue import from_csv
from cluster_autoscaler_hook.expander.model import Template
from experiments.expander.live import Deployment, LiveMix
from experiments.expander.mixes import Mix, Shape, mix
from kwok.cluster_autoscaler import NodeGroup

__all__ = ["live_mixes"]

# The others need zones or anti-affinity by host name, which nodes of the KWOK provider do not have.
_SHAPES = (Shape.GENERAL, Shape.MEMORY, Shape.LIMITED, Shape.SMALL)


def live_mixes(seeds: Sequence[int]) -> list[LiveMix]:
    catalogue = from_csv(Path(str(files("cluster_autoscaler_hook") / "data" / "aws_eu_west_1.csv")))
    return [_live(mix(shape, seed, catalogue)) for shape in _SHAPES for seed in seeds]


def _live(drawn: Mix) -> LiveMix:
    return LiveMix(
        drawn.name,
        [_group(template, drawn) for template in drawn.templates],
        [
            Deployment(kind.demand.cpu_millis, kind.demand.memory_bytes, count)
            for kind, count in zip(drawn.kinds, drawn.pending, strict=True)
        ],
    )


def _group(template: Template, drawn: Mix) -> NodeGroup:
    pods = str(template.max_pods)
    return NodeGroup(
        template.group,
        {
            "cpu": f"{template.capacity_cpu_millis}m",
            "memory": str(template.capacity_memory_bytes),
            "pods": pods,
        },
        {"cpu": f"{template.cpu_millis}m", "memory": str(template.memory_bytes), "pods": pods},
        drawn.prices[template.group],
        drawn.room.get(template.group, 200),
    )
