"""The fleet with streams that break, late and repeated messages, and restarts: the sums hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from limit_allocator.allocation.model import Parameters
from limit_allocator.fleet.fleet import Fleet
from limit_allocator.fleet.model import Application, PodRow
from limit_allocator.fleet.state import CPU, MEMORY
from limit_allocator.wire.messages import Orders, Report
from surgekit.process.modes import Mode
from tests.limit_allocator.fleet.world import MIB, Container, SimulatedAgent

NAMES = ("ns/shop", "ns/mail")
NODES = ("n0", "n1", "n2")
Stream = tuple[int, int]  # the controller's term, its session
PARAMETERS = Parameters(floor_us=5_000, floor_bytes=16 * MIB, growth_pages=2_000, reclaim_every_s=0.5)
LIMITS = st.tuples(st.integers(0, 300_000), st.integers(0, 500 * MIB))


class Faults(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.agents = {node: SimulatedAgent(node) for node in NODES}
        self.stream: dict[str, Stream] = {}  # by node
        self.up: list[Any] = []  # node, stream and message
        self.down: list[Any] = []
        self.status: dict[str, frozenset[str]] = {name: frozenset() for name in NAMES}
        self.applications: dict[str, Application] = {}
        self.names = 0
        self.now_s = 0.0

    @initialize(limits=st.tuples(LIMITS, LIMITS))
    def begin(self, limits: tuple[tuple[int, int], ...]) -> None:
        for name, (cpu, memory) in zip(NAMES, limits, strict=True):
            self.applications[name] = Application(name, Mode.ENFORCE, PARAMETERS, cpu, memory, {})
        self.bound = [[cpu, memory] for cpu, memory in limits]
        self.begin_controller(1)
        for node in NODES:
            for name in NAMES:
                self.pod_starts(node, name)
        self.settle(4)

    def begin_controller(self, term: int) -> None:
        self.fleet = Fleet(term)
        self.stream.clear()
        self.up.clear()
        self.node_of: dict[int, str] = {}  # by session
        self.tell_applications()

    def tell_applications(self) -> None:
        self.fleet.set_applications(
            [replace(a, nodes_with_limits=self.status[a.name]) for a in self.applications.values()]
        )

    def change(self, name: str, **changes: object) -> None:
        self.applications[name] = replace(self.applications[name], **changes)  # type: ignore[arg-type]
        self.tell_applications()

    # Life

    @rule(node=st.sampled_from(NODES), name=st.sampled_from(NAMES))
    def pod_starts(self, node: str, name: str) -> None:
        self.names += 1
        uid = f"pod {self.names}"
        self.agents[node].running[f"c{self.names}"] = Container(uid, f"c{self.names}")
        self.change(name, pods={**self.applications[name].pods, uid: PodRow(node, uid)})

    @rule(data=st.data(), name=st.sampled_from(NAMES), goes_to=st.sampled_from(["end", "opt out", "other"]))
    def pod_leaves(self, data: st.DataObject, name: str, goes_to: str) -> None:
        pods = dict(self.applications[name].pods)
        if not pods:
            return
        uid = data.draw(st.sampled_from(sorted(pods)))
        row = pods.pop(uid)
        self.applications[name] = replace(self.applications[name], pods=pods)
        if goes_to == "end":
            running = self.agents[row.node].running
            for container in [c for c in running.values() if c.pod_uid == uid]:
                del running[container.id]
            self.agents[row.node].look()
        if goes_to == "other":
            other = NAMES[1 - NAMES.index(name)]
            pods = {**self.applications[other].pods, uid: row}
            self.applications[other] = replace(self.applications[other], pods=pods)
        self.tell_applications()

    @rule(node=st.sampled_from(NODES), data=st.data())
    def container_restarts(self, node: str, data: st.DataObject) -> None:
        running = self.agents[node].running
        if running:
            before = running.pop(data.draw(st.sampled_from(sorted(running))))
            self.agents[node].look()
            self.names += 1
            running[f"c{self.names}"] = Container(before.pod_uid, f"c{self.names}")

    @rule(seed=st.integers(0, 2**32 - 1))
    def load_changes(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        for agent in self.agents.values():
            for container in list(agent.running.values()):
                container.demand_us = int(draw.integers(0, 150_000))
                agent.use(container.id, int(draw.integers(1, 200)) * MIB)

    @rule(name=st.sampled_from(NAMES), limits=LIMITS)
    def limit_changes(self, name: str, limits: tuple[int, int]) -> None:
        self.change(name, cpu_limit_us=limits[0], memory_limit_bytes=limits[1])

    @rule(name=st.sampled_from(NAMES), mode=st.sampled_from(Mode))
    def mode_changes(self, name: str, mode: Mode) -> None:
        self.change(name, mode=mode)

    @rule(node=st.sampled_from(NODES))
    def report(self, node: str) -> None:
        agent = self.agents[node]
        if node not in self.stream:
            session = self.fleet.attach(agent.hello())
            self.stream[node], self.node_of[session] = (self.fleet.term, session), node
        elif agent.knows_pods:  # one that does not know them cannot know what it holds
            self.up.append((node, self.stream[node], agent.report()))

    @rule()
    def tick(self) -> None:
        self.now_s += 0.1
        for session, orders in self.fleet.tick(self.now_s).items():
            self.down.append((self.node_of[session], (self.fleet.term, session), orders))
            self.commands_go_only_where_the_status_says(self.node_of[session], orders)

    @rule(write=st.booleans(), confirm=st.booleans())
    def write_status(self, write: bool = True, confirm: bool = True) -> None:
        """The controller may be killed anywhere in between."""
        for name in NAMES:
            nodes = self.fleet.nodes_with_limits(name)
            if write:
                self.status[name] = nodes
                if confirm:
                    self.fleet.confirm_nodes(name, nodes)

    # Faults

    @rule(seed=st.integers(0, 2**32 - 1))
    def deliver(self, seed: int) -> None:
        """A stream keeps its order and loses nothing until it ends. After that anything may arrive."""
        draw = np.random.default_rng(seed)
        for messages in (self.up, self.down):
            taken, messages[:] = list(messages), []
            waiting = set[Stream]()  # streams of which a message is still on its way
            for node, stream, message in taken:
                if draw.random() < 0.2:
                    waiting.add(stream)
                if stream in waiting or not self.is_open(node, stream, message):
                    messages.append((node, stream, message))
                else:
                    self.hand_over(node, stream, message)
            ended = [each for each in messages if not self.is_open(*each)]
            messages[:] = [each for each in messages if self.is_open(*each)]
            for at in draw.permutation(len(ended)):
                fate = draw.random()
                if fate < 0.8:
                    self.hand_over(*ended[at])
                if fate > 0.7:
                    messages.append(ended[at])

    def is_open(self, node: str, stream: Stream, message: Report | Orders) -> bool:
        """For its receiver: a controller may notice late that a stream has ended."""
        if isinstance(message, Report):
            return self.fleet.is_attached(stream[1])
        return self.stream.get(node) == stream

    @rule(node=st.sampled_from(NODES), noticed=st.booleans())
    def stream_breaks(self, node: str, noticed: bool) -> None:
        stream = self.stream.pop(node, None)
        if stream is not None and noticed:
            self.fleet.detach(stream[1])

    @rule(node=st.sampled_from(NODES))
    def agent_restarts(self, node: str) -> None:
        self.stream_breaks(node, noticed=False)
        self.agents[node].restart()

    @rule(node=st.sampled_from(NODES))
    def node_reboots(self, node: str) -> None:
        self.stream_breaks(node, noticed=False)
        self.agents[node].reboot()

    @rule(node=st.sampled_from(NODES))
    def node_leaves(self, node: str) -> None:
        """And may come back under its name."""
        self.node_reboots(node)
        for name, application in self.applications.items():
            pods = {uid: row for uid, row in application.pods.items() if row.node != node}
            self.applications[name] = replace(application, pods=pods)
        self.tell_applications()
        self.fleet.forget_node(node)

    @rule()
    def controller_restarts(self) -> None:
        """Knows only what is in the API server. Commands of its predecessor are still on their way."""
        self.begin_controller(self.fleet.term + 1)

    @rule(seed=st.integers(0, 2**32 - 1), busy=st.integers(1, 10))
    def storm(self, seed: int, busy: int) -> None:
        draw = np.random.default_rng(seed)
        for _ in range(busy):
            for node in NODES:
                if draw.random() < 0.8:
                    self.report(node)
                if draw.random() < 0.04:
                    self.stream_breaks(node, bool(draw.random() < 0.5))
                if draw.random() < 0.03:
                    self.agent_restarts(node)
            if draw.random() < 0.02:
                self.controller_restarts()
            if draw.random() < 0.5:
                self.load_changes(int(draw.integers(2**32)))
            self.deliver(int(draw.integers(2**32)))
            self.tick()
            self.write_status(bool(draw.random() < 0.9), bool(draw.random() < 0.8))

    @rule(rounds=st.integers(1, 4))
    def settle(self, rounds: int) -> None:
        """Everything arrives, in order."""
        for _ in range(rounds):
            for node in NODES:
                self.report(node)
            self.deliver_all(self.up)
            self.write_status()
            self.tick()
            self.deliver_all(self.down)

    def deliver_all(self, messages: list[Any]) -> None:
        taken, messages[:] = list(messages), []
        for message in taken:
            self.hand_over(*message)

    def hand_over(self, node: str, stream: Stream, message: Report | Orders) -> None:
        if isinstance(message, Report):
            self.fleet.report(stream[1], message, self.now_s)
        else:  # from another stream only its commands: an agent knows its pods from its own
            is_open = self.is_open(node, stream, message)
            self.agents[node].obey(message if is_open else without_pods(message))
        self.the_sums_hold()

    # What must hold

    @invariant()
    def the_sums_hold(self) -> None:
        if not hasattr(self, "bound"):
            return
        for name, bound in zip(NAMES, self.bound, strict=True):
            application = self.applications[name]
            group = self.fleet.groups.of(name).index
            limits = application.cpu_limit_us, application.memory_limit_bytes
            really = np.sum([agent.holds(name) for agent in self.agents.values()], axis=0)
            for resource in (CPU, MEMORY):
                # More than the limit only after it was lowered, and then never rising.
                counted = int(self.fleet.state.ledgers[resource].counted[group])
                bound[resource] = max(limits[resource], min(bound[resource], counted))
                assert really[resource] <= bound[resource]

    @invariant()
    def nobody_is_below_its_floor(self) -> None:
        for agent in self.agents.values():
            for container in agent.running.values():
                assert container.quota_us is None or container.quota_us >= PARAMETERS.floor_us
                assert container.memory_bytes is None or container.memory_bytes >= PARAMETERS.floor_bytes
                assert container.memory_bytes is None or container.used_bytes <= container.memory_bytes

    def commands_go_only_where_the_status_says(self, node: str, orders: Orders) -> None:
        if not (orders.cpu or orders.memory or orders.reserves):
            return
        assert any(node in nodes for nodes in self.status.values())
        assert all(node in self.status[reserve.application] for reserve in orders.reserves)

    def teardown(self) -> None:
        """Without further faults everybody soon has limits that fit, and what is counted is what is there."""
        if not hasattr(self, "bound"):
            return
        self.up.clear()
        self.down.clear()
        for name in NAMES:
            members = len(self.applications[name].pods)
            self.change(
                name, cpu_limit_us=40_000 * members, memory_limit_bytes=120 * MIB * members, mode=Mode.ENFORCE
            )
        for node in NODES:
            self.stream_breaks(node, noticed=True)
            for container in self.agents[node].running.values():
                container.demand_us, container.used_bytes = 20_000, 20 * MIB
        self.settle(40)
        for number, name in enumerate(NAMES):
            self.has_converged(name, self.fleet.groups.of(name).index, number)

    def has_converged(self, name: str, group: int, number: int) -> None:
        application = self.applications[name]
        containers = [
            c
            for agent in self.agents.values()
            for c in agent.running.values()
            if c.pod_uid in application.pods
        ]
        really = np.sum([agent.holds(name) for agent in self.agents.values()], axis=0)
        counted = [int(ledger.counted[group]) for ledger in self.fleet.state.ledgers]
        assert really.tolist() == counted
        assert counted[CPU] <= application.cpu_limit_us
        assert counted[MEMORY] <= application.memory_limit_bytes
        for container in containers:
            assert 20_000 <= (container.quota_us or 0) <= 26_000
            assert 20 * MIB <= (container.memory_bytes or 0) <= 70 * MIB
        shown = self.fleet.view(name, self.now_s)
        assert shown is not None
        assert {c.container for c in shown.containers} == {c.id for c in containers}
        assert (shown.waiting_to_join, shown.silent_nodes, shown.unknown_nodes) == (0, (), ())
        assert (shown.cpu.allocated, shown.memory.allocated) == tuple(counted)
        assert not shown.is_over_its_limit


def without_pods(orders: Orders) -> Orders:
    return Orders(
        term=orders.term, start=orders.start, cpu=orders.cpu, memory=orders.memory, reserves=orders.reserves
    )


TestFaults = Faults.TestCase
TestFaults.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
