"""Fresh random problems of the paper's two kinds, for benches and tests: same seed, same problems.

The kinds are table 4's grid and the scalability set. Where the paper leaves a range open, it is as
the authors' published files have it: a container's cores and performance in a family also grow with
that family's price for a core.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from itertools import product
from random import Random

from cluster_autoscaler_hook.solver.model import App, Container, InstanceClass, Problem

__all__ = ["aws_classes", "paper_grid", "scalability"]

# Table 4.
_FAMILIES = (1, 4)
_APPS = (1, 2, 5, 15, 30)
_CORES = (0.12, 3.0)
_MEMORY_GIB_PER_CORE = (2.0, 8.0)
_PERFORMANCE_RPS = (0.02, 0.4)
_SIZE_MULTIPLIERS = (0.75, 0.9, 1.0, 1.15, 1.2)
_PERFORMANCE_MULTIPLIERS = (0.04, 0.08, 0.16, 0.32, 0.4, 0.8, 1.1, 2.1, 4.0)
_LEVELS = {0.12: (1, 2, 4, 8), 3.0: (1, 2)}
_SINGLE_FAMILY = "c5_m5_r5"
# The scalability files: up to 100 apps, memory of 1.5 to 19.2 GiB a core, and levels up to one core.
_MOST_APPS = 100
_SCALABILITY_MEMORY = (2.0, 4.0, 8.0, 16.0)
_SCALABILITY_CORES = (0.1, 2.0)
_SCALABILITY_RPS = (0.02, 1.0)
_SCALABILITY_LEVELS = (1, 2, 4, 8)

_WORKLOAD_RPS = 1.0


@cache
def aws_classes() -> tuple[InstanceClass, ...]:
    """The instance classes of the paper's experiments; data/README.md has their origin."""
    text = files("cluster_autoscaler_hook").joinpath("data/aws_eu_west_1.csv").read_text()
    return tuple(
        InstanceClass(
            row["instance_class"],
            row["family"],
            float(row["cores"]),
            float(row["memory_gib"]),
            float(row["price_usd_per_hour"]),
        )
        for row in csv.DictReader(text.splitlines())
    )


def paper_grid(seed: int, sfmpl: float = 0.5) -> Iterator[Problem]:
    """The grid of table 4 in random order, over and over, each time with fresh multipliers."""
    random = Random(seed)
    grid = list(product(_FAMILIES, _APPS, _CORES, _MEMORY_GIB_PER_CORE, _PERFORMANCE_RPS))
    while True:
        for families, apps, cores, memory, performance in random.sample(grid, len(grid)):
            names = [_SINGLE_FAMILY] if families == 1 else _family_names()
            containers = {}
            for app, family in product(range(apps), names):
                size = cores * random.choice(_SIZE_MULTIPLIERS)
                containers[f"app_{app}", family] = _container(
                    random, family, (size, memory, performance), _LEVELS[cores]
                )
            yield _problem(apps, names, containers, sfmpl)


def scalability(seed: int, sfmpl: float = 1.0) -> Iterator[Problem]:
    """1 to 100 apps in 1 to 4 families; each app has its own sizes."""
    random = Random(seed)
    while True:
        apps = random.randint(1, _MOST_APPS)
        names = random.sample(_family_names(), random.randint(1, 4))
        containers = {}
        for app in range(apps):
            size = random.uniform(*_SCALABILITY_CORES) * random.choice(_SIZE_MULTIPLIERS)
            performance = random.uniform(*_SCALABILITY_RPS)
            memory = random.choice(_SCALABILITY_MEMORY)
            for family in names:
                levels = tuple(level for level in _SCALABILITY_LEVELS if level == 1 or level * size <= 1)
                containers[f"app_{app}", family] = _container(
                    random, family, (size, memory, performance), levels
                )
        yield _problem(apps, names, containers, sfmpl)


def _container(
    random: Random, family: str, shape: tuple[float, float, float], levels: tuple[int, ...]
) -> Container:
    """`shape`: cores, GiB a core, and requests a second, before the family's factors."""
    cores, memory, performance = shape
    dear = _price_of_core(family) / min(_price_of_core(name) for name in _family_names())
    size = cores * dear * random.choice(_SIZE_MULTIPLIERS)
    memory_gib = size * memory * random.choice(_SIZE_MULTIPLIERS)
    multiplier = random.choice(_PERFORMANCE_MULTIPLIERS) * random.choice(_SIZE_MULTIPLIERS)
    # Aggregation needs no more memory in any of the authors' files.
    return Container(size, performance * multiplier * dear, levels, (memory_gib,) * len(levels))


def _problem(
    apps: int, families: list[str], containers: dict[tuple[str, str], Container], sfmpl: float
) -> Problem:
    return Problem(
        tuple(App(f"app_{number}", _WORKLOAD_RPS, sfmpl) for number in range(apps)),
        tuple(c for c in aws_classes() if c.family in families),
        containers,
    )


@cache
def _family_names() -> list[str]:
    return list(dict.fromkeys(c.family for c in aws_classes()))


@cache
def _price_of_core(family: str) -> float:
    return min(c.price_per_hour / c.cores for c in aws_classes() if c.family == family)
