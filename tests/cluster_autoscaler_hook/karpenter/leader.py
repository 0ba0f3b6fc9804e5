"""A leader session against the fake API server, with watches that show what it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from cluster_autoscaler_hook.karpenter import claims
from cluster_autoscaler_hook.karpenter.actuator import Actuator
from cluster_autoscaler_hook.karpenter.labels import ARCHITECTURE, INSTANCE_TYPE
from cluster_autoscaler_hook.karpenter.leader_session import LeaderSession
from cluster_autoscaler_hook.karpenter.metrics import HookMetrics
from cluster_autoscaler_hook.karpenter.model import Claim, ClusterNode, ClusterView, Kind, PendingPod
from cluster_autoscaler_hook.karpenter.settings import Settings
from cluster_autoscaler_hook.karpenter.strict_catalogue import SHIPPED
from cluster_autoscaler_hook.solver.model import Problem, Solution
from surgekit.process.modes import Mode
from tests.cluster_autoscaler_hook.karpenter.builders import GIB, pending, solve
from tests.events_at_once import EventsAtOnce
from tests.fake_api_server.kinds import Kind as ServedKind
from tests.fake_api_server.server import FakeApiServer

Json = dict[str, Any]
KIND = Kind(900, 3 * GIB, exclusive=("one a node",))
NODE_CLASS = {"node_class_group": "g", "node_class_kind": "K", "node_class_name": "n"}
NODE_CLAIM = ServedKind(
    claims.NODE_CLAIMS.api_version, "nodeclaims", "NodeClaim", namespaced=False, custom=True
)


class FakeSource:
    """Shows what the API server has whenever it is asked, as watches that are never late."""

    def __init__(self, kube: FakeApiServer, pods: int) -> None:
        self._kube = kube
        self.pending = pending(KIND, pods)
        self.nodes: dict[str, ClusterNode] = {}
        self.known_claims: set[str] = set()
        self.gone: list[Claim] = []

    def view(self) -> ClusterView:
        found = tuple(claims.read_claim(o) for o in claims_of(self._kube))
        self.known_claims |= {claim.name for claim in found}
        return ClusterView(self.pending, found, self.nodes, frozenset({"amd64", "arm64"}))

    def refused(self) -> list[Claim]:
        gone, self.gone = self.gone, []
        return gone

    def overhead(self) -> tuple[int, int, int]:
        return 0, 0, 0

    def ages_s(self, now_s: float) -> dict[str, float]:
        return {"pods": 0.5}


def session_of(
    kube: FakeApiServer,
    pods: int = 4,
    solver: Callable[[Problem], Solution] = solve,
    held: bool = True,
    **settings: Any,
) -> tuple[LeaderSession, FakeSource]:
    live: dict[str, Any] = {"mode": Mode.ENFORCE, "catalogue": SHIPPED, **NODE_CLASS}
    given = Settings(batch_idle_s=0.0, **(live | settings))
    source, metrics = FakeSource(kube, pods), HookMetrics()
    actuator = Actuator(kube, EventsAtOnce(kube), given, lambda: held, metrics.writes)
    return LeaderSession(given, source, actuator, metrics, solver), source


def claims_of(kube: FakeApiServer) -> list[Json]:
    return kube.objects("nodeclaims")


def plan_of(kube: FakeApiServer) -> Json:
    (plan,) = kube.objects("nodeplans")
    return cast(Json, plan["status"])


def message_of(kube: FakeApiServer) -> str:
    return str(plan_of(kube)["conditions"][0]["message"])


def launch(kube: FakeApiServer, claim: Json) -> None:
    """As Karpenter does."""
    status = {
        "providerID": claim["metadata"]["name"],
        "conditions": [{"type": "Launched", "status": "True"}],
    }
    kube.add(claim | {"status": status})


def make_nodes_ready(kube: FakeApiServer, source: FakeSource) -> None:
    """Every claim has a node that takes pods."""
    for claim in claims_of(kube):
        launch(kube, claim)
        name, (requirement, *_) = claim["metadata"]["name"], claim["spec"]["requirements"]
        (instance_class,) = requirement["values"]
        source.nodes[name] = ClusterNode(
            f"node-{name}", name, instance_class, {INSTANCE_TYPE: instance_class, ARCHITECTURE: "amd64"},
            64000, 256 * GIB, 110, ready=True,
        )  # fmt: skip


def give_up_launching(kube: FakeApiServer, source: FakeSource, *names: str) -> None:
    """As Karpenter does when there is no capacity: the claims go before they are launched."""
    source.gone = [c for c in map(claims.read_claim, claims_of(kube)) if not names or c.name in names]
    for claim in source.gone:
        kube.delete(claims.NODE_CLAIMS.path(name=claim.name))


def gated_pods(kube: FakeApiServer, *pods: PendingPod) -> tuple[PendingPod, ...]:
    """The pods, and as objects of the API server."""
    for pod in pods:
        metadata = {"uid": pod.uid, "namespace": pod.namespace, "name": pod.name}
        spec = {"schedulingGates": [{"name": gate} for gate in pod.gates]}
        kube.add({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return pods


def object_of(kube: FakeApiServer, pod: PendingPod) -> Json:
    return kube.get(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}")


def gates_of(kube: FakeApiServer, pod: PendingPod) -> list[str]:
    return [gate["name"] for gate in object_of(kube, pod)["spec"].get("schedulingGates", [])]


def events(kube: FakeApiServer) -> list[tuple[str, str]]:
    return [(event["reason"], event["note"]) for event in kube.objects("events")]


def hand_over_notes(kube: FakeApiServer) -> list[str]:
    """The Events on pods that were handed over."""
    return [note for reason, note in events(kube) if reason == "LeftToKarpenter"]
