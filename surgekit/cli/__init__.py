"""The command line: `surgekit <command>`.

Each command is a module with a typer `app`, imported only when it is used: the extender's workers and the
shell's completion should not wait for the plots of a bench.
"""

from __future__ import annotations

import importlib
import sys
from importlib import metadata
from typing import Annotated, Any, NoReturn

import structlog
import typer
from rich.console import Console
from typer.core import TyperGroup

from surgekit.cli.missing_extra import extra_for
from surgekit.errors import UserError

__all__ = ["app", "main"]

_COMMANDS = {
    "demo": "experiments.demo",
    "lab": "surgekit.cli.lab",
    "serve": "surgekit.cli.serve",
    "explain": "surgekit.cli.explain",
    "ui": "surgekit.cli.ui",
    "top": "surgekit.cli.top",
    "bench": "experiments.commands",
    "report": "experiments.results.report_command",
    "docs": "surgekit.cli.docs",
    "fcma": "surgekit.cli.fcma",
    "certificates": "surgekit.cli.certificates",
    "metrics-api": "surgekit.cli.metrics_api",
    "manifests": "surgekit.cli.manifests",
}


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
            if (extra := extra_for(error)) is None:
                raise
            app = _not_installed(cmd_name, extra)
        command = typer.main.get_command(app)
        command.name = cmd_name
        return command


def _not_installed(name: str, extra: str) -> typer.Typer:
    """A command that says what to install."""
    needed = f"pip install 'surgekit[{extra}]'"
    missing = typer.Typer(help=f"Not installed: {needed}.")

    @missing.command(
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    )
    def explain() -> None:
        raise UserError(f"`surgekit {name}` is not installed: {needed}")

    return missing


app = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"surgekit {metadata.version('surgekit')}")
        raise typer.Exit


@app.callback()
def surgekit(
    version: Annotated[  # noqa: ARG001  # its callback acts before any command
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Absorb traffic surges on Kubernetes faster and cheaper, with parts that plug into a stock cluster."""
    # Standard output is for what was asked (`--json` above all). Services configure their logs further.
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))


def main() -> None:
    try:
        app()
    except UserError as error:
        _exit_with(str(error))
    except ModuleNotFoundError as error:
        if (extra := extra_for(error)) is None:
            raise
        _exit_with(f"{error.name} is not installed: pip install 'surgekit[{extra}]'")


def _exit_with(message: str) -> NoReturn:
    Console(stderr=True, soft_wrap=True, highlight=False).print("[red]error:[/red]", end=" ")
    Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(message)
    sys.exit(1)
