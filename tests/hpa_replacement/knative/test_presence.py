"""To zero and back: the order of steps, and what keeps pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpa_replacement.knative.presence import Demand, Observed
from hpa_replacement.knative.reconciliation import Patch, ScaleTo
from tests.hpa_replacement.knative.builders import KNATIVE_S_DEFAULTS, Table, pod_autoscaler

WINDOW_S = KNATIVE_S_DEFAULTS.stable_window_s
GRACE_S = KNATIVE_S_DEFAULTS.scale_to_zero_grace_period_s
WAITING = Demand(3, 0.0, 0.0)


def serving(annotations: dict[str, str] | None = None, ready: int = 2, **spec: Any) -> Table:
    """A revision that has been deployed at 1000 s and gets requests."""
    table = Table(pod_autoscaler(annotations, **spec), target=Observed(ready, ready))
    table.settle()
    table.play_policy(ready)
    table.play_sks()
    table.settle()
    table.play_sks()
    table.settle()
    assert table.condition("Ready")["status"] == "True"
    return table


def scaled(table: Table) -> list[int]:
    """The steps that scale, which are applied; then all that follows from them."""
    steps = table.plan()
    table.apply(steps)
    found = [step.replicas for step in steps if isinstance(step, ScaleTo)]
    table.settle()
    return found


def idle(table: Table, since_s: float) -> Table:
    table.play_policy(2, "AtKnee", idle_since_s=since_s)
    return table


def resting(annotations: dict[str, str] | None = None) -> Table:
    """A revision without requests since 1000 s, at 1000 s + window: its pods are about to go."""
    table = idle(serving(annotations), 1000.0)
    table.now_s += WINDOW_S
    table.settle()
    table.play_sks()
    assert table.condition("Active")["reason"] == "NoTraffic"
    return table


def at_zero(annotations: dict[str, str] | None = None) -> Table:
    table = resting(annotations)
    table.now_s += GRACE_S
    assert scaled(table) == [0]
    table.target = Observed(0, 0)
    table.play_policy(2, "NoData")
    table.settle()
    return table


def mode(table: Table) -> str:
    assert table.sks
    return str(table.sks["spec"]["mode"])


def test_it_goes_to_zero_in_knatives_order() -> None:
    table = idle(serving(), 1000.0)
    assert table.decide().action.again_s == WINDOW_S
    table.now_s += WINDOW_S - 1
    assert table.plan() == ()
    assert table.decide().action.again_s == 1.0

    table.now_s += 1
    assert scaled(table) == []  # first the activators take over
    assert mode(table) == "Proxy"
    assert table.condition("Active") | {"lastTransitionTime": ""} == {
        "type": "Active", "status": "False", "reason": "NoTraffic", "lastTransitionTime": "",
        "message": "The target is not receiving traffic.",
    }  # fmt: skip
    assert table.condition("Ready")["status"] == "False"
    assert table.condition("ScaleTargetInitialized")["status"] == "True"
    assert table.pa["status"]["desiredScale"] == 0

    table.now_s += 5
    table.play_sks()  # so late Knative's controller put them there
    table.settle()
    table.now_s += GRACE_S - 1
    assert table.plan() == ()
    table.now_s += 1
    assert scaled(table) == [0]
    table.target = Observed(0, 0)
    table.settle()
    assert table.pa["status"]["actualScale"] == 0
    assert scaled(table) == []


def test_the_first_request_wakes_it() -> None:
    table = at_zero({"activation-scale": "3"})
    table.now_s += 1000
    assert table.plan() == ()
    table.demand = WAITING
    assert scaled(table) == [3]
    assert table.condition("Active")["reason"] == "Queued"
    assert mode(table) == "Proxy"
    table.target = Observed(3, 1)
    table.demand = Demand(0, 0.0, 0.0)
    table.settle()
    assert table.condition("Active")["status"] == "True"
    assert mode(table) == "Serve"


def test_idle_samples_from_before_it_slept_do_not_send_it_back() -> None:
    table = at_zero()
    table.demand = WAITING
    table.settle()
    table.demand = Demand(0, 0.0, 0.0)
    table.target = Observed(1, 1)
    idle(table, 1000.0)  # what the policy said before; it decides again every 30 s only
    table.settle()
    woken_s = table.now_s
    table.now_s = woken_s + WINDOW_S - 1
    assert scaled(table) == []
    assert mode(table) == "Serve"
    table.now_s += 1
    table.settle()
    assert mode(table) == "Proxy"


def test_it_is_known_to_be_woken_before_it_is() -> None:
    """Else a request that ends at once leaves a revision that looks asleep, with pods to take away."""
    table = at_zero()
    table.demand = WAITING
    *_, status, scale = table.plan()
    assert isinstance(status, Patch)
    assert status.path.endswith("/status")
    assert isinstance(scale, ScaleTo)
    table.apply((status,))  # and the scale fails
    table.demand = Demand(0, 0.0, 0.0)
    idle(table, 1000.0)
    assert scaled(table) == [1]


def test_a_request_in_the_grace_period_keeps_the_pods() -> None:
    table = resting()
    table.demand = WAITING
    assert scaled(table) == []
    assert (mode(table), table.condition("Active")["status"]) == ("Serve", "True")
    table.now_s += 2 * GRACE_S
    assert scaled(table) == []


def test_a_sample_with_requests_in_the_grace_period_keeps_the_pods() -> None:
    table = resting()
    table.play_policy(2, "AtKnee")
    assert scaled(table) == []
    assert mode(table) == "Serve"


def test_pods_are_retained_for_their_period() -> None:
    table = resting({"scale-to-zero-pod-retention-period": "5m"})
    table.now_s += 299
    assert scaled(table) == []
    table.now_s += 1
    assert scaled(table) == [0]


def test_while_the_service_is_not_in_proxy_mode_pods_stay() -> None:
    table = resting()
    assert table.sks
    table.sks["status"]["conditions"][1]["status"] = "False"
    table.now_s += 1000
    assert scaled(table) == []


@pytest.mark.parametrize(
    ("annotations", "config", "requests"),
    [
        ({"min-scale": "1"}, KNATIVE_S_DEFAULTS, Demand(0, 0.0, 0.0)),
        ({}, replace(KNATIVE_S_DEFAULTS, enable_scale_to_zero=False), Demand(0, 0.0, 0.0)),
        ({}, KNATIVE_S_DEFAULTS, Demand(0, 11.0, 11.0, "connection refused")),
    ],
)
def test_what_keeps_pods(annotations: dict[str, str], config: Any, requests: Demand) -> None:
    table = idle(serving(annotations), 1000.0)
    table.config, table.demand = config, requests
    table.now_s += 10 * WINDOW_S
    assert scaled(table) == []
    assert (mode(table), table.condition("Active")["status"]) == ("Serve", "True")
    blind = bool(requests.problem)
    assert (table.condition("Active").get("reason") == "NoScaleToZero") is blind
    assert ("connection refused" in table.condition("Active").get("message", "")) is blind


@pytest.mark.parametrize("reason", ["Paused", "AnotherAutoscaler", "BudgetSpent"])
def test_it_neither_goes_nor_comes_while_replicas_are_not_ours(reason: str) -> None:
    table = serving()
    table.play_policy(2, reason, idle_since_s=1000.0)
    table.now_s += 10 * WINDOW_S
    assert scaled(table) == []
    table = at_zero()
    table.play_policy(2, reason)
    table.demand = WAITING
    assert scaled(table) == []
    assert f"({reason})" in table.condition("Active")["message"]


def test_it_is_woken_when_the_activators_cannot_be_seen_for_long() -> None:
    table = at_zero()
    table.demand = Demand(0, 60.0, 60.0, "timed out")
    assert scaled(table) == []
    table.demand = Demand(0, 61.0, 61.0, "timed out")
    assert scaled(table) == [1]


def test_a_revision_that_begins_at_zero_waits_for_its_first_request() -> None:
    table = Table(pod_autoscaler({"initial-scale": "0"}), target=Observed(0, 0))
    table.config = replace(KNATIVE_S_DEFAULTS, allow_zero_initial_scale=True)
    table.settle()
    table.play_policy(None)
    table.play_sks()
    assert scaled(table) == []
    assert table.condition("ScaleTargetInitialized")["status"] == "True"
    assert table.condition("Active")["reason"] == "NoTraffic"
    table.demand = WAITING
    assert scaled(table) == [1]


def test_one_that_was_never_deployed_is_not_put_to_sleep() -> None:
    table = Table(pod_autoscaler({"initial-scale": "3"}), target=Observed(3, 2))
    table.settle()
    table.play_sks()
    idle(table, 0.0)
    table.now_s += 1000
    assert scaled(table) == []
    assert table.condition("Active")["status"] == "True"


def test_a_revision_without_a_route_goes_to_zero() -> None:
    table = serving({"min-scale": "2", "scale-to-zero-pod-retention-period": "1h"})
    table.pa["spec"]["reachability"] = "Unreachable"
    assert scaled(table) == [1]
    table.target = Observed(1, 1)
    idle(table, 1000.0)
    table.now_s += WINDOW_S
    table.settle()
    table.play_sks()
    table.now_s += GRACE_S
    assert scaled(table) == [0]


def test_all_requests_go_through_the_activators_if_asked_for() -> None:
    table = serving({"target-burst-capacity": "-1"})
    assert mode(table) == "Proxy"
    assert table.condition("Active")["status"] == "True"


def test_a_change_of_the_spec_wakes_nobody() -> None:
    table = at_zero()
    table.pa["metadata"]["annotations"]["autoscaling.knative.dev/max-scale"] = "7"
    (step,) = table.plan()
    assert isinstance(step, Patch)
    assert "kneepolicies" in step.path
    table.settle()
    assert table.condition("Active")["reason"] == "NoTraffic"


_DEMANDS = st.builds(
    Demand, st.sampled_from([0, 0, 0, 2]), st.sampled_from([0.0, 5.0, 30.0]), st.sampled_from([0.0, 90.0])
)
_REASONS = st.sampled_from(["", "NoData", "AtKnee", "Paused"])
_PASSED = st.sampled_from([0.0, 1.0, 30.0, 60.0, 600.0])


@given(
    annotations=st.dictionaries(
        st.sampled_from(["min-scale", "activation-scale", "window"]), st.sampled_from(["0", "1", "3", "20s"])
    ),
    rounds=st.lists(st.tuples(_DEMANDS, st.booleans(), _PASSED, _REASONS, st.booleans()), max_size=12),
)
def test_pods_go_only_when_nobody_asks_and_come_when_somebody_does(
    annotations: dict[str, str], rounds: list[tuple[Demand, bool, float, str, bool]]
) -> None:
    """Whatever happens, in any order."""
    table = Table(pod_autoscaler(annotations), target=Observed(2, 2))
    for demand, is_idle, passed_s, reason, starts in rounds:
        table.now_s, table.demand = table.now_s + passed_s, demand
        if table.policy and reason:
            table.play_policy(2, reason, table.now_s - 1000.0 if is_idle else None)
        if table.sks:
            table.play_sks()
        said = table.condition("Active").get("reason")
        steps = table.plan()
        for step in steps:
            if isinstance(step, ScaleTo) and step.replicas == 0:
                assert (said, mode(table)) == ("NoTraffic", "Proxy")
                assert (demand.requests, demand.age_s < 11) == (0, True)
                assert annotations.get("min-scale", "0") == "0"
        table.apply(steps)
        table.settle()
        assert isinstance(table.target, Observed)
        if demand.requests and reason in ("NoData", "AtKnee") and table.policy:
            assert table.target.replicas > 0 or not table.decide().valid
        if starts or table.target.replicas == 0:
            table.target = Observed(table.target.replicas, table.target.replicas)
