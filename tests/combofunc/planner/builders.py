"""Problems for the planner, by hand and by hypothesis."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from cluster_model.contention import MEASURED, PAPER, Contention, Sharing
from combofunc.planner.model import Container, Node, Size, Weights
from experiments.planner.random_problems import RandomProblem

MIB = 2**20
GIB = 2**30

SMALL = Size("small", 250, 256 * MIB, 1)
MIDDLE = Size("middle", 500, 512 * MIB, 3)
LARGE = Size("large", 1000, 1024 * MIB, 8)
SIZES = (SMALL, MIDDLE, LARGE)


def node(name: str = "a", **changes: Any) -> Node:
    """8 CPU and 16 GiB, empty, a second a container."""
    plain = Node(
        name=name,
        cpu_millicores=8000,
        memory_bytes=16 * GIB,
        cpu_free_millicores=8000,
        memory_free_bytes=16 * GIB,
        pods_free=100,
        creating=0,
        tau_create_s=1.0,
        tau_resize_s=0.1,
    )
    return replace(plain, **changes)


def running(*sizes: Size, on: str = "a", resizable: bool = True) -> tuple[Container, ...]:
    return tuple(Container(f"pod-{on}-{i}", on, size, resizable) for i, size in enumerate(sizes))


_sizes = st.lists(
    st.tuples(st.integers(1, 9), st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=5
).map(lambda found: tuple(Size(f"s{i}", 100 * c, 128 * m * MIB, q) for i, (q, c, m) in enumerate(found)))
_seconds = st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0])
_NONE = Contention(Sharing(8.0, 1.0), Sharing(8.0, 1.0), extra_container=0.0)
_EVEN = Contention(Sharing(2.5, 0.25), Sharing(2.0, 0.0), extra_container=0.5)


def _node(i: int) -> st.SearchStrategy[Node]:
    return st.builds(
        Node,
        name=st.just(f"n{i}"),
        cpu_millicores=st.sampled_from([0, 2000, 8000]),
        memory_bytes=st.sampled_from([0, 4 * GIB, 16 * GIB]),
        cpu_free_millicores=st.integers(-5, 80).map(lambda c: 100 * c),
        memory_free_bytes=st.integers(-2, 64).map(lambda m: 256 * m * MIB),
        pods_free=st.sampled_from([-1, 0, 1, 2, 5, 100]),
        creating=st.integers(0, 4),
        tau_create_s=_seconds,
        tau_resize_s=_seconds,
        image_pull_s=_seconds,
        accepts=st.sampled_from([True, True, True, False]),
    )


@st.composite
def problems(draw: st.DrawFn, most_containers: int = 6) -> RandomProblem:
    """Anything that is well formed: over-committed nodes, sizes not offered any more, nodes not listed."""
    sizes = draw(_sizes)
    nodes = tuple(draw(_node(i)) for i in range(draw(st.integers(0, 4))))
    strange = Size("old", 300, 512 * MIB, 2)
    containers = tuple(
        Container(
            f"pod-{i}",
            draw(st.sampled_from([*(n.name for n in nodes), "gone"])),
            draw(st.sampled_from([*sizes, strange])),
            draw(st.booleans()),
        )
        for i in range(draw(st.integers(0, most_containers)))
    )
    weights = Weights(
        draw(st.sampled_from([0.0, 0.05, 0.25, 1.0, 20.0])),
        draw(st.sampled_from([0.0, 0.5, 1.0])),
        draw(st.booleans()),
    )
    contention = draw(st.sampled_from([PAPER, MEASURED, _NONE, _EVEN]))
    return RandomProblem("any", sizes, nodes, containers, draw(st.integers(0, 40)), weights, contention)


def unrelated_sizes(sizes: int = 64, containers: int = 2000, nodes: int = 16) -> RandomProblem:
    """As many ways to plan as a ComboFunc can be made to have, and more wanted than fits."""
    random = Random(1)
    offered = tuple(
        Size(f"s{i:02d}", random.randint(10, 2000), random.randint(1, 4000) * MIB, random.randint(1, 20))
        for i in range(sizes)
    )
    there = [node(f"n{i:02d}", cpu_free_millicores=500 * i, memory_free_bytes=i * GIB) for i in range(nodes)]
    running = (
        Container(f"pod-{i:04d}", there[i % nodes].name, random.choice(offered)) for i in range(containers)
    )
    return RandomProblem("unrelated", offered, tuple(there), tuple(running), 100_000, Weights())
