"""Finds the one policy that may scale each target: two would fight over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hpa_replacement.conditions import Refusal
from hpa_replacement.kneepolicy import KneePolicy
from surgekit.kube.scale_target import ScaleTarget
from surgekit.process.modes import Mode

__all__ = ["Owners", "owners_of", "target_key"]

Json = dict[str, Any]
TargetKey = tuple[str, str, str, str]  # namespace, API group, kind, name
Owners = Mapping[TargetKey, str]  # the owner as namespace/name


def owners_of(policies: Sequence[tuple[Json, KneePolicy | Refusal]]) -> Owners:
    """The oldest policy in mode enforce owns its target."""
    owners: dict[TargetKey, str] = {}
    for _, policy in sorted(policies, key=lambda one: str(one[0]["metadata"].get("creationTimestamp"))):
        if isinstance(policy, KneePolicy) and policy.mode is Mode.ENFORCE:
            owners.setdefault(target_key(policy.target), policy.key)
    return owners


def target_key(target: ScaleTarget) -> TargetKey:
    """Versions of an API group are the same objects."""
    return target.namespace, target.api_version.rpartition("/")[0], target.kind, target.name
