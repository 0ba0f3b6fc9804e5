"""The Events about the NodePlan: pods that are not planned for, plans that failed, classes left out. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from cluster_autoscaler_hook.karpenter.nodeplan import Report

__all__ = ["Notice", "class_left_out", "notices"]


@dataclass(frozen=True, slots=True)
class Notice:
    """Two notices are the same if reason and subject are; counts and examples in the note may change."""

    reason: str
    subject: str
    note: str = field(compare=False)


def notices(report: Report) -> tuple[Notice, ...]:
    """Everything that a user must know now."""
    found = [
        Notice(
            "PodsNotPlanned",
            group.reason,
            f"{group.pods} pods are left to Karpenter ({group.example} is one): {group.reason}",
        )
        for group in report.view.left_to_karpenter
    ]
    plan = report.last_plan
    found += [
        Notice(
            "PodsWithoutNode",
            f"{shortage.kind} {shortage.reason}",
            f"The plan has no node for {shortage.pods} pods that request {plan.kinds[shortage.kind]}: "
            f"{shortage.reason}",
        )
        for shortage in plan.shortages
    ]
    if error := report.catalogue_error:
        found.append(Notice("CatalogueUnusable", error, f"Nothing is planned: {error}"))
    if error := report.plan_error:
        found.append(Notice("PlanFailed", error, f"The plan is tried again: {error}"))
    return tuple(found)


def class_left_out(instance_class: str, reason: str, for_s: float) -> Notice:
    note = f"Plans do without {instance_class} for {for_s:g} s: {reason}"
    return Notice("ClassLeftOut", instance_class, note)
