"""From what the cluster has to what the fleet works on, and from the fleet's view to a status. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from limit_allocator.allowance import Allowance, LimitRange, Quota, allow
from limit_allocator.distributed_container import DistributedContainer
from limit_allocator.fleet.model import Application, PodRow
from limit_allocator.fleet.view import ApplicationView
from limit_allocator.fleet.view import ContainerView as FleetContainer
from limit_allocator.membership import Membership
from limit_allocator.pod import Pod
from limit_allocator.view import ContainerView, View
from limit_allocator.wire.messages import Ceiling

__all__ = ["allowances_of", "applications_of", "view_of"]


def allowances_of(
    specs: Iterable[DistributedContainer],
    membership: Membership,
    quotas: Mapping[str, list[Quota]],
    limit_ranges: Mapping[str, list[LimitRange]],
) -> dict[str, Allowance]:
    """By namespace/name. Quotas and limit ranges by namespace."""
    return {
        spec.key: allow(
            spec,
            membership.applications[spec.key].pods,
            quotas.get(spec.namespace, []),
            limit_ranges.get(spec.namespace, []),
        )
        for spec in specs
    }


def applications_of(
    membership: Membership, allowances: Mapping[str, Allowance], nodes: Mapping[str, frozenset[str]]
) -> list[Application]:
    """`nodes` by namespace/name: those that the object's status names."""
    return [
        Application(
            key,
            members.mode,
            members.spec.parameters,
            allowances[key].cpu_us,
            allowances[key].memory_bytes,
            {pod.uid: _row(pod) for pod in members.pods},
            nodes.get(key, frozenset()),
        )
        for key, members in membership.applications.items()
    ]


def view_of(view: ApplicationView, nodes: Collection[str], now_s: float) -> View:
    """`now_s` is Unix time; the fleet's view has ages."""
    return View(
        allocated_cpu_us=view.cpu.allocated,
        allocated_memory_bytes=view.memory.allocated,
        events_survived=view.events_survived,
        oom_kills=view.oom_kills,
        waiting=view.waiting_to_join,
        nodes=frozenset(nodes),
        silent_nodes=frozenset(view.silent_nodes) | frozenset(view.unknown_nodes),
        container_count=view.container_count,
        used_cpu_us=view.cpu.used,
        used_memory_bytes=view.memory.used,
        containers=tuple(_container(container, now_s) for container in view.containers),
    )


def _row(pod: Pod) -> PodRow:
    return PodRow(
        pod.node,
        pod.name,
        tuple(
            Ceiling(container_id=c.id, quota_us=c.limits.cpu_us, memory_bytes=c.limits.memory_bytes)
            for c in pod.containers
            if c.id and c.limits
        ),
        {c.id: c.name for c in pod.containers if c.id},
    )


def _container(container: FleetContainer, now_s: float) -> ContainerView:
    last = min(container.cpu, container.memory, key=lambda limit: limit.changed_s_ago)
    return ContainerView(
        container.pod,
        container.container,
        container.node,
        container.cpu.limit,
        container.cpu.used,
        container.throttled_share,
        container.memory.limit,
        container.memory.used,
        max(now_s - last.changed_s_ago, 0.0) if last.why else 0.0,
        last.why,
    )
