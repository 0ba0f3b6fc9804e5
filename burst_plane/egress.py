"""Whether NetworkPolicies allow an emergency instance, which they do not see. Pure.

A policy that limits what the function's pods may send would not hold for an emergency instance: it is no pod.
The node agent denies other instances and the node to it, nothing finer, so a function under any other egress
rule than one that allows everything is not eligible. Ingress needs no look: the agent lets in HAProxy alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from surgekit.kube import label_selector
from surgekit.kube.label_selector import LabelSelector, SelectorError

__all__ = ["EgressPolicy", "forbidding", "read_policy"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """A NetworkPolicy that limits egress."""

    namespace: str
    name: str
    selector: LabelSelector


def read_policy(obj: Json) -> EgressPolicy | None:
    """None: it limits no egress. One whose selector cannot be read counts for every pod: in doubt a function
    is not eligible."""
    spec, metadata = obj.get("spec") or {}, obj["metadata"]
    rules = spec.get("egress") or []
    types = spec.get("policyTypes") or (["Ingress", "Egress"] if rules else ["Ingress"])
    if "Egress" not in types or {} in rules:  # a rule that says nothing allows everything
        return None
    try:
        selector = label_selector.read("spec.podSelector", spec.get("podSelector") or {})
    except SelectorError:
        selector = LabelSelector()
    return EgressPolicy(metadata["namespace"], metadata["name"], selector)


def forbidding(policies: Iterable[EgressPolicy], labels: Mapping[str, str]) -> str:
    """Why these policies of the pod's namespace make it ineligible; empty if they do not."""
    names = sorted(p.name for p in policies if p.selector.matches(labels))
    if not names:
        return ""
    return f"NetworkPolicy {names[0]} limits what its pods may send, and would not hold for an instance"
