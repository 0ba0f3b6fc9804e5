"""The resources that a pod takes on a node, as kube-scheduler counts them, and whether two may share a node.

Containers and sidecars are added up. If an init container and the sidecars before it need more, that counts.
Pod-level requests replace the sum. The runtime class's overhead is added (KEP 753, 2837, 688).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from cluster_autoscaler_hook.expander.expander_pb2 import Amount, Pod, Requirement, Selector
from cluster_autoscaler_hook.expander.model import Demand
from surgekit.kube.quantity import QuantityError, parse

__all__ = ["amounts", "demand"]

_HOSTNAME = "kubernetes.io/hostname"


def demand(pod: Pod) -> Demand:
    """Raise QuantityError, with the resource's name, where a quantity cannot be read."""
    spec = pod.spec
    total: dict[str, int] = {}
    for container in spec.containers:
        _add(total, amounts(container.resources.requests))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.initContainers:
        own = amounts(container.resources.requests)
        for name in own.keys() | sidecars.keys():
            peak[name] = max(peak.get(name, 0), sidecars.get(name, 0) + own.get(name, 0))
        if container.restartPolicy == "Always":
            _add(sidecars, own)
    _add(total, sidecars)
    for name, amount in peak.items():
        total[name] = max(total.get(name, 0), amount)
    total |= amounts(spec.resources.requests)
    _add(total, amounts(spec.overhead))
    return Demand(
        total.pop("cpu", 0),
        total.pop("memory", 0),
        tuple(sorted((name, amount) for name, amount in total.items() if amount)),
        alone=_repels_itself(pod) or any(port.hostPort for c in spec.containers for port in c.ports),
    )


def amounts(entries: Iterable[Amount]) -> dict[str, int]:
    """Resource name -> millicores for CPU, else the amount; rounded up, as kube-scheduler does."""
    found = {}
    for entry in entries:
        name: object = entry.key
        if not isinstance(name, str):  # protobuf returns bytes where a string is not UTF-8
            raise QuantityError(f"resource name {name!r} is not text")
        try:
            value = parse(entry.value.string)
        except QuantityError as error:
            raise QuantityError(f"{name}: {error}") from error
        # 0.1 + 0.2 cores are 300 millicores, not 301
        found[name] = math.ceil(round(value * 1000 if name == "cpu" else value, 6))
    return found


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _repels_itself(pod: Pod) -> bool:
    labels = {label.key: label.value for label in pod.metadata.labels}
    return any(
        term.topologyKey == _HOSTNAME
        and (not term.namespaces or pod.metadata.namespace in term.namespaces)
        and _selects(term.labelSelector, labels)
        for term in pod.spec.affinity.podAntiAffinity.required
    )


def _selects(selector: Selector, labels: dict[str, str]) -> bool:
    """An empty selector selects every pod, an unknown operator none."""
    return all(labels.get(wanted.key) == wanted.value for wanted in selector.matchLabels) and all(
        _meets(wanted, labels) for wanted in selector.matchExpressions
    )


def _meets(wanted: Requirement, labels: dict[str, str]) -> bool:
    value = labels.get(wanted.key)
    match wanted.operator:
        case "In":
            return value in wanted.values
        case "NotIn":
            return value not in wanted.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False
