"""Small problems for tests: drawn from a `Random`, so that a seed or hypothesis can drive them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import cluster_autoscaler_hook
from cluster_autoscaler_hook.solver.model import App, Container, InstanceClass, Problem
from cluster_autoscaler_hook.solver.validation import fits

PROBLEMS = Path(__file__).parents[1] / "problems"
EXAMPLES = Path(cluster_autoscaler_hook.__file__).parent / "examples"


def small_problem(random: Random) -> Problem:
    """One to three apps of a few containers in one or two families: small enough for an exact solver,
    with everything in it that a problem can have."""
    families = random.choice((["F"], ["F", "G"]))
    classes = tuple(c for family in families for c in _classes(random, family))
    names = [f"app{number}" for number in range(random.randint(1, 3))]
    containers = {}
    for name in names:
        for family in families:
            container = _container(random)
            can = any(c.family == family and fits(container, c) for c in classes)
            if can and (random.random() < 0.8 or family == families[-1]):
                containers[name, family] = container
        if not any(app == name for app, _ in containers):
            containers[name, families[0]] = Container(0.5, 1.0, (1,), (0.5,))
    apps = tuple(_app(random, name, containers) for name in names)
    return Problem(apps, classes, containers)


def odd_levels_problem(random: Random) -> Problem:
    """One or two apps whose levels need not divide each other, nor memory grow evenly with them."""
    names = [f"app{number}" for number in range(random.randint(1, 2))]
    containers = {}
    for name in names:
        levels = (1, *sorted(random.sample(range(2, 10), random.randint(1, 3))))
        memory = sorted(round(random.uniform(0.5, 4.0), 2) for _ in levels)
        containers[name, "F"] = Container(round(random.uniform(0.05, 0.6), 2), 1.0, levels, tuple(memory))
    return Problem(
        tuple(App(name, float(random.randint(1, 14))) for name in names),
        tuple(
            InstanceClass(f"c{n}", "F", n, 4 * n, 0.1 * n, random.choice((None, None, 4))) for n in (1, 2, 4)
        ),
        containers,
    )


def _classes(random: Random, family: str) -> list[InstanceClass]:
    price = random.uniform(0.05, 0.2)
    sizes = sorted(random.sample((1, 2, 4, 8), random.randint(1, 3)))
    limit = random.choice((None, None, None, 3))
    lean = [InstanceClass(f"{family}C{n}", family, n, 4 * n, round(price * n, 4), limit) for n in sizes]
    if random.random() < 0.5:
        return lean
    return lean + [InstanceClass(f"{family}M{n}", family, n, 8 * n, round(price * n * 1.3, 4)) for n in sizes]


def _container(random: Random) -> Container:
    levels = random.choice(((1,), (1, 2), (1, 2, 4), (1, 3), (1, 2, 3), (1, 4, 6), (1, 2, 5, 8)))
    memory = round(random.uniform(0.2, 6.0), 2)
    growth = random.choice((0.0, 0.0, 0.3, 1.0))
    return Container(
        round(random.uniform(0.2, 1.9), 2),
        random.choice((0.5, 1.0, 1.7, 2.5)),
        levels,
        tuple(round(memory * (1 + growth * (level - 1)), 4) for level in levels),
    )


def _app(random: Random, name: str, containers: dict[tuple[str, str], Container]) -> App:
    slowest = min(c.performance for (app, _), c in containers.items() if app == name)
    return App(
        name,
        round(slowest * random.uniform(0.5, 5.5), 3),
        random.choice((0.3, 0.5, 1.0)),
        random.choice((None, None, None, 2)),
    )
