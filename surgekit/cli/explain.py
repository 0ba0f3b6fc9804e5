"""`surgekit explain`: why things are as they are."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from kwok.errors import LabError
from surgekit import mutual_tls
from surgekit.cli.json_file import JsonFile

__all__ = ["app", "show_placement"]

app = typer.Typer(no_args_is_help=True, help="Why things are as they are.")


@app.callback()
def explain() -> None:
    """Why things are as they are."""


@app.command()
def pod(
    name: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="The pod.")],
    lab: Annotated[str, typer.Option(help="Ask the extender of this lab.")] = "default",
    url: Annotated[
        list[str] | None, typer.Option(help="Ask this extender instead; once for each replica.")
    ] = None,
    certificates: Annotated[
        Path | None, typer.Option(help="With --url: directory with ca.crt, tls.crt and tls.key (a client's).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Why the pod was scored as it was: nodes considered, the terms of the cost, what was chosen."""
    if name.count("/") != 1:
        raise typer.BadParameter("expected NAMESPACE/NAME", param_hint="name")
    said = _ask(name, lab, url, certificates)
    if as_json:
        sys.stdout.write(json.dumps(said) + "\n")
    else:
        show_placement(said, Console())


@app.command()
def nodes(
    lab: Annotated[str | None, typer.Option(help="Look at this lab.")] = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="Look at this cluster.")] = None,
    settings: Annotated[Path | None, typer.Option(help="The hook's settings file.", dir_okay=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What the pods that opted in cost, against the bound and against what runs; why these classes."""
    from cluster_autoscaler_hook.karpenter.settings import Settings
    from surgekit.cli.explain_nodes import explain_nodes
    from surgekit.kube import Kube
    from surgekit.settings import load

    if lab is not None:
        from kwok.lab import Lab

        kubeconfig = Lab.open(lab).kubeconfig
    explain_nodes(Kube.connect(kubeconfig), load(Settings, settings), as_json)


@app.command()
def scale(
    name: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="The KneePolicy.")],
    lab: Annotated[str | None, typer.Option(help="Look at this lab.")] = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="Look at this cluster.")] = None,
    json_file: JsonFile = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture of the search there (PNG).")] = None,
) -> None:
    """Why this many replicas: the last sample, the decision, the budget, knees known, the search."""
    from surgekit.cli.explain_scale import explain_scale
    from surgekit.kube import Kube

    if name.count("/") != 1:
        raise typer.BadParameter("expected NAMESPACE/NAME", param_hint="name")
    if lab is not None:
        from kwok.lab import Lab

        kubeconfig = Lab.open(lab).kubeconfig
    namespace, _, policy = name.partition("/")
    explain_scale(Kube.connect(kubeconfig), namespace, policy, json_file, plot)


@app.command()
def combofunc(
    name: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="The ComboFunc.")],
    lab: Annotated[str | None, typer.Option(help="Look at this lab.")] = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="Look at this cluster.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Why these containers on these nodes: target, last plan, each pod against what was planned for it."""
    from surgekit.cli.explain_combofunc import explain_combofunc
    from surgekit.kube import Kube

    if name.count("/") != 1:
        raise typer.BadParameter("expected NAMESPACE/NAME", param_hint="name")
    if lab is not None:
        from kwok.lab import Lab

        kubeconfig = Lab.open(lab).kubeconfig
    namespace, _, function = name.partition("/")
    explain_combofunc(Kube.connect(kubeconfig), namespace, function, json_file)


def _ask(name: str, lab: str, urls: list[str] | None, certificates: Path | None) -> dict[str, Any]:
    if urls:
        if certificates is None:
            raise typer.BadParameter("--url needs --certificates", param_hint="certificates")
        places = [(u.rstrip("/"), certificates, "tls") for u in urls]
    else:
        from kwok.lab import Lab
        from kwok.parts import LAB_CLIENT, find_extender

        part = find_extender(Lab.open(lab))
        if part is None:
            raise LabError(f"lab {lab!r} runs no extender; `surgekit lab up` starts one, --url asks another")
        places = [(part.url, part.certificates, LAB_CLIENT)]
    refusals = []
    for place, directory, client in places:
        status, body = mutual_tls.request(f"{place}/explain?pod={name}", directory, client)
        if status == 200:
            found: dict[str, Any] = json.loads(body)
            return found
        refusals.append(json.loads(body).get("error", body.decode()))
    raise LabError("; ".join(refusals))


def show_placement(said: dict[str, Any], console: Console) -> None:
    asked = said["pod"]
    when = datetime.fromtimestamp(said["decided_at"], UTC).strftime("%H:%M:%S.%f")[:-3]
    ages = ", ".join(f"{source} {age:.1f} s" for source, age in said["inputs_age_s"].items())
    console.print(
        f"[bold]{asked['namespace']}/{asked['name']}[/bold] asked for {asked['cpu_millicores']:g}m cpu, "
        f"{asked['memory_bytes'] / 2**20:g} MiB; at {when} UTC in mode {said['mode']}: {said['reason']}",
        highlight=False,
    )
    console.print(
        f"{said['nodes_offered']} nodes offered; "
        f"lambda {said['price_weight']:g} s per priced unit, x {said['price_swing']:g}; inputs: {ages} old",
        highlight=False,
    )
    table = Table(
        *("node", "score", "D/Q", "S (s)", "tau (s)", "k", "pull", "B", "beta_c", "beta_m", "bound"),
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for column in table.columns:
        column.no_wrap = True
    for c in said["candidates"]:
        times = (c["cost"], c["scaling_s"], c["tau_create_s"])
        prices = (c["image_pull_s"], c["resource_price"], c["cpu_price"], c["memory_price"])
        table.add_row(
            c["node"],
            str(c["score"]),
            *(f"{v:.3f}" for v in times),
            str(c["creating"]),
            *(f"{v:.2f}" for v in prices),
            "here" if c["node"] == said["bound_to"] else "",
        )
    console.print(table)
    if said["bound_to"] is None:
        console.print("not bound yet, as far as the watch has seen")
    elif said["bound_to"] not in [c["node"] for c in said["candidates"]]:
        console.print(
            f"bound to {said['bound_to']}, not among our best: the scheduler's own scores weighed more"
        )
