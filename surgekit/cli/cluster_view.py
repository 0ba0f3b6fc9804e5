"""What `surgekit ui` and `surgekit top` have in common: their cluster, its prices, the extender to ask."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surgekit.errors import UserError

if TYPE_CHECKING:
    from cluster_view.service import View
    from cluster_view.settings import Settings

__all__ = ["Context", "SettingsFile", "open_view"]

Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig; default: the current one.")]
SettingsFile = Annotated[
    Path | None,
    typer.Option("--settings", help="YAML file; SURGEKIT_VIEW_<KEY> overrides it.", dir_okay=False),
]
_LAB_EVERY_S, _CLUSTER_EVERY_S = 0.5, 2.0


def open_view(settings: Settings, lab: str | None, kubeconfig: Path | None, context: str | None) -> View:
    """Not started yet. In a lab it runs under the account that may only look."""
    from cluster_view.service import Extender, View
    from surgekit.cli import explain_pod
    from surgekit.kube.client import Kube

    if lab is not None:
        from kwok.lab import Lab
        from kwok.parts import view_account

        kube, name = Kube.connect(view_account(Lab.open(lab))), f"lab {lab}"
        about, since = partial(explain_pod.ask_lab, lab), partial(explain_pod.recent_in_lab, lab)
        every_s = _LAB_EVERY_S
    else:
        kube = Kube.connect(kubeconfig, context)
        name, every_s = context or kube.host, _CLUSTER_EVERY_S
        about = partial(explain_pod.ask_cluster, kube)
        since = partial(explain_pod.recent_in_cluster, kube)
    return View(kube, name, settings, _prices(settings.catalogue), Extender(about, since, every_s))


def _prices(catalogue: Path | None) -> dict[str, float]:
    """Dollars an hour, by instance type."""
    if catalogue is None:
        return {}
    from cluster_autoscaler_hook.catalogue import CatalogueError, from_csv, load

    try:
        read = (from_csv if catalogue.suffix == ".csv" else load)(catalogue)
    except CatalogueError as error:
        raise UserError(str(error)) from error
    if read.currency != "USD":
        raise UserError(f"{catalogue}: its prices are in {read.currency}; what is shown is in USD")
    return {name: entry.price_per_hour for name, entry in read.entries.items()}
