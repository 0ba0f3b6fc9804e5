"""`surgekit serve`: run one part in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surgekit.settings import load

app = typer.Typer(help="Run one part in the foreground.", no_args_is_help=True)

SettingsFile = Annotated[
    Path | None,
    typer.Option("--settings", help="YAML file; SURGEKIT_<KEY> variables override it.", dir_okay=False),
]
Kubeconfig = Annotated[
    Path | None, typer.Option(help="Cluster to talk to; default: the pod's own, else the current context.")
]


@app.command()
def extender(
    settings: SettingsFile = None,
    kubeconfig: Kubeconfig = None,
    bind: Annotated[str | None, typer.Option(help="Address and port to listen on.")] = None,
    tls_directory: Annotated[
        Path | None, typer.Option(help="tls.crt, tls.key and ca.crt; without it plain HTTP.")
    ] = None,
) -> None:
    """Score nodes for kube-scheduler (ComboFunc)."""
    from scheduler_extender.server import run
    from scheduler_extender.settings import Settings

    run(load(Settings, settings, bind=bind, tls_directory=tls_directory), kubeconfig)


@app.command()
def probe(settings: SettingsFile = None, kubeconfig: Kubeconfig = None) -> None:
    """Measure how fast each node creates containers and publish it as NodeSpeed objects."""
    from node_speed_probe.controller import run
    from node_speed_probe.settings import Settings

    run(load(Settings, settings), kubeconfig)
