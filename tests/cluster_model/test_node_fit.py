"""Which nodes take a pod."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_model.node_fit import (
    Taint,
    Toleration,
    accepts,
    matches_labels,
    matches_node_affinity,
    read_taints,
    read_terms,
    read_tolerations,
    tolerates,
)

Json = dict[str, Any]


def node(labels: dict[str, str] | None = None, ready: str = "True", **spec: Any) -> Json:
    return {
        "metadata": {"name": "n1", "labels": labels or {}},
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def affinity(*terms: Json) -> Json:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def expression(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


TAINT = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
GPU = {"gpu": "yes", "cores": "16"}


@pytest.mark.parametrize(
    ("obj", "pod", "taken"),
    [
        (node(), {}, True),
        (node(ready="Unknown"), {}, False),
        (node(unschedulable=True), {}, False),
        (node(), {"nodeSelector": {"gpu": "yes"}}, False),
        (node(GPU), {"nodeSelector": {"gpu": "yes"}}, True),
        (node(taints=TAINT), {}, False),
        (node(taints=[{"key": "gpu", "effect": "PreferNoSchedule"}]), {}, True),
        (node(taints=TAINT), {"tolerations": [{"operator": "Exists"}]}, True),
        (node(taints=TAINT), {"tolerations": [{"key": "gpu", "operator": "Exists"}]}, True),
        (node(taints=TAINT), {"tolerations": [{"key": "gpu", "value": "yes"}]}, True),
        (node(taints=TAINT), {"tolerations": [{"key": "gpu", "value": "no"}]}, False),
        (node(taints=TAINT), {"tolerations": [{"key": "gpu", "value": "yes", "effect": "NoExecute"}]}, False),
        (node(GPU), affinity(expression("gpu", "In", "yes", "no")), True),
        (node(), affinity(expression("gpu", "In", "yes")), False),
        (node(), affinity(expression("gpu", "NotIn", "yes")), True),
        (node(GPU), affinity(expression("gpu", "Exists")), True),
        (node(GPU), affinity(expression("gpu", "DoesNotExist")), False),
        (node(GPU), affinity(expression("cores", "Gt", "8")), True),
        (node(GPU), affinity(expression("cores", "Lt", "8")), False),
        (node(GPU), affinity(expression("gpu", "Gt", "8")), False),
        (node(GPU), affinity(expression("gpu", "Resembles", "yes")), False),
        (node(), affinity(expression("gpu", "Exists"), expression("gpu", "DoesNotExist")), True),
        (node(), affinity({}), False),
        (
            node(),
            affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}),
            True,
        ),
        (
            node(),
            affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}),
            False,
        ),
    ],
)
def test_as_the_scheduler_judges(obj: Json, pod: Json, taken: bool) -> None:
    assert accepts(read_terms(obj), pod) == taken


def test_taints_that_keep_pods_away() -> None:
    soft = {"key": "spot", "effect": "PreferNoSchedule"}
    assert read_taints({"taints": [*TAINT, soft, {"key": "gone", "effect": "NoExecute"}]}) == (
        Taint("gpu", "yes", "NoSchedule"),
        Taint("gone", "", "NoExecute"),
    )
    assert read_taints({}) == ()


def test_tolerations() -> None:
    spec = {
        "tolerations": [
            {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
            {"key": "gpu", "operator": "Exists", "value": "ignored"},
            {"operator": "Exists"},
            {"key": "cores", "operator": "Gt", "value": "8"},
        ]
    }
    assert read_tolerations(spec) == {
        Toleration("gpu", "yes", "NoSchedule"),
        Toleration("gpu", None, ""),
        Toleration("", None, ""),
    }


def test_every_taint_needs_a_toleration() -> None:
    gpu, spot = Taint("gpu", "yes", "NoSchedule"), Taint("spot", "", "NoExecute")
    assert tolerates((), ())
    assert not tolerates((), [gpu])
    assert not tolerates([Toleration("gpu", "yes", "")], [gpu, spot])
    assert tolerates([Toleration("gpu", "yes", ""), Toleration("spot", None, "NoExecute")], [gpu, spot])
    assert not tolerates([Toleration("gpu", "", "")], [gpu])


def test_selectors_and_affinity_on_plain_labels() -> None:
    assert matches_labels({}, {})
    assert matches_labels({"gpu": "yes"}, GPU)
    assert not matches_labels({"gpu": "no"}, GPU)
    assert not matches_node_affinity((), "n1", GPU)
    assert matches_node_affinity([expression("gpu", "In", "no"), expression("cores", "Gt", "8")], "n1", GPU)
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    assert matches_node_affinity([by_name], "n1", {})
    assert not matches_node_affinity([by_name], "n2", {})
