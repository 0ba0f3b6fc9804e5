"""PulseNet's emergency track: the placement's own desk, and node agents with pools. Pure.

Which node is asked, caps, budgets, and how much is prepared where are the product's decisions. Modelled is
the agents' work: how long a start takes, and that two containers at a time are made in the background.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from burst_plane.instance.readiness import Held, Kind, next_to_make, surplus
from burst_plane.model import Function, InstanceSpec, NodeState, Preparation, Prepared, Started
from burst_plane.placement.desk import Desk
from burst_plane.preparing import Sizing, Wanted, pool, prepare
from burst_plane.wire.messages import AgentAddress, Directory, Listed
from experiments.pulsenet.model import CREATED_BYTES, Cluster, Starts
from experiments.pulsenet.regular_track import RegularTrack, Rules, name_of
from experiments.pulsenet.simulation import Fn, Simulation

__all__ = ["EmergencyTrack"]

_PREPARE_EVERY_S = 60.0  # the controller does so twice a second; pools change by the minute
_AT_ONCE = 2  # containers made at a time (`burst_plane.agent.stock`)
_READY_SHARE = 0.5  # of its memory that frozen containers may take (`ready_share`)
_CREATED_SHARE_BYTES = 8 << 20  # what the agent's account holds for a created container (`created_mib`)
_CPU_MILLIS = 1000  # an instance occupies a core (paper, section 3.1)


@dataclass(slots=True)
class _Shelf:
    preparation: Preparation
    template: str
    created: int = 0
    frozen: int = 0
    making: dict[Kind, int] = field(default_factory=lambda: {Kind.CREATED: 0, Kind.FROZEN: 0})


class _Agent:
    """One node's."""

    def __init__(self, node: str, cluster: Cluster) -> None:
        self.node = node
        self.cpu_millis = int(1000 * cluster.cores * cluster.emergency_share)
        self.memory_bytes = int(cluster.memory_bytes * cluster.emergency_share)
        self.cpu_free, self.memory_free = self.cpu_millis, self.memory_bytes
        self.shelves: dict[Function, _Shelf] = {}
        self.wanting: dict[Function, _Shelf] = {}  # those that should hold containers
        self.starting = 0
        self.created = 0  # containers, made or being made
        self.making = 0
        self.settled = False  # nothing is left to make, until something changes
        self.said: NodeState | None = None  # and is still true

    def state(self) -> NodeState:
        return NodeState(
            node=self.node,
            cpu_millis=self.cpu_millis,
            memory_bytes=self.memory_bytes,
            cpu_millis_free=self.cpu_free,
            memory_bytes_free=self.memory_free,
            prepared=tuple(
                Prepared(
                    function=function,
                    template=shelf.template,
                    image_present=True,
                    created=shelf.created,
                    frozen=shelf.frozen,
                )
                for function, shelf in self.shelves.items()
            ),
        )


class EmergencyTrack:
    def __init__(
        self,
        rules: Rules,
        starts: Starts,
        regular: RegularTrack,
        sizing: Sizing | None,
        flat_s: float | None = None,
    ) -> None:
        """Without a sizing nothing is prepared, and every node can start every function in `flat_s`."""
        self._rules, self._starts, self._regular = rules, starts, regular
        self._sizing, self._flat_s = sizing, flat_s
        self._byte_s, self._at_s = 0.0, 0.0

    def begin(self, world: Simulation) -> None:
        self._world = world
        self._desk = Desk()
        self._agents = {f"node-{n}": _Agent(f"node-{n}", world.cluster) for n in range(world.cluster.nodes)}
        self._specs = [
            InstanceSpec(
                image=f"f{fn.index}",
                cpu_millis=_CPU_MILLIS,
                memory_bytes=int(fn.memory_bytes),
                scratch_bytes=0,
            )
            for fn in world.functions
        ]
        self._functions = {name_of(fn.index): fn for fn in world.functions}
        self._templates = [spec.template for spec in self._specs]
        listed = tuple(
            Listed(
                function=name_of(fn.index),
                template=template,
                mode="enforce",
                cpu_millis=spec.cpu_millis,
                memory_bytes=spec.memory_bytes,
                longest_s=3600.0,
                idempotent=False,
                most_instances=self._rules.most_instances,
                variant=str(self._rules.variant),
            )
            for fn, spec, template in zip(world.functions, self._specs, self._templates, strict=True)
        )
        addresses = tuple(AgentAddress(node=node, address="", port=1) for node in self._agents)
        most = 100_000
        directory = Directory(term=1, sequence=1, most_in_namespace=most, functions=listed, agents=addresses)
        self._desk.take(directory, first=True)
        self.every_second(0.0)

    # --- one request ---

    def start(self, fn: Fn, request: int, now_s: float) -> bool:
        refused: list[str] = []
        while True:
            placing = self._desk.place(name_of(fn.index).host, str(request), now_s, refused)
            if placing.agent is None:
                return self._refuse(fn, placing.reason)
            agent = self._agents[placing.agent.node]
            kind = self._take(agent, fn)
            if kind is not None:
                break
            self._desk.failed(str(request))
            refused.append(agent.node)
            if len(refused) > 1:  # once elsewhere
                return self._refuse(fn, "no-budget")
        world = self._world
        took_s = self._start_s(agent, kind)
        agent.starting += 1
        world.starts[str(kind)] = world.starts.get(str(kind), 0) + 1
        ends_s = world.run_emergency(fn, request, took_s, now_s)
        world.push(now_s + took_s, self._started, request, agent)
        world.push(ends_s, self._ended, fn, request, agent)
        self._say(agent, now_s)
        self._make(agent, now_s)
        return True

    def _refuse(self, fn: Fn, reason: str) -> bool:
        fn.refused += 1
        self._world.refused[reason] = self._world.refused.get(reason, 0) + 1
        return False

    def _take(self, agent: _Agent, fn: Fn) -> Kind | None:
        """Hold its share for an instance. None: there is no room."""
        spec = self._specs[fn.index]
        shelf = agent.shelves.get(name_of(fn.index))
        frozen = shelf is not None and shelf.frozen > 0
        created = shelf is not None and shelf.created > 0
        memory_bytes = spec.memory_bytes - (
            spec.memory_bytes if frozen else _CREATED_SHARE_BYTES if created else 0
        )
        if agent.cpu_free < spec.cpu_millis or agent.memory_free < memory_bytes:
            return None
        agent.cpu_free -= spec.cpu_millis
        agent.memory_free -= memory_bytes
        if shelf is not None and frozen:
            shelf.frozen -= 1
            fn.touch(self._world_now(fn))
            fn.frozen -= 1
            return Kind.FROZEN
        if shelf is not None and created:
            self._count_created(agent, -1, self._world_now(fn))
            shelf.created -= 1
            return Kind.CREATED
        return Kind.COLD

    def _world_now(self, fn: Fn) -> float:
        return fn.at_s  # it was touched when the request arrived

    def _start_s(self, agent: _Agent, kind: Kind) -> float:
        if self._flat_s is not None:
            return self._flat_s
        s = self._starts
        alone_s = {Kind.FROZEN: s.frozen_s, Kind.CREATED: s.created_s, Kind.COLD: s.image_s}[kind]
        return alone_s * (1.0 + s.crowd * agent.starting)

    def _started(self, request: int, agent: _Agent, now_s: float) -> None:
        agent.starting -= 1
        started = Started(instance=str(request), address="", port=1, origin="", start_s=0.0)
        self._desk.started(str(request), started, now_s)
        self._make(agent, now_s)

    def _ended(self, fn: Fn, request: int, agent: _Agent, now_s: float) -> None:
        fn.touch(now_s)
        fn.in_emergency -= 1
        spec = self._specs[fn.index]
        agent.cpu_free += spec.cpu_millis
        agent.memory_free += spec.memory_bytes
        self._desk.ended(str(request))
        self._say(agent, now_s)

    def _say(self, agent: _Agent, now_s: float) -> None:
        """After a change."""
        agent.settled, agent.said = False, agent.state()
        self._desk.heard(agent.node, agent.said, now_s)

    # --- what is ready ---

    def every_second(self, now_s: float) -> None:
        if self._sizing and now_s % _PREPARE_EVERY_S == 0:
            self._order(self._sizing, now_s)
        for agent in self._agents.values():
            self._make(agent, now_s)
            agent.said = agent.said or agent.state()
            self._desk.heard(agent.node, agent.said, now_s)

    def _order(self, sizing: Sizing, now_s: float) -> None:
        wanted = [
            Wanted(
                name_of(fn.index),
                self._specs[fn.index],
                pool(account.bursts, sizing, now_s, account.run_s),
            )
            for fn, account in ((fn, self._regular.account(fn)) for fn in self._world.functions)
        ]
        for node, preparations in prepare(wanted, list(self._agents), sizing).items():
            self._follow(self._agents[node], preparations, now_s)

    def _follow(self, agent: _Agent, preparations: Iterable[Preparation], now_s: float) -> None:
        orders = {each.function: each for each in preparations}
        for function in list(agent.shelves):
            shelf = agent.shelves[function]
            order = orders.get(function)
            shelf.preparation = order or Preparation(function=function, spec=shelf.preparation.spec)
            spare = surplus(shelf.preparation.created, shelf.created)
            if spare:
                self._count_created(agent, -spare, now_s)
            agent.memory_free += spare * _CREATED_SHARE_BYTES
            shelf.created -= spare
            self._count_frozen(agent, shelf, -surplus(shelf.preparation.frozen, shelf.frozen), now_s)
            if order is None and not any(shelf.making.values()):
                del agent.shelves[function]
        for function, order in orders.items():
            if function not in agent.shelves:
                agent.shelves[function] = _Shelf(order, self._templates[self._functions[function].index])
        agent.wanting = {
            function: shelf for function, shelf in agent.shelves.items()
            if shelf.preparation.created or shelf.preparation.frozen
        }  # fmt: skip
        agent.settled, agent.said = False, None

    def _make(self, agent: _Agent, now_s: float) -> None:
        """Begin what the agent would make next, in the background and not while a start goes on."""
        while not agent.settled and agent.making < _AT_ONCE and not agent.starting:
            held = {
                function: Held(s.created + s.making[Kind.CREATED], s.frozen + s.making[Kind.FROZEN])
                for function, s in agent.wanting.items()
            }
            frozen = sum(held[f].frozen * s.preparation.spec.memory_bytes for f, s in agent.wanting.items())
            what = next_to_make(
                (s.preparation for s in agent.wanting.values()), held,
                int(agent.memory_bytes * _READY_SHARE) - frozen, agent.memory_free, _CREATED_SHARE_BYTES,
            )  # fmt: skip
            if what is None:
                agent.settled = True
                return
            shelf = agent.shelves[what.function]
            shelf.making[what.kind] += 1
            agent.making += 1
            if what.kind is Kind.CREATED:
                agent.memory_free -= _CREATED_SHARE_BYTES
                self._count_created(agent, 1, now_s)
            else:
                self._count_frozen(agent, shelf, 1, now_s, on_shelf=False)
            self._world.push(now_s + self._starts.make_s, self._made, agent, shelf, what.kind)

    def _made(self, agent: _Agent, shelf: _Shelf, kind: Kind, now_s: float) -> None:
        shelf.making[kind] -= 1
        agent.making -= 1
        if kind is Kind.CREATED:
            shelf.created += 1
        else:
            shelf.frozen += 1
        self._say(agent, now_s)
        self._make(agent, now_s)

    def _count_frozen(
        self, agent: _Agent, shelf: _Shelf, number: int, now_s: float, on_shelf: bool = True
    ) -> None:
        """Its memory is the function's own."""
        if not number:
            return
        fn = self._functions[shelf.preparation.function]
        fn.touch(now_s)
        fn.frozen += number
        agent.memory_free -= number * shelf.preparation.spec.memory_bytes
        if on_shelf:
            shelf.frozen += number

    def _count_created(self, agent: _Agent, number: int, now_s: float) -> None:
        self.prepared_byte_s(now_s)
        agent.created += number

    def prepared_byte_s(self, now_s: float) -> float:
        self._byte_s += (now_s - self._at_s) * sum(a.created for a in self._agents.values()) * CREATED_BYTES
        self._at_s = now_s
        return self._byte_s
