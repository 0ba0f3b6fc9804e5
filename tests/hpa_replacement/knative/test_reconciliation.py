from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpa_replacement import kneepolicy
from hpa_replacement.knative.presence import Observed
from hpa_replacement.knative.reconciliation import Create, Patch, ScaleTo
from tests.hpa_replacement.knative.builders import NAME, Table, pod_autoscaler

KPA = "kpa.autoscaling.knative.dev"


def served(annotations: dict[str, str] | None = None, ready: int = 2, **spec: Any) -> Table:
    """A PodAutoscaler that has all it needs, with as many replicas as are Ready."""
    table = Table(pod_autoscaler(annotations, **spec), target=Observed(ready, ready))
    table.settle()
    table.play_sks()
    table.play_policy(None)
    table.settle()
    return table


def test_a_new_one_gets_its_policy_and_service() -> None:
    table = Table(pod_autoscaler({"min-scale": "2", "max-scale": "20"}), target=Observed(2, 0))
    policy, sks, status = table.plan()
    assert isinstance(policy, Create)
    assert isinstance(sks, Create)
    assert isinstance(status, Patch)
    owner = {
        "apiVersion": "autoscaling.internal.knative.dev/v1alpha1",
        "kind": "PodAutoscaler",
        "name": NAME,
        "uid": "pa-uid",
        "controller": True,
    }
    for step in (policy, sks):
        assert step.body["metadata"]["ownerReferences"] == [owner]
        assert step.body["metadata"]["name"] == NAME
        assert step.body["metadata"]["labels"] == {"serving.knative.dev/revision": NAME}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"{NAME}-deployment"}
    assert policy.path == "/apis/surgekit.dev/v1alpha1/namespaces/fns/kneepolicies"
    assert policy.body["spec"] == {
        "scaleTargetRef": reference,
        "mode": "enforce",
        "via": "scale",
        "minReplicas": 2,
        "maxReplicas": 20,
        "metrics": {"preset": "knative", "function": NAME},
    }
    assert sks.path == "/apis/networking.internal.knative.dev/v1alpha1/namespaces/fns/serverlessservices"
    assert sks.body["spec"] == {
        "mode": "Proxy",
        "objectRef": reference,
        "protocolType": "http1",
    }


def test_a_decision_says_why_and_from_how_old_inputs() -> None:
    table = Table(pod_autoscaler({"min-scale": "2"}), target=Observed(1, 0))
    decision = table.decide()
    assert decision.reasons == (
        "there is no KneePolicy",
        "there is no ServerlessService",
        "the status differs",
    )
    assert (decision.valid, decision.inputs_age_s) == (True, {"pods": 1.5})
    table.settle()
    table.play_policy(None)
    assert table.decide().reasons == ("1 replicas are outside 2..100",)
    table.settle()
    assert table.decide().reasons == ()
    table.pa["metadata"]["annotations"]["autoscaling.knative.dev/min-scale"] = "x"
    refused = table.decide()
    assert not refused.valid
    assert refused.reasons[0].startswith("autoscaling.knative.dev/min-scale: must be a whole number")


def test_the_policy_can_be_read_by_the_rounds() -> None:
    table = served({"min-scale": "2", "max-scale": "20"})
    assert table.policy
    policy = kneepolicy.read(table.policy)
    assert (policy.preset, policy.function) == ("knative", NAME)
    assert (policy.policy.min_replicas, policy.policy.max_replicas) == (2, 20)


def test_the_status_follows_the_service_and_the_pods() -> None:
    table = Table(pod_autoscaler({"min-scale": "2", "max-scale": "9"}), target=Observed(2, 0))
    table.settle()
    status = table.pa["status"]
    assert (status["serviceName"], status["metricsServiceName"]) == ("", "")  # required by the CRD
    assert (status["desiredScale"], status["actualScale"], status["observedGeneration"]) == (2, 0, 1)
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "Active": "Unknown", "Ready": "Unknown", "SKSReady": "Unknown", "ScaleTargetInitialized": "Unknown",
    }  # fmt: skip
    table.play_sks()
    table.target = Observed(2, 1)
    table.settle()  # the mode changes, so the service is not current
    assert table.sks
    assert table.sks["spec"]["mode"] == "Serve"
    assert table.condition("SKSReady")["status"] == "Unknown"
    table.play_sks()
    table.settle()
    assert table.condition("SKSReady")["status"] == "True"
    assert table.condition("Active")["status"] == "True"
    assert table.condition("Ready")["reason"] == "Deploying"  # 1 of min-scale 2
    table.target = Observed(2, 2)
    table.play_policy(5)
    table.settle()
    status = table.pa["status"]
    assert {c["status"] for c in status["conditions"]} == {"True"}
    assert (status["serviceName"], status["metricsServiceName"]) == (NAME, f"{NAME}-private")
    assert (status["desiredScale"], status["actualScale"]) == (5, 2)


def test_without_ready_pods_requests_wait_in_the_activator() -> None:
    table = served()
    table.target = Observed(2, 0)
    table.settle()
    table.play_sks()
    table.settle()
    assert table.sks
    assert table.sks["spec"]["mode"] == "Proxy"
    assert table.condition("Active") | {"lastTransitionTime": ""} == {
        "type": "Active", "status": "Unknown", "reason": "Queued", "lastTransitionTime": "",
        "message": f"no pod of {NAME}-deployment is Ready",
    }  # fmt: skip
    # Deployed once is deployed: False would fail the revision.
    assert table.condition("ScaleTargetInitialized")["status"] == "True"


def test_a_target_that_cannot_be_looked_at_changes_nothing_but_the_condition() -> None:
    table = served()
    table.target = "there is no Deployment"
    (step,) = table.plan()
    assert isinstance(step, Patch)
    assert "actualScale" not in step.body["status"]
    table.apply((step,))
    assert table.condition("Active")["message"] == "there is no Deployment"
    assert table.pa["status"]["actualScale"] == 2


def test_all_activators_serve_it_and_a_dropped_0_is_not_written_again() -> None:
    table = served()
    assert table.sks
    table.sks["spec"]["numActivators"] = 2  # from another class
    (step,) = table.plan()
    table.apply((step,))
    assert table.sks["spec"]["numActivators"] == 0
    for dropped in (False, True):
        if dropped:
            del table.sks["spec"]["numActivators"]
        table.play_sks()
        table.settle()
        assert table.plan() == ()


def test_bounds_that_change_go_to_the_policy() -> None:
    table = served({"max-scale": "20"})
    table.pa["metadata"]["annotations"]["autoscaling.knative.dev/max-scale"] = "7"
    (step,) = table.plan()
    assert isinstance(step, Patch)
    assert step.body["spec"]["maxReplicas"] == 7


def test_what_users_tune_in_the_policy_stays() -> None:
    table = served()
    assert table.policy
    table.policy["spec"] |= {"paused": True, "samplingInterval": "10s"}
    table.policy["spec"]["metrics"]["queries"] = {"latency": "x"}
    assert table.plan() == ()
    table.policy["spec"]["maxReplicas"] = 5
    table.apply(table.plan())
    assert table.policy["spec"]["maxReplicas"] == 100
    assert table.policy["spec"]["metrics"]["queries"] == {"latency": "x"}


@pytest.mark.parametrize(
    ("replicas", "annotations", "spec", "reason", "scaled"),
    [
        (1, {"min-scale": "3"}, {}, "NoData", 3),  # or the revision would wait for requests for ever
        (0, {}, {}, "NoData", 1),
        (8, {"max-scale": "5"}, {}, "AtKnee", 5),
        (8, {"min-scale": "3"}, {"reachability": "Unreachable"}, "NoData", 1),
        (4, {"min-scale": "3", "max-scale": "5"}, {}, "NoData", None),
        (1, {"min-scale": "3"}, {}, "Paused", None),
        (1, {"min-scale": "3"}, {}, "AnotherAutoscaler", None),
        (0, {}, {}, "BudgetSpent", None),
        (1, {"min-scale": "3"}, {}, "", None),  # the rounds have not looked yet
    ],
)
def test_bounds_do_not_wait_for_samples(
    replicas: int, annotations: dict[str, str], spec: dict[str, str], reason: str, scaled: int | None
) -> None:
    table = Table(pod_autoscaler(annotations, **spec), target=Observed(replicas, 0))
    table.settle()
    table.play_policy(None, reason)
    found = [step for step in table.plan() if isinstance(step, ScaleTo)]
    assert [step.replicas for step in found] == ([] if scaled is None else [scaled])
    assert all(step.target.name == f"{NAME}-deployment" for step in found)


@pytest.mark.parametrize("value", ["many", "-1"])
def test_a_bad_annotation_is_said_and_nothing_else_is_done(value: str) -> None:
    table = Table(pod_autoscaler({"max-scale": value}))
    (step,) = table.plan()
    assert isinstance(step, Patch)
    assert step.path.endswith("/podautoscalers/shop-00001/status")
    table.apply((step,))
    for kind in ("Active", "Ready"):
        assert table.condition(kind)["status"] == "False"
        assert (
            f"max-scale: must be a whole number from 0 to 100000, is '{value}'"
            in (table.condition(kind)["message"])
        )
    assert table.condition("ScaleTargetInitialized")["status"] == "Unknown"
    assert table.plan() == ()


def test_an_annotation_that_turns_bad_leaves_what_runs_alone() -> None:
    table = served({"max-scale": "20"})
    table.pa["metadata"]["annotations"]["autoscaling.knative.dev/max-scale"] = "x"
    (step,) = table.plan()
    table.apply((step,))
    assert table.pa["status"]["serviceName"] == NAME
    assert table.condition("ScaleTargetInitialized")["status"] == "True"
    assert table.condition("Ready")["status"] == "False"


@pytest.mark.parametrize("field", ["policy", "sks"])
def test_what_another_made_is_left_alone(field: str) -> None:
    table = served()
    getattr(table, field)["metadata"]["ownerReferences"] = []
    table.pa["metadata"]["annotations"]["autoscaling.knative.dev/max-scale"] = "7"
    (step,) = table.plan()
    table.apply((step,))
    assert table.condition("Active")["reason"] == "NotOwned"
    assert table.plan() == ()


def test_another_class_is_left_alone() -> None:
    assert Table(pod_autoscaler(klass=KPA)).plan() == ()


def test_a_policy_stops_when_the_class_is_taken_away() -> None:
    table = served()
    table.pa["metadata"]["annotations"]["autoscaling.knative.dev/class"] = KPA
    (step,) = table.plan()
    table.apply((step,))
    assert table.policy
    assert table.policy["spec"]["mode"] == "off"
    assert table.plan() == ()


def test_one_that_is_being_deleted_gets_nothing() -> None:
    table = Table(pod_autoscaler())
    table.pa["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert table.plan() == ()


def test_the_time_of_a_condition_is_that_of_its_status() -> None:
    table = served()
    since = table.condition("Active")["lastTransitionTime"]
    table.target = Observed(2, 0)
    table.apply(table.plan(now_s=2000.0))
    assert table.condition("Active")["lastTransitionTime"] == "1970-01-01T00:33:20.000Z"
    assert table.condition("ScaleTargetInitialized")["lastTransitionTime"] == since


_SCALES = st.sampled_from(["0", "1", "3", "20", "x"])
_TARGETS = st.one_of(st.just("no target"), st.builds(Observed, st.integers(0, 30), st.integers(0, 30)))


@given(
    annotations=st.dictionaries(st.sampled_from(["min-scale", "max-scale", "initial-scale"]), _SCALES),
    klass=st.sampled_from(["knee.surgekit.dev", KPA]),
    reachability=st.sampled_from(["", "Reachable", "Unreachable"]),
    targets=st.lists(_TARGETS, min_size=1, max_size=4),
    played=st.lists(st.sampled_from(["sks ready", "sks not ready", "policy", "paused"]), max_size=4),
    wanted=st.integers(0, 200),
)
def test_what_was_written_is_not_written_again(
    annotations: dict[str, str],
    klass: str,
    reachability: str,
    targets: list[Observed | str],
    played: list[str],
    wanted: int,
) -> None:
    """Whatever happened before: once in force, the same picture asks for no write at any later time."""
    table = Table(pod_autoscaler(annotations, klass, reachability=reachability))
    for target, act in zip(targets, [*played, *targets], strict=False):
        table.target = target
        table.settle()
        if table.sks and act in ("sks ready", "sks not ready"):
            table.play_sks("True" if act == "sks ready" else "False")
        elif table.policy and act in ("policy", "paused"):
            table.play_policy(wanted, "Paused" if act == "paused" else "AtKnee")
        table.settle()
        assert table.plan(now_s=5000.0) == ()
    if table.policy:
        spec = table.policy["spec"]
        assert 1 <= spec["minReplicas"] <= spec["maxReplicas"]
        if "desiredScale" in table.pa["status"]:
            assert spec["minReplicas"] <= table.pa["status"]["desiredScale"] <= spec["maxReplicas"]
