"""Which pods are ours to plan for, and as what kind. A constraint we do not model is a reason to leave a
pod alone, never one to ignore."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import ceil
from typing import Any

from cluster_autoscaler_hook.karpenter.model import (
    GATE,
    HOSTNAME,
    OPT_IN_LABEL,
    POOL_LABEL,
    Kind,
    Requirement,
)
from surgekit.pods import PodError, requests

__all__ = [
    "Unmodelled",
    "is_daemon",
    "is_enforced",
    "is_finished",
    "is_gated",
    "is_ours",
    "is_waiting",
    "kind_of",
]

Json = dict[str, Any]
_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_PLAIN_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})


class Unmodelled(ValueError):
    """A pod with a wish that FCMA's problem has no word for; the message says which."""


def is_enforced(pod: Json, pool: str) -> bool:
    """Only our nodes serve it: Karpenter's own pools do not offer the label it selects."""
    return ((pod.get("spec") or {}).get("nodeSelector") or {}).get(POOL_LABEL) == pool


def is_ours(pod: Json, pool: str) -> bool:
    labels = (pod.get("metadata") or {}).get("labels") or {}
    return is_enforced(pod, pool) or labels.get(OPT_IN_LABEL) == "shadow"


def is_daemon(pod: Json) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner.get("kind") in ("DaemonSet", "Node") for owner in owners)


def is_finished(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_waiting(pod: Json) -> bool:
    """Behind our gate, or tried by the scheduler and found no node: before that it may fit one that runs."""
    if (pod["spec"] or {}).get("nodeName") or pod["metadata"].get("deletionTimestamp") or is_finished(pod):
        return False
    if pod["spec"].get("schedulingGates"):
        return is_gated(pod)
    return any(
        c.get("type") == "PodScheduled" and c.get("status") == "False" and c.get("reason") == "Unschedulable"
        for c in (pod.get("status") or {}).get("conditions") or ()
    )


def is_gated(pod: Json) -> bool:
    """By our gate alone: one that others hold back as well is not to be rented for yet."""
    gates = [gate.get("name") for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]
    return gates == [GATE]


def kind_of(pod: Json, pool: str, zone_known: bool = False) -> Kind:
    spec = pod.get("spec") or {}
    _check(spec, pool, is_enforced(pod, pool))
    try:
        cpu_millicores, memory_bytes = requests(pod)
    except PodError as error:
        raise Unmodelled(str(error)) from error
    terms = _terms(spec)
    for requirement in (r for term in terms for r in term):
        if requirement.operator not in _OPERATORS:
            raise Unmodelled(f"node affinity with operator {requirement.operator}")
        if requirement.key == "topology.kubernetes.io/zone" and not zone_known:
            raise Unmodelled("node affinity to a zone, and the setting zone is any")
    # As the scheduler rounds: a fraction of a millicore or byte takes a whole one.
    return Kind(ceil(round(cpu_millicores, 6)), ceil(memory_bytes), terms, _apart(pod, spec))


def _check(spec: Json, pool: str, enforced: bool) -> None:
    if spec.get("resourceClaims"):
        raise Unmodelled("resource claims (DRA)")
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
            if name not in _PLAIN_RESOURCES and str(amount) != "0":
                raise Unmodelled(f"extended resource {name}")
    for volume in spec.get("volumes") or ():
        if "persistentVolumeClaim" in volume or "ephemeral" in volume:
            raise Unmodelled("a persistent volume, which may be tied to a zone")
    if ((spec.get("affinity") or {}).get("podAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ):
        raise Unmodelled("required pod affinity")
    for constraint in spec.get("topologySpreadConstraints") or ():
        if constraint.get("whenUnsatisfiable") == "DoNotSchedule":
            raise Unmodelled(f"topology spread over {constraint.get('topologyKey')} with DoNotSchedule")
    if enforced and not any(_tolerates(t, pool) for t in spec.get("tolerations") or ()):
        raise Unmodelled(f"it does not tolerate the taint {POOL_LABEL}={pool}")


def _tolerates(toleration: Json, pool: str) -> bool:
    if toleration.get("effect") not in (None, "", "NoSchedule"):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", POOL_LABEL)
    return toleration.get("key") == POOL_LABEL and toleration.get("value") == pool


def _terms(spec: Json) -> tuple[tuple[Requirement, ...], ...]:
    always = [Requirement(key, "In", (value,)) for key, value in (spec.get("nodeSelector") or {}).items()]
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    terms = []
    for term in required.get("nodeSelectorTerms") or [{}]:
        if term.get("matchFields"):
            raise Unmodelled("node affinity by field")
        lines = [
            Requirement(e["key"], e["operator"], tuple(sorted(e.get("values") or ())))
            for e in term.get("matchExpressions") or ()
        ]
        terms.append(tuple(sorted(always + lines, key=lambda r: (r.key, r.operator, r.values))))
    return tuple(sorted(terms, key=repr))


def _apart(pod: Json, spec: Json) -> str:
    ports = sorted(
        f"{p.get('protocol', 'TCP')}/{p['hostPort']}"
        for c in spec.get("containers") or ()
        for p in c.get("ports") or ()
        if p.get("hostPort")
    )
    terms = ((spec.get("affinity") or {}).get("podAntiAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or []
    for term in terms:
        if term.get("topologyKey") != HOSTNAME:
            raise Unmodelled(f"required anti-affinity over {term.get('topologyKey')}")
        known = {"topologyKey", "labelSelector", "matchLabelKeys"}
        if set(term) - known or not _selects(
            term.get("labelSelector") or {}, pod["metadata"].get("labels") or {}
        ):
            raise Unmodelled("required anti-affinity to other pods than its own kind")
    if not terms and not ports:
        return ""
    return json.dumps([pod["metadata"].get("namespace"), terms, ports], sort_keys=True)


def _selects(selector: Json, labels: Mapping[str, str]) -> bool:
    lines = [Requirement(k, "In", (v,)) for k, v in (selector.get("matchLabels") or {}).items()]
    lines += [
        Requirement(e["key"], e["operator"], tuple(e.get("values") or ()))
        for e in selector.get("matchExpressions") or ()
    ]
    return all(line.holds(labels) for line in lines)
