"""The options that say which cluster a command looks at: --lab and --kubeconfig."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kwok.lab import Lab
    from surgekit.kube.client import Kube

__all__ = ["Kubeconfig", "LabName", "connect", "lab_of"]

LabName = Annotated[str | None, typer.Option("--lab", help="Look at this lab.")]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(help="Look at this cluster; default: the pod's own, else the current context."),
]


def connect(lab: str | None, kubeconfig: Path | None) -> Kube:
    from surgekit.kube.client import Kube

    found = lab_of(lab, kubeconfig)
    return found.kube if found else Kube.connect(kubeconfig)


def lab_of(lab: str | None, kubeconfig: Path | None) -> Lab | None:
    """The lab that is meant, by its name or by its kubeconfig; None: another cluster."""
    from kwok.lab import Lab
    from kwok.places import labs_directory

    if lab is None:
        named = kubeconfig or Path(os.environ.get("KUBECONFIG") or "/")
        directory = named.resolve().parent
        if directory.parent != labs_directory() or not directory.is_dir():
            return None
        lab = directory.name
    return Lab.open(lab)
