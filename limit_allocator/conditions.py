"""The conditions of a DistributedContainer. The CRD explains their reasons to users."""

from __future__ import annotations

from limit_allocator.allocation.model import PERIOD_US
from limit_allocator.allowance import Allowance
from limit_allocator.membership import Selection
from limit_allocator.view import View
from surgekit.kube.conditions import Condition
from surgekit.process.modes import Mode

__all__ = ["REASONS", "conditions", "invalid", "too_many"]

REASONS = {
    "Enforced": (
        "Enforcing", "Waiting", "FloorsExceedLimit", "AgentsSilent", "NoPods", "Shadow", "Off", "InvalidSpec",
        "TooMany",
    ),
    "LimitInForce": ("AsWritten", "AllowedLess", "InvalidSpec", "TooMany"),
    "CeilingsFit": ("Fit", "LimitsCounted", "NotEnforcing", "InvalidSpec", "TooMany"),
    "Exclusive": ("AllItsOwn", "PodsOfAnother", "InvalidSpec", "TooMany"),
}  # fmt: skip
_NAMED = 3  # pods and nodes named in a message


def conditions(application: Selection, allowance: Allowance, view: View) -> list[Condition]:
    return [
        _enforced(application, allowance, view),
        _limit(allowance),
        _ceilings(application, allowance),
        _own(application),
    ]


def invalid(why: str) -> list[Condition]:
    """For a spec that cannot be read. What was enforced before stays in force."""
    return [
        Condition("Enforced", False, "InvalidSpec", f"the last valid spec stays in force: {why}"),
        *(Condition(type_, None, "InvalidSpec", why) for type_ in REASONS if type_ != "Enforced"),
    ]


def too_many(most: int) -> list[Condition]:
    """For one whose namespace has that many older ones."""
    why = f"its namespace has {most} older DistributedContainers, and no more count"
    return [
        Condition("Enforced", False, "TooMany", why),
        *(Condition(type_, None, "TooMany", why) for type_ in REASONS if type_ != "Enforced"),
    ]


def _enforced(application: Selection, allowance: Allowance, view: View) -> Condition:
    mode, count = application.mode, len(application.pods)
    if mode is Mode.OFF:
        return Condition("Enforced", False, "Off", "nothing is looked at and every limit is its author's")
    if mode is Mode.SHADOW:
        return Condition("Enforced", False, "Shadow", f"{count} pods are watched; no limit is changed")
    if not count:
        why = (
            f"{len(application.left_alone)} that it selects are left alone" if application.left_alone else ""
        )
        return Condition("Enforced", False, "NoPods", why or "it selects no running pod")
    if view.silent_nodes:
        return Condition(
            "Enforced", False, "AgentsSilent",
            f"no word from the agents of {_names(sorted(view.silent_nodes))}; limits there stay as they were",
        )  # fmt: skip
    if view.waiting or not view.container_count:
        return _waiting(application, allowance, view)
    return Condition(
        "Enforced", True, "Enforcing", f"the limits of {view.container_count} containers follow need"
    )


def _waiting(application: Selection, allowance: Allowance, view: View) -> Condition:
    if view.waiting and (why := _floors_over(application, allowance)):
        return Condition(
            "Enforced", False, "FloorsExceedLimit",
            f"{why}: {view.waiting} containers run at their ceilings for want of room",
        )  # fmt: skip
    return Condition(
        "Enforced", False, "Waiting",
        f"{view.waiting} containers of {len(application.pods)} pods still run at their ceilings",
    )  # fmt: skip


def _floors_over(application: Selection, allowance: Allowance) -> str:
    """What is wrong if not all containers can have their floors; empty: they can."""
    parameters = application.spec.parameters
    limits = [c.limits for pod in application.pods for c in pod.containers if c.limits]
    cpu_us = sum(min(parameters.floor_us, of.cpu_us) for of in limits)
    memory_bytes = sum(min(parameters.floor_bytes, of.memory_bytes) for of in limits)
    floors = f"the floors of {len(limits)} containers add up to"
    if cpu_us > allowance.cpu_us:
        return (
            f"{floors} {cpu_us / PERIOD_US:g} cores, more than the limit of {allowance.cpu_us / PERIOD_US:g}"
        )
    if memory_bytes > allowance.memory_bytes:
        return f"{floors} {memory_bytes >> 20} MiB, more than the limit of {allowance.memory_bytes >> 20} MiB"
    return ""


def _limit(allowance: Allowance) -> Condition:
    if allowance.limited_by:
        return Condition("LimitInForce", False, "AllowedLess", "; ".join(allowance.limited_by))
    return Condition("LimitInForce", True, "AsWritten", "the global limit is in force as the spec has it")


def _ceilings(application: Selection, allowance: Allowance) -> Condition:
    if not application.enforces:
        return Condition("CeilingsFit", None, "NotEnforcing", "ceilings are set in mode enforce only")
    if allowance.kept_because:
        why = "; ".join(allowance.kept_because)
        return Condition("CeilingsFit", False, "LimitsCounted", f"pods keep their authors' limits: {why}")
    return Condition("CeilingsFit", True, "Fit", "new pods get the global limit as their ceiling")


def _own(application: Selection) -> Condition:
    if application.of_others:
        names = _names([f"{pod.name} ({owner})" for pod, owner in application.of_others])
        return Condition(
            "Exclusive", False, "PodsOfAnother", f"older DistributedContainers have {names} of its pods"
        )
    return Condition(
        "Exclusive", True, "AllItsOwn", "no other DistributedContainer has a pod that it selects"
    )


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
