"""The options that choose the cluster a command reads: --lab and --kubeconfig."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from surgekit.kube.client import Kube

__all__ = ["Kubeconfig", "LabName", "connect"]

LabName = Annotated[str | None, typer.Option("--lab", help="Read this lab.")]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(help="Read this cluster; default: the pod's own, else the current context."),
]


def connect(lab: str | None, kubeconfig: Path | None) -> Kube:
    """Connect to the lab if one is named, else to the kubeconfig's cluster."""
    if lab is not None:
        from kwok.lab import Lab

        return Lab.open(lab).kube
    from surgekit.kube.client import Kube

    return Kube.connect(kubeconfig)
