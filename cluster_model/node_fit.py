"""Which nodes take a pod, as far as its template tells: Ready and not cordoned, taints, node selector,
required node affinity. Room is judged elsewhere; spreading and affinity to other pods by kube-scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surgekit.kube.checked import checked
from surgekit.kube.numbers import integer

__all__ = ["NodeTerms", "accepts", "read_terms"]

Json = dict[str, Any]
_INT64 = 2**63 - 1  # as kube-scheduler reads labels of Gt and Lt
_KEEP_AWAY = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class NodeTerms:
    name: str
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]  # that keep pods away: key, value, effect
    ready: bool
    schedulable: bool  # not cordoned


@checked
def read_terms(obj: Json) -> NodeTerms:
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return NodeTerms(
        metadata["name"],
        metadata.get("labels") or {},
        tuple(
            (taint.get("key", ""), taint.get("value") or "", taint["effect"])
            for taint in spec.get("taints") or ()
            if taint.get("effect") in _KEEP_AWAY
        ),
        any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions),
        not spec.get("unschedulable"),
    )


def accepts(node: NodeTerms, pod_spec: Json) -> bool:
    if not node.ready or not node.schedulable:
        return False
    if any(node.labels.get(key) != value for key, value in (pod_spec.get("nodeSelector") or {}).items()):
        return False
    tolerations = pod_spec.get("tolerations") or ()
    if not all(any(_tolerates(t, taint) for t in tolerations) for taint in node.taints):
        return False
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(_matches(term, node) for term in required.get("nodeSelectorTerms") or ())


def _tolerates(toleration: Json, taint: tuple[str, str, str]) -> bool:
    key, value, effect = taint
    if toleration.get("effect") not in (None, "", effect) or toleration.get("key") not in (None, "", key):
        return False
    operator = toleration.get("operator") or "Equal"
    return operator == "Exists" or (operator == "Equal" and (toleration.get("value") or "") == value)


def _matches(term: Json, node: NodeTerms) -> bool:
    """A term without expressions matches nothing."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_holds(e, node.labels) for e in expressions) and all(
        _holds(e, {"metadata.name": node.name}) for e in fields
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
