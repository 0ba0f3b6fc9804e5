"""How true is the node model to a real node? `surgekit bench node-model`.

One lab with one real node. Each round creates and deletes k pods of m containers at once, and resizes k pods
at once, for every k and m, in an order drawn from the round's name. The model is fitted to half of the
rounds; the emulation's error is taken on the others. Each round ends with a scale-out through kube-scheduler,
which is also predicted and emulated. A probe runs beside it all. Pulls of images have a lab of their own
(pulls.py).
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
from experiments.node_model.figures import PROBE, probe_figures, report, scale_out_figures
from experiments.node_model.model import Samples, fit
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
from experiments.node_model.pulls import run_pulls
from experiments.node_model.real_pods import RealPods
from experiments.node_model.scale_out import ScaleOuts
from kwok import parts, real_node
from kwok.lab import Lab

__all__ = ["run", "samples", "summary"]

# Between two cells: the kubelet clears away what was deleted, and its loops of a second are met anywhere.
_PAUSE_S = (1.0, 2.0)
_LOAD = "load average"  # when a round began
_SCALE_OUT, _EMULATED = "scale-out", "emulated"
_EMULATED_SCALE_OUTS = 5


def run(
    plan: Plan, partial: Path | None, say: Callable[[str], None], pulls_only: bool = False
) -> dict[str, Any]:
    """Play all rounds. Finished ones are read from `partial`, and new ones are appended to it."""
    creations = {} if pulls_only else _run_creations(plan, partial, say)
    return creations | {"image_pull": run_pulls(plan, partial, say)}


def _run_creations(plan: Plan, partial: Path | None, say: Callable[[str], None]) -> dict[str, Any]:
    played: dict[str, dict[str, Any]] = dict(read_played(partial))
    missing = [name for name in plan.rounds if name not in played]
    if missing or _EMULATED not in played:
        with Lab.temporary("node-model", own_network=True) as lab:
            (node,) = real_node.start(lab, 1, ())
            (emulated,) = lab.add_nodes(1, prefix="emulated")
            parts.install(lab)
            lab.start_scheduler()
            # Its estimates are read soon after each cell, so it publishes often and small changes too.
            parts.start_probe(lab, settings={"publish_interval_s": 0.5, "change_threshold": 0.01})
            say(f"{node} is Ready; {len(missing)} of {len(plan.rounds)} rounds are to be played")
            pods = RealPods(lab, node, plan.residents)  # creating its residents is the warm-up
            scale_outs = ScaleOuts(lab, node)
            try:
                for name in missing:
                    began_s = time.monotonic()
                    played[name] = _play(pods, name) | {_SCALE_OUT: scale_outs.play()}
                    add_played(partial, name, played[name])
                    say(f"{name}: {time.monotonic() - began_s:.0f} s, load average {played[name][_LOAD]}")
            finally:
                pods.close()
            played[_EMULATED] = _emulate(lab, emulated, played, plan)
            add_played(partial, _EMULATED, played[_EMULATED])
    return summary({name: played[name] for name in (*plan.rounds, _EMULATED)})


def _emulate(lab: Lab, node: str, played: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """The scale-out on an emulated node, with the model fitted to the fitted rounds."""
    fitted = samples([played[name] for name in plan.rounds if name.startswith(FITTED)])
    lab.start_node_model(fit(fitted).scenario())
    scale_outs = ScaleOuts(lab, node)
    return {_SCALE_OUT: [scale_outs.play() for _ in range(_EMULATED_SCALE_OUTS)]}


def summary(played: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """All figures of the rounds."""
    rounds = {name: cells for name, cells in played.items() if name != _EMULATED}
    fitted, held_out = (
        samples([cells for name, cells in rounds.items() if name.startswith(kind)])
        for kind in (FITTED, HELD_OUT)
    )
    later_s = [
        seen_s - started_s
        for cells in rounds.values()
        for cell in CREATIONS
        for times in cells[cell.name]
        for seen_s, started_s in zip(times["seen_s"], times["started_s"], strict=True)
    ]
    seen = [cells[_SCALE_OUT] for name, cells in rounds.items() if name.startswith(HELD_OUT)]
    return (
        report(fitted, held_out)
        | {"scale_out": scale_out_figures(fit(fitted), played[_EMULATED][_SCALE_OUT], seen)}
        | {"probe": probe_figures(list(rounds.values()))}
        | {
            "seen_after_started_s": round(statistics.median(later_s), 4),
            "load_average_lowest": min(cells[_LOAD] for cells in rounds.values()),
            "load_average_highest": max(cells[_LOAD] for cells in rounds.values()),
            "rounds": dict(rounds),
        }
    )


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
        times: dict[str, Any] = dict(
            pods.create_and_delete(cell.pods, cell.containers)
            if cell.what == CREATE
            else pods.resize(cell.pods)
        )
        time.sleep(pause.uniform(*_PAUSE_S))
        played.setdefault(cell.name, []).append(times | {PROBE: pods.probed()})
    return played
