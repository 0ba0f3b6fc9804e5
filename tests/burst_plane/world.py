"""The leader's slow loop in one thread: the API server in memory, and agents and time as the test says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import pytest

from burst_plane.leader_session import LeaderSession, Placements
from burst_plane.link import AgentLinks
from burst_plane.metrics import ControllerMetrics
from burst_plane.model import Function, NodeState, Preparation, Prepared
from burst_plane.reconciler import Reconciler, World
from burst_plane.settings import Settings
from burst_plane.sources import ClusterSource
from burst_plane.wire.messages import AgentAddress, Directory, FunctionTraffic, TrafficReport
from tests.burst_plane.knative.objects import KINDS as KNATIVE
from tests.burst_plane.objects import Json, agent_pod, burst_function, deployment, node_object, service
from tests.events_at_once import EventsAtOnce, unreadable
from tests.fake_api_server import FakeApiServer
from tests.fake_api_server.kinds import Kind

__all__ = ["KINDS", "PODS", "Plane", "serve_pods"]

KINDS = (Kind("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", has_status=False), *KNATIVE)
PODS = "/api/v1/namespaces/{}/pods"


def serve_pods(api: FakeApiServer, answer: Callable[[Json], Json] = lambda pod: pod) -> None:
    """Dry-run creates in the namespaces of these tests; `answer` is admission."""
    for namespace in ("shop", "other"):
        api.answer_creations(PODS.format(namespace), answer)


class Links:
    """Agents that say what the test says."""

    def __init__(self) -> None:
        self.states: Mapping[str, NodeState] = {}
        self.told: Mapping[str, tuple[Preparation, ...]] = {}
        self.followed: frozenset[AgentAddress] = frozenset()

    def follow(self, agents: Iterable[AgentAddress]) -> None:
        self.followed = frozenset(agents)

    def prepare(self, wanted: Mapping[str, tuple[Preparation, ...]]) -> None:
        self.told = dict(wanted)

    def stop(self) -> None:
        self.followed = frozenset()


class _Loop:
    """Calls at once what should be called soon."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> None:
        callback(*args)


class Plane:
    """A controller that leads. `step` shows it the API server's objects and lets it act once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *objects: Json, **settings: Any) -> None:
        self.now_s = 100_000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(time, "time", lambda: self.now_s + 1.7e9)
        self.api = FakeApiServer(*(objects or plain_objects()), kinds=KINDS)
        serve_pods(self.api)
        self.settings = Settings(**({"least_prepared": 2, "least_nodes": 2} | settings))
        self.events = EventsAtOnce(self.api, "burst-controller")
        self.leads = True
        self.begin()

    def begin(self) -> None:
        """Another replica takes over."""
        self.metrics = ControllerMetrics()
        self.source = ClusterSource(self.api, self.settings, unreadable(self.api))
        for watch in self.source._watches.values():
            watch.synced.set()
        self.links = Links()
        self.placements = Placements(lambda: self.session)
        self.session = LeaderSession(
            cast(asyncio.AbstractEventLoop, _Loop()), self.placements, 1, cast(AgentLinks, self.links),
            most_in_namespace=self.settings.most_in_namespace, on_stop=lambda: None,
        )  # fmt: skip
        about = self.events.about("surgekit.dev/v1alpha1", "BurstFunction")
        self.reconciler = Reconciler(
            self.settings,
            World(self.api, self.source, about, self.metrics, lambda: self.session, lambda: self.leads),
        )

    def look(self) -> None:
        """Bring the watches' tables up to date."""
        for watch in self.source._watches.values():
            objects, _ = self.api.list_all(watch._path, **watch._selectors)
            watch._consumer.replace(objects, self.now_s)

    def step(self, seconds: float = 2.0, **traffic: float) -> None:
        """Time passes, with a report of this traffic of shop/resize in each second, and the leader acts."""
        for _ in range(int(seconds)):
            self.now_s += 1.0
            if traffic:
                self.report("resize", **traffic)
            self.session.step()
        self.now_s += seconds - int(seconds)
        self.look()
        self.reconciler.step()

    def report(self, /, name: str = "resize", **traffic: float) -> None:
        plain: dict[str, float] = {"arrivals": 0, "in_regular": 0.0, "queued": 0.0, "in_emergency": 0.0}
        seen = FunctionTraffic(function=Function("shop", name), **(plain | traffic))  # type: ignore[arg-type]
        self.session.take(TrafficReport(placement="p1", sequence=1, interval_s=1.0, functions=(seen,)))

    def agent_says(self, node: str = "n1", *, draining: bool = False, prepared: bool = False) -> None:
        told = self.links.told.get(node, ()) if prepared else ()
        of = tuple(
            Prepared(
                function=p.function, template=p.spec.template, image_present=True,
                created=p.created, frozen=p.frozen,
            )
            for p in told
        )  # fmt: skip
        state = NodeState(
            node=node, cpu_millis=400, memory_bytes=1 << 30, cpu_millis_free=400,
            memory_bytes_free=1 << 30, draining=draining, prepared=of,
        )  # fmt: skip
        self.links.states = {**self.links.states, node: state}

    @property
    def directory(self) -> Directory:
        return self.session.directory

    def status(self, name: str = "resize", namespace: str = "shop") -> Json:
        path = f"/apis/surgekit.dev/v1alpha1/namespaces/{namespace}/burstfunctions/{name}"
        found: Json = self.api.get(path).get("status") or {}
        return found

    def condition(self, type_: str, name: str = "resize") -> tuple[str, str]:
        found = [c for c in self.status(name).get("conditions") or () if c["type"] == type_]
        return (found[0]["status"], found[0]["reason"]) if found else ("", "")

    def message(self, type_: str, name: str = "resize") -> str:
        return str(next(c["message"] for c in self.status(name)["conditions"] if c["type"] == type_))

    def replicas(self, name: str = "resize", namespace: str = "shop") -> int:
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        return int(self.api.get(path)["spec"]["replicas"])

    def reasons(self) -> list[str]:
        """Of the Events there are."""
        return [event["reason"] for event in self.api.objects("events")]


def plain_objects(**spec: Any) -> tuple[Json, ...]:
    """A function that enforces, with its Deployment and Service, and a node with an agent."""
    of = {"mode": "enforce"} | spec
    return burst_function(**of), deployment(), service(), node_object(), agent_pod()
