"""Whether a node takes a pod: Ready, not cordoned, taints, node selector, required node affinity. Pure.

Room is checked elsewhere. Spreading and affinity to other pods are left to kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from surgekit.kube.checked import checked
from surgekit.kube.numbers import integer

__all__ = [
    "NodeTerms", "Taint", "Toleration", "accepts", "matches_labels", "matches_node_affinity", "read_taints",
    "read_terms", "read_tolerations", "tolerates",
]  # fmt: skip

Json = dict[str, Any]
_INT64 = 2**63 - 1  # kube-scheduler reads labels for Gt and Lt as int64
_KEEP_AWAY = ("NoSchedule", "NoExecute")


class Taint(NamedTuple):
    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    key: str  # "": every key
    value: str | None  # None: every value
    effect: str  # "": every effect

    def covers(self, taint: Taint) -> bool:
        return (
            self.key in ("", taint.key)
            and self.value in (None, taint.value)
            and self.effect in ("", taint.effect)
        )


@dataclass(frozen=True, slots=True)
class NodeTerms:
    """A node's conditions for taking pods."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    ready: bool
    schedulable: bool  # not cordoned


@checked
def read_terms(obj: Json) -> NodeTerms:
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return NodeTerms(
        metadata["name"],
        metadata.get("labels") or {},
        read_taints(spec),
        any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions),
        not spec.get("unschedulable"),
    )


def read_taints(node_spec: Json) -> tuple[Taint, ...]:
    """The taints that keep pods away; PreferNoSchedule does not."""
    return tuple(
        Taint(taint.get("key", ""), taint.get("value") or "", taint["effect"])
        for taint in node_spec.get("taints") or ()
        if taint.get("effect") in _KEEP_AWAY
    )


def read_tolerations(pod_spec: Json) -> frozenset[Toleration]:
    """Tolerations with an operator other than Exists and Equal are left out: they tolerate nothing here."""
    return frozenset(
        Toleration(
            one.get("key") or "",
            None if one.get("operator") == "Exists" else one.get("value") or "",
            one.get("effect") or "",
        )
        for one in pod_spec.get("tolerations") or ()
        if (one.get("operator") or "Equal") in ("Exists", "Equal")
    )


def accepts(node: NodeTerms, pod_spec: Json) -> bool:
    """Whether the node takes pods with this spec, if it has room."""
    if not node.ready or not node.schedulable:
        return False
    if not matches_labels(pod_spec.get("nodeSelector") or {}, node.labels):
        return False
    if node.taints and not tolerates(read_tolerations(pod_spec), node.taints):
        return False
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return matches_node_affinity(required.get("nodeSelectorTerms") or (), node.name, node.labels)


def matches_labels(node_selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether the labels have every key and value of a pod's nodeSelector."""
    return all(labels.get(key) == value for key, value in node_selector.items())


def tolerates(tolerations: Collection[Toleration], taints: Iterable[Taint]) -> bool:
    """Whether every taint is covered by a toleration."""
    return all(any(toleration.covers(taint) for toleration in tolerations) for taint in taints)


def matches_node_affinity(terms: Iterable[Json], name: str, labels: Mapping[str, str]) -> bool:
    """Whether the node meets one of the nodeSelectorTerms. A term without expressions matches nothing."""
    return any(_matches(term, name, labels) for term in terms)


def _matches(term: Json, name: str, labels: Mapping[str, str]) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_holds(e, labels) for e in expressions) and all(
        _holds(e, {"metadata.name": name}) for e in fields
    )


def _holds(expression: Json, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.get("key", ""))
    values: Sequence[str] = expression.get("values") or ()
    operator = expression.get("operator")
    if operator in ("Gt", "Lt"):
        return _compares(operator, value, values)
    found = {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }
    return found.get(operator or "", False)


def _compares(operator: str, value: str | None, values: Sequence[str]) -> bool:
    there, bound = (integer(text, -_INT64, _INT64) for text in (value, values[0] if values else None))
    if there is None or bound is None:
        return False
    return there > bound if operator == "Gt" else there < bound
