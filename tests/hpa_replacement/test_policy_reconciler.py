"""Rounds over a small world: who is decided for, what is carried out and written, what stays as it is."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import pytest
import structlog.testing

from hpa_replacement.adapter.table import read_policy
from hpa_replacement.adapter.values import Limits, withheld
from surgekit.kube.client import ApiError
from tests.hpa_replacement.builders import World, at_the_knee, exported, hpa, kneepolicy, pod


def decided_at_s(status: dict[str, Any]) -> float:
    return datetime.fromisoformat(status["decidedAt"]).timestamp()


def test_a_policy_brings_its_target_to_the_knee() -> None:
    world = World()
    world.add(kneepolicy())
    reconciler = world.reconciler()
    reasons = []
    for _ in range(15):
        world.go(reconciler)
        reasons.append(world.condition()[1])
    assert at_the_knee(world), (world.replicas, world.condition())
    assert reasons[0] == "Searching"
    assert reasons[-1] == "AtKnee"
    status = world.status()
    assert status["targetReplicas"] == status["replicas"] == world.replicas["web"]
    assert status["knownKnees"]
    assert "search" not in status
    assert status["lastSample"]["capacity"] == 40
    assert exported(world, "changes_total") == len(world.scaled())
    assert exported(world, "policies", reason="AtKnee") == 1
    assert exported(world, "policies", reason="Searching") == 0, "reasons nobody has any more are 0"


def test_log_and_status_say_how_old_the_inputs_are() -> None:
    world = World()
    world.add(kneepolicy())
    reconciler = world.reconciler()
    for name, age_s in (("pods", 3.0), ("nodes", 7.0)):
        world.source._watches[name]._last_contact_s = time.monotonic() - age_s
    with structlog.testing.capture_logs() as logs:
        world.go(reconciler)
    (said,) = (line for line in logs if line["event"] == "decision")
    ages = world.status()["lastDecision"]["inputsAgeSeconds"]
    assert said["inputs_age_s"]["pods"] == pytest.approx(ages["pods"], abs=0.1)
    assert (ages["pods"], ages["nodes"], ages["sample"]) == pytest.approx((3.0, 7.0, 0.0), abs=1.0)
    world.down = True
    world.go(reconciler)
    assert "sample" not in world.status()["lastDecision"]["inputsAgeSeconds"]


class OfConcurrency(World):
    """Its targets are ComboFuncs: their replicas are concurrency, of which each pod has four."""

    def get(self, path: str, **_: Any) -> dict[str, Any]:
        if path == COMBOFUNCS:
            names = ("combofuncs", "combofuncs/scale")
            return {
                "resources": [
                    {"name": n, "kind": k} for n, k in zip(names, ("ComboFunc", "Scale"), strict=True)
                ]
            }
        return super().get(path.replace(f"{COMBOFUNCS}/namespaces/shop/combofuncs", DEPLOYMENTS))

    def _feed_pods(self) -> None:
        pods = [
            pod(f"{app}-{i}", app=app) for app, most in self.replicas.items() for i in range(-(-most // 4))
        ]
        for one in pods:
            one["metadata"]["annotations"] = {"surgekit.dev/concurrency": "4"}
        self._feed("pods", pods)


COMBOFUNCS, DEPLOYMENTS = "/apis/surgekit.dev/v1alpha1", "/apis/apps/v1/namespaces/shop/deployments"


def test_a_combofunc_is_counted_by_its_concurrency() -> None:
    """A pod is several replicas of its scale, and a plan may have a little more than was asked for."""
    world = OfConcurrency(web=2)
    target = {"apiVersion": "surgekit.dev/v1alpha1", "kind": "ComboFunc", "name": "web"}
    world.add(kneepolicy(scaleTargetRef=target))
    world.go(world.reconciler(), 15)
    assert at_the_knee(world), (world.replicas, world.condition())
    sample = world.status()["lastSample"]
    assert sample["readyReplicas"] == sample["replicas"] == world.replicas["web"]
    assert sample["capacity"] == 160  # 40 pods of 200m on 8 cores


def test_changes_and_refusals_are_told_in_events_once() -> None:
    world = World()
    world.add(kneepolicy())
    reconciler = world.reconciler()
    world.go(reconciler, 15)
    assert [event["reason"] for event in world.events] == ["Rescaled"] * len(world.scaled())
    assert world.events[0]["note"].startswith(f"1 to {world.scaled()[0]}: ")
    assert world.events[0]["regarding"]["uid"] == world.policies["web"]["metadata"]["uid"]
    world.down = True
    world.go(reconciler, 5)
    (told,) = world.events[len(world.scaled()) :]
    assert (told["type"], told["reason"]) == ("Warning", "NoData")


def test_an_event_that_is_refused_keeps_nothing_from_being_decided() -> None:
    world = World()
    world.refusals["/events"] = ApiError(403, "Forbidden", "events is forbidden")
    world.add(kneepolicy())
    world.go(world.reconciler(), 15)
    assert at_the_knee(world)


def test_a_restart_in_the_middle_of_a_search_goes_on_where_it_was() -> None:
    """After every interval another leader; the same decisions as one leader makes."""
    worlds = World(), World()
    for world in worlds:
        world.add(kneepolicy())
    steady = worlds[0].reconciler()
    for _ in range(15):
        worlds[0].go(steady)
        worlds[1].go(worlds[1].reconciler())
        searches = [world.status().get("search") for world in worlds]
        assert searches[0] == searches[1]
    assert worlds[0].scaled() == worlds[1].scaled()
    assert at_the_knee(worlds[1])


@pytest.mark.parametrize("mode", ["shadow", "enforce"])
def test_shadow_decides_and_changes_nothing(mode: str) -> None:
    world = World(web=3)
    world.add(kneepolicy(mode="shadow"))
    reconciler = world.reconciler()
    world.go(reconciler, 10)
    assert world.scaled() == []
    assert world.condition()[1] == "Searching"
    assert "not carried out: shadow" in world.condition()[2]
    assert world.status()["targetReplicas"] != 3
    if mode == "enforce":
        # Nothing was learnt from replicas that were asked for in vain.
        assert not world.status()["knownKnees"]
        world.edit("web", mode="enforce")
        world.go(reconciler, 15)
        assert at_the_knee(world)


def test_while_prometheus_is_down_replicas_stay_and_the_target_stays_fresh() -> None:
    """For an hour; the metrics adapter serves only what was decided within the last intervals."""
    world = World()
    world.add(kneepolicy())
    reconciler = world.reconciler()
    world.go(reconciler, 15)
    before, scaled, known = world.replicas["web"], world.scaled(), world.status()["knownKnees"]
    world.down = True
    for _ in range(120):
        world.go(reconciler)
        assert decided_at_s(world.status()) == pytest.approx(world.now_s, abs=0.001)
    assert world.condition()[:2] == ("False", "NoData")
    assert "does not answer" in world.condition()[2]
    assert world.status()["targetReplicas"] == before
    world.down = False
    world.go(reconciler, 2)
    assert world.condition()[1] == "AtKnee"
    assert (world.replicas["web"], world.scaled(), world.status()["knownKnees"]) == (before, scaled, known)


def test_the_adapter_serves_what_a_round_wrote() -> None:
    world = World()
    world.add(kneepolicy(via="metrics"))
    world.set_hpas(hpa("follows", "web"))
    reconciler = world.reconciler()
    world.go(reconciler)
    limits = Limits(max_age_intervals=5.0, max_input_age_s=60.0)
    facts = read_policy(world.policies["web"])
    assert withheld(facts, world.now_s + 60, limits) == ""
    assert facts.target_replicas == world.status()["targetReplicas"]
    world.edit("web", maxReplicas=30)
    assert "has not read the change yet" in withheld(read_policy(world.policies["web"]), world.now_s, limits)
    reconciler.reconcile_due(world.now_s + 1.0)  # a change is answered within its interval
    reconciler._lanes.wait()
    assert withheld(read_policy(world.policies["web"]), world.now_s, limits) == ""


def test_every_interval_is_answered_once_and_nothing_in_between() -> None:
    world = World()
    world.add(kneepolicy(mode="shadow"))
    reconciler = world.reconciler()
    for _ in range(3):
        world.go(reconciler)
        written = len(world.patches)
        assert reconciler.reconcile_due(world.now_s + 0.5) == 1.0
        assert reconciler.reconcile_due(world.now_s + 28.5) == pytest.approx(0.5)
        assert len(world.patches) == written
        assert world.status()["observedGeneration"] == 1
    assert len(world.patches) == 3, "decidedAt is renewed also when nothing changes"


@pytest.mark.parametrize("jump_s", [-7200.0, 7200.0])
def test_a_clock_that_jumps_costs_one_interval(jump_s: float) -> None:
    world = World()
    world.add(kneepolicy())
    reconciler = world.reconciler()
    world.go(reconciler, 15)
    before = world.replicas["web"]
    world.now_s += jump_s
    if jump_s < 0:
        world.source._state._pods.clear()  # seen before the clock was wrong
        world.source._state._by_label.clear()
        world.scale("web", before)
    world.go(reconciler)
    assert world.condition()[:2] == ("False", "Undecided")
    assert "the clock went from" in world.condition()[2]
    world.go(reconciler)
    assert world.condition()[1] in ("AtKnee", "Holding")
    assert world.replicas["web"] == before


@pytest.mark.parametrize("when", ["before the round", "while it looks"])
def test_a_lease_lost_writes_nothing(when: str) -> None:
    world = World()
    world.add(kneepolicy())
    reconciler = world.reconciler()
    world.go(reconciler, 3)
    patches = list(world.patches)
    if when == "before the round":
        world.leads = False
    else:
        values = world.values

        def lose(query: str, at_s: float) -> Any:
            world.leads = False
            return values(query, at_s)

        world.values = lose  # type: ignore[method-assign]
    world.go(reconciler, 2)
    assert world.patches == patches


def test_a_policy_made_again_under_its_name_starts_anew() -> None:
    world = World()
    world.add(kneepolicy())
    reconciler = world.reconciler()
    world.go(reconciler, 15)
    assert world.status()["knownKnees"]
    world.remove("web")
    world.go(reconciler)
    world.add(kneepolicy())
    reconciler.reconcile_due(world.now_s + 1.0)  # within the interval the other was answered in
    reconciler._lanes.wait()
    assert not world.status()["knownKnees"]
    assert world.condition()[1] == "Searching"


def test_a_policy_replaced_while_it_is_decided_on_is_left_alone() -> None:
    world = World()
    world.add(kneepolicy())
    reconciler = world.reconciler()
    world.go(reconciler)
    again = kneepolicy()
    world.before_patch = lambda path: world.policies.update(web=again) if path.endswith("/status") else None
    world.go(reconciler)
    assert "status" not in again
    assert exported(world, "failures_total", what="status") == 1


def test_a_status_somebody_else_wrote_is_forgotten() -> None:
    world = World()
    policy = kneepolicy()
    policy["status"] = {"knownKnees": [{"replicas": "all"}], "scaling": {"asked": 1e9}, "search": {"x": 1}}
    world.add(policy)
    reconciler = world.reconciler()
    with structlog.testing.capture_logs() as logs:
        world.go(reconciler, 1)
    assert [(line["event"], line["policy"]) for line in logs if line["log_level"] == "warning"] == [
        ("unreadable status ignored, starting anew", "shop/web")
    ]
    assert world.condition()[1] == "Searching", "decided on an empty state at once"
    assert "knownKnees" not in world.status() or world.status()["knownKnees"] == []
    world.go(reconciler, 14)
    assert at_the_knee(world)


@pytest.mark.parametrize(
    ("clients", "counts"),
    [
        (1, True),  # latency 1 s: 28 s after the wait are left for a window of 24 s
        (17, False),  # latency 9 s: 12 s are left, and the shortest window is 18 s
    ],
)
def test_a_sample_counts_only_after_twice_the_latency(
    monkeypatch: pytest.MonkeyPatch, clients: int, counts: bool
) -> None:
    """Requests queued in the pods there were before are served by these, not by the new ones."""
    world = World(web=2)
    world.clients = clients
    world.add(kneepolicy())
    reconciler = world.reconciler()
    world.go(reconciler)  # measures the latency and begins a search
    asked, search = world.status()["targetReplicas"], world.status()["search"]
    taken = len(search["points"]) + len(search["evidence"])
    replicas = world.source.replicas
    # All pods have been Ready for exactly one interval.
    monkeypatch.setattr(world.source, "replicas", lambda *target: (replicas(*target)[0], world.now_s - 30.0))
    world.go(reconciler)
    search = world.status().get("search", {"points": [], "evidence": []})
    message = world.condition()[2]
    assert world.replicas["web"] == asked or counts
    assert ("window not clean" in message) is not counts, message
    assert (len(search["points"]) + len(search["evidence"]) == taken) is not counts


@pytest.mark.parametrize(
    ("why", "reason"), [("no capacity", "Undecided"), ("no pods", "NoData"), ("stopped", "NoData")]
)
def test_in_doubt_replicas_stay(why: str, reason: str) -> None:
    world = World(web=5)
    world.add(kneepolicy(minReplicas=2))
    if why == "no capacity":
        world._feed("nodes", [])
        pods = world.source._state._pods
        for uid in list(pods)[1:]:
            world.source._state._forget(uid)
    elif why == "no pods":
        world._feed("pods", [])
    else:
        world.scale("web", 0)
    world.go(world.reconciler(), 3)
    assert world.condition()[:2] == ("False", reason)
    assert world.scaled() == []


def test_when_the_load_is_gone_replicas_go() -> None:
    world = World()
    world.add(kneepolicy(minReplicas=2))
    reconciler = world.reconciler()
    world.go(reconciler, 15)
    assert at_the_knee(world)
    world.clients = 0
    world.go(reconciler, 12)  # loads of the last ten intervals may come back
    assert world.replicas["web"] == 2


@pytest.mark.parametrize(("at_end", "replicas"), [("hold", 1), ("stop", 0)])
def test_a_budget_that_is_spent(at_end: str, replicas: int) -> None:
    world = World(web=10)
    world.add(
        kneepolicy(
            search={"variant": "paper"}, budget={"replicaIntervals": 25, "window": "1h", "atEnd": at_end}
        )
    )
    reconciler = world.reconciler()
    world.go(reconciler, 6)
    assert world.condition()[:2] == ("True", "BudgetSpent")
    assert world.replicas["web"] == replicas
    assert world.status()["budget"]["spent"] >= 25
    world.now_s += 3600 - 10 * 30
    world.go(reconciler, 12)  # the window's clock went on: a new budget
    assert world.replicas["web"] >= 1


def test_a_fault_of_ours_in_one_policy_is_not_the_others() -> None:
    world = World(web=1, shop=1)
    world.add(kneepolicy(), kneepolicy("shop"))
    replicas = world.source.replicas

    def faulty(namespace: str, selector: dict[str, str]) -> Any:
        if selector == {"app": "web"}:
            raise ZeroDivisionError("oops")
        return replicas(namespace, selector)

    world.source.replicas = faulty  # type: ignore[method-assign]
    world.go(world.reconciler())
    assert world.condition("web")[:2] == ("False", "Failed")
    assert world.condition("shop")[1] == "Searching"
