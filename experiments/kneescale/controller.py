"""KneeScale's controller for the live comparison: a KneePolicy's annotation may choose a baseline search.

python -m experiments.kneescale.controller --settings FILE --kubeconfig FILE
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.kneescale.searches import SEARCHES
from hpa_replacement import controller, kneepolicy
from hpa_replacement.kneepolicy import KneePolicy
from hpa_replacement.settings import Settings
from surgekit.process.settings import load

__all__ = ["SEARCH_ANNOTATION", "read_policy"]

SEARCH_ANNOTATION = "experiments.surgekit.dev/search"


def read_policy(obj: dict[str, Any]) -> KneePolicy:
    read = kneepolicy.read(obj)
    arm = (obj["metadata"].get("annotations") or {}).get(SEARCH_ANNOTATION)
    if arm is None:
        return read
    return replace(read, policy=replace(read.policy, search=SEARCHES[arm]))


def main(
    settings: Annotated[Path, typer.Option()],
    kubeconfig: Annotated[Path, typer.Option()],
) -> None:
    controller.run(load(Settings, settings), kubeconfig, read_policy)


if __name__ == "__main__":
    typer.run(main)
