"""`surgekit lab`: bring an emulated cluster up, look at it, take it down."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from kwok import parts
from kwok.errors import LabError
from kwok.lab import Lab
from kwok.scenario import Scenario

__all__ = ["PARTS", "app"]

app = typer.Typer(no_args_is_help=True, help="An emulated cluster with a real control plane.")

Name = Annotated[str, typer.Argument(help="Which lab; several can live side by side.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True)
class Plan:
    """What `up` was asked for."""

    nodes: tuple[str, ...]
    seed: int


# What runs in a lab, in the order it is started. A new part of surgekit joins the lab here.
PARTS: list[tuple[str, Callable[[Lab, Plan], object]]] = [
    ("manifests", lambda lab, _: parts.install(lab)),
    ("node model", lambda lab, plan: lab.start_node_model(Scenario.draw(plan.seed, plan.nodes))),
    ("probe", lambda lab, _: parts.start_probe(lab)),
    ("extender and kube-scheduler", lambda lab, _: _start_scheduling(lab)),
    ("ComboFunc's controller", lambda lab, _: _start_combofunc(lab)),
]


def _start_scheduling(lab: Lab) -> None:
    """The default scheduler asks the extender for pods that opted in (surgekit.dev/placement)."""
    lab.start_scheduler({"extenders": [parts.start_extender(lab).scheduler_entry(parts.WEIGHT)]})


def _start_combofunc(lab: Lab) -> None:
    """For ComboFuncs and InPlaceDeployments. Who wants requests to flow starts kwok.traffic.balanced."""
    parts.install_combofunc(lab)
    parts.start_combofunc(lab)


@app.command()
def up(
    name: Name = "default",
    nodes: Annotated[int, typer.Option(min=1, help="How many emulated nodes.")] = 16,
    seed: Annotated[int, typer.Option(help="Draws the nodes' speeds.")] = 1,
    as_json: Json = False,
) -> None:
    """Bring a lab up: control plane, nodes and their model, probe, extender, scheduler, ComboFunc."""
    console = Console(stderr=True, soft_wrap=True)
    started_s = time.monotonic()
    with console.status("control plane") as status:

        def prepare(lab: Lab) -> None:
            status.update(f"{nodes} nodes")
            plan = Plan(tuple(lab.add_nodes(nodes)), seed)
            for part, start in PARTS:
                status.update(part)
                start(lab, plan)

        lab = Lab.up(name, prepare=prepare)
    if as_json:
        sys.stdout.write(json.dumps(asdict(_look(name)), default=str) + "\n")
        return
    console.print(f"lab [bold]{name}[/bold] is up in {time.monotonic() - started_s:.1f} s: {nodes} nodes")
    console.print(f"  kubeconfig  {lab.kubeconfig}", highlight=False)
    console.print(f"  logs        {lab.directory / 'logs'}", highlight=False)
    console.print(f"  kubectl     {lab.binaries.path('kubectl')}", highlight=False)
    console.print(
        "  opt in with kubectl label namespace default surgekit.dev/placement=enforce", highlight=False
    )
    example = parts.MANIFESTS / "combofunc" / "examples" / "replicas.yaml"
    console.print(f"  try         kubectl apply -f {example}; kubectl get combofuncs,pods", highlight=False)
    console.print(f"  end it with [bold]surgekit lab down{'' if name == 'default' else ' ' + name}[/bold]")


@app.command()
def status(as_json: Json = False) -> None:
    """Show the labs on this machine."""
    views = [_look(name) for name in Lab.names()]
    if as_json:
        sys.stdout.write(json.dumps([asdict(view) for view in views], default=str) + "\n")
        return
    table = Table("lab", "state", "nodes", "pods", "processes", "kubeconfig")
    for view in views:
        processes = ", ".join(f"{n}{'' if alive else ' (dead)'}" for n, alive in view.processes.items())
        table.add_row(view.name, view.state, str(view.nodes), str(view.pods), processes, str(view.kubeconfig))
    Console().print(table if views else "no labs; `surgekit lab up` makes one")


@app.command()
def down(name: Name = "default") -> None:
    """Take one lab down, whole or broken, and remove its directory."""
    # One at a time, by name: labs of other people and other sessions share the directory.
    Console(stderr=True, soft_wrap=True).print(
        f"lab {name} is down" if Lab.remove(name) else f"there was no lab {name}"
    )


@dataclass(frozen=True)
class LabView:
    """A lab as `status` shows it."""

    name: str
    state: str
    nodes: int
    pods: int
    processes: dict[str, bool]
    kubeconfig: Path
    logs: Path


def _look(name: str) -> LabView:
    directory = Lab.directory_of(name)
    try:
        lab = Lab.open(name)
        processes = {process.name: process.alive() for process in lab.processes.all()}
        nodes, pods = (len(lab.kube.list_all(f"/api/v1/{kind}")[0]) for kind in ("nodes", "pods"))
        state = "up" if all(processes.values()) else "degraded"
    except LabError:
        state, nodes, pods, processes = "broken", 0, 0, {}
    return LabView(name, state, nodes, pods, processes, directory / "kubeconfig", directory / "logs")
