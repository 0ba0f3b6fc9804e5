"""Algorithm 1 as it is printed: every candidate is priced in every round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cluster_model.cost import price
from combofunc.planner.model import Container, Node, Size
from experiments.planner.random_problems import RandomProblem
from tests.combofunc.planner.builders import GIB

NOTHING = Size("nothing", 0, 0, 1)


class Step(NamedTuple):
    """In the order in which equals are taken: keep, resize, create, then by name."""

    cost: float
    kind: int
    node_order: int
    container_order: int
    size_order: int
    node: str
    container: Container | None
    size: Size


def by_size(size: Size) -> tuple[int, int, int, str]:
    return size.concurrency, size.cpu_millicores, size.memory_bytes, size.name


class PlainLoop:
    def __init__(self, problem: RandomProblem) -> None:
        self.problem = problem
        self.sizes = sorted(problem.sizes, key=by_size)
        self.nodes = {node.name: node for node in sorted(problem.nodes, key=lambda n: n.name)}
        self.names = [*self.nodes, *sorted({c.node for c in problem.containers} - self.nodes.keys())]
        self.cpu = {name: n.cpu_free_millicores for name, n in self.nodes.items()}
        self.memory = {name: n.memory_free_bytes for name, n in self.nodes.items()}
        self.pods = {name: n.pods_free for name, n in self.nodes.items()}
        self.creating = {name: n.creating for name, n in self.nodes.items()}
        self.resizing = dict.fromkeys(self.nodes, 0)
        in_order = sorted(problem.containers, key=lambda c: (c.node, by_size(c.size), not c.resizable, c.pod))
        self.undecided = [c for c in in_order if c.size in self.sizes or self.moves(c)]
        self.order = {c.pod: i for i, c in enumerate(self.undecided)}
        for gone in set(in_order) - set(self.undecided):
            if gone.node in self.nodes:
                self.cpu[gone.node] += gone.size.cpu_millicores
                self.memory[gone.node] += gone.size.memory_bytes
                self.pods[gone.node] += 1

    def moves(self, container: Container) -> bool:
        return self.problem.weights.in_place and container.resizable and container.node in self.nodes

    def run(self) -> list[Step]:
        steps: list[Step] = []
        while sum(step.size.concurrency for step in steps) < self.problem.target:
            candidates = [*self.of_containers(), *self.creations()]
            if not candidates:
                break
            steps.append(min(candidates, key=lambda c: c[:5]))
            self.take(steps[-1])
        return steps

    def take(self, step: Step) -> None:
        if step.container:
            self.undecided.remove(step.container)
        if step.kind > 0:
            held = step.container.size if step.container else NOTHING
            self.cpu[step.node] -= step.size.cpu_millicores - held.cpu_millicores
            self.memory[step.node] -= step.size.memory_bytes - held.memory_bytes
        if step.kind == 1:
            self.resizing[step.node] += 1
        if step.kind == 2:
            self.pods[step.node] -= 1
            self.creating[step.node] += 1

    def of_containers(self) -> Iterator[Step]:
        for c in self.undecided:
            at, mine = self.names.index(c.node), self.order[c.pod]
            if c.size in self.sizes:
                yield Step(
                    self.worth(c.node, c.size) / c.size.concurrency, 0, at, mine, -1, c.node, c, c.size
                )
            for i, to in enumerate(self.sizes if self.moves(c) else ()):
                room = self.cpu[c.node] + c.size.cpu_millicores, self.memory[c.node] + c.size.memory_bytes
                if to != c.size and to.cpu_millicores <= room[0] and to.memory_bytes <= room[1]:
                    slowdown = self.problem.contention.resize.slowdown(self.resizing[c.node] + 1)
                    cost = self.nodes[c.node].tau_resize_s * slowdown + self.worth(c.node, to)
                    yield Step(cost / to.concurrency, 1, at, mine, i, c.node, c, to)

    def creations(self) -> Iterator[Step]:
        for at, (name, node) in enumerate(self.nodes.items()):
            slowdown = self.problem.contention.creation.slowdown(self.creating[name] + 1)
            turn_s = node.tau_create_s * slowdown + node.image_pull_s
            for i, size in enumerate(self.sizes if node.accepts and self.pods[name] >= 1 else ()):
                if size.cpu_millicores <= self.cpu[name] and size.memory_bytes <= self.memory[name]:
                    cost = (turn_s + self.worth(name, size)) / size.concurrency
                    yield Step(cost, 2, at, -1, i, name, None, size)

    def worth(self, name: str, size: Size) -> float:
        """lambda * B_np."""
        cpu, memory = self.betas(self.nodes.get(name))
        weight = max(self.problem.weights.price_weight, 1e-6)
        return weight * cpu / 1000 * size.cpu_millicores + weight * memory / GIB * size.memory_bytes

    def betas(self, node: Node | None) -> tuple[float, float]:
        if node is None:
            return 1.0, 1.0
        full, empty = (price(share, self.problem.weights.price_swing) for share in (0.0, 1.0))

        def beta(free: int, capacity: int) -> float:
            return full + (empty - full) * (min(max(free / capacity, 0.0), 1.0) if capacity else 0.0)

        return (
            beta(node.cpu_free_millicores, node.cpu_millicores),
            beta(node.memory_free_bytes, node.memory_bytes),
        )
