"""Turns kinds of waiting pods and the classes on offer into FCMA's problem.

A kind is an app. Its container serves one unit of workload, and the workload has as many units as there are
pods. Classes that can run the same kinds form one family: a pod requests the same on all of them, so the
families of the price table do not matter here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from cluster_autoscaler_hook.catalogue import Catalogue
from cluster_autoscaler_hook.karpenter.labels import (
    ARCHITECTURE,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODE_POOL,
    OPERATING_SYSTEM,
    POOL_LABEL,
    ZONE,
)
from cluster_autoscaler_hook.karpenter.model import MIB, Kind, Offer, Shortage
from cluster_autoscaler_hook.karpenter.settings import Settings
from cluster_autoscaler_hook.solver.model import App, Container, InstanceClass, Problem
from surgekit.kube.pods import PodError, requests

__all__ = [
    "architectures",
    "daemon_overhead",
    "in_zones",
    "offers",
    "problem_of",
    "understood_labels",
    "unservable",
]

_GIB = float(1 << 30)
Json = dict[str, Any]


def understood_labels(catalogue: Catalogue, settings: Settings) -> frozenset[str]:
    """The node labels with values that are known before there is a node. Pods may select by these only."""
    known = {POOL_LABEL, INSTANCE_TYPE, OPERATING_SYSTEM, ARCHITECTURE, CAPACITY_TYPE, NODE_POOL}
    known.update(*(entry.labels for entry in catalogue.entries.values()))
    return frozenset(known | {ZONE} if settings.zones else known - {ZONE})


def architectures(nodes: Iterable[Mapping[str, str]], settings: Settings) -> frozenset[str]:
    """Where pods may run that name no architecture. `nodes`: the labels of every node.

    Our own nodes count only if there are no others: else one node for a pod that asked for arm64 would open
    arm64 to all pods.
    """
    by_owner: dict[bool, set[str]] = {True: set(), False: set()}
    for labels in nodes:
        if architecture := labels.get(ARCHITECTURE):
            by_owner[labels.get(POOL_LABEL) == settings.pool].add(architecture)
    return frozenset(settings.architectures or by_owner[False] or by_owner[True] or {"amd64"})


def offers(
    catalogue: Catalogue,
    settings: Settings,
    seen: Mapping[str, tuple[int, int, int]] | None = None,
    overhead: tuple[int, int, int] = (0, 0, 0),
    unavailable: Collection[str] = (),
) -> tuple[Offer, ...]:
    """Every class that can be rented now. `seen`: (millicores, bytes, pods) as a running node of the class
    reports them, better than any formula. `overhead`: what DaemonSets take on each node."""
    found = []
    arm64 = re.compile(settings.arm64_classes)
    for name, entry in sorted(catalogue.entries.items()):
        if name in unavailable:
            continue
        cpu = entry.cores * catalogue.cpus_per_core * 1000 - settings.reserved_cpu_millicores
        memory = entry.memory_gib * _GIB - settings.reserved_memory_mib * MIB
        whole = (seen or {}).get(name) or (int(cpu), int(memory), settings.pods_per_node)
        cpu_millicores, memory_bytes, pods = (w - o for w, o in zip(whole, overhead, strict=True))
        if cpu_millicores > 0 and memory_bytes > 0 and pods > 0:
            labels = {
                OPERATING_SYSTEM: "linux",
                ARCHITECTURE: "arm64" if arm64.search(name) else "amd64",
                **entry.labels,
                POOL_LABEL: settings.pool,
                INSTANCE_TYPE: name,
                CAPACITY_TYPE: settings.capacity_type,
            }
            found.append(Offer(name, cpu_millicores, memory_bytes, pods, entry.price_per_hour, labels))
    return tuple(found)


def in_zones(
    offered: Collection[Offer], zones: Collection[str], kinds: Collection[Kind]
) -> tuple[Offer, ...]:
    """One offer for each zone if a kind selects by zone; otherwise the provider chooses the zone."""
    if not any(ZONE in kind.keys for kind in kinds):
        return tuple(offered)
    return tuple(
        replace(offer, name=f"{offer.name} in {zone}", labels={**offer.labels, ZONE: zone})
        for offer in offered
        for zone in zones
    )


def _fits(kind: Kind, offer: Offer) -> bool:
    return kind.cpu_millicores <= offer.cpu_millicores and kind.memory_bytes <= offer.memory_bytes


def unservable(counts: Mapping[Kind, int], offered: Collection[Offer]) -> list[Shortage]:
    """The kinds that no class on offer can hold, each with the reason. The plan leaves them out."""
    found = []
    for kind, count in counts.items():
        allowed = [offer for offer in offered if kind.allows(offer.labels)]
        if any(_fits(kind, offer) for offer in allowed):
            continue
        if not allowed:
            reason = "its node selector, affinity or architecture allows no class that can be rented now"
        else:
            most_cpu = max(offer.cpu_millicores for offer in allowed)
            most_memory = max(offer.memory_bytes for offer in allowed)
            reason = (
                f"it requests {kind}; the largest class has {most_cpu}m, "
                f"the one with most memory {most_memory / MIB:g}Mi"
            )
        found.append(Shortage(kind.id, count, reason))
    return found


def problem_of(counts: Mapping[Kind, int], offered: Collection[Offer]) -> Problem:
    """FCMA's problem for `counts` pods of each kind. Every kind must be servable."""
    kinds = sorted(counts, key=lambda kind: kind.id)
    families: dict[str, list[Kind]] = {}
    classes = []
    for offer in offered:
        runs = [kind for kind in kinds if kind.allows(offer.labels)]
        if not any(_fits(kind, offer) for kind in runs):
            continue
        # A family is named after the kinds it runs; without constraints there is one family.
        family = "any" if len(runs) == len(kinds) else "+".join(kind.id for kind in runs)
        families[family] = runs
        classes.append(
            InstanceClass(
                offer.name,
                family,
                offer.cpu_millicores / 1000,
                offer.memory_bytes / _GIB,
                offer.price_per_hour,
                max_containers=offer.pods,
            )
        )
    apps = [App(kind.id, float(counts[kind]), max_per_node=1 if kind.exclusive else None) for kind in kinds]
    containers = {
        (kind.id, family): Container(kind.cpu_millicores / 1000, 1.0, (1,), (kind.memory_bytes / _GIB,))
        for family, runs in families.items()
        for kind in runs
    }
    return Problem(tuple(apps), tuple(classes), containers)


def daemon_overhead(daemon_sets: Collection[Json], pool: str) -> tuple[int, int, int]:
    """(millicores, bytes, pods) that DaemonSets take on each of our nodes: those that tolerate our taint and
    select every node."""
    cpu = memory = 0.0
    pods = 0
    for daemon_set in daemon_sets:
        spec = daemon_set["spec"]["template"]["spec"]
        selector = spec.get("nodeSelector") or {}
        if any(
            (key, value) not in (_ON_EVERY_NODE | {(POOL_LABEL, pool)}) for key, value in selector.items()
        ):
            continue
        if not any(t.get("key") in (None, "", POOL_LABEL) for t in spec.get("tolerations") or ()):
            continue
        try:
            asked_cpu, asked_memory = requests({"spec": spec})
        except PodError:
            continue  # the API server refuses its pods, too
        cpu, memory, pods = cpu + asked_cpu, memory + asked_memory, pods + 1
    return int(cpu), int(memory), pods


_ON_EVERY_NODE = {(OPERATING_SYSTEM, "linux")}
