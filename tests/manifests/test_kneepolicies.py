"""What the API server says to KneePolicies: defaults, and nonsense refused before anybody reads it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from hpa_replacement.decision.policy import Policy
from hpa_replacement.kneepolicy import read
from kwok.lab import Lab
from surgekit.kube.client import ApiError
from tests.manifests.installed_cluster import until

pytestmark = pytest.mark.lab
PATH = "/apis/surgekit.dev/v1alpha1/namespaces/default/kneepolicies"
WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def policy(name: str = "web", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "KneePolicy",
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": WEB, "maxReplicas": 40} | spec,
    }


@pytest.fixture(scope="module")
def served(installed: Lab) -> Lab:
    def there() -> bool:
        try:
            installed.kube.get(PATH)
        except ApiError:
            return False
        return True

    until(there, "the CRD is served")
    return installed


def test_the_defaults_are_those_of_the_code(served: Lab) -> None:
    bare = policy()
    bare["metadata"]["namespace"] = "default"
    made = served.kube.create(PATH, policy(), dryRun="All")
    assert made["spec"]["mode"] == "shadow"
    assert made["spec"]["thresholds"]
    before, after = read(bare), read(made)
    assert after.policy == before.policy == Policy(max_replicas=40)
    assert (after.mode, after.via, after.paused, after.preset) == (
        before.mode,
        before.via,
        before.paused,
        before.preset,
    )


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"minReplicas": 41}, "minReplicas must not be more than maxReplicas"),
        ({"minReplicas": 0}, "spec.minReplicas"),
        ({"maxReplicas": 0}, "spec.maxReplicas"),
        ({"maxReplicas": "40"}, "spec.maxReplicas"),
        ({"maxReplicas": None}, "spec.maxReplicas: Required value"),
        ({"scaleTargetRef": {"kind": "Deployment", "name": "web"}}, "spec.scaleTargetRef.apiVersion"),
        ({"scaleTargetRef": WEB | {"name": ""}}, "spec.scaleTargetRef.name"),
        *(
            ({"samplingInterval": text}, "spec.samplingInterval")
            for text in ("30", "half a minute", "-30s", "500ms", "2h", "", ".5m", "1000000000000h", "9" * 40)
        ),
        ({"mode": "on"}, "spec.mode"),
        ({"via": "hpa"}, "spec.via"),
        ({"budget": {"replicaIntervals": 1000}}, "spec.budget.window"),
        ({"budget": {"replicaIntervals": 0, "window": "15m"}}, "spec.budget.replicaIntervals"),
        ({"budget": {"replicaIntervals": 1000, "window": "soon"}}, "spec.budget.window"),
        (
            {"budget": {"replicaIntervals": 1000, "window": "20s"}},
            "budget.window must not be less than samplingInterval",
        ),
        ({"budget": {"replicaIntervals": 9, "window": "15m", "atEnd": "die"}}, "spec.budget.atEnd"),
        ({"thresholds": {"throughputPerSecond": 0}}, "spec.thresholds.throughputPerSecond"),
        ({"thresholds": {"errorsPerSecond": 0}}, "spec.thresholds.errorsPerSecond"),
        ({"thresholds": {"cpuDrop": 1}}, "spec.thresholds.cpuDrop"),
        ({"thresholds": {"latencySeconds": 0}}, "spec.thresholds.latencySeconds"),
        ({"search": {"variant": "binary"}}, "spec.search.variant"),
        ({"search": {"explorationCap": 0}}, "spec.search.explorationCap"),
        (
            {"minReplicas": 5, "search": {"explorationCap": 4}},
            "search.explorationCap must not be less than minReplicas",
        ),
        ({"metrics": {"preset": "istio"}}, "spec.metrics.preset"),
    ],
)
def test_nonsense_is_refused_and_the_field_named(served: Lab, spec: dict[str, Any], why: str) -> None:
    with pytest.raises(ApiError) as error:
        served.kube.create(PATH, policy(**spec), dryRun="All")
    assert error.value.code == 422
    assert why in error.value.message


def test_what_makes_sense_is_taken_as_it_is_read(served: Lab) -> None:
    full: dict[str, Any] = {
        "mode": "off", "paused": True, "via": "metrics", "minReplicas": 2, "samplingInterval": "1m30s",
        "budget": {"replicaIntervals": 1000, "window": "1.5h", "atEnd": "stop"},
        "metrics": {"preset": "knative", "function": "f", "queries": {"cpu": "x"}},
        "thresholds": {
            "throughputPerSecond": 0.5, "errorsPerSecond": 0.5, "cpuDrop": 0.1, "latencySeconds": 0.2
        },
        "search": {"variant": "paper", "explorationCap": 2},
    }  # fmt: skip
    wanted = policy(**full)
    made = served.kube.create(PATH, copy.deepcopy(wanted), dryRun="All")
    assert made["spec"] == wanted["spec"]
    assert read(made).policy.interval_s == 90.0


def test_a_policy_keeps_its_target(served: Lab) -> None:
    served.kube.create(PATH, policy("kept"))
    try:
        served.kube.patch(f"{PATH}/kept", {"spec": {"maxReplicas": 50}})
        with pytest.raises(ApiError, match="scaleTargetRef cannot be changed"):
            served.kube.patch(f"{PATH}/kept", {"spec": {"scaleTargetRef": {"name": "another"}}})
        table = served.kubectl("get", "kp", "-n", "default").splitlines()
        assert table[0].split() == [
            "NAME",
            "TARGET",
            "MODE",
            "REPLICAS",
            "WANTED",
            "DECIDING",
            "WHY",
            "AGE",
        ]
    finally:
        served.kube.delete(f"{PATH}/kept")
