"""What placements and node agents are told: who may overflow, and what to have ready where. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from burst_plane.conditions import Readiness, overflows
from burst_plane.functions import Known
from burst_plane.model import Function, NodeState, Preparation, Prepared
from burst_plane.preparing import Pool, Sizing, Wanted, prepare
from burst_plane.wire.messages import AgentAddress, Listed
from surgekit.process.modes import Mode

__all__ = ["Agents", "listed", "preparations"]


@dataclass(frozen=True)
class Agents:
    """The node agents there are, and what those that answer say of themselves."""

    every: tuple[AgentAddress, ...]
    usable: tuple[AgentAddress, ...]  # instances may start there: the node is ready and not cordoned
    states: Mapping[str, NodeState]  # by node

    def readiness(self, functions: Iterable[Known]) -> dict[Function, Readiness]:
        nodes: dict[tuple[Function, str], list[tuple[str, Prepared]]] = {}
        for node, state in sorted(self.states.items()):
            for of in state.prepared:
                nodes.setdefault((of.function, of.template), []).append((node, of))
        starting = len(self._starting())
        return {
            k.spec.function: Readiness(
                starting, tuple(nodes.get((k.spec.function, k.found.template), ()) if k.found.spec else ())
            )
            for k in functions
        }

    def _starting(self) -> list[str]:
        """Nodes where an instance can start now."""
        nodes = {agent.node for agent in self.usable}
        return sorted(node for node, of in self.states.items() if node in nodes and not of.draining)


def listed(functions: Iterable[Known], readiness: Mapping[Function, Readiness]) -> tuple[Listed, ...]:
    """The functions of which HAProxy may ask for instances."""
    result = []
    for known in functions:
        function, spec = known.spec, known.found.spec
        if spec is None or not overflows(known.mode, readiness[function.function]):
            continue
        result.append(
            Listed(
                function=function.function,
                template=known.found.template,
                mode=str(known.mode),
                cpu_millis=spec.cpu_millis,
                memory_bytes=spec.memory_bytes,
                longest_s=function.longest_s,
                idempotent=function.idempotent,
                most_instances=function.most_instances,
                variant=str(function.variant),
            )
        )
    return tuple(result)


def preparations(
    functions: Iterable[Known], agents: Agents, pool_of: Callable[[Function], Pool], sizing: Sizing,
    most_in_namespace: int,
) -> dict[str, tuple[Preparation, ...]]:  # fmt: skip
    """By node; every agent is in it, because it gives up what it is not told. Nobody has more instances ready
    than may run at once."""
    used: Counter[str] = Counter()
    wanted = []
    for known in functions:
        function, found = known.spec.function, known.found
        if found.spec is None or known.mode is not Mode.ENFORCE:
            continue
        pool = pool_of(function)
        most = min(known.spec.most_instances, most_in_namespace - used[function.namespace])
        pool = replace(pool, created=min(pool.created, most))
        used[function.namespace] += pool.created
        wanted.append(Wanted(function, found.spec, pool, found.size))
    none: dict[str, tuple[Preparation, ...]] = {agent.node: () for agent in agents.every}
    return none | prepare(wanted, agents._starting(), sizing)
