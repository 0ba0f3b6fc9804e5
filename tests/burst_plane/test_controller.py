"""The controller as a process: watches, Lease, and real gRPC to placements and node agents."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from burst_plane.controller import Controller
from burst_plane.model import Function, NodeState, Preparation, Prepared
from burst_plane.settings import Settings
from burst_plane.wire.messages import (
    DIRECTOR,
    PULSELET,
    Directory,
    FunctionTraffic,
    PrepareReply,
    PrepareRequest,
    TrafficReport,
    WatchRequest,
)
from surgekit.kube.client import ApiError
from surgekit.wire.client import WireClient, WireError
from surgekit.wire.server import Caller, Method, ServerThread, WireServer
from tests.burst_plane.objects import Json, burst_function, deployment, service
from tests.burst_plane.world import KINDS, serve_pods
from tests.fake_api_server import FakeApiServer

RESIZE = Function("shop", "resize")
WAIT_S = 60.0
EVERYBODY = frozenset({"anybody"})


def until(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.01)


class Agent:
    """Prepares at once, and obeys the latest leader."""

    def __init__(self, bind: str = "127.0.0.1:0") -> None:
        self.told: tuple[Preparation, ...] = ()
        self.order = (0, 0)
        self.draining = False
        methods = {
            "Prepare": Method.unary(PrepareRequest, EVERYBODY, self._prepare),
            "Watch": Method.stream(WatchRequest, EVERYBODY, self._watch),
        }
        self.server = WireServer(bind, None, PULSELET, methods)
        self._thread = ServerThread(self.server)
        self._thread.start()

    async def _prepare(self, request: PrepareRequest, _: Caller) -> PrepareReply:
        if (request.term, request.sequence) < self.order:
            return PrepareReply(accepted=False)
        self.order, self.told = (request.term, request.sequence), request.preparations
        return PrepareReply(accepted=True)

    async def _watch(self, _: WatchRequest, __: Caller) -> AsyncIterator[NodeState]:
        while True:
            prepared = tuple(
                Prepared(function=p.function, template=p.spec.template, image_present=True, created=p.created)
                for p in self.told
            )
            yield NodeState(
                node="n1", cpu_millis=400, memory_bytes=1 << 30, cpu_millis_free=400,
                memory_bytes_free=1 << 30, draining=self.draining, prepared=prepared,
            )  # fmt: skip
            await asyncio.sleep(0.05)

    def stop(self) -> None:
        self._thread.stop()


class Placement:
    """Attached to whichever replica leads, with a thread of its own; reports what the test says."""

    def __init__(self, *controllers: Controller) -> None:
        self.traffic: list[FunctionTraffic] = []
        self.directory: Directory | None = None
        self.refused: list[str] = []
        self._controllers, self._stopping = controllers, threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()

    async def _run(self) -> None:
        while not self._stopping.is_set():
            for controller in self._controllers:
                client = WireClient(f"127.0.0.1:{controller.server.port}", DIRECTOR, None)
                try:
                    async for directory in client.converse("Attach", self._reports(), Directory):
                        self.directory = directory
                        if self._stopping.is_set():
                            return
                except WireError as error:
                    self.refused.append(error.status)
                finally:
                    await client.close()
            await asyncio.sleep(0.02)

    async def _reports(self) -> AsyncIterator[TrafficReport]:
        sequence = 0
        while not self._stopping.is_set():
            sequence += 1
            yield TrafficReport(
                placement="p1", sequence=sequence, interval_s=0.05, functions=tuple(self.traffic)
            )
            await asyncio.sleep(0.05)

    def lists(self) -> list[Function]:
        return [f.function for f in self.directory.functions] if self.directory else []

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=5.0)


@pytest.fixture
def closing() -> Iterator[Callable[[Any], Any]]:
    opened: list[Any] = []

    def close(thing: Any) -> Any:
        opened.append(thing)
        return thing

    yield close
    for thing in reversed(opened):
        thing.stop()


@pytest.fixture
def api() -> FakeApiServer:
    api = FakeApiServer(burst_function(mode="enforce"), deployment(), service(), kinds=KINDS)
    serve_pods(api)
    return api


@pytest.fixture
def begin(api: FakeApiServer, closing: Callable[[Any], Any]) -> Callable[..., Controller]:
    def start(agent: Agent, **more: Any) -> Controller:
        settings = Settings(
            bind="127.0.0.1:0", agents=(f"n1=127.0.0.1:{agent.server.port}",), status_every_s=1.0, **more
        )
        controller: Controller = closing(Controller(settings, api))
        controller.start()
        return controller

    return start


def status(api: FakeApiServer) -> Json:
    path = "/apis/surgekit.dev/v1alpha1/namespaces/shop/burstfunctions/resize"
    found: Json = api.get(path).get("status") or {}
    return found


def test_from_objects_to_agents_and_placements_and_back(
    api: FakeApiServer, begin: Callable[..., Controller], closing: Callable[[Any], Any]
) -> None:
    agent: Agent = closing(Agent())
    controller = begin(agent)
    placement: Placement = closing(Placement(controller))
    until(lambda: placement.lists() == [RESIZE], "the function to be listed")
    assert placement.directory is not None
    (listed,), (address,) = placement.directory.functions, placement.directory.agents
    until(lambda: agent.told, "the agent to be told")
    assert agent.told[0].spec.template == listed.template
    assert (address.node, address.port) == ("n1", agent.server.port)
    placement.traffic.append(
        FunctionTraffic(function=RESIZE, arrivals=3, in_regular=1.0, queued=4.0, in_emergency=2.0, started=2)
    )

    def scaled() -> bool:
        path = "/apis/apps/v1/namespaces/shop/deployments/resize"
        return bool(api.get(path)["spec"]["replicas"] == 10)  # (1 + 4 + 2) / 0.7

    until(scaled, "the scale to follow")
    until(lambda: status(api).get("emergency", {}).get("started", 0) > 0, "the status to follow")
    value = controller.registry.get_sample_value
    assert value("surgekit_burst_controller_placements") == 1
    assert value("surgekit_burst_controller_agents") == 1


def test_an_agent_that_vanishes_and_returns(
    api: FakeApiServer, begin: Callable[..., Controller], closing: Callable[[Any], Any]
) -> None:
    agent = Agent()
    port = agent.server.port
    placement: Placement = closing(Placement(begin(agent)))
    until(lambda: placement.lists() == [RESIZE], "the function to be listed")
    agent.stop()
    until(lambda: placement.lists() == [], "nobody may overflow")
    again: Agent = closing(Agent(f"127.0.0.1:{port}"))
    until(lambda: placement.lists() == [RESIZE], "the function to be listed again")
    until(lambda: again.told, "the new agent to be told")


def test_another_replica_takes_over_with_a_higher_term(
    api: FakeApiServer, begin: Callable[..., Controller], closing: Callable[[Any], Any]
) -> None:
    agent: Agent = closing(Agent())
    first, second = begin(agent), begin(agent)
    until(lambda: first.leads or second.leads, "a leader")
    leader, other = (first, second) if first.leads else (second, first)
    placement: Placement = closing(Placement(first, second))
    until(lambda: placement.lists() == [RESIZE], "the function to be listed")
    assert placement.directory is not None
    before, order = placement.directory.term, agent.order
    assert leader.lease is not None
    leader.lease.step_down()
    until(lambda: other.leads, "the other replica to lead")
    until(
        lambda: placement.directory and placement.directory.term > before and placement.lists() == [RESIZE],
        "the next leader's directory",
    )
    until(lambda: agent.order > order, "the agent to obey the next leader")
    assert "UNAVAILABLE" in placement.refused


def test_the_leader_survives_an_api_server_that_is_away(
    api: FakeApiServer, begin: Callable[..., Controller], closing: Callable[[Any], Any]
) -> None:
    agent: Agent = closing(Agent())
    controller = begin(agent)
    placement: Placement = closing(Placement(controller))
    until(lambda: placement.lists() == [RESIZE], "the function to be listed")
    api.fail(ApiError(500, "InternalError", "oops"), times=12, when=lambda call: "leases" not in call.path)
    api.cut_watches()
    with suppress(ApiError):
        api.list_all("/api/v1/nodes")
    assert placement.lists() == [RESIZE]
    until(lambda: all(not fault.left for fault in api._faults), "the faults to be over")
    api.patch("/apis/surgekit.dev/v1alpha1/namespaces/shop/burstfunctions/resize", {"spec": {"mode": "off"}})
    until(lambda: placement.lists() == [], "the function to be off")
    until(lambda: agent.told == (), "the agent to give it up")


@pytest.mark.parametrize(
    "report",
    [
        FunctionTraffic(function=RESIZE, arrivals=-1, in_regular=0.0, queued=0.0, in_emergency=0.0),
        FunctionTraffic(function=RESIZE, arrivals=1, in_regular=float("nan"), queued=0.0, in_emergency=0.0),
        FunctionTraffic(function=RESIZE, arrivals=1, in_regular=1e300, queued=0.0, in_emergency=0.0),
    ],
)
def test_a_report_out_of_range_counts_nothing(
    begin: Callable[..., Controller], closing: Callable[[Any], Any], report: FunctionTraffic
) -> None:
    controller = begin(closing(Agent()))
    placement: Placement = closing(Placement(controller))
    until(lambda: placement.lists() == [RESIZE], "the function to be listed")
    good = FunctionTraffic(function=RESIZE, arrivals=1, in_regular=1.0, queued=0.0, in_emergency=0.0)
    placement.traffic[:] = [good, report]
    refused = len(placement.refused)
    until(lambda: len(placement.refused) > refused, "the stream to end")
    session = controller._session
    assert session is not None
    with session.lock:
        assert session.accounts[RESIZE].totals.arrivals == 0
