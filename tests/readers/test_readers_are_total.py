"""Whatever is in an object: it harms no other, and what is known of the cluster can be asked afterwards.

Every table of every process gets a list of a good object and a spoilt one, then the spoilt one as a change.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from burst_plane.egress import forbidding
from burst_plane.functions import Functions as BurstFunctions
from burst_plane.settings import Settings as BurstSettings
from burst_plane.sources import AgentPod, Replicas
from burst_plane.sources import ClusterSource as BurstSource
from burst_plane.status import history_before
from cluster_autoscaler_hook.karpenter.settings import Settings as HookSettings
from cluster_autoscaler_hook.karpenter.sources import ClusterSource as KarpenterSource
from cluster_model.cluster_state import ClusterState
from cluster_model.node_table import NodeTable
from combofunc.in_place_deployment.reconciler import InPlaceDeploymentReconciler
from combofunc.in_place_deployment.spec import read as read_deployment
from combofunc.metrics import ComboFuncMetrics
from combofunc.pods.chosen_sizes import ChosenSizeTable
from combofunc.pods.cluster import Cluster
from combofunc.pods.pod_table import PodTable
from combofunc.pods.spec_fields import SpecError
from combofunc.reconcile.spec import read as read_combofunc
from combofunc.reconciler import ComboFuncReconciler, Inputs
from combofunc.settings import Settings as ComboFuncSettings
from combofunc.sources import Kept
from combofunc.sources import Sources as ComboFuncSources
from combofunc.work_loop import Loop
from function_gateway.controller import Controller as Balancer
from function_gateway.settings import Settings as BalancerSettings
from hpa_replacement.adapter.authentication import FrontProxy
from hpa_replacement.adapter.table import REVISION as REVISION_LABEL
from hpa_replacement.adapter.table import KnativePods, Policies
from hpa_replacement.decision.policy import PolicyError
from hpa_replacement.knative.config_autoscaler import AutoscalerConfig
from hpa_replacement.knative.loop import PodAutoscalerLoop
from hpa_replacement.knative.pod_autoscaler import PodAutoscalerError
from hpa_replacement.knative.pod_autoscaler import read as read_pod_autoscaler
from hpa_replacement.kneepolicy import read as read_kneepolicy
from hpa_replacement.metrics import KneeScaleMetrics
from hpa_replacement.observe.sources import ClusterSource
from hpa_replacement.settings import Settings as KneeScaleSettings
from limit_allocator.allowance import allow
from limit_allocator.ceilings import resizes
from limit_allocator.distributed_container import SpecError as DistributedContainerError
from limit_allocator.distributed_container import read as read_distributed_container
from limit_allocator.membership import members
from limit_allocator.pod import ORIGINAL
from limit_allocator.sources import ClusterSource as LimitSource
from node_speed_probe.ledger import Ledger
from node_speed_probe.settings import Settings as ProbeSettings
from node_speed_probe.sources import _Events, _Nodes, _Pods
from scheduler_extender.sources import Sources as ExtenderSources
from surgekit.kube.client import Kube
from surgekit.kube.conditions import status_before
from surgekit.kube.label_selector import LabelSelector
from surgekit.kube.scale_target import ScaleTarget
from surgekit.kube.table import Table
from surgekit.kube.watch import Consumer
from surgekit.process.modes import Mode
from tests.combofunc.immediate_desk import AtOnce as DeskAtOnce
from tests.combofunc.immediate_desk import Told
from tests.events_at_once import unreadable
from tests.readers import hostile_objects as objects
from tests.readers.hostile_objects import Json, spoilt

# The same objects every time: what is not found here is no newcomer's red test. SURGEKIT_FUZZ_EXAMPLES=500
# tries more of them. Not shrunk: what a spoilt object breaks is plain from the traceback.
often = settings(
    max_examples=int(os.environ.get("SURGEKIT_FUZZ_EXAMPLES", "50")),
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


class SilentKube(Kube):
    def __init__(self) -> None:
        self.created: list[Json] = []

    def create(self, path: str, body: Json, **query: Any) -> Json:
        self.created.append(body)
        return body


KUBE = SilentKube()
UNREAD = unreadable(KUBE)


def feed(consumer: Consumer, good: Json, bad: Json) -> None:
    consumer.replace([good, bad], 1.0)
    consumer.apply("MODIFIED", bad, 2.0)
    consumer.apply("DELETED", bad, 3.0)
    consumer.replace([bad, good], 4.0)


def test_every_watch_of_every_process_feeds_a_table() -> None:
    """The probe's are made when it starts; it is tested with its tables below."""
    extender = ExtenderSources(KUBE, UNREAD, ClusterState(NodeTable(1.0, 2.0, "a"), 15.0, 120.0))
    functions, kneescale = Functions().sources, ClusterSource(KUBE, UNREAD)
    knative = PodAutoscalerLoop(KneeScaleSettings(), KUBE, kneescale, KneeScaleMetrics(), lambda: True)
    watches = [
        *(*extender._watches.values(), extender._speeds, *functions._watches.values(), functions._speeds),
        *(*kneescale._watches.values(), *knative._watches.values()),
        *Balancer(BalancerSettings(directory=Path("nowhere")), KUBE)._watches.values(),
        *KarpenterSource(KUBE, UNREAD, HookSettings(), lambda: None)._watches.values(),
        *LimitSource(KUBE, UNREAD)._watches.values(),
        *BurstSource(KUBE, BurstSettings(knative_autoscaler="a:1"), UNREAD)._watches.values(),
        *(Policies(KUBE, UNREAD)._watch, KnativePods(KUBE, UNREAD)._watch),
        FrontProxy(KUBE, UNREAD, Path("nowhere"))._watch,
    ]
    assert len(watches) >= 39
    for watch in watches:
        consumer: Any = watch._consumer
        assert isinstance(consumer, Table) or isinstance(consumer._table, Table), watch._path


# --- the extender ---


@pytest.mark.parametrize(
    ("kind", "original"),
    [
        ("nodes", objects.node()),
        ("pods", objects.pod()),
        ("namespaces", objects.namespace()),
        ("speeds", objects.speed()),
    ],
)
@often
@given(data=st.data())
def test_the_extender(kind: str, original: Json, data: st.DataObject) -> None:
    state = ClusterState(NodeTable(1.0, 2.0, "a"), 15.0, 120.0)
    sources = ExtenderSources(KUBE, UNREAD, state)
    watches = {**sources._watches, "speeds": sources._speeds}
    if kind == "speeds":
        watches["nodes"]._consumer.replace([objects.node()], 1.0)
    feed(watches[kind]._consumer, original, data.draw(spoilt(original)))
    sources.apply()
    state.expire(100.0)
    state.nodes.forget_old_speeds(0.0)
    if kind in ("nodes", "speeds"):
        good = state.nodes.get("n1")
        assert good is not None
        assert kind == "nodes" or good.tau_create_s == 1.5
    elif kind == "pods":
        assert state.node_of("uid-good") == "n1"
    else:
        assert sources.namespaces["shop"].labels == {"surgekit.dev/placement": "enforce"}


# --- ComboFunc ---


class AtOnce(Loop):
    """Does what is posted when it is posted, and remembers nothing."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def post(self, change: Callable[[], None]) -> None:
        change()

    def know(self, uid: str, kind: Any) -> None:
        self.known[uid] = kind

    def forget(self, uid: str) -> None:
        self.known.pop(uid, None)

    def touch(self, uid: str) -> None:
        pass

    def touch_all(self, kind: Any) -> None:
        pass


NODE_PLAN: Json = {
    "metadata": {"name": "fcma", "uid": "uid-plan"},
    "status": {"sizeRequests": [{"function": "uid-f", "batch": "b", "sizes": {"small": 2}}]},
}


class Functions:
    def __init__(self) -> None:
        self.cluster = Cluster(1.0, 0.1, 2.0, 120.0)
        self.pods = PodTable()
        inputs = Inputs(self.cluster, self.pods, lambda _: 8)
        self.functions = ComboFuncReconciler(
            inputs, ComboFuncSettings(), DeskAtOnce(), ComboFuncMetrics(), Told()
        )
        self.deployments = InPlaceDeploymentReconciler(self.pods, 15.0, Told())
        kept = Kept(self.cluster, self.pods, self.functions, self.deployments, ChosenSizeTable())
        self.sources = ComboFuncSources(KUBE, UNREAD, AtOnce(), kept)
        self.feed("nodes", [objects.node()])
        self.feed("combofuncs", [objects.combofunc()])
        self.feed("inplacedeployments", [objects.in_place_deployment()])

    def feed(self, kind: str, listed: list[Json]) -> None:
        self.consumer(kind).replace(listed, 1.0)

    def consumer(self, kind: str) -> Consumer:
        beside = {"speeds": self.sources._speeds, "node plans": self.sources._node_plans}
        return {**self.sources._watches, **beside}[kind]._consumer


@pytest.mark.parametrize(
    ("kind", "original"),
    [
        ("nodes", objects.node()),
        ("pods", objects.pod()),
        ("pods", objects.pod(node="")),
        ("speeds", objects.speed()),
        ("combofuncs", objects.combofunc()),
        ("inplacedeployments", objects.in_place_deployment()),
        ("node plans", NODE_PLAN),
    ],
)
@often
@given(data=st.data())
def test_combofunc(kind: str, original: Json, data: st.DataObject) -> None:
    world = Functions()
    feed(world.consumer(kind), original, data.draw(spoilt(original)))
    world.cluster.age(100.0, 900.0)
    assert world.cluster.room("n1") is not None
    if kind == "pods":
        assert [pod.name for pod in world.pods.of("shop", "uid-f")][-1:] == ["good"]
    work = world.functions.reconcile("uid-f", 1000.0)
    assert work is not None
    if world.pods.unread("shop", "uid-f"):
        assert not any(type(action).__name__ in ("Create", "Delete") for action in work.actions)
    assert world.deployments.reconcile("uid-web", 1000.0) is not None
    for uid, spoilt_kind in (("bad", world.functions), ("bad", world.deployments)):
        if uid in spoilt_kind.objects:
            spoilt_kind.reconcile(uid, 1000.0)


@often
@given(data=st.data())
def test_a_spec_is_read_or_refused_in_words(data: st.DataObject) -> None:
    for original, read, refusal in (
        (objects.combofunc(), read_combofunc, SpecError),
        (objects.in_place_deployment(), read_deployment, SpecError),
        (objects.kneepolicy(), read_kneepolicy, PolicyError),
        (
            objects.pod_autoscaler(),
            lambda obj: read_pod_autoscaler(obj, 10, AutoscalerConfig()),
            PodAutoscalerError,
        ),
    ):
        with contextlib.suppress(refusal):
            cast(Callable[[Json], object], read)(data.draw(spoilt(original)))


# --- the balancer ---


BURST = {
    "metadata": {"name": "f", "namespace": "a", "uid": "uid-burst"},
    "spec": {"concurrency": 2, "idempotent": True},
    "status": {"conditions": [{"type": "Overflow", "status": "True"}]},
}
KNATIVE_BURST = BURST | {
    "spec": {"targetRef": {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "f"}},
    "status": {"regular": {"revision": "f-00001", "concurrency": 4}, "observedTime": "now"},
}
PRIVATE_SLICE = objects.endpoint_slice() | {
    "metadata": {
        "name": "f-00001-private-x", "namespace": "a", "uid": "uid-private",
        "labels": {"networking.internal.knative.dev/serverlessservice": "f-00001"},
    }
}  # fmt: skip


@pytest.mark.parametrize(
    ("which", "original"),
    [
        ("endpointslices", objects.endpoint_slice()),
        ("pods", objects.pod()),
        ("burstfunctions", BURST),
        ("burstfunctions", KNATIVE_BURST),
        ("revisions' endpointslices", PRIVATE_SLICE),
    ],
)
@often
@given(data=st.data())
def test_the_balancer(which: str, original: Json, data: st.DataObject) -> None:
    controller = Balancer(BalancerSettings(directory=Path("nowhere")), KUBE)
    consumers = {name: watch._consumer for name, watch in controller._watches.items()}
    for name, there in (("endpointslices", objects.endpoint_slice()), ("pods", objects.pod())):
        if name != which:
            consumers[name].replace([there], 1.0)
    feed(consumers[which], original, data.draw(spoilt(original)))
    served = {function.name: pods for function, pods in controller._endpoints.functions().items()}
    assert [(pod.address, pod.concurrency) for pod in served["f"]][:1] == [("10.0.0.1", 4)]
    controller._endpoints.unknown()
    controller._endpoints.overflow()


# --- the probe ---


@pytest.mark.parametrize(
    ("table", "original"), [(_Nodes, objects.node()), (_Pods, objects.pod()), (_Events, objects.event())]
)
@often
@given(data=st.data())
def test_the_probe(table: Any, original: Json, data: st.DataObject) -> None:
    ledger = Ledger(ProbeSettings())
    _Nodes(UNREAD, ledger.observe).replace([objects.node()], 0.0)
    feed(table(UNREAD, ledger.observe), original, data.draw(spoilt(original)))
    assert "n1" in {estimate.node for estimate in ledger.snapshot(100.0).estimates}


# --- KneeScale ---


@pytest.mark.parametrize(
    ("kind", "original"),
    [
        ("nodes", objects.node()),
        ("pods", objects.pod()),
        ("horizontalpodautoscalers", objects.hpa()),
        ("kneepolicies", objects.kneepolicy()),
    ],
)
@often
@given(data=st.data())
def test_kneescale(kind: str, original: Json, data: st.DataObject) -> None:
    source = ClusterSource(KUBE, UNREAD)
    now_s = time.monotonic()
    fed = {"nodes": objects.node(), "pods": objects.pod(), "horizontalpodautoscalers": objects.hpa()}
    for name, obj in fed.items():
        source._watches[name]._consumer.replace([obj], now_s)
    feed(source._watches[kind]._consumer, original, data.draw(spoilt(original)))
    replicas, _ = source.replicas("shop", {"app": "web"})
    good = next(replica for replica in replicas if replica.name == "good")
    assert (good.concurrency, good.serves) == (4, True)
    for replica in replicas:
        source.capacity(replica, 1, 0)
    assert "good" in source.hpas_of(ScaleTarget("apps/v1", "Deployment", "shop", "web"))
    source.policies()


@often
@given(data=st.data())
def test_the_adapter(data: st.DataObject) -> None:
    policies, pods = Policies(KUBE, UNREAD), KnativePods(KUBE, UNREAD)
    of_revision = objects.pod()
    of_revision["metadata"]["labels"] |= {REVISION_LABEL: "web-00001"}
    feed(pods._watch._consumer, of_revision, data.draw(spoilt(of_revision)))
    assert "good" in {pod.name for pod in pods.selected("shop", LabelSelector())}
    feed(policies, objects.kneepolicy(), data.draw(spoilt(objects.kneepolicy())))
    assert policies.table["shop"]["good"].target_replicas == 3


# --- the Karpenter hook ---


@pytest.mark.parametrize(
    ("kind", "original"),
    [
        ("pods", objects.pod(node="")),
        ("pods", objects.pod()),
        ("nodes", objects.node()),
        ("namespaces", objects.namespace()),
        ("claims", objects.claim()),
        ("daemonsets", objects.daemon_set()),
    ],
)
@often
@given(data=st.data())
def test_the_karpenter_hook(kind: str, original: Json, data: st.DataObject) -> None:
    source = KarpenterSource(KUBE, UNREAD, HookSettings(), lambda: None)
    source._watches["nodes"]._consumer.replace([objects.node()], 1.0)
    feed(source._watches[kind]._consumer, original, data.draw(spoilt(original)))
    view = source.view()
    assert "n1" in view.nodes
    source.overhead()
    source.refused()
    if kind == "claims":
        assert "good" in {claim.name for claim in view.claims}


# --- the limit allocator ---


def _marked_pod() -> Json:
    obj = objects.pod()
    obj["spec"]["initContainers"][0]["resources"]["limits"] = dict(
        obj["spec"]["containers"][0]["resources"]["limits"]
    )
    obj["metadata"]["annotations"][ORIGINAL] = '{"c":{"cpu":"250m","memory":"128Mi"}}'
    return obj


@pytest.mark.parametrize(
    ("kind", "original"),
    [
        ("pods", _marked_pod()),
        ("distributedcontainers", objects.distributed_container()),
        ("resourcequotas", objects.resource_quota()),
        ("limitranges", objects.limit_range()),
    ],
)
@often
@given(data=st.data())
def test_the_limit_allocator(kind: str, original: Json, data: st.DataObject) -> None:
    source = LimitSource(KUBE, UNREAD)
    feed(source._watches[kind]._consumer, original, data.draw(spoilt(original)))
    if kind != "pods":
        source._watches["pods"]._consumer.replace([_marked_pod()], 1.0)
    specs = []
    for obj in source.distributed_containers() or [objects.distributed_container()]:
        with contextlib.suppress(DistributedContainerError):
            specs.append(read_distributed_container(obj))
    assert "shop/good" in {spec.key for spec in specs}
    found = members(specs, source.pods(), Mode.ENFORCE, exclusive_cpus=True)
    allowances = {
        key: allow(app.spec, app.pods, source.quotas("shop"), source.limit_ranges("shop"))
        for key, app in found.applications.items()
    }
    asked = resizes(source.pods(), found, allowances)
    assert all(resize.limits for resize in asked)
    assert found.owner["uid-good"] in found.applications
    if kind == "resourcequotas":
        assert min(a.cpu_us for a in allowances.values()) <= 300_000
    if kind == "limitranges":
        assert all(a.ceiling_memory is None for a in allowances.values())


# --- the burst plane's controller ---

KNATIVE_TARGET = ScaleTarget("serving.knative.dev/v1", "Service", "shop", "good")
KNATIVE_SERVICE = {
    "metadata": objects.metadata("good"),
    "status": {"traffic": [{"revisionName": "good", "percent": 100}]},
}
REVISION = {
    "metadata": objects.metadata("good"),
    "spec": {"containerConcurrency": 2, "containers": [{"ports": [{"name": "http1"}]}]},
    "status": {"actualReplicas": 1, "desiredReplicas": 1},
}


@pytest.mark.parametrize(
    ("kind", "original"),
    [
        ("burstfunctions", objects.burst_function()),
        ("deployments", objects.deployment()),
        ("services", objects.service()),
        ("networkpolicies", objects.network_policy()),
        ("nodes", objects.node()),
        ("agents", objects.pod()),
        ("knative services", KNATIVE_SERVICE),
        ("revisions", REVISION),
    ],
)
@often
@given(data=st.data())
def test_the_burst_controller(kind: str, original: Json, data: st.DataObject) -> None:
    source = BurstSource(KUBE, BurstSettings(knative_autoscaler="a:1"), UNREAD)
    plain = {
        "burstfunctions": objects.burst_function(),
        "nodes": objects.node(),
        "agents": objects.pod() | {"status": {"phase": "Running", "podIP": "10.0.0.1"}},
    }
    for name, obj in plain.items():
        source._watches[name]._consumer.replace([obj], 1.0)
    original = plain.get(kind, original)
    feed(source._watches[kind]._consumer, original, data.draw(spoilt(original)))
    functions = BurstFunctions(Mode.ENFORCE, 100)
    functions.read(source.burst_functions(), 1.0)
    good = next(known for known in functions if known.spec.key == "shop/good")
    for known in functions:
        history_before(status_before(known.obj))
    if kind == "deployments":
        assert source.deployment(good.spec.target) == Replicas(1, 2, 2, "shadow", "uid-good")
    source.port("shop", "good")
    source.route(replace(good.spec, target=KNATIVE_TARGET))
    forbidding(source.policies("shop"), {"app": "web"})
    if kind == "networkpolicies":
        assert "good" in {policy.name for policy in source.policies("shop")}
    assert (AgentPod("n1", "10.0.0.1"), True) in source.agents()
