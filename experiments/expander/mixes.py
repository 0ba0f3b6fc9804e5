"""Seeded clusters and workloads for simulated scale-ups.

Node groups are drawn from the FCMA paper's AWS price table, less what EKS reserves on a node. Requests and
replica counts of deployments spread over the orders of magnitude that clusters have.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cluster_autoscaler_hook.catalogue import Catalogue, CatalogueEntry
from cluster_autoscaler_hook.expander.caller_model import Overhead
from cluster_autoscaler_hook.expander.model import Demand, Kind, Template

__all__ = ["Mix", "Shape", "mix"]

_GIB, _MIB = 1 << 30, 1 << 20
# A network agent, kube-proxy, a log shipper and a metrics agent.
_DAEMONSETS = Overhead(cpu_millis=200, memory_bytes=300 * _MIB, pods=4)
_LARGEST_CPUS = 64


class Shape(StrEnum):
    GENERAL = "general"  # any deployment on any group that it fits
    MEMORY = "memory"  # 4 to 16 GiB a CPU
    TIED = "tied"  # a third of the deployments to an architecture, a third to a zone
    APART = "apart"  # a third of the deployments one pod a node
    LIMITED = "limited"  # groups that can grow by a few nodes only
    SMALL = "small"  # a deployment or two, a few pods: the everyday scale-up


@dataclass(frozen=True, slots=True)
class Mix:
    name: str
    templates: Sequence[Template]
    prices: Mapping[str, float]
    kinds: Sequence[Kind]
    pending: Sequence[int]
    room: Mapping[str, int]
    overhead: Overhead = _DAEMONSETS


def mix(shape: Shape, seed: int, catalogue: Catalogue) -> Mix:
    rng = random.Random(f"{shape}-{seed}")
    cpus = catalogue.cpus_per_core
    classes = [entry for entry in catalogue.entries.values() if entry.cores * cpus <= _LARGEST_CPUS]
    chosen = sorted(rng.sample(classes, rng.randint(5, 20)), key=lambda entry: entry.instance_class)
    if shape is Shape.TIED:  # an architecture and a zone each need a group that fits
        chosen = sorted({*chosen, *rng.sample(_largest(classes), 8)}, key=lambda entry: entry.instance_class)
    templates, zone = [], {}
    for entry in chosen:
        template = _template(entry, cpus)
        templates.append(template)
        zone[template.group] = rng.choice("abc")
    kinds, pending = [], []
    for _ in range(rng.randint(1, 2) if shape is Shape.SMALL else rng.randint(3, 12)):
        demand = _demand(shape, rng)
        allowed = _allowed(shape, rng, templates, zone)
        groups = frozenset(t.group for t in templates if t.group in allowed and _fits(demand, t))
        if not groups:
            continue
        kinds.append(Kind(demand, groups))
        pending.append(rng.randint(1, 8) if shape is Shape.SMALL else round(10 ** rng.uniform(0, 2)))
    room = {}
    if shape is Shape.LIMITED:  # except the largest: every policy must be able to place every pod
        unlimited = {max(templates, key=size).group for size in (_cpus, _bytes)}
        room = {t.group: rng.randint(1, 12) for t in templates if t.group not in unlimited}
    prices = {t.group: e.price_per_hour for t, e in zip(templates, chosen, strict=True)}
    return Mix(f"{shape}-{seed}", templates, prices, kinds, pending, room)


def _cpus(template: Template) -> int:
    return template.cpu_millis


def _bytes(template: Template) -> int:
    return template.memory_bytes


def _largest(classes: Sequence[CatalogueEntry]) -> list[CatalogueEntry]:
    return [entry for entry in classes if entry.cores >= 4]


def _template(entry: CatalogueEntry, cpus_per_core: float) -> Template:
    """The allocatable on EKS: CPU less its falling scale (about 70m and 2.5m a core), memory less 11 MiB a
    pod and 355 MiB."""
    cpus = round(entry.cores * cpus_per_core)
    pods = 29 if cpus <= 2 else 58 if cpus <= 8 else 234
    memory = round(entry.memory_gib * _GIB)
    return Template(
        entry.instance_class,
        entry.instance_class,
        cpus * 1000 - 60 - round(2.5 * cpus),
        memory - (355 + 11 * pods) * _MIB,
        pods,
        capacity_cpu_millis=cpus * 1000,
        capacity_memory_bytes=memory,
    )


def _demand(shape: Shape, rng: random.Random) -> Demand:
    millis = round(10 ** rng.uniform(2, 3.6), -1)  # 100m to 4 CPUs
    gib_per_cpu = rng.uniform(4, 16) if shape is Shape.MEMORY else 2 ** rng.uniform(-1, 3.5)
    memory = max(64, round(millis / 1000 * gib_per_cpu * 1024 / 64) * 64) * _MIB
    return Demand(int(millis), memory, alone=shape is Shape.APART and rng.random() < 1 / 3)


def _allowed(
    shape: Shape, rng: random.Random, templates: Sequence[Template], zone: Mapping[str, str]
) -> set[str]:
    everywhere = {template.group for template in templates}
    tie = rng.random() if shape is Shape.TIED else 1.0
    if tie < 1 / 3:
        arm = rng.random() < 0.5
        return {group for group in everywhere if ("6g." in group) == arm}
    if tie < 2 / 3:
        wanted = rng.choice("abc")
        return {group for group in everywhere if zone[group] == wanted}
    return everywhere


def _fits(demand: Demand, template: Template) -> bool:
    node = _DAEMONSETS.off(template)
    return demand.cpu_millis <= node.cpu_millis and demand.memory_bytes <= node.memory_bytes
