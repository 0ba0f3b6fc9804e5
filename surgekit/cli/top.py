"""`surgekit top`: the cluster in a terminal, as JSON, or in one line."""

from __future__ import annotations

import logging
import time
from typing import Annotated

import structlog
import typer

from surgekit.cli.cluster_view import Context, SettingsFile, open_view
from surgekit.cli.json_file import JsonFile, write_json
from surgekit.cli.which_cluster import Kubeconfig, LabName
from surgekit.errors import UserError

__all__ = ["app"]

app = typer.Typer()
_LISTED_S = 60.0


@app.command()
def top(
    lab: LabName = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    settings: SettingsFile = None,
    cost: Annotated[bool, typer.Option("--cost", help="One line: nodes, requests, dollars.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Show nodes, dollars an hour, functions and decisions in a terminal."""
    from cluster_view.settings import Settings
    from surgekit.process.settings import load

    view = open_view(load(Settings, settings), lab, kubeconfig, context)
    if json_file is None and not cost:
        from cluster_view.terminal import Terminal

        # A line of a log would be written over the tables.
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        view.start()
        Terminal(view.state, view.sources.apply, time.time).run()
        view.stop()
        return
    view.sources.start()
    missing = view.sources.wait(_LISTED_S)
    view.stop()
    if missing:
        raise UserError(f"the API server has not told {', '.join(missing)}; may this account list them?")
    view.sources.apply()
    at_s = time.time()
    view.state.change(at_s)
    said = view.state.snapshot(at_s)
    if write_json(said, json_file):
        return
    if cost:
        from cluster_view.cost_line import cost_line

        typer.echo(cost_line(said))
