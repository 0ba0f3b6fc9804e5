"""Pods, offers and a small solver, for the tests of the Karpenter hook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cluster_autoscaler_hook.karpenter.labels import (
    ARCHITECTURE,
    CAPACITY_TYPE,
    GATE,
    INSTANCE_TYPE,
    POOL_LABEL,
)
from cluster_autoscaler_hook.karpenter.model import Kind, Market, Offer, PendingPod, WaitingPod
from cluster_autoscaler_hook.solver import first_fit
from cluster_autoscaler_hook.solver.deadline import Deadline
from cluster_autoscaler_hook.solver.model import Problem, Solution

GIB = 1 << 30
TOLERATION = {"key": POOL_LABEL, "operator": "Equal", "value": "fcma", "effect": "NoSchedule"}


def pod(name: str = "web-0", cpu: str = "500m", memory: str = "1Gi", **spec: Any) -> dict[str, Any]:
    """A pod as the opt-in policy leaves it, behind the gate."""
    status = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}
    return {
        "metadata": {"uid": f"uid-{name}", "namespace": "default", "name": name, "labels": {"app": "web"}},
        "spec": {
            "schedulingGates": [{"name": GATE}],
            "tolerations": [TOLERATION],
            "containers": [{"name": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
            **spec,
        },
        "status": {"phase": "Pending", **status},
    }


def offer(name: str, cpus: float, gib: float, price: float, pods: int = 110, arch: str = "amd64") -> Offer:
    labels = {POOL_LABEL: "fcma", INSTANCE_TYPE: name, ARCHITECTURE: arch, CAPACITY_TYPE: "on-demand"}
    return Offer(name, int(cpus * 1000), int(gib * GIB), pods, price, labels)


OFFERS = (offer("small", 2, 4, 0.1), offer("medium", 4, 8, 0.19), offer("fat", 4, 32, 0.3))
KNOWN = {o.name: o for o in OFFERS}


def market(*offered: Offer, left_out: Sequence[str] = ()) -> Market:
    return Market(
        {offer.name: offer for offer in offered}, tuple(o for o in offered if o.name not in left_out)
    )


MARKET = market(*OFFERS)


def waiting(kind: Kind, count: int, prefix: str = "pod") -> tuple[WaitingPod, ...]:
    return tuple(
        WaitingPod(f"{prefix}-{kind.id}-{i}", "default", f"{prefix}-{i}", kind) for i in range(count)
    )


def pending(kind: Kind, count: int, prefix: str = "pod", **rest: Any) -> tuple[PendingPod, ...]:
    """Pods behind the gate, as the watch tells of them."""
    given = {"gates": (GATE,), **rest}
    return tuple(
        PendingPod(f"{prefix}-{kind.id}-{i}", "default", f"{prefix}-{i}", kind, **given) for i in range(count)
    )


def solve(problem: Problem) -> Solution:
    """Whatever serves the problem; these tests are not about its price."""
    return first_fit.by_price(problem, Deadline.after(5.0))
