"""A leader's rounds against an API server in memory: bad input leaves nothing half-done."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from cluster_autoscaler_hook.karpenter import claims, nodeplan
from cluster_autoscaler_hook.karpenter.actuator import Actuator
from cluster_autoscaler_hook.karpenter.labels import CAPACITY_TYPE, GATE
from cluster_autoscaler_hook.karpenter.leader_session import Term
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

Json = dict[str, Any]
KIND = Kind(900, 3 * GIB, apart=("one a node",))
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

    def patch(self, path: str, body: Json, *_: Any, **__: Any) -> Json:
        self._maybe_refuse("PATCH", path)
        target = self.get(path.removesuffix("/status"))
        for key, value in body.items():
            merged = target.get(key, {}) | value
            target[key] = {k: v for k, v in merged.items() if v is not None}
        return target

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


def term_of(
    kube: MemoryKube,
    pods: int = 4,
    solver: Callable[[Problem], Solution] = solve,
    held: bool = True,
    **settings: Any,
) -> tuple[Term, MemorySource]:
    live: dict[str, Any] = {"mode": Mode.ENFORCE, "catalogue": SHIPPED, **NODE_CLASS}
    given = Settings(batch_idle_s=0.0, **(live | settings))
    source, metrics = MemorySource(kube, pods), HookMetrics(lambda: held)
    actuator = Actuator(cast(Kube, kube), given, lambda: held, metrics.writes)
    return Term(given, source, actuator, metrics, solver), source


def test_a_plan_is_written_down_and_carried_out_once(kube: MemoryKube) -> None:
    term, _ = term_of(kube)
    for _ in range(3):
        term.round()
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
    first, _ = term_of(kube)
    with pytest.raises(ApiError):
        first.round()
    assert len(kube.claims()) == 2
    assert kube.plan["phase"] == "Launching"
    wanted = {node["claim"] for node in kube.plan["nodes"]}
    kube.refuse = lambda _method, _path: None
    second, _ = term_of(kube, solver=lambda _: pytest.fail("the plan was made already"))
    second.round()
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
    term, _ = term_of(kube)
    term.round()
    assert len(kube.claims()) == 3
    assert "not today" in kube.plan["conditions"][0]["message"]
    term.round()
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

    term, _ = term_of(kube, solver=solve_slowly, catalogue=table)
    term.round()
    assert not kube.claims()
    term.round()
    assert solves == 2
    assert {claims.read_claim(c).instance_class for c in kube.claims()} <= {"c5.large", "c5.xlarge"}


def test_a_catalogue_that_cannot_be_read_rents_nothing_and_says_so(kube: MemoryKube, tmp_path: Path) -> None:
    term, _ = term_of(kube, catalogue=tmp_path / "missing.yaml")
    term.round()
    assert not kube.claims()
    assert "missing.yaml" in kube.plan["conditions"][0]["message"]


def test_a_solver_that_fails_rents_nothing_and_says_so(kube: MemoryKube) -> None:
    def fail(_problem: Problem) -> Solution:
        raise InvalidProblem("no such thing")

    term, _ = term_of(kube, solver=fail)
    term.round()
    assert not kube.claims()
    assert "no such thing" in kube.plan["conditions"][0]["message"]


def test_insufficient_capacity_means_planning_without_the_class(kube: MemoryKube) -> None:
    term, source = term_of(kube)
    term.round()
    first = {claims.read_claim(c).instance_class for c in kube.claims()}
    term.round()  # the watch tells of the claims
    # As Karpenter does: the claims go before they are launched.
    source.gone = [claims.read_claim(c) for c in kube.claims()]
    for claim in source.gone:
        kube.objects.pop(f"{claims.PATH}/{claim.name}")
    term.round()
    assert len(kube.claims()) == 4
    assert not first & {claims.read_claim(c).instance_class for c in kube.claims()}
    assert {u["instanceClass"] for u in kube.plan["unavailable"]} == first


def test_shadow_and_a_lost_lease_make_no_claim(kube: MemoryKube) -> None:
    shadow, source = term_of(kube, mode=Mode.SHADOW)
    source.pending = pending(KIND, 4, gates=(), opt_in="shadow", unschedulable=True)
    shadow.round()
    assert kube.plan["phase"] == "Shadow"
    assert kube.plan["costPerHour"] > 0
    lost, _ = term_of(kube, held=False)
    lost.round()
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
    return [o["note"] for path, o in kube.objects.items() if "/events/" in path]


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OFF])
def test_a_hook_that_does_not_rent_lets_every_gated_pod_go(kube: MemoryKube, mode: Mode) -> None:
    term, source = term_of(kube, mode=mode)
    source.pending = gated_pods(kube, *pending(KIND, 3))
    term.round()
    assert [gates_of(kube, pod) for pod in source.pending] == [[], [], []]
    assert len(notes(kube)) == 3
    assert kube.plan["mode"] == mode
    assert kube.plan["gating"] is False
    term.round()
    assert len(notes(kube)) == 3, "said once, though the watch has not told of it yet"


def test_pods_nobody_will_plan_for_are_let_go_and_the_others_served(kube: MemoryKube) -> None:
    spot = Kind(900, GIB, ((Requirement(CAPACITY_TYPE, "In", ("spot",)),),))
    strange = Kind(900, GIB, ((Requirement("disk", "In", ("ssd",)),),))
    gpu = PendingPod("gpu", "default", "gpu", None, "a request for nvidia.com/gpu", gates=("other", GATE))
    term, source = term_of(kube)
    ours = pending(KIND, 2)
    source.pending = gated_pods(kube, *ours, gpu, *pending(spot, 1, "spot"), *pending(strange, 1, "strange"))
    term.round()
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


def test_pods_are_let_go_when_nothing_can_be_planned_for_too_long(
    kube: MemoryKube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    term, source = term_of(kube, catalogue=tmp_path / "missing.yaml")
    source.pending = gated_pods(kube, *pending(KIND, 1))
    term.round()
    assert gates_of(kube, source.pending[0]) == [{"name": GATE}]
    assert kube.plan["gating"] is False, "no more pods are gated meanwhile"
    later = time.time() + 301
    monkeypatch.setattr(time, "time", lambda: later)
    kube.refuse = lambda method, path: ApiError(500, "Busy", path) if "/pods/" in path else None
    term.round()
    assert gates_of(kube, source.pending[0]) == [{"name": GATE}]
    kube.refuse = lambda _method, _path: None
    monkeypatch.setattr(time, "time", lambda: later + 3)
    term.round()
    assert gates_of(kube, source.pending[0]) == []
    assert "waited 304 s" in notes(kube)[0]


def test_a_pod_that_no_node_takes_is_not_rented_for_without_end(kube: MemoryKube) -> None:
    """As when the nodes of a class are not what the catalogue says."""
    term, source = term_of(kube)
    source.pending = gated_pods(kube, *pending(KIND, 1))
    for _ in range(40):
        term.round()
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
    term, _ = term_of(kube, catalogue=file)
    term.round()
    assert not kube.claims()
    assert kube.plan["gating"] is False
    assert "sample prices" in kube.plan["conditions"][0]["message"]


def test_a_new_leader_says_its_mode_at_once_and_keeps_the_last_plan_to_be_read(kube: MemoryKube) -> None:
    first, _ = term_of(kube)
    first.round()
    assert kube.plan["mode"] == "enforce"
    plan = kube.plan["plan"]
    second, source = term_of(kube, mode=Mode.SHADOW)
    source.pending = ()
    second.round()
    assert kube.plan["mode"] == "shadow"
    assert kube.plan["plan"] == plan
    assert kube.plan["waitingPods"] == 0


def test_pods_that_vanish_leave_a_plan_that_is_not_made(kube: MemoryKube) -> None:
    term, source = term_of(kube, pods=0)
    term.round()
    assert not kube.claims()
    source.pending = pending(KIND, 1)
    term.round()
    assert len(kube.claims()) == 1
