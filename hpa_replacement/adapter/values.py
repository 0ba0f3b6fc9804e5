"""Finds the value of a metric, or says why there is none. Pure.

The HPA leaves a target alone if it cannot get its metric. So in any doubt the answer is NotFound with a
reason, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hpa_replacement.adapter.model import (
    METRIC,
    POLICY_LABEL,
    NotFound,
    PodFacts,
    PodValues,
    PolicyFacts,
    PolicyTable,
    TargetValue,
)
from hpa_replacement.adapter.pods_metric import MOST_REPLICAS, pod_values
from surgekit.kube.label_selector import LabelSelector
from surgekit.process.modes import Mode

__all__ = [
    "Limits",
    "Picture",
    "custom_list",
    "external_list",
    "for_pods",
    "named",
    "pods_list",
    "selected",
    "withheld",
]

Json = dict[str, Any]
_NAMED_MAX = 5  # policies listed in a reason


@dataclass(frozen=True)
class Limits:
    """Maximum ages of decisions and of the watch."""

    max_age_intervals: float  # of a decision, in sampling intervals of its policy
    max_input_age_s: float  # of a watch
    hpa_tolerance: float = 0.1


@dataclass(frozen=True)
class Picture:
    """Everything an answer depends on, at one moment."""

    table: PolicyTable
    input_age_s: float  # of the watch
    now_s: float  # wall clock
    limits: Limits
    pods_age_s: float = math.inf  # of the watch of Knative's pods


def selected(
    picture: Picture, namespace: str, metric: str, selector: LabelSelector
) -> TargetValue | NotFound:
    """For external.metrics: the target of the one policy in `namespace` that `selector` matches.

    The HPA adds up all values of an external metric; the sum of two policies' targets would be wrong.
    """
    if nothing := _nothing(picture, metric):
        return nothing
    found = _matching(picture.table.get(namespace, {}), selector)
    if len(found) == 1:
        return _value(picture, found[0])
    if not found:
        return NotFound(f"no KneePolicy in namespace {namespace!r} matches the selector")
    names = [policy.name for policy in found[:_NAMED_MAX]]
    more = f" and {len(found) - len(names)} more" if len(found) > len(names) else ""
    return NotFound(
        f"{len(found)} KneePolicies match ({', '.join(names)}{more}); select exactly one, {POLICY_LABEL}=NAME"
    )


def named(
    picture: Picture, namespace: str, name: str, metric: str, selector: LabelSelector
) -> TargetValue | NotFound:
    """For custom.metrics: the target of the policy `name`, if `selector` matches the metric's labels."""
    if nothing := _nothing(picture, metric):
        return nothing
    policy = picture.table.get(namespace, {}).get(name)
    if policy is None:
        return NotFound(f"there is no KneePolicy {namespace}/{name}")
    if not selector.matches(_labels(name)):
        return NotFound(f"the metric of KneePolicy {namespace}/{name} has no labels that match the selector")
    return _value(picture, policy)


def for_pods(
    picture: Picture, metric: str, pods: Sequence[PodFacts], namespace: str, selector: LabelSelector
) -> PodValues | NotFound:
    """For a Pods metric of custom.metrics: values for the pods of one revision, whose policy has its name."""
    if nothing := _nothing(picture, metric):
        return nothing
    if picture.pods_age_s > picture.limits.max_input_age_s:
        return NotFound(
            "the adapter knows no pods: it needs the setting `knative` and manifests/adapter/knative"
        )
    revisions = sorted({pod.revision for pod in pods})
    running = [pod.name for pod in pods if not pod.pending]
    if len(revisions) != 1:
        shown = ", ".join(revisions[:_NAMED_MAX]) or "none"
        return NotFound(f"the pods that match must be of one revision of Knative's, are of: {shown}")
    found = _of_revision(picture, metric, namespace, revisions[0], selector)
    if isinstance(found, NotFound):
        return found
    if not running or found.replicas > MOST_REPLICAS:
        return NotFound(f"one pod must run, and at most {MOST_REPLICAS} be wanted: {found.replicas} are")
    tolerance = picture.limits.hpa_tolerance
    return PodValues(found, pod_values(found.replicas, running, len(pods) - len(running), tolerance))


def _of_revision(
    picture: Picture, metric: str, namespace: str, revision: str, selector: LabelSelector
) -> TargetValue | NotFound:
    if revision in picture.table.get(namespace, {}):
        return named(picture, namespace, revision, metric, selector)
    return NotFound(
        f"there is no KneePolicy {namespace}/{revision}: revisions get one from the annotations "
        f'autoscaling.knative.dev/metric: {METRIC} and autoscaling.knative.dev/target: "1"'
    )


def withheld(policy: PolicyFacts, now_s: float, limits: Limits) -> str:
    """Why this policy's target is not served; empty if it is."""
    return next(_objections(policy, now_s, limits), "")


def _objections(policy: PolicyFacts, now_s: float, limits: Limits) -> Iterator[str]:
    """The most helpful first."""
    if policy.fault:
        yield policy.fault
    if not policy.via_metrics:
        yield "it is applied through `scale` (spec.via)"
    if policy.mode is not Mode.ENFORCE:
        yield f"its mode is {policy.mode}"
    if policy.paused:
        yield "it is paused"
    if policy.observed_generation is not None and policy.observed_generation < policy.generation:
        yield (
            f"its status is of generation {policy.observed_generation}, its spec of {policy.generation}: "
            "the controller has not read the change yet"
        )
    if policy.target_replicas is None or policy.decided_at_s is None:
        yield "nothing has been decided yet"
        return
    age_s, limit_s = now_s - policy.decided_at_s, limits.max_age_intervals * policy.sampling_interval_s
    if age_s > limit_s:
        yield f"its target was decided {age_s:.0f} s ago, more than {limit_s:.0f} s"
    if age_s < -limit_s:
        yield f"its target was decided {-age_s:.0f} s in the future: clocks differ"


def external_list(value: TargetValue) -> Json:
    item = {
        "metricName": METRIC,
        "metricLabels": _labels(value.policy),
        "timestamp": _timestamp(value.decided_at_s),
        "value": str(value.replicas),
    }
    return _list("ExternalMetricValueList", "external.metrics.k8s.io/v1beta1", item)


def custom_list(value: TargetValue) -> Json:
    item = {
        "describedObject": {
            "kind": "KneePolicy",
            "namespace": value.namespace,
            "name": value.policy,
            "apiVersion": "surgekit.dev/v1alpha1",
        },
        "metric": {"name": METRIC, "selector": {"matchLabels": _labels(value.policy)}},
        "timestamp": _timestamp(value.decided_at_s),
        "value": str(value.replicas),
    }
    return _list("MetricValueList", "custom.metrics.k8s.io/v1beta2", item)


def pods_list(found: PodValues) -> Json:
    items = [
        {
            "describedObject": {
                "kind": "Pod",
                "namespace": found.target.namespace,
                "name": name,
                "apiVersion": "v1",
            },
            "metric": {"name": METRIC, "selector": {"matchLabels": _labels(found.target.policy)}},
            "timestamp": _timestamp(found.target.decided_at_s),
            "value": f"{value}m",
        }
        for name, value in found.values.items()
    ]
    return _list("MetricValueList", "custom.metrics.k8s.io/v1beta2", *items)


def _list(kind: str, version: str, *items: Json) -> Json:
    return {"kind": kind, "apiVersion": version, "metadata": {}, "items": list(items)}


def _nothing(picture: Picture, metric: str) -> NotFound | None:
    if metric != METRIC:
        return NotFound(f"metric {metric!r} is not served here; {METRIC} is")
    if picture.input_age_s > picture.limits.max_input_age_s:
        heard = f"for {picture.input_age_s:.0f} s" if picture.input_age_s < 1e9 else "yet"
        return NotFound(f"the adapter has not heard of KneePolicies from the API server {heard}")
    return None


def _matching(policies: Mapping[str, PolicyFacts], selector: LabelSelector) -> list[PolicyFacts]:
    """Look up by name if the selector gives names, as it usually does."""
    names = selector.values_of(POLICY_LABEL)
    candidates = policies.values() if names is None else [policies[n] for n in sorted(names) if n in policies]
    return [policy for policy in candidates if selector.matches(_labels(policy.name))]


def _value(picture: Picture, policy: PolicyFacts) -> TargetValue | NotFound:
    reason = withheld(policy, picture.now_s, picture.limits)
    if reason or policy.target_replicas is None or policy.decided_at_s is None:
        return NotFound(f"KneePolicy {policy.namespace}/{policy.name}: {reason}")
    return TargetValue(policy.namespace, policy.name, policy.target_replicas, policy.decided_at_s)


def _labels(name: str) -> dict[str, str]:
    return {POLICY_LABEL: name}


def _timestamp(moment_s: float) -> str:
    """Whole seconds, as metav1.Time."""
    return datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
