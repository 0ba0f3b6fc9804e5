"""`surgekit ui`: the live page, until Ctrl-C."""

from __future__ import annotations

from typing import Annotated

import typer

from surgekit.cli.cluster_view import Context, SettingsFile, open_view
from surgekit.cli.which_cluster import Kubeconfig, LabName

__all__ = ["app"]

app = typer.Typer()


@app.command()
def ui(
    lab: LabName = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    settings: SettingsFile = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the page; 0: any free one.")
    ] = None,
) -> None:
    """Show the cluster in a browser: nodes, prices, functions, and each decision with its reasons."""
    from cluster_view.server import serve
    from cluster_view.settings import Settings
    from surgekit.process import logs
    from surgekit.process.settings import load

    given = load(Settings, settings)
    view = open_view(given, lab, kubeconfig, context)
    logs.configure()
    page = serve(view, given.bind, port)
    typer.echo(f"{page.url}  (Ctrl-C ends it)")
    try:
        page.wait()
    except KeyboardInterrupt:
        page.stop()
