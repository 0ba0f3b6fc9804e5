"""`surgekit manifests`: where the kustomizations are that install surgekit on a cluster."""

from __future__ import annotations

import typer

from surgekit.shipped_manifests import MANIFESTS

__all__ = ["app"]

app = typer.Typer(help="Print the directory with the kustomizations that install surgekit.")


@app.command()
def manifests() -> None:
    """Print the directory with the kustomizations that install surgekit: cp -r "$(surgekit manifests)" ."""
    typer.echo(MANIFESTS)
