"""`surgekit docs`: what documents show and a program makes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="For developers: what the documents show.")


@app.callback()
def docs() -> None:
    """For developers: what the documents show."""


@app.command()
def screenshots(
    directory: Annotated[
        Path, typer.Option("--to", help="Where the pictures go.", file_okay=False, exists=True)
    ] = Path("docs"),
) -> None:
    """Take the pictures of the live page, of a lab of its own (as root, with HAProxy and Chromium)."""
    from experiments.screenshots import take

    with Console(stderr=True).status("browser") as status:
        for file in take(directory, status.update):
            typer.echo(file)


@app.command()
def report(
    dashboard: Annotated[Path, typer.Argument(help="What `surgekit bench dashboard --json FILE` wrote.")],
    directory: Annotated[
        Path, typer.Option("--to", help="Folder of the documentation.", file_okay=False, exists=True)
    ] = Path("docs"),
) -> None:
    """Take the pictures of the report and of the dashboard's panels (with Chromium)."""
    from experiments.report_pictures import take

    for file in take(directory, dashboard):
        typer.echo(file)
