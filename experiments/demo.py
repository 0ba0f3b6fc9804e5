"""`surgekit demo`: watch an unmodified kube-scheduler place pods better because the extender tells it to."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from experiments import plots
from experiments.placement import bench as bench_placement
from experiments.placement.workload import SURGE, Workload
from kwok import parts
from kwok.lab import Lab
from surgekit.cli.explain_pod import show_placement
from surgekit.cli.json_file import JsonFile, takes_output, write_json

__all__ = ["app"]

app = typer.Typer(help="A scale-out on nodes of different speed, placed by stock and by ours.")
ARMS = (("stock", None), ("extender", parts.WEIGHT))


@app.command()
def demo(
    seed: Annotated[int, typer.Option(help="Draws the nodes' speeds.")] = 1,
    warm_up_s: Annotated[float, typer.Option(help="Seconds of background before the scale-out.")] = 40.0,
    plot: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("out/demo.png"),
    json_file: JsonFile = None,
) -> None:
    """A scale-out of 200 pods over 16 nodes that create containers at different speeds, placed twice."""
    console = Console(stderr=takes_output(json_file), highlight=False)
    workload = replace(Workload(), warm_up_s=warm_up_s)
    played: dict[str, Any] = {"seed": seed}
    with Lab.temporary("demo") as lab:
        console.print(
            f"a real control plane with {workload.nodes} emulated nodes; each shares its own, wandering "
            "speed among the containers being created on it"
        )
        nodes = bench_placement.prepare(lab, workload)
        for arm, weight in ARMS:
            with console.status(
                f"{arm}: {warm_up_s:.0f} s of background, then {workload.replicas} pods at once"
            ):
                keep = weight is not None
                trial = bench_placement.Trial(workload, seed)
                result = bench_placement.play(lab, nodes, trial, weight, keep=keep)
            played[arm] = asdict(result)
            console.print(f"[bold]{plots.LABELS[arm]}[/bold]: all Ready after {result.seconds:.1f} s")
        explained = _one_explanation(lab)
    played["speedup"] = played["stock"]["seconds"] / played["extender"]["seconds"]
    plots.placement_plot(played, plot)
    if not write_json(played | {"explained": explained}, json_file):
        _show(played, explained, console)
    console.print(
        f"picture: {plot}   more rounds: surgekit bench placement   a lab to play with: surgekit lab up"
    )


def _one_explanation(lab: Lab) -> dict[str, Any] | None:
    """The extender's explanation of the last pod it scored."""
    part = parts.find_extender(lab)
    pods, _ = lab.kube.list_all(f"/api/v1/namespaces/{SURGE}/pods")
    for pod in reversed(pods):
        status, body = (
            part.request("GET", f"/explain?pod={SURGE}/{pod['metadata']['name']}") if part else (404, b"")
        )
        if status == 200:
            found: dict[str, Any] = json.loads(body)
            return found
    return None


def _show(played: dict[str, Any], explained: dict[str, Any] | None, console: Console) -> None:
    table = Table("node", "s/container", "measured", "pods, stock", "pods, extender")
    for column in table.columns:
        column.no_wrap = True
    truth = played["extender"]["tau_create_s"]
    for node in sorted(truth, key=truth.__getitem__):
        believed = played["extender"]["believed_s"].get(node)
        counts = [played[arm]["placed"].get(node, 0) for arm in ("stock", "extender")]
        bars = [f"{count:2d} " + "▇" * round(count * 0.6) for count in counts]
        table.add_row(node, f"{truth[node]:.2f}", f"{believed:.2f}" if believed else "-", *bars)
    console.print(table)
    if explained:
        console.print("\nwhy one of the pods went where it went (`surgekit explain pod`):")
        show_placement(explained, console)
    console.print(f"\n[bold green]{played['speedup']:.2f} times as fast[/bold green] with the extender")
