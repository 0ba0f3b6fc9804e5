"""How true is the node model to a real node? `surgekit bench node-model`.

One lab with one real node. Each round creates and deletes k pods of m containers at once, and resizes k pods
at once, for every k and m, in an order drawn from the round's name. The model is fitted to half of the
rounds; the emulation's error is taken on the others.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.kneescale.plan import add_played, read_played
from experiments.node_model.figures import report
from experiments.node_model.model import Samples
from experiments.node_model.plan import (
    CREATE,
    CREATIONS,
    DELETE,
    FITTED,
    HELD_OUT,
    RESIZES,
    Cell,
    Plan,
    cells_of,
)
from experiments.node_model.real_pods import RealPods
from kwok import real_node
from kwok.lab import Lab

__all__ = ["run", "samples", "summary"]

# What is not measured, and why.
NO_PULL = (
    "not measured: a pull is the transfer from a registry, and no registry can be reached from a lab; "
    "images are imported before a round begins. A scenario's `pull_s` stays a setting."
)
# Between two cells: the kubelet clears away what was deleted, and its loops of a second are met anywhere.
_PAUSE_S = (1.0, 2.0)
_LOAD = "load average"  # when a round began


def run(plan: Plan, partial: Path | None, say: Callable[[str], None]) -> dict[str, Any]:
    """Play all rounds. Finished ones are read from `partial`, and new ones are appended to it."""
    played: dict[str, dict[str, Any]] = dict(read_played(partial))
    missing = [name for name in plan.rounds if name not in played]
    if missing:
        with Lab.temporary("node-model", own_network=True) as lab:
            (node,) = real_node.start(lab, 1, ())
            say(f"{node} is Ready; {len(missing)} of {len(plan.rounds)} rounds are to be played")
            pods = RealPods(lab, node, plan.residents)  # creating its residents is the warm-up
            try:
                for name in missing:
                    began_s = time.monotonic()
                    played[name] = _play(pods, name)
                    add_played(partial, name, played[name])
                    say(f"{name}: {time.monotonic() - began_s:.0f} s, load average {played[name][_LOAD]}")
            finally:
                pods.close()
    return summary({name: played[name] for name in plan.rounds})


def summary(played: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """All figures of the rounds."""
    fitted, held_out = (
        samples([cells for name, cells in played.items() if name.startswith(kind)])
        for kind in (FITTED, HELD_OUT)
    )
    later_s = [
        seen_s - started_s
        for cells in played.values()
        for cell in CREATIONS
        for times in cells[cell.name]
        for seen_s, started_s in zip(times["seen_s"], times["started_s"], strict=True)
    ]
    return report(fitted, held_out) | {
        "seen_after_started_s": round(statistics.median(later_s), 4),
        "load_average_lowest": min(cells[_LOAD] for cells in played.values()),
        "load_average_highest": max(cells[_LOAD] for cells in played.values()),
        "image_pull": NO_PULL,
        "rounds": dict(played),
    }


def samples(rounds: Sequence[Mapping[str, Any]]) -> Samples:
    """By cell, the times of all repetitions."""
    found: dict[Cell, list[list[float]]] = {}
    for cells in rounds:
        for cell in (*CREATIONS, *RESIZES):
            for times in cells[cell.name]:
                found.setdefault(cell, []).append(times["seen_s"])
                if "gone_s" in times:
                    gone = Cell(DELETE, cell.pods, cell.containers)
                    found.setdefault(gone, []).append(times["gone_s"])
    return found


def _play(pods: RealPods, name: str) -> dict[str, Any]:
    pause = random.Random(name)
    played: dict[str, Any] = {_LOAD: round(os.getloadavg()[0], 1)}
    for cell in cells_of(name):
        time.sleep(pause.uniform(*_PAUSE_S))
        times = (
            pods.create_and_delete(cell.pods, cell.containers)
            if cell.what == CREATE
            else pods.resize(cell.pods)
        )
        played.setdefault(cell.name, []).append(times)
    return played
