"""Which pods are scored, and what their annotations change."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from cluster_model.cost import price
from scheduler_extender import opt_in
from scheduler_extender.extender import Extender
from surgekit.process.modes import Mode
from tests.scheduler_extender import builders
from tests.scheduler_extender.builders import pod, request

NAMES = [f"node-{i:03d}" for i in range(4)]
LABEL = opt_in.LABEL


@pytest.mark.parametrize(
    ("pod_label", "namespace_label", "scheduler", "mode"),
    [
        (None, None, "default-scheduler", Mode.OFF),
        (None, "enforce", "default-scheduler", Mode.ENFORCE),
        (None, "shadow", "default-scheduler", Mode.SHADOW),
        (None, "nonsense", "default-scheduler", Mode.OFF),
        ("off", "enforce", "default-scheduler", Mode.OFF),
        ("enforce", "off", "default-scheduler", Mode.ENFORCE),
        (None, None, "surgekit", Mode.ENFORCE),
        (None, "off", "surgekit", Mode.OFF),
    ],
)
def test_the_pods_label_wins_over_its_namespaces_and_both_over_the_scheduler(
    pod_label: str | None, namespace_label: str | None, scheduler: str, mode: Mode
) -> None:
    pod_labels, namespace_labels = (
        {} if label is None else {LABEL: label} for label in (pod_label, namespace_label)
    )
    assert opt_in.mode_for(pod_labels, namespace_labels, scheduler, Mode.ENFORCE, "surgekit") is mode


def put_namespace(extender: Extender, labels: dict[str, str], annotations: dict[str, str]) -> None:
    """As the watch of namespaces delivers it."""
    metadata = {"name": "shop", "uid": "uid-shop", "labels": labels, "annotations": annotations}
    watch: Any = extender.sources._watches["namespaces"]
    watch._consumer.replace([{"metadata": metadata}], 0.0)


def scored(extender: Extender, asking: dict[str, Any]) -> bool:
    return bool(orjson.loads(extender.prioritize(request(asking, NAMES))))


def test_a_namespace_opts_its_pods_in_and_out_again() -> None:
    extender = builders.extender()
    unlabelled = pod()
    del unlabelled["metadata"]["labels"]
    assert not scored(extender, unlabelled)
    put_namespace(extender, {LABEL: "enforce"}, {})
    assert scored(extender, unlabelled)
    put_namespace(extender, {}, {})
    assert not scored(extender, unlabelled)


@pytest.mark.parametrize(("own", "swing"), [({}, 0.2), ({"surgekit.dev/price-swing": "0.9"}, 0.9)])
def test_the_price_swing_annotation_sets_x_of_equations_7_and_8(own: dict[str, str], swing: float) -> None:
    """The namespace's annotation counts where the pod has none. Without either, x is 0.5."""
    extender = builders.extender()
    put_namespace(extender, {}, {"surgekit.dev/price-swing": "0.2"})
    extender.prioritize(request(pod(annotations=own), NAMES))
    explained = extender.explain("shop", "web-1")
    assert explained is not None
    assert explained["price_swing"] == swing
    for candidate in explained["candidates"]:
        assert candidate["cpu_price"] == price(1.0, swing)  # an empty node
        assert candidate["memory_price"] == price(1.0, swing)


def test_every_annotation_reaches_its_own_override() -> None:
    annotations = {"surgekit.dev/price-weight": "3", "surgekit.dev/price-swing": "0.25"}
    found, complaints = opt_in.overrides(annotations, {"surgekit.dev/concurrency": "8"})
    assert (found.price_weight, found.price_swing, found.concurrency) == (3.0, 0.25, 8.0)
    assert not complaints
    found, complaints = opt_in.overrides({"surgekit.dev/price-swing": "1.1"}, {})
    assert (found.price_swing, len(complaints)) == (None, 1)
