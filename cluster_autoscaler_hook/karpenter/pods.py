"""Reads what a pod asks for, as a kind. A pod with a constraint that we do not model is left alone; the
constraint is never ignored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import ceil
from typing import Any

from cluster_autoscaler_hook.karpenter.labels import HOSTNAME, POOL_LABEL
from cluster_autoscaler_hook.karpenter.model import Kind, Requirement
from surgekit.kube.pods import PodError, requests

__all__ = [
    "Unmodelled",
    "gates",
    "is_daemon",
    "is_finished",
    "is_unschedulable",
    "kind_of",
    "tolerates",
]

Json = dict[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
# Disks are not in the catalogue, so a request for ephemeral-storage is not modelled.
_MODELLED_RESOURCES = frozenset({"cpu", "memory"})


class Unmodelled(ValueError):
    """A pod with a constraint that FCMA's problem cannot express; the message names it."""


def is_daemon(pod: Json) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner.get("kind") in ("DaemonSet", "Node") for owner in owners)


def is_finished(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_unschedulable(pod: Json) -> bool:
    """Whether kube-scheduler tried it and found no node. Before that, it may fit a running node."""
    return any(
        c.get("type") == "PodScheduled" and c.get("status") == "False" and c.get("reason") == "Unschedulable"
        for c in (pod.get("status") or {}).get("conditions") or ()
    )


def gates(pod: Json) -> tuple[str, ...]:
    return tuple(str(gate.get("name")) for gate in (pod.get("spec") or {}).get("schedulingGates") or ())


def tolerates(pod: Json, pool: str) -> bool:
    """Whether it tolerates the taint of our nodes."""
    return any(_tolerates(t, pool) for t in (pod.get("spec") or {}).get("tolerations") or ())


def kind_of(pod: Json) -> Kind:
    spec = pod.get("spec") or {}
    _check(spec)
    try:
        cpu_millicores, memory_bytes = requests(pod)
    except PodError as error:
        raise Unmodelled(str(error)) from error
    # kube-scheduler rounds up: a fraction of a millicore or byte takes a whole one.
    return Kind(ceil(round(cpu_millicores, 6)), ceil(memory_bytes), _terms(spec), _exclusive(pod, spec))


def _check(spec: Json) -> None:
    if spec.get("resourceClaims"):
        raise Unmodelled("resource claims (DRA)")
    for holder in (spec, *(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for name, amount in ((holder.get("resources") or {}).get("requests") or {}).items():
            if name not in _MODELLED_RESOURCES and str(amount) != "0":
                raise Unmodelled(f"a request for {name}")
    for volume in spec.get("volumes") or ():
        if "persistentVolumeClaim" in volume or "ephemeral" in volume:
            raise Unmodelled("a persistent volume, which may be tied to a zone")
    if ((spec.get("affinity") or {}).get("podAffinity") or {}).get(_REQUIRED):
        raise Unmodelled("required pod affinity")
    for constraint in spec.get("topologySpreadConstraints") or ():
        if constraint.get("whenUnsatisfiable") == "DoNotSchedule":
            raise Unmodelled(f"topology spread over {constraint.get('topologyKey')} with DoNotSchedule")
    if spec.get("preemptionPolicy") == "Never":
        # Without preemption kube-scheduler 1.36 leaves the nomination of a pod that does not fit as it is
        # (schedule_one.go), and Karpenter passes over pods that are nominated.
        raise Unmodelled("preemptionPolicy Never")


def _tolerates(toleration: Json, pool: str) -> bool:
    if toleration.get("effect") not in (None, "", "NoSchedule"):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", POOL_LABEL)
    return toleration.get("key") == POOL_LABEL and toleration.get("value") == pool


def _terms(spec: Json) -> tuple[tuple[Requirement, ...], ...]:
    always = [Requirement(key, "In", (value,)) for key, value in (spec.get("nodeSelector") or {}).items()]
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    terms = []
    for term in required.get("nodeSelectorTerms") or [{}]:
        if term.get("matchFields"):
            raise Unmodelled("node affinity by field")
        lines = [
            Requirement(e["key"], e["operator"], tuple(sorted(e.get("values") or ())))
            for e in term.get("matchExpressions") or ()
        ]
        for line in lines:
            if line.operator not in _OPERATORS:
                raise Unmodelled(f"node affinity with operator {line.operator}")
        terms.append(tuple(sorted(always + lines, key=lambda r: (r.key, r.operator, r.values))))
    return tuple(sorted(terms, key=repr))


def _exclusive(pod: Json, spec: Json) -> tuple[str, ...]:
    found = {
        f"port {p.get('protocol', 'TCP')}/{p['hostPort']}"
        for c in spec.get("containers") or ()
        for p in c.get("ports") or ()
        if p.get("hostPort")
    }
    metadata = pod["metadata"]
    for term in ((spec.get("affinity") or {}).get("podAntiAffinity") or {}).get(_REQUIRED) or ():
        if term.get("topologyKey") != HOSTNAME:
            raise Unmodelled(f"required anti-affinity over {term.get('topologyKey')}")
        selector = term.get("labelSelector")
        if (
            set(term) - {"topologyKey", "labelSelector", "matchLabelKeys"}
            or selector is None
            or not _selects(selector, metadata.get("labels") or {})
        ):
            raise Unmodelled("required anti-affinity to other pods than its own kind")
        found.add(json.dumps([metadata.get("namespace"), selector], sort_keys=True))
    return tuple(sorted(found))


def _selects(selector: Json, labels: Mapping[str, str]) -> bool:
    lines = [Requirement(k, "In", (v,)) for k, v in (selector.get("matchLabels") or {}).items()]
    lines += [
        Requirement(e["key"], e["operator"], tuple(e.get("values") or ()))
        for e in selector.get("matchExpressions") or ()
    ]
    return all(line.holds(labels) for line in lines)
