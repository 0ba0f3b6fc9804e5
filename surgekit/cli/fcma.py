"""`surgekit fcma`: which instance classes to rent for a problem file, and what goes on them."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cluster_autoscaler_hook.solver.variant import DEFAULT_DEADLINE_S, Variant
from surgekit.cli.json_file import JsonFile, write_json

if TYPE_CHECKING:
    from cluster_autoscaler_hook.solver.model import Node, Problem, Solution

__all__ = ["app", "figures"]

app = typer.Typer(no_args_is_help=True, help="Which instance classes to rent, and what goes on them.")


@app.callback()
def fcma() -> None:
    """Which instance classes to rent, and what goes on them."""


@app.command("solve")
def solve_file(
    file: Annotated[Path, typer.Argument(help="A problem in the FCMA authors' JSON format.")],
    variant: Annotated[Variant, typer.Option(help="The solver.")] = Variant.BEST,
    deadline: Annotated[float, typer.Option(min=0, help="Seconds.")] = DEFAULT_DEADLINE_S,
    sfmpl: Annotated[
        float | None,
        typer.Option(help="Share of its performance an app may lose with one node, for all apps."),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Solve one problem: nodes, the containers on them, their cost and a lower bound of any."""
    from cluster_autoscaler_hook.solver import problem_file
    from cluster_autoscaler_hook.solver.solve import solve

    problem = problem_file.load(file, sfmpl)
    started_s = time.monotonic()
    solution = solve(problem, deadline, variant)
    said = figures(problem, solution, variant, time.monotonic() - started_s)
    if not write_json(said, json_file):
        _show(problem, solution, said, Console(highlight=False))


def figures(problem: Problem, solution: Solution, variant: Variant, seconds: float) -> dict[str, Any]:
    """What `--json` writes."""
    from cluster_autoscaler_hook.solver import secondary

    allocation: dict[str, list[dict[str, dict[str, int]]]] = {}
    for node in solution.allocation.nodes:
        on_node: dict[str, dict[str, int]] = {}
        for (name, level), number in secondary.containers_on(problem, node).items():
            on_node.setdefault(name, {})[str(level)] = number
        allocation.setdefault(node.instance_class, []).append(on_node)
    return {
        "variant": variant.value,
        "cost": solution.cost_per_hour,
        "lower_bound": solution.lower_bound_per_hour,
        "seconds": seconds,
        "deadline_reached": solution.deadline_reached,
        "nodes": len(solution.allocation.nodes),
        "containers": sum(
            sum(secondary.containers_on(problem, node).values()) for node in solution.allocation.nodes
        ),
        "fault_tolerance": secondary.fault_tolerance(problem, solution.allocation),
        "load_balance": secondary.load_balance(problem, solution.allocation),
        "isolation": secondary.isolation(problem, solution.allocation),
        "allocation": allocation,
    }


def _show(problem: Problem, solution: Solution, said: dict[str, Any], console: Console) -> None:
    alike = Counter((node.instance_class, _containers(problem, node)) for node in solution.allocation.nodes)
    nodes = Table("nodes", "class", "price/h", "containers", box=SIMPLE_HEAD)
    for (name, containers), count in alike.items():
        price = count * problem.class_by_name[name].price_per_hour
        nodes.add_row(str(count), name, f"{price:.4g}", containers)
    console.print(nodes)
    table = Table("figure", "value", box=SIMPLE_HEAD)
    for key, value in said.items():
        if key != "allocation":
            table.add_row(key, f"{value:.6g}" if isinstance(value, float) else str(value))
    console.print(table)
    for step in solution.steps:
        console.print(step, markup=False)


def _containers(problem: Problem, node: Node) -> str:
    """`2 web x4` is two containers of web, each of four minimum-size ones."""
    from cluster_autoscaler_hook.solver.secondary import containers_on

    return ", ".join(
        f"{number} {name} x{level}" for (name, level), number in containers_on(problem, node).items()
    )
