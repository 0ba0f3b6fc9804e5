"""The controller as a process: watches, Lease, streams and both loops, against an API server in memory."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from limit_allocator.controller import Controller
from limit_allocator.distributed_container import DISTRIBUTED_CONTAINERS
from limit_allocator.leader_session import first_term
from limit_allocator.settings import Settings
from limit_allocator.wire.messages import Orders, decode_orders, encode
from limit_allocator.wire.server import METHOD, SERVICE
from surgekit.process.health_server import pages
from tests.fake_api_server import FakeApiServer
from tests.fake_api_server.kinds import Kind
from tests.limit_allocator.fleet.world import CEILING_US, Container, SimulatedAgent
from tests.limit_allocator.objects import distributed_container, pod_object

CLUSTER = (Kind("v1", "resourcequotas", "ResourceQuota"), Kind("v1", "limitranges", "LimitRange"))
OBJECT = DISTRIBUTED_CONTAINERS.path("shop", "web")
WAIT_S = 60.0


def until(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.01)


class Node:
    """One container under a simulated agent with a real stream. A tick comes when the test wants one."""

    def __init__(self, port: int) -> None:
        self.agent = SimulatedAgent("n1")
        self.container = Container("uid-p", "id-p-c")
        self.agent.running[self.container.id] = self.container
        self._sent: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._channel = grpc.insecure_channel(f"localhost:{port}")
        attach: grpc.StreamStreamMultiCallable[bytes, bytes]
        attach = self._channel.stream_stream(f"/{SERVICE}/{METHOD}")
        self.orders = attach(iter(self._sent.get, None))
        self._sent.put(encode(self.agent.hello()))

    def obey(self) -> Orders:
        """Wait for the next orders and carry them out."""
        orders = decode_orders(next(self.orders))
        self.agent.obey(orders)
        return orders

    def tick(self) -> None:
        self._sent.put(encode(self.agent.report()))

    def close(self) -> None:
        self._sent.put(None)
        self._channel.close()


@pytest.fixture
def api() -> FakeApiServer:
    return FakeApiServer(distributed_container(), pod_object(), kinds=CLUSTER)


@pytest.fixture
def begin(api: FakeApiServer) -> Iterator[Callable[..., Controller]]:
    started: list[Controller] = []

    def start(**more: Any) -> Controller:
        settings = Settings(bind="127.0.0.1:0", status_every_s=1.0, agent_account="", **more)
        started.append(controller := Controller(settings, api))
        controller.start()
        return controller

    yield start
    for controller in started:
        controller.stop()


@pytest.fixture
def connect() -> Iterator[Callable[[Controller], Node]]:
    nodes: list[Node] = []

    def make(controller: Controller) -> Node:
        until(lambda: controller.leads, "the Lease")
        while True:  # a replica that has just begun to lead sends agents away for a moment
            nodes.append(node := Node(controller.server.port))
            try:
                node.obey()
            except grpc.RpcError:
                continue
            return node

    yield make
    for node in nodes:
        node.close()


def status(api: FakeApiServer) -> dict[str, object]:
    found: dict[str, object] = api.get(OBJECT).get("status") or {}
    return found


def joins(node: Node) -> None:
    """Ticks until the container has both limits."""
    until_s = time.monotonic() + WAIT_S
    while not (node.container.quota_us and node.container.memory_bytes):
        assert time.monotonic() < until_s
        node.tick()
        node.obey()


def test_limits_reach_the_node_only_after_the_status_names_it(
    api: FakeApiServer, begin: Callable[[], Controller], connect: Callable[[Controller], Node]
) -> None:
    node = connect(begin())
    named_before_limits: list[object] = []
    deadline_s = time.monotonic() + WAIT_S
    while not named_before_limits:
        assert time.monotonic() < deadline_s
        node.tick()
        orders = node.obey()
        if orders.cpu or orders.memory:
            named_before_limits.append(status(api).get("nodes"))
    assert named_before_limits == [["n1"]]
    joins(node)
    assert node.container.quota_us is not None
    assert node.container.quota_us < CEILING_US


def test_the_status_says_what_is_enforced_and_metrics_count_it(
    api: FakeApiServer, begin: Callable[[], Controller], connect: Callable[[Controller], Node]
) -> None:
    controller = begin()
    node = connect(controller)
    joins(node)

    def enforced() -> bool:
        node.tick()
        conditions = status(api).get("conditions")
        return isinstance(conditions, list) and any(
            c["type"] == "Enforced" and c["status"] == "True" for c in conditions
        )

    until(enforced, "the condition Enforced")
    assert status(api)["containerCount"] == 1
    text = pages(controller).test_client().get("/metrics").text
    assert "surgekit_limit_allocator_containers 1.0" in text
    assert "surgekit_limit_allocator_agents 1.0" in text
    assert 'surgekit_limit_allocator_applications{reason="Enforcing"} 1.0' in text


def test_a_deleted_application_leaves_nothing_on_the_node(
    api: FakeApiServer, begin: Callable[[], Controller], connect: Callable[[Controller], Node]
) -> None:
    node = connect(begin())
    joins(node)
    api.delete(OBJECT)
    while node.agent.pods:
        node.obey()
    assert node.container.quota_us is None
    assert node.container.memory_bytes is None


def test_a_spec_that_cannot_be_read_is_said_and_the_last_one_holds(
    api: FakeApiServer, begin: Callable[[], Controller], connect: Callable[[Controller], Node]
) -> None:
    node = connect(begin())
    joins(node)
    api.patch(OBJECT, {"spec": {"cpu": "much"}})

    def said() -> bool:
        conditions = status(api).get("conditions")
        return isinstance(conditions, list) and any(c["reason"] == "InvalidSpec" for c in conditions)

    until(said, "the condition")
    node.tick()
    assert node.agent.pods, "the pod is still looked after"
    assert "allocated" in status(api), "what is enforced is said in the same patch as what is wrong"


def test_a_spec_that_was_never_valid_is_said_in_one_patch(begin: Callable[..., Controller]) -> None:
    api = FakeApiServer(distributed_container(cpu="much"), kinds=CLUSTER)
    controller = Controller(Settings(bind="127.0.0.1:0", status_every_s=600.0, agent_account=""), api)
    controller.start()
    until(lambda: status(api), "a status")
    controller.stop()
    assert {c["reason"] for c in reasons_of(api)} == {"InvalidSpec"}
    assert len(patches(api)) == 1


def reasons_of(api: FakeApiServer, name: str = "web") -> list[dict[str, Any]]:
    found = api.get(DISTRIBUTED_CONTAINERS.path("shop", name)).get("status") or {}
    conditions: list[dict[str, Any]] = found.get("conditions") or []
    return conditions


def patches(api: FakeApiServer, name: str = "web") -> list[object]:
    path = DISTRIBUTED_CONTAINERS.path("shop", name, "status")
    return [call for call in api.writes if call.path == path]


def test_of_a_namespace_only_the_oldest_count_and_each_other_costs_one_patch() -> None:
    objects = [distributed_container(name, created=day) for day, name in ((1, "web"), (2, "b"), (2, "a"))]
    api = FakeApiServer(*objects, pod_object(), kinds=CLUSTER)
    settings = Settings(bind="127.0.0.1:0", status_every_s=1.0, agent_account="", most_per_namespace=2)
    controller = Controller(settings, api)
    controller.start()
    for counts in ("web", "a"):  # of equal age the first by name
        until(lambda name=counts: len(patches(api, name)) >= 3, "three statuses, one a second")  # type: ignore[misc]
    assert {c["reason"] for c in reasons_of(api, "b")} == {"TooMany"}
    assert len(patches(api, "b")) == 1
    text = pages(controller).test_client().get("/metrics").text
    assert 'surgekit_limit_allocator_applications{reason="TooMany"} 1.0' in text
    api.delete(OBJECT)
    until(
        lambda: {c["reason"] for c in reasons_of(api, "b")} & {"Exclusive", "AllItsOwn", "PodsOfAnother"},
        "it counts",
    )
    controller.stop()


def test_a_new_leader_has_a_later_term_and_the_agent_greets_it(
    api: FakeApiServer, begin: Callable[[], Controller], connect: Callable[[Controller], Node]
) -> None:
    first = begin()
    node = connect(first)
    joins(node)
    term = node.agent.term
    first.stop()
    second = begin()
    until(lambda: second.leads, "the other replica leads")
    again = connect(second)
    assert again.agent.term > term


def test_a_follower_sends_agents_away(begin: Callable[[], Controller]) -> None:
    leader = begin()
    until(lambda: leader.leads, "the Lease")
    node = Node(begin().server.port)
    with pytest.raises(grpc.RpcError) as refused:
        next(node.orders)
    node.close()
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_terms_grow_with_takeovers_and_with_the_sessions_of_one() -> None:
    terms = [first_term(takeovers, sessions) for takeovers in (1, 2) for sessions in (0, 1, 2)]
    assert terms == sorted(set(terms))
    assert first_term(1, 1000) < first_term(2, 0)
