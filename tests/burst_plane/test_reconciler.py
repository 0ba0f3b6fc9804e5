"""What the leader makes of objects, agents and traffic: directory, preparations, scale and statuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from burst_plane.model import Function
from surgekit.kube.client import ApiError, KubeUnreachable
from tests.burst_plane.objects import (
    Json,
    agent_pod,
    burst_function,
    deployment,
    network_policy,
    node_object,
    service,
)
from tests.burst_plane.world import Plane, plain_objects

RESIZE = Function("shop", "resize")
BURST_FUNCTION = "/apis/surgekit.dev/v1alpha1/namespaces/shop/burstfunctions/resize"


@pytest.fixture
def plane(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plane]:
    def make(*objects: Json, **settings: Any) -> Plane:
        return Plane(monkeypatch, *objects, **settings)

    return make


def ready(made: Plane) -> Plane:
    """Let it find the template, hear the agent, and see that everything is prepared."""
    made.step()
    made.agent_says()
    made.step()
    made.agent_says(prepared=True)
    made.step()
    return made


def test_a_function_overflows_as_soon_as_it_is_eligible_and_an_agent_answers(
    plane: Callable[..., Plane],
) -> None:
    made = plane()
    made.step()
    assert made.condition("Eligible") == ("True", "Eligible")
    assert made.condition("Overflow") == ("False", "NoAgents")
    assert not made.directory.functions
    made.agent_says()
    made.step()
    assert [f.function for f in made.directory.functions] == [RESIZE]
    assert made.condition("Overflow") == ("True", "Enforcing")
    assert made.condition("Ready") == ("False", "Preparing")
    (wanted,) = made.links.told["n1"]
    assert (wanted.function, wanted.created + wanted.frozen) == (RESIZE, 2)
    made.agent_says(prepared=True)
    made.step()
    assert made.condition("Ready") == ("True", "Prepared")
    assert wanted.spec.template == made.directory.functions[0].template
    assert wanted.spec.template not in str(made.status())
    assert {"Eligible", "Enforcing"} <= set(made.reasons())


def test_shadow_lists_and_prepares_nothing_and_scales_nothing(plane: Callable[..., Plane]) -> None:
    made = ready(plane(*plain_objects(mode="shadow")))
    assert [f.mode for f in made.directory.functions] == ["shadow"]
    assert made.links.told == {"n1": ()}
    made.step(70, arrivals=1, queued=5.0)
    assert made.replicas() == 1
    assert made.status()["regular"]["wanted"] == 8  # ceil(5 / 0.7)
    assert made.condition("Overflow") == ("True", "Shadow")


def test_off_undoes_everything_and_leaves_no_function_at_zero(plane: Callable[..., Plane]) -> None:
    made = ready(plane())
    made.step(2, arrivals=1)
    made.step(200, in_regular=0.0)
    assert made.replicas() == 0
    made.api.patch(BURST_FUNCTION, {"spec": {"mode": "off"}})
    made.api.fail(ApiError(500, "InternalError", "oops"), when=lambda c: c.path.endswith("/scale"))
    made.step(0)
    made.step(0.5)
    assert not made.directory.functions
    assert made.links.told == {"n1": ()}
    assert made.replicas() == 1
    made.step()
    assert made.condition("Overflow") == ("False", "Off")
    assert made.condition("Eligible") == ("False", "Off")
    made.api.patch("/apis/apps/v1/namespaces/shop/deployments/resize", {"spec": {"replicas": 0}})
    made.step(20)
    assert made.replicas() == 0  # that was somebody else


def test_a_deleted_function_is_let_go_as_one_that_is_off(plane: Callable[..., Plane]) -> None:
    made = ready(plane())
    made.step(200, in_regular=0.0)
    assert made.replicas() == 0
    made.api.delete(BURST_FUNCTION)
    made.step()
    assert (made.replicas(), made.directory.functions, made.links.told) == (1, (), {"n1": ()})


def test_settings_cap_the_mode(plane: Callable[..., Plane]) -> None:
    made = ready(plane(mode="shadow"))
    assert made.status()["mode"] == "shadow"
    assert made.links.told == {"n1": ()}


def test_queued_requests_count_unfiltered_and_emergency_ones_by_the_filter(
    plane: Callable[..., Plane],
) -> None:
    rare = ready(plane())
    rare.step(4, in_emergency=20.0)
    assert rare.replicas() == 1  # no history: nothing counts
    assert rare.status()["interArrivals"]["counts"] is False
    rare.step(60, arrivals=1, in_emergency=7.0)
    assert rare.replicas() == 10
    assert rare.status()["interArrivals"]["counts"] is True
    waiting = ready(plane())
    waiting.step(60, queued=7.0)
    assert waiting.replicas() == 10


def test_without_reports_nothing_is_scaled(plane: Callable[..., Plane]) -> None:
    """Missing data is no traffic of zero, not even in the second in which Knative's window ends."""
    made = ready(plane())
    made.step(60, in_regular=7.0)
    assert made.replicas() == 10
    for _ in range(80):
        made.step(1)
        made.step(1)
    assert made.replicas() == 10
    assert "no placement reports" in made.status()["regular"]["reason"]


def test_a_new_leader_lowers_nothing_before_it_has_watched_for_a_keepalive(
    plane: Callable[..., Plane],
) -> None:
    made = ready(plane())
    made.step(60, in_regular=7.0)
    assert made.replicas() == 10
    made.begin()
    made.agent_says()
    made.step(2)
    made.step(50, in_regular=0.0)
    assert made.replicas() == 10
    made.step(20, in_regular=0.0)
    assert made.replicas() < 10


def test_the_next_leader_takes_over_the_history(plane: Callable[..., Plane]) -> None:
    made = ready(plane())
    made.step(30, arrivals=2)
    made.step(30)
    before = made.status()["interArrivals"]
    assert (before["counts"], sum(before["number"])) == (True, 59)
    made.begin()
    made.step(10)
    assert made.status()["interArrivals"]["number"] == before["number"]
    made.now_s += 7200
    made.begin()
    made.step()
    assert made.status()["interArrivals"]["counts"] is False  # two hours old


@pytest.mark.parametrize("via", ["metric", "none"])
def test_others_may_set_the_scale(plane: Callable[..., Plane], via: str) -> None:
    made = ready(plane(*plain_objects(scaling={"via": via})))
    made.step(60, in_regular=7.0)
    assert made.replicas() == 1
    assert f"via: {via}" in made.status()["regular"]["reason"]
    assert made.metrics.registry.get_sample_value(
        "surgekit_burst_controller_concurrency", {"namespace": "shop", "function": "resize"}
    ) == pytest.approx(7.0)


INVALID: list[Json] = [
    {"mode": "sometimes"}, {"concurrency": 0}, {"keepalive": "9" * 5000}, {"targetRef": []},
    {"scaling": {"minReplicas": 9, "maxReplicas": 1}}, {"thresholdPercentile": float("1e300")},
]  # fmt: skip


@pytest.mark.parametrize("spec", INVALID)
def test_an_invalid_function_stops_no_other(plane: Callable[..., Plane], spec: Json) -> None:
    objects = (*plain_objects(), burst_function("bad", **spec), burst_function("worse", "other", **spec))
    made = ready(plane(*objects))
    assert [f.function for f in made.directory.functions] == [RESIZE]
    assert made.condition("Overflow", "bad") == ("False", "InvalidSpec")
    assert "InvalidSpec" in made.reasons()
    made.step(60, queued=7.0)
    assert made.replicas() == 10
    writes = [c for c in made.api.writes if c.path.endswith("bad/status")]
    assert len(writes) <= 70 / made.settings.status_every_s + 3


def test_a_function_that_becomes_invalid_scales_by_its_last_spec_and_does_not_overflow(
    plane: Callable[..., Plane],
) -> None:
    made = ready(plane())
    made.api.patch(BURST_FUNCTION, {"spec": {"concurrency": -1}})
    made.step()
    assert (made.directory.functions, made.links.told) == ((), {"n1": ()})
    assert made.condition("Overflow") == ("False", "InvalidSpec")
    assert "concurrency" in made.message("Overflow")
    made.step(60, queued=7.0)
    assert made.replicas() == 10
    made.api.patch(BURST_FUNCTION, {"spec": {"concurrency": 1}})
    made.step()
    made.step()
    assert made.condition("Overflow") == ("True", "Enforcing")


def test_of_two_functions_with_one_target_the_older_holds(plane: Callable[..., Plane]) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "resize"}
    second = burst_function("another", created="2026-11-20T00:00:00Z", mode="enforce", targetRef=target)
    made = ready(plane(*plain_objects(), second))
    assert [f.function for f in made.directory.functions] == [RESIZE]
    assert made.condition("Eligible", "another") == ("False", "TargetTaken")
    made.report("another", queued=50.0)
    made.step(4, queued=0.7)
    assert made.replicas() == 1
    made.api.delete(BURST_FUNCTION)
    made.step()
    assert made.condition("Eligible", "another") == ("True", "Eligible")


def test_the_oldest_of_a_namespace_may_overflow(plane: Callable[..., Plane]) -> None:
    more = [burst_function(f"f{i}", created=f"2026-11-2{i}T00:00:00Z", mode="enforce") for i in range(3)]
    targets = [deployment(f"f{i}") for i in range(3)]
    made = ready(plane(*plain_objects(), *more, *targets, most_functions=2))
    made.step()
    assert {f.function.name for f in made.directory.functions} == {"resize", "f0"}
    assert made.condition("Eligible", "f2") == ("False", "TooManyFunctions")


def test_every_template_is_looked_at_in_time(plane: Callable[..., Plane]) -> None:
    """Only so many a look, and none is forgotten."""
    many = [o for i in range(35) for o in (burst_function(f"f{i}", mode="enforce"), deployment(f"f{i}"))]
    made = ready(plane(*many, node_object(), agent_pod()))
    made.step()
    assert len(made.directory.functions) == 35


def test_nodes_that_are_cordoned_gone_or_draining_start_nothing(plane: Callable[..., Plane]) -> None:
    objects = (
        *plain_objects(),
        *(agent_pod(n, f"10.0.0.{i}") for i, n in ((8, "cordoned"), (9, "sick"), (10, "gone"))),
        node_object("cordoned", cordoned=True),
        node_object("sick", ready=False),
    )
    made = plane(*objects)
    for node in ("n1", "cordoned", "sick", "gone"):
        made.agent_says(node)
    made.step()
    made.step()
    assert [a.node for a in made.directory.agents] == ["n1"]
    assert {a.node for a in made.links.followed} == {"n1", "cordoned", "sick", "gone"}
    assert {node for node, of in made.links.told.items() if of} == {"n1"}
    made.agent_says(draining=True)
    made.step()
    assert made.links.told["n1"] == ()
    assert made.condition("Overflow") == ("False", "NoAgents")


def test_agents_that_vanish_end_the_overflow_and_those_that_return_begin_it(
    plane: Callable[..., Plane],
) -> None:
    made = ready(plane())
    made.links.states = {}
    made.step()
    assert not made.directory.functions
    assert made.condition("Overflow") == ("False", "NoAgents")
    made.agent_says()
    made.step()
    assert [f.function for f in made.directory.functions] == [RESIZE]


def test_an_agent_is_told_to_give_up_what_it_should_not_have(plane: Callable[..., Plane]) -> None:
    made = ready(plane())
    made.api.delete("/apis/apps/v1/namespaces/shop/deployments/resize")
    made.step(15)
    assert made.condition("Eligible") == ("False", "NoTarget")
    assert (made.directory.functions, made.links.told) == ((), {"n1": ()})


def test_a_changed_template_is_prepared_at_once(plane: Callable[..., Plane]) -> None:
    made = ready(plane())
    before = made.directory.functions[0].template
    changed = deployment(image="registry.example/resize:2")
    changed["metadata"]["generation"] = 4
    made.api.add(changed)
    made.step()
    (wanted,) = made.links.told["n1"]
    assert wanted.spec.image == "registry.example/resize:2"
    assert made.directory.functions[0].template == wanted.spec.template != before


def test_an_egress_policy_makes_it_ineligible_as_soon_as_it_is_there(plane: Callable[..., Plane]) -> None:
    made = ready(plane())
    made.api.add(network_policy("quiet", policyTypes=["Egress"]))
    made.step()
    assert made.condition("Eligible") == ("False", "EgressPolicy")
    assert not made.directory.functions
    made.api.delete("/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies/quiet")
    made.step()
    assert made.condition("Eligible") == ("True", "Eligible")


# --- faults of the API server ---


@pytest.mark.parametrize("error", [ApiError(500, "InternalError", "oops"), ApiError(429, "Busy", "later")])
def test_a_fault_of_the_api_server_changes_nothing(plane: Callable[..., Plane], error: ApiError) -> None:
    made = ready(plane())
    made.api.fail(error, times=1000, when=lambda call: call.writes)
    made.step(120, queued=7.0)
    assert [f.function for f in made.directory.functions] == [RESIZE]
    assert made.links.told["n1"]
    value = made.metrics.registry.get_sample_value
    for name, what in (("failures", "status"), ("failures", "resolve"), ("scalings", "failed")):
        assert value(f"surgekit_burst_controller_{name}_total", {"what": what}), what
    for fault in made.api._faults:
        fault.left = 0
    made.step(20, queued=7.0)
    assert made.replicas() == 10


def test_an_unreachable_api_server_is_left_to_the_shell_and_what_was_told_stays(
    plane: Callable[..., Plane],
) -> None:
    made = ready(plane())
    made.step(20, queued=7.0)
    made.look()
    made.api.down = True
    made.now_s += 30
    with pytest.raises(KubeUnreachable):
        made.reconciler.step()
    assert [f.function for f in made.directory.functions] == [RESIZE]


def test_one_target_that_cannot_be_scaled_keeps_no_other(plane: Callable[..., Plane]) -> None:
    target = {"apiVersion": "example.dev/v1", "kind": "Goose", "name": "goose"}
    others = [
        burst_function(name, created="2026-11-10T00:00:00Z", mode=mode, targetRef=target | {"name": name})
        for name, mode in (("goose", "enforce"), ("gander", "off"))
    ]
    made = ready(plane(*plain_objects(), *others))
    made.step(60, queued=7.0)
    assert made.replicas() == 10
    assert made.condition("Eligible", "goose") == ("False", "NoTarget")
    assert "not served" in made.status("goose")["regular"]["reason"]


def test_thousands_of_one_namespace_keep_no_others_status_waiting(plane: Callable[..., Plane]) -> None:
    many = [burst_function(f"f{i}", "other", targetRef={"kind": 1}) for i in range(500)]
    made = ready(plane(*plain_objects(), *many))
    made.step()
    written = len(made.api.writes)
    made.step(10, queued=1.0)
    assert len(made.api.writes) - written <= 110
    assert made.status("resize")["regular"]["queued"] == "1"


def test_functions_that_do_not_count_cost_no_calls(plane: Callable[..., Plane]) -> None:
    target = {"apiVersion": "surgekit.dev/v1alpha1", "kind": "ComboFunc"}
    many = [burst_function(f"f{i}", targetRef=target | {"name": f"f{i}"}) for i in range(50)]
    made = ready(plane(*plain_objects(), *many, most_functions=5))
    made.step()
    before = len(made.api.calls)
    made.step()
    assert len([call for call in made.api.calls[before:] if "combofuncs" in call.path]) <= 5 * 2


def test_who_does_not_lead_writes_nothing(plane: Callable[..., Plane]) -> None:
    made = ready(plane())
    writes = len(made.api.writes)
    made.leads = False
    made.step(60, queued=7.0)
    assert len(made.api.writes) == writes


def test_a_silent_function_costs_few_writes(plane: Callable[..., Plane]) -> None:
    made = ready(plane())
    made.step(30, in_regular=0.0)
    before = len(made.api.writes)
    for _ in range(60):
        made.step(1, in_regular=0.5)
    dry_runs_and_statuses = len(made.api.writes) - before
    assert dry_runs_and_statuses <= 60 / 10 + 60 / 60 + 2


def test_the_service_says_where_requests_go(plane: Callable[..., Plane]) -> None:
    made = ready(plane(*plain_objects()[:2], service(port=9090), node_object(), agent_pod()))
    (wanted,) = made.links.told["n1"]
    assert wanted.spec.port == 9090


def test_metrics_of_a_function_that_is_gone_are_gone(plane: Callable[..., Plane]) -> None:
    made = ready(plane())
    made.step(10, in_regular=1.0)
    labels = {"namespace": "shop", "function": "resize"}
    value = made.metrics.registry.get_sample_value
    assert value("surgekit_burst_controller_concurrency", labels) == pytest.approx(1.0)
    made.api.delete(BURST_FUNCTION)
    made.step()
    assert value("surgekit_burst_controller_concurrency", labels) is None
