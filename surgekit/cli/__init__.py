"""The command line: `surgekit <command>`.

Each command is a module of this package with a typer `app`, imported only when it is used: the
extender's workers and the shell's completion should not wait for the plots of a bench. The command
line is the only place that imports all the parts.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import structlog
import typer
from rich.console import Console
from typer.core import TyperGroup

__all__ = ["app", "main"]

_COMMANDS = (
    "demo", "lab", "serve", "explain", "bench", "fcma", "certificates", "metrics-api", "manifests",
)  # fmt: skip


class _Commands(TyperGroup):
    """Finds commands by module name. A part that is not installed has no command."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in _COMMANDS if self.get_command(ctx, name)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002  # click decides the signature
        if cmd_name not in _COMMANDS:
            return None
        module_name = f"{__name__}.{cmd_name.replace('-', '_')}"
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name != module_name:
                raise
            return None
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        return command


app = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def surgekit() -> None:
    """Absorb traffic surges on Kubernetes faster and cheaper, with parts that plug into a stock cluster."""
    # Standard output is for what was asked (`--json` above all). Services configure their logs further.
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))


def main() -> None:
    try:
        app()
    except Exception as error:
        if not isinstance(error, _expected()):
            raise
        Console(stderr=True, soft_wrap=True, highlight=False).print("[red]error:[/red]", end=" ")
        Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(str(error))
        sys.exit(1)


def _expected() -> tuple[type[Exception], ...]:
    """Errors whose message is for the user; everything else is a bug and shows its traceback."""
    # Imported only when something went wrong.
    from cluster_autoscaler_hook.solver.model import InfeasibleProblem, InvalidProblem
    from combofunc.explanation import NothingToExplain as NoComboFunc
    from hpa_replacement.adapter.registration import AnothersApi
    from hpa_replacement.explanation import NothingToExplain
    from hpa_replacement.policy import PolicyError
    from kwok.errors import LabError
    from surgekit.cli.custom_object import NotThere
    from surgekit.kube.api_path import InvalidPath
    from surgekit.kube.client import ApiError, KubeUnreachable
    from surgekit.process.settings import SettingsError

    return (
        LabError, ApiError, KubeUnreachable, SettingsError, InvalidProblem, InfeasibleProblem,
        AnothersApi, NoComboFunc, NothingToExplain, NotThere, PolicyError, InvalidPath,
    )  # fmt: skip
