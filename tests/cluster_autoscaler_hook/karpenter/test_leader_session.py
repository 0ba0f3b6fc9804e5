"""A leader's steps against an API server in memory: bad input leaves nothing half-done."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from cluster_autoscaler_hook.karpenter import claims, nodeplan
from cluster_autoscaler_hook.karpenter.actuator import Actuator
from cluster_autoscaler_hook.karpenter.labels import ARCHITECTURE, CAPACITY_TYPE, GATE, INSTANCE_TYPE
from cluster_autoscaler_hook.karpenter.leader_session import LeaderSession
from cluster_autoscaler_hook.karpenter.metrics import HookMetrics
from cluster_autoscaler_hook.karpenter.model import (
    Claim,
    ClusterNode,
    ClusterView,
    Kind,
    PendingPod,
    Requirement,
)
from cluster_autoscaler_hook.karpenter.settings import Settings
from cluster_autoscaler_hook.karpenter.strict_catalogue import SHIPPED
from cluster_autoscaler_hook.solver.model import InvalidProblem, Problem, Solution
from surgekit.kube.client import ApiError, Kube
from surgekit.process.modes import Mode
from tests.cluster_autoscaler_hook.karpenter.builders import GIB, pending, solve
from tests.events_at_once import EventsAtOnce
from tests.fake_api_server.patches import MERGE, apply_patch

Json = dict[str, Any]
KIND = Kind(900, 3 * GIB, exclusive=("one a node",))
NODE_CLASS = {"node_class_group": "g", "node_class_kind": "K", "node_class_name": "n"}


class MemoryKube:
    """Just enough of an API server: objects by path, and faults on order."""

    host = "memory"

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.refuse: Callable[[str, str], ApiError | None] = lambda _method, _path: None

    def _maybe_refuse(self, method: str, path: str) -> None:
        if error := self.refuse(method, path):
            raise error

    def get(self, path: str, **_: Any) -> Json:
        self._maybe_refuse("GET", path)
        if path not in self.objects:
            raise ApiError(404, "NotFound", path)
        return self.objects[path]

    def create(self, path: str, body: Json, **_: Any) -> Json:
        full = f"{path}/{body['metadata']['name']}"
        self._maybe_refuse("POST", full)
        if full in self.objects:
            raise ApiError(409, "AlreadyExists", full)
        self.objects[full] = body
        return body

    def patch(self, path: str, body: Json, content_type: str = MERGE, **_: Any) -> Json:
        self._maybe_refuse("PATCH", path)
        own = path.removesuffix("/status")
        self.objects[own] = apply_patch(self.get(own), body, content_type, custom=False)
        return self.objects[own]

    def delete(self, path: str, *_: Any, **__: Any) -> Json:
        self._maybe_refuse("DELETE", path)
        return self.objects.pop(path)

    def claims(self) -> list[Json]:
        return [o for path, o in self.objects.items() if path.startswith(claims.PATH)]

    @property
    def plan(self) -> Json:
        return cast(Json, self.objects[f"{nodeplan.PATH}/fcma"]["status"])


class MemorySource:
    """The watches: tells what the API server has, when told to look."""

    def __init__(self, kube: MemoryKube, pods: int) -> None:
        self._kube = kube
        self.pending = pending(KIND, pods)
        self.nodes: dict[str, ClusterNode] = {}
        self.known_claims: set[str] = set()
        self.gone: list[Claim] = []

    def view(self) -> ClusterView:
        found = tuple(claims.read_claim(o) for o in self._kube.claims())
        self.known_claims |= {claim.name for claim in found}
        return ClusterView(self.pending, found, self.nodes, frozenset({"amd64", "arm64"}))

    def refused(self) -> list[Claim]:
        gone, self.gone = self.gone, []
        return gone

    def overhead(self) -> tuple[int, int, int]:
        return 0, 0, 0


@pytest.fixture
def kube() -> MemoryKube:
    return MemoryKube()


def session_of(
    kube: MemoryKube,
    pods: int = 4,
    solver: Callable[[Problem], Solution] = solve,
    held: bool = True,
    **settings: Any,
) -> tuple[LeaderSession, MemorySource]:
    live: dict[str, Any] = {"mode": Mode.ENFORCE, "catalogue": SHIPPED, **NODE_CLASS}
    given = Settings(batch_idle_s=0.0, **(live | settings))
    source, metrics = MemorySource(kube, pods), HookMetrics()
    actuator = Actuator(cast(Kube, kube), EventsAtOnce(kube), given, lambda: held, metrics.writes)
    return LeaderSession(given, source, actuator, metrics, solver), source


def test_a_plan_is_written_down_and_carried_out_once(kube: MemoryKube) -> None:
    session, _ = session_of(kube)
    for _ in range(3):
        session.step()
    assert len(kube.claims()) == 4
    assert kube.plan["phase"] == "Launched"
    assert kube.plan["plannedNodes"] == 4


def test_a_replica_that_takes_over_in_the_middle_makes_the_same_claims(kube: MemoryKube) -> None:
    made: list[str] = []

    def die_after_two(method: str, path: str) -> ApiError | None:
        if method == "POST" and path.startswith(claims.PATH):
            made.append(path)
            return ApiError(500, "Dead", "the first replica is dead") if len(made) > 2 else None
        return ApiError(500, "Dead", "") if len(made) > 2 else None

    kube.refuse = die_after_two
    first, _ = session_of(kube)
    with pytest.raises(ApiError):
        first.step()
    assert len(kube.claims()) == 2
    assert kube.plan["phase"] == "Launching"
    wanted = {node["claim"] for node in kube.plan["nodes"]}
    kube.refuse = lambda _method, _path: None
    second, _ = session_of(kube, solver=lambda _: pytest.fail("the plan was made already"))
    second.step()
    assert {c["metadata"]["name"] for c in kube.claims()} == wanted
    assert kube.plan["phase"] == "Launched"


def test_a_claim_that_is_refused_is_tried_again_and_the_others_stand(kube: MemoryKube) -> None:
    refused: list[str] = []

    def refuse_one(method: str, path: str) -> ApiError | None:
        if method == "POST" and path.startswith(claims.PATH) and not refused:
            refused.append(path)
            return ApiError(422, "Invalid", "not today")
        return None

    kube.refuse = refuse_one
    session, _ = session_of(kube)
    session.step()
    assert len(kube.claims()) == 3
    assert "not today" in kube.plan["conditions"][0]["message"]
    session.step()
    assert len(kube.claims()) == 4


def test_a_catalogue_that_changes_during_a_solve_discards_the_plan(kube: MemoryKube, tmp_path: Path) -> None:
    table = tmp_path / "prices.csv"
    table.write_text(SHIPPED.read_text())
    solves = 0

    def solve_slowly(problem: Problem) -> Solution:
        nonlocal solves
        solves += 1
        if solves == 1:
            table.write_text("".join(SHIPPED.read_text().splitlines(keepends=True)[:3]))
        return solve(problem)

    session, _ = session_of(kube, solver=solve_slowly, catalogue=table)
    session.step()
    assert not kube.claims()
    session.step()
    assert solves == 2
    assert {claims.read_claim(c).instance_class for c in kube.claims()} <= {"c5.large", "c5.xlarge"}


def test_a_catalogue_that_cannot_be_read_rents_nothing_and_says_so(kube: MemoryKube, tmp_path: Path) -> None:
    session, _ = session_of(kube, catalogue=tmp_path / "missing.yaml")
    session.step()
    assert not kube.claims()
    assert "missing.yaml" in kube.plan["conditions"][0]["message"]


def test_a_solver_that_fails_rents_nothing_and_says_so(kube: MemoryKube) -> None:
    def fail(_problem: Problem) -> Solution:
        raise InvalidProblem("no such thing")

    session, _ = session_of(kube, solver=fail)
    session.step()
    assert not kube.claims()
    assert "no such thing" in kube.plan["conditions"][0]["message"]


def test_insufficient_capacity_means_planning_without_the_class(kube: MemoryKube) -> None:
    session, source = session_of(kube)
    session.step()
    first = {claims.read_claim(c).instance_class for c in kube.claims()}
    session.step()  # the watch tells of the claims
    # As Karpenter does: the claims go before they are launched.
    source.gone = [claims.read_claim(c) for c in kube.claims()]
    for claim in source.gone:
        kube.objects.pop(f"{claims.PATH}/{claim.name}")
    session.step()
    assert len(kube.claims()) == 4
    assert not first & {claims.read_claim(c).instance_class for c in kube.claims()}
    assert {u["instanceClass"] for u in kube.plan["unavailable"]} == first


def test_shadow_and_a_lost_lease_make_no_claim(kube: MemoryKube) -> None:
    shadow, source = session_of(kube, mode=Mode.SHADOW)
    source.pending = pending(KIND, 4, gates=(), opt_in="shadow", unschedulable=True)
    shadow.step()
    assert kube.plan["phase"] == "Shadow"
    assert kube.plan["costPerHour"] > 0
    lost, _ = session_of(kube, held=False)
    lost.step()
    assert not kube.claims()


def gated_pods(kube: MemoryKube, *pods: PendingPod) -> tuple[PendingPod, ...]:
    """The pods, and as objects of the API server."""
    for pod in pods:
        metadata = {"uid": pod.uid, "namespace": pod.namespace, "name": pod.name}
        gates = [{"name": gate} for gate in pod.gates]
        kube.objects[f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"] = {
            "metadata": metadata,
            "spec": {"schedulingGates": gates},
        }
    return pods


def gates_of(kube: MemoryKube, pod: PendingPod) -> list[Json]:
    spec = kube.objects[f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"]["spec"]
    return cast(list[Json], spec.get("schedulingGates", []))


def notes(kube: MemoryKube) -> list[str]:
    """The Events on pods that were handed over."""
    return [note for reason, note in events(kube) if reason == "LeftToKarpenter"]


def events(kube: MemoryKube) -> list[tuple[str, str]]:
    return [(o["reason"], o["note"]) for path, o in kube.objects.items() if "/events/" in path]


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OFF])
def test_a_hook_that_does_not_rent_hands_over_every_gated_pod(kube: MemoryKube, mode: Mode) -> None:
    session, source = session_of(kube, mode=mode)
    source.pending = gated_pods(kube, *pending(KIND, 3))
    session.step()
    assert [gates_of(kube, pod) for pod in source.pending] == [[], [], []]
    assert len(notes(kube)) == 3
    assert kube.plan["mode"] == mode
    assert kube.plan["gating"] is False
    session.step()
    assert len(notes(kube)) == 3, "said once, though the watch has not told of it yet"


def test_pods_nobody_will_plan_for_are_handed_over_and_the_others_served(kube: MemoryKube) -> None:
    spot = Kind(900, GIB, ((Requirement(CAPACITY_TYPE, "In", ("spot",)),),))
    strange = Kind(900, GIB, ((Requirement("disk", "In", ("ssd",)),),))
    gpu = PendingPod("gpu", "default", "gpu", None, "a request for nvidia.com/gpu", gates=("other", GATE))
    session, source = session_of(kube)
    ours = pending(KIND, 2)
    source.pending = gated_pods(kube, *ours, gpu, *pending(spot, 1, "spot"), *pending(strange, 1, "strange"))
    session.step()
    assert len(kube.claims()) == 2
    assert [gates_of(kube, pod) for pod in source.pending] == [
        [{"name": GATE}],
        [{"name": GATE}],
        [{"name": "other"}],
        [],
        [],
    ]
    said = " ".join(notes(kube))
    for word in ("nvidia.com/gpu", "allows no class", "the node label disk"):
        assert word in said
    assert kube.plan["waitingPods"] == 2


def test_pods_are_handed_over_when_nothing_can_be_planned_for_too_long(
    kube: MemoryKube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, source = session_of(kube, catalogue=tmp_path / "missing.yaml")
    source.pending = gated_pods(kube, *pending(KIND, 1))
    session.step()
    assert gates_of(kube, source.pending[0]) == [{"name": GATE}]
    assert kube.plan["gating"] is False, "no more pods are gated meanwhile"
    later = time.time() + 301
    monkeypatch.setattr(time, "time", lambda: later)
    kube.refuse = lambda method, path: ApiError(500, "Busy", path) if "/pods/" in path else None
    session.step()
    assert gates_of(kube, source.pending[0]) == [{"name": GATE}]
    kube.refuse = lambda _method, _path: None
    monkeypatch.setattr(time, "time", lambda: later + 3)
    session.step()
    assert gates_of(kube, source.pending[0]) == []
    assert "waited 304 s" in notes(kube)[0]


def test_a_pod_that_no_node_takes_is_not_rented_for_without_end(kube: MemoryKube) -> None:
    """As when the nodes of a class are not what the catalogue says."""
    session, source = session_of(kube)
    source.pending = gated_pods(kube, *pending(KIND, 1))
    for _ in range(40):
        session.step()
        for claim in kube.claims():
            name = claim["metadata"]["name"]
            claim["status"] = {"providerID": name, "conditions": [{"type": "Launched", "status": "True"}]}
            source.nodes[name] = ClusterNode(name, name, "c5.large", {}, 0, 0, 0, ready=True, workload_pods=1)
        if not gates_of(kube, source.pending[0]):
            break
    assert len(kube.claims()) == 5
    assert gates_of(kube, source.pending[0]) == []
    assert "5 plans rented for it" in " ".join(notes(kube))


def test_enforce_on_sample_prices_rents_nothing_and_gates_nothing(kube: MemoryKube, tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(
        "currency: EUR\nsample: true\nclasses:\n- {class: a, family: f, cores: 8, memoryGiB: 32, price: 1}\n"
    )
    session, _ = session_of(kube, catalogue=file)
    session.step()
    assert not kube.claims()
    assert kube.plan["gating"] is False
    assert "sample prices" in kube.plan["conditions"][0]["message"]


def test_a_new_leader_says_its_mode_at_once_and_keeps_the_last_plan_to_be_read(kube: MemoryKube) -> None:
    first, _ = session_of(kube)
    first.step()
    assert kube.plan["mode"] == "enforce"
    plan = kube.plan["plan"]
    second, source = session_of(kube, mode=Mode.SHADOW)
    source.pending = ()
    second.step()
    assert kube.plan["mode"] == "shadow"
    assert kube.plan["plan"] == plan
    assert kube.plan["waitingPods"] == 0


def test_pods_that_vanish_leave_a_plan_that_is_not_made(kube: MemoryKube) -> None:
    session, source = session_of(kube, pods=0)
    session.step()
    assert not kube.claims()
    source.pending = pending(KIND, 1)
    session.step()
    assert len(kube.claims()) == 1


def make_nodes_ready(kube: MemoryKube, source: MemorySource) -> None:
    """Every claim has a node that takes pods, as Karpenter would have it."""
    for claim in kube.claims():
        name, (requirement, *_) = claim["metadata"]["name"], claim["spec"]["requirements"]
        claim["status"] = {"providerID": name, "conditions": [{"type": "Launched", "status": "True"}]}
        (instance_class,) = requirement["values"]
        source.nodes[name] = ClusterNode(
            f"node-{name}", name, instance_class, {INSTANCE_TYPE: instance_class, ARCHITECTURE: "amd64"},
            64000, 256 * GIB, 110, ready=True,
        )  # fmt: skip


def test_a_pod_is_nominated_and_ungated_once_its_node_is_ready(kube: MemoryKube) -> None:
    session, source = session_of(kube)
    source.pending = gated_pods(kube, *pending(KIND, 2))
    session.step()
    assert all(gates_of(kube, pod) for pod in source.pending), "they wait while the nodes are prepared"
    make_nodes_ready(kube, source)
    session.step()
    for pod in source.pending:
        obj = kube.objects[f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"]
        assert obj["status"]["nominatedNodeName"].startswith("node-fcma-")
        assert gates_of(kube, pod) == []
    assert not notes(kube), "these pods are not Karpenter's"


def test_a_release_is_written_once_and_again_if_it_was_lost(
    kube: MemoryKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch that is late shows the gate for a while; a write that was lost shows it for longer."""
    session, source = session_of(kube)
    source.pending = gated_pods(kube, *pending(KIND, 1))
    session.step()
    make_nodes_ready(kube, source)
    patched: list[str] = []
    kube.refuse = lambda method, path: patched.append(path) if "/pods/" in path else None
    for _ in range(3):
        session.step()
    assert len([path for path in patched if path.endswith("/status")]) == 1
    later = time.time() + 3
    monkeypatch.setattr(time, "time", lambda: later)
    session.step()
    assert len([path for path in patched if path.endswith("/status")]) == 2


def test_a_class_that_is_left_out_is_an_event(kube: MemoryKube) -> None:
    session, source = session_of(kube)
    session.step()
    source.gone = [claims.read_claim(kube.claims()[0])]
    refused = source.gone[0]
    kube.objects.pop(f"{claims.PATH}/{refused.name}")
    session.step()
    ((reason, note),) = events(kube)
    assert reason == "ClassLeftOut"
    assert refused.instance_class in note
    assert refused.name in note


def test_what_a_user_must_know_is_an_event_once(kube: MemoryKube) -> None:
    session, source = session_of(kube, max_nodes=1)
    gpu = PendingPod("gpu", "shop", "gpu-0", None, "a request for nvidia.com/gpu", "enforce", (), True)
    source.pending = (*pending(KIND, 2), gpu)
    for _ in range(3):
        session.step()
    said = dict(events(kube))
    assert said["PodsNotPlanned"] == (
        "1 pods are left to Karpenter (shop/gpu-0 is one): a request for nvidia.com/gpu"
    )
    assert "1 pods that request 900m/3072Mi: max_nodes is 1" in said["PodsWithoutNode"]
    assert len(events(kube)) == 2


def test_a_plan_that_fails_is_an_event_and_so_is_the_next_failure(kube: MemoryKube, tmp_path: Path) -> None:
    def fail(_problem: Problem) -> Solution:
        raise InvalidProblem("no such thing")

    failing, _ = session_of(kube, solver=fail)
    failing.step()
    blind, _ = session_of(kube, catalogue=tmp_path / "missing.yaml")
    blind.step()
    said = dict(events(kube))
    assert "no such thing" in said["PlanFailed"]
    assert "missing.yaml" in said["CatalogueUnusable"]


def test_a_session_that_ends_stops_gating(kube: MemoryKube) -> None:
    session, _ = session_of(kube)
    session.step()
    assert kube.plan["gating"] is True
    session.stop()
    assert kube.plan["gating"] is False
