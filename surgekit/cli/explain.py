"""`surgekit explain`: why things are as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from surgekit.cli.json_file import JsonFile, write_json
from surgekit.cli.which_cluster import Kubeconfig, LabName, connect

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Why things are as they are.")


@app.callback()
def explain() -> None:
    """Why things are as they are."""


@app.command()
def pod(
    name: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="The pod.")],
    lab: LabName = None,
    kubeconfig: Kubeconfig = None,
    url: Annotated[
        list[str] | None, typer.Option(help="Ask this extender instead; once for each replica.")
    ] = None,
    certificates: Annotated[
        Path | None, typer.Option(help="With --url: directory with ca.crt, tls.crt and tls.key (a client's).")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Why the pod was scored as it was: nodes considered, the terms of the cost, what was chosen."""
    from surgekit.cli import explain_pod
    from surgekit.kube.client import Kube

    _split(name)
    if url:
        if certificates is None:
            raise typer.BadParameter("--url needs --certificates", param_hint="certificates")
        said = explain_pod.ask_urls(url, certificates, name)
    elif lab is not None:
        said = explain_pod.ask_lab(lab, name)
    else:
        said = explain_pod.ask_cluster(Kube.connect(kubeconfig), name)
    if not write_json(said, json_file):
        explain_pod.show_placement(said, Console())


@app.command()
def nodes(
    lab: LabName = None,
    kubeconfig: Kubeconfig = None,
    settings: Annotated[Path | None, typer.Option(help="The hook's settings file.", dir_okay=False)] = None,
    json_file: JsonFile = None,
) -> None:
    """What the pods that opted in cost, against the bound and against what runs; why these classes."""
    from cluster_autoscaler_hook.karpenter.settings import Settings
    from surgekit.cli.explain_nodes import explain_nodes
    from surgekit.process.settings import load

    explain_nodes(connect(lab, kubeconfig), load(Settings, settings), json_file)


@app.command()
def scale(
    name: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="The KneePolicy.")],
    lab: LabName = None,
    kubeconfig: Kubeconfig = None,
    json_file: JsonFile = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture of the search there (PNG).")] = None,
) -> None:
    """Why this many replicas: the last sample, the decision, the budget, knees known, the search."""
    from surgekit.cli.explain_scale import explain_scale

    explain_scale(connect(lab, kubeconfig), *_split(name), json_file, plot)


@app.command()
def combofunc(
    name: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="The ComboFunc.")],
    lab: LabName = None,
    kubeconfig: Kubeconfig = None,
    json_file: JsonFile = None,
) -> None:
    """Why these containers on these nodes: target, last plan, each pod against what was planned for it."""
    from surgekit.cli.explain_combofunc import explain_combofunc

    explain_combofunc(connect(lab, kubeconfig), *_split(name), json_file)


@app.command()
def limits(
    name: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="The DistributedContainer.")],
    lab: LabName = None,
    kubeconfig: Kubeconfig = None,
    json_file: JsonFile = None,
) -> None:
    """Why these limits: each container's limit, use, throttling and last change, and the last minutes."""
    from surgekit.cli.explain_limits import explain_limits

    explain_limits(connect(lab, kubeconfig), *_split(name), json_file)


@app.command()
def burst(
    name: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="The BurstFunction.")],
    lab: LabName = None,
    kubeconfig: Kubeconfig = None,
    json_file: JsonFile = None,
) -> None:
    """Both tracks of a function: what waits, counts toward scaling, is prepared; why not eligible."""
    from surgekit.cli.explain_burst import explain_burst

    explain_burst(connect(lab, kubeconfig), *_split(name), json_file)


def _split(name: str) -> tuple[str, str]:
    if name.count("/") != 1:
        raise typer.BadParameter("expected NAMESPACE/NAME", param_hint="name")
    namespace, _, rest = name.partition("/")
    return namespace, rest
