"""Loads, arms and rounds to play, and which of them are already played."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.client_trace import ClientTrace, burst_trace, client_traces
from experiments.seeds import REPORTED
from kwok.errors import TrafficError

__all__ = [
    "ARMS", "CONSTANT", "DYNAMIC", "HPAS", "LOADS", "OURS", "SAMPLING_S", "STATIONARY",
    "STATIONARY_CLIENTS", "Batch", "Load", "Part", "Plan", "Played", "add_played", "read_played",
]  # fmt: skip

OURS = "ours"
CONSTANT = "constant"  # the replicas that the budget pays for until its end
HPAS = ("hpa30", "hpa40", "hpa60", "hpa70", "hpa90")
ARMS = (OURS, "paper", "hill_climbing", "random", *HPAS, "openfaas", CONSTANT)
SAMPLING_S = 30.0  # III-A
STATIONARY_CLIENTS = 20  # IV-D


@dataclass(frozen=True)
class Load:
    """A load in nominal seconds and replica-intervals, as in the paper."""

    name: str
    duration_s: float
    budget: int
    of_budget: float = 1.0  # the budget, as a multiple of the paper's

    @property
    def label(self) -> str:
        return self.name if self.of_budget == 1 else f"{self.name}, {self.of_budget:g} x budget"

    @property
    def intervals(self) -> int:
        return round(self.duration_s / SAMPLING_S)

    def constant(self, most: int) -> int:
        """Replicas of the arm `constant`."""
        return max(1, min(self.budget // self.intervals, most))

    def clients(self, names: Sequence[str], data: Path | None, seed: int) -> dict[str, ClientTrace]:
        if self.name == "stationary":
            return {name: ClientTrace(name, self.duration_s, (STATIONARY_CLIENTS,)) for name in names}
        if self.name == "bursts":
            return {name: burst_trace(f"bursts/{seed}/{name}", self.duration_s) for name in names}
        return client_traces(names, data, seed)

    def first(self, share: float) -> Load:
        """The beginning of the load, with a proportional budget."""
        return replace(self, duration_s=self.duration_s * share, budget=round(self.budget * share))

    def with_budget(self, factor: float) -> Load:
        return replace(self, budget=round(self.budget * factor), of_budget=factor)


STATIONARY = Load("stationary", 15 * 60.0, 1000)  # IV-D
DYNAMIC = Load("dynamic", 120 * 60.0, 6000)  # IV-E
BURSTS = Load("bursts", DYNAMIC.duration_s, DYNAMIC.budget)
LOADS = {load.name: load for load in (STATIONARY, DYNAMIC, BURSTS)}
_QUICK_ARMS = tuple(arm for arm in ARMS if arm != "hill_climbing")
_QUICK_DYNAMIC_ARMS = (OURS, "hpa40", "hpa70", "openfaas", CONSTANT)
_QUICK_AT_ONCE = 5


@dataclass(frozen=True)
class Batch:
    """Arms that are played side by side."""

    load: Load
    seed: int  # of the round
    arms: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """One load of a plan."""

    load: Load
    rounds: int
    arms: tuple[str, ...]


# Round -> arm -> function -> its track.
Played = dict[str, dict[str, dict[str, dict[str, Any]]]]


@dataclass(frozen=True)
class Plan:
    parts: tuple[Part, ...]
    at_once: int
    time_factor: float
    data: Path | None = None
    seeds: Sequence[int] = REPORTED  # the first is that of each part's first round, and so on

    def __post_init__(self) -> None:
        for part in self.parts:
            if len(self.seeds) < part.rounds:
                raise TrafficError(f"seeds: {len(self.seeds)} for {part.rounds} rounds")
            if unknown := set(part.arms) - set(ARMS):
                raise TrafficError(f"arm: {sorted(unknown)[0]!r} is not one of {', '.join(ARMS)}")

    @classmethod
    def of(
        cls,
        loads: Mapping[Load, int],  # rounds
        arms: Sequence[str],
        at_once: int,
        time_factor: float,
        data: Path | None = None,
    ) -> Plan:
        parts = tuple(Part(load, rounds, tuple(arms)) for load, rounds in loads.items())
        return cls(parts, at_once, time_factor, data)

    @classmethod
    def quick(
        cls,
        time_factor: float,
        data: Path | None = None,
        arms: Sequence[str] = (),
        load: str | None = None,  # only this one
    ) -> Plan:
        """Within 20 minutes: one round, the first half hour of the dynamic load and, unless `arms` are
        given, half of the arms."""
        parts = (
            Part(STATIONARY, 1, tuple(arms) or _QUICK_ARMS),
            Part(DYNAMIC.first(0.25), 1, tuple(arms) or _QUICK_DYNAMIC_ARMS),
        )
        chosen = tuple(part for part in parts if load in (None, part.load.name))
        return cls(chosen, _QUICK_AT_ONCE, time_factor, data)

    def round_name(self, load: Load, seed: int) -> str:
        """Names everything that the result depends on, so that a file of results is never used for another
        plan."""
        trace = f"-{self.data.name}" if self.data and load.name == "dynamic" else ""
        return f"{load.name}{trace}-{load.duration_s:g}s-{load.budget}-x{self.time_factor:g}-{seed}"

    def rounds(self) -> list[tuple[Part, int, str]]:
        """(part, seed, name) of each round."""
        return [
            (part, seed, self.round_name(part.load, seed))
            for part in self.parts
            for seed in self.seeds[: part.rounds]
        ]

    def missing(self, played: Played) -> list[Batch]:
        """The batches still to be played."""
        batches = []
        for part, seed, name in self.rounds():
            arms = [arm for arm in part.arms if arm not in played.get(name, {})]
            batches += [
                Batch(part.load, seed, tuple(arms[begin : begin + self.at_once]))
                for begin in range(0, len(arms), self.at_once)
            ]
        return batches

    @property
    def minutes(self) -> float:
        """The play time, without starting the lab."""
        return sum(batch.load.duration_s for batch in self.missing({})) / self.time_factor / 60


def read_played(file: Path | None) -> Played:
    """The results that earlier runs wrote."""
    played: Played = {}
    if file is None or not file.exists():
        return played
    for number, line in enumerate(file.read_text().splitlines(), 1):
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            raise TrafficError(f"{file}:{number}: not what a run wrote: {error}") from error
        for name, arms in entry.items():
            played.setdefault(name, {}).update(arms)
    return played


def add_played(file: Path | None, name: str, arms: Mapping[str, Any]) -> None:
    if file is None:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    before = file.read_text() if file.exists() else ""
    new = file.with_suffix(".new")
    new.write_text(before + json.dumps({name: arms}) + "\n")
    new.replace(file)  # readers never see half a line
