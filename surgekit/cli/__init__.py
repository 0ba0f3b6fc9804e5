"""The command line: `surgekit <command>`.

Each command is a module with a typer `app`, imported only when it is used: the extender's workers and the
shell's completion should not wait for the plots of a bench.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import structlog
import typer
from rich.console import Console
from typer.core import TyperGroup

from surgekit.errors import UserError

__all__ = ["app", "main"]

_COMMANDS = {
    "demo": "experiments.demo",
    "lab": "surgekit.cli.lab",
    "serve": "surgekit.cli.serve",
    "explain": "surgekit.cli.explain",
    "bench": "experiments.commands",
    "fcma": "surgekit.cli.fcma",
    "certificates": "surgekit.cli.certificates",
    "metrics-api": "surgekit.cli.metrics_api",
    "manifests": "surgekit.cli.manifests",
}
# What a production image leaves out, and the commands that need it.
_LAB_ONLY = {"experiments", "kwok", "matplotlib", "pyroute2", "uvloop"}


class _Commands(TyperGroup):
    """Finds commands by name and imports them."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # click decides the signature
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002  # click decides the signature
        if cmd_name not in _COMMANDS:
            return None
        try:
            app = importlib.import_module(_COMMANDS[cmd_name]).app
        except ModuleNotFoundError as error:
            if str(error.name).partition(".")[0] not in _LAB_ONLY:
                raise
            app = _not_installed(cmd_name)
        command = typer.main.get_command(app)
        command.name = cmd_name
        return command


def _not_installed(name: str) -> typer.Typer:
    """A command that says what to install."""
    missing = typer.Typer(help="Needs the lab: pip install 'surgekit[lab]'.")

    @missing.command(
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    )
    def explain() -> None:
        raise UserError(f"`surgekit {name}` needs the lab: pip install 'surgekit[lab]'")

    return missing


app = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def surgekit() -> None:
    """Absorb traffic surges on Kubernetes faster and cheaper, with parts that plug into a stock cluster."""
    # Standard output is for what was asked (`--json` above all). Services configure their logs further.
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))


def main() -> None:
    try:
        app()
    except UserError as error:
        Console(stderr=True, soft_wrap=True, highlight=False).print("[red]error:[/red]", end=" ")
        Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(str(error))
        sys.exit(1)
