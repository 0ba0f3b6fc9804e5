"""`surgekit explain nodes`: reads the cluster, asks for the explanation, prints it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cluster_autoscaler_hook.karpenter import nodeplan
from cluster_autoscaler_hook.karpenter.demand import architectures, daemon_overhead, offers, understood_labels
from cluster_autoscaler_hook.karpenter.explanation import Demand, Explanation, demand_of, explain, rented_for
from cluster_autoscaler_hook.karpenter.labels import OPT_IN_LABEL
from cluster_autoscaler_hook.karpenter.settings import Settings
from cluster_autoscaler_hook.karpenter.strict_catalogue import StrictCatalogue
from cluster_autoscaler_hook.solver.solve import Variant, solve
from surgekit.cli.json_file import write_json
from surgekit.kube.client import ApiError, Kube

__all__ = ["explain_nodes"]


def explain_nodes(kube: Kube, settings: Settings, json_file: Path | None) -> None:
    catalogue, _ = StrictCatalogue(settings.catalogue).read()
    pods, _ = kube.list_all("/api/v1/pods")
    nodes, _ = kube.list_all("/api/v1/nodes")
    namespaces, _ = kube.list_all("/api/v1/namespaces")
    daemon_sets, _ = kube.list_all("/apis/apps/v1/daemonsets")
    demand = demand_of(
        pods,
        {
            n["metadata"]["name"]: (n["metadata"].get("labels") or {}).get(OPT_IN_LABEL, "")
            for n in namespaces
        },
        understood_labels(catalogue, settings),
        architectures([n["metadata"].get("labels") or {} for n in nodes], settings),
    )
    offered = offers(catalogue, settings, overhead=daemon_overhead(daemon_sets, settings.pool))
    variant = Variant(settings.variant)
    said = explain(
        demand.counts,
        offered,
        lambda problem: solve(problem, settings.solve_deadline_s, variant),
        settings.zones,
    )
    rented = rented_for(demand, nodes, catalogue)
    last = _last_plan(kube, settings.pool)
    content = {
        "plan": asdict(said),
        "rented": asdict(rented),
        "pods": sum(demand.counts.values()),
        "running": demand.running,
        "left": dict(demand.left),
        "last_plan": last,
    }
    if write_json(content, json_file):
        return
    console = Console(highlight=False)
    if settings.catalogue is None or catalogue.sample:
        console.print("prices: a sample; name your own file as `catalogue` in the settings")
    _show(console, demand, said, catalogue.currency)
    if said.nodes:
        theirs = said.karpenter_first_choice
        console.print(
            f"Karpenter would rent {', '.join(f'{n} x {c}' for c, n in theirs.classes.items())} for them at "
            f"{theirs.cost_per_hour:.4f} an hour (an estimate of its first choice, before it consolidates); "
            f"{said.cost_per_hour / theirs.cost_per_hour - 1:+.1%} with the plan"
        )
    cost = rented.cost_per_hour
    if rented.nodes:
        versus = f"{said.cost_per_hour / cost - 1:+.1%} with the plan" if cost else "not priced"
        console.print(
            f"{demand.running} of them run now, on {rented.nodes} nodes at {cost:.4f} an hour; {versus}"
        )
        if rented.unpriced:
            console.print(f"not in the catalogue, so not priced: {', '.join(rented.unpriced)}")
    for reason, count in sorted(demand.left.items()):
        console.print(f"{count} pods are left to others: {reason}")
    if last:
        console.print(
            f"last plan: {last.get('phase')}, {last.get('plannedNodes')} nodes at "
            f"{last.get('costPerHour')} an hour, {last.get('observedTime')}; "
            f"{'; '.join(last.get('reasons') or [])}"
        )


def _show(console: Console, demand: Demand, said: Explanation, currency: str) -> None:
    over = said.cost_per_hour / said.lower_bound_per_hour - 1 if said.lower_bound_per_hour else 0.0
    console.print(
        f"[bold]{sum(demand.counts.values())} pods that opted in[/bold], planned from an empty cluster: "
        f"{len(said.nodes)} nodes at {said.cost_per_hour:.4f} {currency} an hour; nothing can cost less than "
        f"{said.lower_bound_per_hour:.4f} ({over:.1%} below)"
    )
    names = {kind.id: f"{kind} ({demand.examples.get(kind.id, kind.id)})" for kind in demand.counts}
    table = Table("class", "price", "cpu", "memory", "holds", "forced by", "its loss", box=SIMPLE_HEAD)
    for node in said.nodes:
        table.add_row(
            node.instance_class,
            f"{node.price_per_hour:.4f}",
            f"{node.cpu_share:.0%}",
            f"{node.memory_share:.0%}",
            "\n".join(f"{count} x {names[kind]}" for kind, count in node.pods.items()),
            "\n".join(f"{names[kind]}: {why}" for kind, why in node.forced_by.items()) or "all together",
            ", ".join(f"{share:.0%}" for share in node.loses.values()),
        )
    console.print(table)
    for shortage in said.shortages:
        console.print(f"{shortage.pods} pods {names.get(shortage.kind, shortage.kind)}: {shortage.reason}")


def _last_plan(kube: Kube, pool: str) -> dict[str, Any] | None:
    try:
        status: dict[str, Any] | None = kube.get(nodeplan.NODE_PLANS.path(name=pool)).get("status")
    except ApiError as error:
        if error.code != 404:
            raise
        return None
    return status
