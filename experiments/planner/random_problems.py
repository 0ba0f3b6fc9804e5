"""Random problems for tests and benches: same seed, same problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from cluster_model.contention import MEASURED, Contention
from combofunc.planner.model import Container, Node, PlanRequest, Size, Weights

__all__ = ["KINDS", "RandomProblem", "beside", "cluster", "family_sizes", "grid_sizes", "small_problems"]

_MIB = 2**20
_CPU_MILLICORES = 8000  # of every node, as in the paper
_GIB = 2**30
KINDS = ("from nothing", "from running", "down", "tight", "memory-bound", "mixed speeds", "few nodes", "dear")


@dataclass(frozen=True, slots=True)
class RandomProblem:
    kind: str
    sizes: tuple[Size, ...]
    nodes: tuple[Node, ...]
    containers: tuple[Container, ...]
    target: int
    weights: Weights
    contention: Contention = MEASURED

    @property
    def request(self) -> PlanRequest:
        return PlanRequest(
            self.sizes, self.nodes, self.containers, self.target, self.weights, self.contention
        )


def small_problems(seed: int, count: int) -> Iterator[RandomProblem]:
    """Small enough for an exact answer, in turn of each kind, with and without in-place resizing."""
    for i in range(count):
        yield _small(KINDS[i % len(KINDS)], i, Random(f"{seed}/{i}"))


def grid_sizes(random: Random, count: int = 16) -> tuple[Size, ...]:
    """CPU and memory in steps, as the paper's figs. 6 and 7; concurrency is what both allow a function."""
    cpu_a_request, memory_a_request = random.uniform(80, 250), random.uniform(50, 250) * _MIB
    base = random.uniform(0, 128) * _MIB
    sizes = {}
    for cpu in (250, 500, 1000, 2000):
        for memory in (256, 512, 1024, 2048):
            allowed = min(cpu / cpu_a_request, (memory * _MIB - base) / memory_a_request)
            sizes[cpu, memory] = max(int(allowed), 1)
    return tuple(
        Size(f"c{cpu}-m{memory}", cpu, memory * _MIB, concurrency)
        for (cpu, memory), concurrency in list(sizes.items())[:count]
    )


def family_sizes(random: Random, count: int = 16) -> tuple[Size, ...]:
    """One size for each concurrency, none of which makes another useless."""
    cpu_a_request, memory_a_request = random.randint(80, 160), random.randint(100, 250)
    return tuple(
        Size(
            f"q{concurrency:02d}",
            concurrency * cpu_a_request + random.choice((0, 50)),
            (concurrency * memory_a_request + random.choice((0, 64))) * _MIB,
            concurrency,
        )
        for concurrency in range(1, count + 1)
    )


def cluster(
    random: Random, nodes: int, sizes: Sequence[Size], target: int, running: float = 0.0
) -> RandomProblem:
    """Nodes of 8 CPU and 16 GiB (the paper's) with other work on them. `running`: how much of the function is
    there already, as a share of the target."""
    made = [_node(random, i, 16 * _GIB, (0.1, 1.0), (0.2, 3.0)) for i in range(nodes)]
    containers = _running(random, made, sizes, int(target * running))
    return RandomProblem(
        "cluster", tuple(sizes), tuple(beside(made, containers)), tuple(containers), target, Weights()
    )


def _small(kind: str, i: int, random: Random) -> RandomProblem:
    sizes = _sizes(random, random.randint(2, 6), memory_bound=kind == "memory-bound")
    count = random.randint(1, 2) if kind == "few nodes" else random.randint(2, 7)
    target = random.randint(4, 20) if kind == "few nodes" else random.randint(5, 50)
    free = (0.05, 0.3) if kind == "tight" else (0.2, 1.0)
    taus = (0.05, 5.0) if kind == "mixed speeds" else (0.5, 1.5)
    memory = 4 if kind == "memory-bound" else 16
    nodes = [_node(random, n, memory * _GIB, free, taus) for n in range(count)]
    containers: list[Container] = []
    if kind not in ("from nothing", "few nodes"):
        share = random.uniform(1.2, 3.0) if kind == "down" else random.uniform(0.2, 0.9)
        containers = _running(random, nodes, sizes, int(target * share))
        if random.random() < 0.3 and containers:
            sizes = sizes[1:]  # one that runs may not be offered any more
        nodes = beside(nodes, containers)
    weights = Weights(
        price_weight=random.choice((2.0, 10.0)) if kind == "dear" else random.choice((0.0, 0.1, 0.25, 1.0)),
        price_swing=random.choice((0.0, 0.5, 1.0)),
        in_place=i // len(KINDS) % 3 != 2,
    )
    return RandomProblem(kind, sizes, tuple(nodes), tuple(containers), target, weights)


def _sizes(random: Random, count: int, *, memory_bound: bool) -> tuple[Size, ...]:
    """Half of the time a family with round steps, half of the time any."""
    found = []
    family = random.random() < 0.5
    cpu_a_request, memory_a_request = random.randint(60, 300), random.randint(64, 512)
    for concurrency in sorted(random.sample(range(1, 13), count)):
        scale = 1.0 if family else random.uniform(0.6, 1.5)
        cpu = max(int(concurrency * cpu_a_request * scale) // 10, 1) * 10
        memory = int(concurrency * memory_a_request * (1.0 if family else random.uniform(0.6, 1.5)))
        memory = (memory + random.choice((0, 128))) * (2 if memory_bound else 1)
        found.append(Size(f"s{concurrency:02d}", cpu, memory * _MIB, concurrency))
    return tuple(found)


def _node(random: Random, i: int, memory: int, free: tuple[float, float], taus: tuple[float, float]) -> Node:
    """A node with a random free share and creation time, each drawn from its range."""
    return Node(
        name=f"node-{i:04d}",
        cpu_millicores=_CPU_MILLICORES,
        memory_bytes=memory,
        cpu_free_millicores=int(_CPU_MILLICORES * random.uniform(*free)) // 10 * 10,
        memory_free_bytes=int(memory * random.uniform(*free)) // _MIB * _MIB,
        pods_free=random.choice((3, 20, 100)),
        creating=random.choice((0, 0, 0, 1, 3)),
        tau_create_s=random.uniform(*taus),
        tau_resize_s=random.uniform(0.02, 0.5),
        image_pull_s=random.choice((0.0, 0.0, 0.0, 2.0)),
        accepts=random.random() > 0.1,
    )


def _running(
    random: Random, nodes: Sequence[Node], sizes: Sequence[Size], concurrency: int
) -> list[Container]:
    """Containers anywhere they fit, of any size."""
    cpu = {node.name: node.cpu_free_millicores for node in nodes}
    memory = {node.name: node.memory_free_bytes for node in nodes}
    found: list[Container] = []
    for _ in range(20 * len(nodes)):
        if sum(c.size.concurrency for c in found) >= concurrency:
            break
        node, size = random.choice(nodes), random.choice(sizes)
        slots = node.pods_free - sum(c.node == node.name for c in found)
        if slots and size.cpu_millicores <= cpu[node.name] and size.memory_bytes <= memory[node.name]:
            cpu[node.name] -= size.cpu_millicores
            memory[node.name] -= size.memory_bytes
            found.append(Container(f"pod-{len(found):04d}", node.name, size, random.random() > 0.15))
    return found


def beside(nodes: Sequence[Node], containers: Sequence[Container]) -> list[Node]:
    """The nodes with those containers on them."""
    own: dict[str, list[Size]] = {}
    for container in containers:
        own.setdefault(container.node, []).append(container.size)
    return [
        replace(
            node,
            cpu_free_millicores=node.cpu_free_millicores
            - sum(s.cpu_millicores for s in own.get(node.name, ())),
            memory_free_bytes=node.memory_free_bytes - sum(s.memory_bytes for s in own.get(node.name, ())),
            pods_free=node.pods_free - len(own.get(node.name, ())),
        )
        for node in nodes
    ]
