"""How true is the emulation of image pulls? Rounds of pulls from a registry in the lab.

The model: a pull takes a fixed time and so many seconds a byte. A node pulls one image at a time, pods share
the pull of an image, and a pod is created after its pull. The time of a pull is fitted to the kubelet's own
Events of pulls alone; whole creations of other rounds are compared with the emulation.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.kneescale.plan import add_played, read_played
from experiments.node_model.model import Emulation, Rounds, median_s
from experiments.node_model.plan import FITTED, HELD_OUT, Plan
from experiments.node_model.real_pods import RealPods
from kwok import real_node
from kwok.lab import Lab
from kwok.node_model import Created, NodeModel
from kwok.physics import MEASURED, MEASURED_SPEED
from kwok.real_node.machine import Machine
from kwok.real_node.registry import Registry
from kwok.scenario import Image

__all__ = ["CELLS", "IMAGES", "PullTime", "emulated", "pull_figures", "run_pulls"]

MIB = 2**20
# Bytes beside the pause binary. Three of one size, to be pulled at once.
IMAGES = {"small": 2 * MIB, "middle": 32 * MIB, "second": 32 * MIB, "third": 32 * MIB, "large": 128 * MIB}
_NONE = ""  # an image that is there
# One pod for each name.
CELLS: tuple[tuple[str, ...], ...] = (
    (_NONE,), (_NONE,) * 3,
    ("small",), ("middle",), ("large",),
    ("middle", "second", "third"), ("middle",) * 3,
)  # fmt: skip
_PAUSE_S = (1.0, 2.0)  # as between other cells: the kubelet's loops of a second are met anywhere
_SEEDS = range(15)


@dataclass(frozen=True)
class PullTime:
    """How long a pull takes when nothing else is pulled."""

    fixed_s: float
    bytes_per_s: float

    @classmethod
    def fit(cls, pulls_s: Mapping[int, float]) -> PullTime:
        """Least squares over bytes -> seconds. Errors count by their share, as those of the comparison do."""
        sizes, seconds = np.array(list(pulls_s)), np.array(list(pulls_s.values()))
        slope, fixed = np.polyfit(sizes, seconds, 1, w=1 / seconds)
        return cls(max(float(fixed), 0.0), 1 / max(float(slope), 1e-15))

    def of(self, size_bytes: int) -> float:
        return self.fixed_s + size_bytes / self.bytes_per_s


def run_pulls(plan: Plan, partial: Path | None, say: Callable[[str], None]) -> dict[str, Any]:
    """Play all rounds of pulls. Finished ones are read from `partial`, and new ones are appended to it."""
    played: dict[str, dict[str, Any]] = dict(read_played(partial))
    missing = [name for name in plan.rounds if _key(name) not in played]
    if missing:
        with Lab.temporary("image-pulls", own_network=True) as lab:
            (node,) = real_node.start(lab, 1, ())
            registry = Registry.start(Machine(lab, 0))
            references = {name: registry.push(name, size) for name, size in IMAGES.items()}
            say(f"{node} is Ready; {len(missing)} of {len(plan.rounds)} rounds of pulls are to be played")
            pods = RealPods(lab, node, 1)
            try:
                for name in missing:
                    began_s = time.monotonic()
                    played[_key(name)] = _play(pods, registry, references, name)
                    add_played(partial, _key(name), played[_key(name)])
                    say(f"{_key(name)}: {time.monotonic() - began_s:.0f} s")
            finally:
                pods.close()
    return pull_figures({name: played[_key(name)] for name in plan.rounds})


def _key(round_name: str) -> str:
    return f"pulls, {round_name}"


def _play(
    pods: RealPods, registry: Registry, references: Mapping[str, str], round_name: str
) -> dict[str, Any]:
    chance = random.Random(_key(round_name))
    played = {}
    for cell in chance.sample(CELLS, len(CELLS)):
        if _NONE in cell:
            played[_name(cell)] = pods.create_and_delete(len(cell), 1)
        else:
            played[_name(cell)] = pods.pull([references[name] for name in cell])
            registry.forget_pulled()
        time.sleep(chance.uniform(*_PAUSE_S))
    return played


def _name(cell: Sequence[str]) -> str:
    return " + ".join(name or "no pull" for name in cell)


def pull_figures(rounds: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The fitted time of a pull, and the emulation's error on the medians of the held-out rounds."""

    def of(kind: str, cell: Sequence[str], clock: str) -> list[list[float]]:
        return [cells[_name(cell)][clock] for name, cells in rounds.items() if name.startswith(kind)]

    alone = [cell for cell in CELLS if len(cell) == 1 and _NONE not in cell]
    pull_time = PullTime.fit({IMAGES[cell[0]]: median_s(of(FITTED, cell, "pulled_s")) for cell in alone})
    create_s = median_s(of(FITTED, (_NONE,), "seen_s"))
    cells = {}
    for cell in CELLS:
        measured, claimed = of(HELD_OUT, cell, "seen_s"), emulated(cell, create_s, pull_time)
        low, high = np.quantile([times[-1] for times in measured], (0.25, 0.75))
        cells[_name(cell)] = {
            "measured_s": round(median_s(measured), 4),
            "lower_quartile_s": round(float(low), 4),
            "upper_quartile_s": round(float(high), 4),
            "emulated_s": round(median_s(claimed), 4),
            "error": round(abs(median_s(claimed) / median_s(measured) - 1), 4),
            "repetitions": len(measured),
        }
    errors = [figures["error"] for name, figures in cells.items() if not name.startswith("no pull")]
    return {
        "pull_error_mean": round(statistics.mean(errors), 4),
        "pull_error_worst": max(errors),
        "fixed_s": round(pull_time.fixed_s, 4),
        "mebibytes_per_s": round(pull_time.bytes_per_s / MIB, 1),
        "tau_create_s": round(create_s, 4),
        "cells": cells,
        "rounds": dict(rounds),
    }


def emulated(cell: Sequence[str], create_s: float, pull_time: PullTime) -> Rounds:
    """The cell on an emulated node, with other luck in each round."""
    images = {name: Image(pull_time.of(size), size) for name, size in IMAGES.items()}
    node = Emulation(create_s, MEASURED_SPEED.tau_resize_s, MEASURED)
    found = []
    for seed in _SEEDS:
        model = NodeModel(replace(node.scenario(seed), images=images))
        for number, name in enumerate(cell):
            model.bind(f"p{number}", "n", 1, [name] if name else [], 0.0)
        found.append([event.at_s for event in model.advance(1e9) if isinstance(event, Created)])
    return found
