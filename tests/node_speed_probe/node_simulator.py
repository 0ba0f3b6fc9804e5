"""A node that creates containers, second by second exact: processor sharing or first come, first served.

Tells what an API watch would show. The truth the tracker is held against.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from node_speed_probe.model import Fact, PodGone, PodSeen, PullEnded, PullStarted, Stage

__all__ = ["Arrival", "simulate"]

Fate = Literal["start", "fail", "hang", "restart", "delete"]
IMAGE = "app:1"


@dataclass(frozen=True)
class Arrival:
    at_s: float
    containers: int = 1
    pull_s: float = 0.0
    fate: Fate = "start"
    work: float = 1.0  # of the ordinary work per container


@dataclass
class _Job:
    uid: str
    arrival: Arrival
    left_s: float
    pull_until_s: float = field(default=-math.inf)


def simulate(
    arrivals: list[Arrival], tau_s: float, discipline: Literal["ps", "fifo"], node: str = "n"
) -> list[tuple[float, Fact]]:
    """Everything a watch would tell, in order. Hanging pods take no part in the sharing."""
    told: list[tuple[float, Fact]] = []
    waiting = sorted(enumerate(arrivals), key=lambda a: a[1].at_s)
    pulling: list[_Job] = []
    working: list[_Job] = []
    now_s = 0.0
    while waiting or pulling or working:
        share = {"ps": 1.0 / max(len(working), 1), "fifo": 1.0}[discipline]
        served = working if discipline == "ps" else working[:1]
        next_s = min(
            waiting[0][1].at_s if waiting else math.inf,
            min((j.pull_until_s for j in pulling), default=math.inf),
            now_s + min((j.left_s for j in served), default=math.inf) / share,
        )
        for job in served:
            job.left_s -= (next_s - now_s) * share
        now_s = next_s
        for job in [j for j in working if j.left_s <= 1e-9]:
            working.remove(job)
            told.append((now_s, _end(job, node)))
        for job in [j for j in pulling if j.pull_until_s <= now_s]:
            pulling.remove(job)
            working.append(job)
            told.append((now_s, PullEnded(job.uid, f"{IMAGE}-{job.uid}", node, job.arrival.pull_s, 10)))
        while waiting and waiting[0][1].at_s <= now_s:
            number, arrival = waiting.pop(0)
            job = _Job(f"p{number}", arrival, tau_s * arrival.containers * arrival.work)
            told.append((now_s, _seen(job, node, Stage.CREATING)))
            if arrival.fate == "hang":
                continue
            if arrival.pull_s:
                job.pull_until_s = now_s + arrival.pull_s
                pulling.append(job)
                told.append((now_s, PullStarted(job.uid, f"{IMAGE}-{job.uid}")))
            else:
                working.append(job)
    return told


def _seen(job: _Job, node: str, stage: Stage, broken_by: str = "") -> PodSeen:
    images = (f"{IMAGE}-{job.uid}",) if job.arrival.pull_s else ()
    return PodSeen(job.uid, node, stage, job.arrival.containers, images, broken_by)


def _end(job: _Job, node: str) -> Fact:
    match job.arrival.fate:
        case "fail":
            return _seen(job, node, Stage.BROKEN, "Failed")
        case "restart":
            return _seen(job, node, Stage.STARTED, "Restarted")
        case "delete":
            return PodGone(job.uid)
    return _seen(job, node, Stage.STARTED)
