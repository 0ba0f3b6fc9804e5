"""`surgekit metrics-api`: the two APIServices through which the stock HPA reads our metric."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from hpa_replacement.adapter.registration import Service

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="The APIServices through which the HPA reads our metric.")

ServiceOption = Annotated[
    str, typer.Option(metavar="NAMESPACE/NAME:PORT", help="The Service of `surgekit serve adapter`.")
]
CaFile = Annotated[
    Path, typer.Option(help="CA of the adapter's certificate (PEM).", exists=True, dir_okay=False)
]
Group = Annotated[
    list[str] | None, typer.Option(help="external.metrics.k8s.io or custom.metrics.k8s.io; default: both.")
]
Kubeconfig = Annotated[Path | None, typer.Option(help="Of this cluster.")]
_SERVICE = "surgekit-system/surgekit-adapter:443"


@app.command()
def status(
    service: ServiceOption = _SERVICE,
    ca: Annotated[
        Path | None, typer.Option(help="CA of the adapter's certificate (PEM).", exists=True, dir_okay=False)
    ] = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Whose the APIServices are; with --ca also whether ours has it."""
    from hpa_replacement.adapter.discovery import CUSTOM, EXTERNAL
    from hpa_replacement.adapter.registration import registrations
    from surgekit.kube.client import Kube

    found = registrations(
        Kube.connect(kubeconfig), (EXTERNAL, CUSTOM), _service(service), ca.read_bytes() if ca else None
    )
    for registration in found:
        _console().print(f"{registration.owner}: {registration.message}")


@app.command()
def register(
    ca: CaFile, service: ServiceOption = _SERVICE, group: Group = None, kubeconfig: Kubeconfig = None
) -> None:
    """Make them ours, or renew ours. Another adapter's is left alone, and then nothing is written."""
    from hpa_replacement.adapter.discovery import CUSTOM, EXTERNAL
    from hpa_replacement.adapter.registration import register
    from surgekit.kube.client import Kube

    groups = group or [EXTERNAL, CUSTOM]
    if unknown := set(groups) - {EXTERNAL, CUSTOM}:
        raise typer.BadParameter(
            f"{sorted(unknown)[0]!r}: must be {EXTERNAL} or {CUSTOM}", param_hint="--group"
        )
    for before in register(Kube.connect(kubeconfig), groups, _service(service), ca.read_bytes()):
        done = "as it was" if before.current else f"registered ({before.message} before)"
        _console().print(f"{before.group}: {done}")


def _service(text: str) -> Service:
    from hpa_replacement.adapter.registration import Service

    place, _, port = text.rpartition(":")
    namespace, _, name = place.partition("/")
    if not (namespace and name and "/" not in name and port.isdigit() and 0 < int(port) < 65536):
        raise typer.BadParameter(f"{text!r}: must be NAMESPACE/NAME:PORT", param_hint="--service")
    return Service(namespace, name, int(port))


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True, markup=False)
