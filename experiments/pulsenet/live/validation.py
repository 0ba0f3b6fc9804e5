"""Live runs beside the simulation of the same functions, requests and settings: how far they are apart. Pure.

The simulation begins earlier, in the hour before, so that it has the instances with which a live arm begins.
It is played twice: with the delays that the bench gives it, and with those measured in the live run:
what a creation took, what a start took, and, drawn for each request, what a request to an idle instance took.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from burst_plane.burst_function import Variant
from experiments.pulsenet.arms import ARMS
from experiments.pulsenet.baselines import Asynchronous, Synchronous
from experiments.pulsenet.emergency_track import EmergencyTrack
from experiments.pulsenet.figures import summary
from experiments.pulsenet.live.plan import OURS, PAPER, SYNCHRONOUS, Setting
from experiments.pulsenet.live.workload import HOUR_MINUTES, Workload
from experiments.pulsenet.model import Creation, Starts
from experiments.pulsenet.regular_track import RegularTrack, Rules, seconds_before
from experiments.pulsenet.simulation import Emergency, Policy, Simulation, Span
from experiments.pulsenet.trace import Requests

__all__ = ["COMPARED", "beside"]

Json = dict[str, Any]
COMPARED = ("slowdown", "cost", "regular_share", "creations")
_EARLIER_S = 1200.0  # longer than any retention


def beside(live: Json, workload: Workload, setting: Setting, warm_up_s: float, measured_s: float) -> Json:
    """Each figure of a live run, and of the simulation with given and with measured delays."""
    span = Span(warm_up_s + _EARLIER_S, measured_s)
    given = _simulated(workload, setting, span, setting.creation, Starts(), {"0": 0.0})
    creation, starts = _measured(live, setting)
    measured = _simulated(workload, setting, span, creation, starts, live["machine_ms"])
    return {
        key: {
            "live": live[key],
            "simulated": given[key],
            "error": _error(given[key], live[key]),
            "with_measured_delays": measured[key],
            "error_with_measured_delays": _error(measured[key], live[key]),
        }
        for key in COMPARED
    }


def _measured(live: Json, setting: Setting) -> tuple[Creation, Starts]:
    creation, starts = setting.creation, Starts()
    if taken := live.get("creation_s"):
        creation = replace(creation, alone_s=taken["p50"])
    if took_ms := live["emergency"].get("place_mean_ms"):
        starts = replace(
            starts, frozen_s=took_ms / 1000, created_s=took_ms / 1000, crowd=0.0, source="the live run"
        )
    return creation, starts


def _simulated(
    workload: Workload,
    setting: Setting,
    span: Span,
    creation: Creation,
    starts: Starts,
    machine_ms: Mapping[str, float],
) -> Mapping[str, float]:
    begin_s = HOUR_MINUTES * 60.0 - _EARLIER_S
    requests = _joined(workload, begin_s)
    policy: Policy
    emergency: Emergency | None = None
    if setting.arm in (OURS, PAPER):
        arm = ARMS[setting.arm]
        rules = Rules(
            setting.retention_s, arm.threshold_percentile, arm.target_percentage, arm.most_instances,
            Variant.PAPER if setting.arm == PAPER else Variant.BEST,
        )  # fmt: skip
        earlier = workload.before.between(0.0, begin_s)
        history = seconds_before(earlier.at_s, earlier.function, len(workload.functions), begin_s)
        policy = regular = RegularTrack(rules, history)
        # Live, both variants start real containers.
        emergency = EmergencyTrack(rules, starts, regular, arm.sizing, None)
    elif setting.arm == SYNCHRONOUS:
        policy = Synchronous(setting.retention_s)
    else:
        policy = Asynchronous(setting.retention_s)
    outcome = Simulation(
        requests, workload.memory_bytes, span, setting.cluster, creation, policy, emergency
    ).run()
    drawn = np.random.default_rng(4).random(len(outcome.delay_s)) * 100
    knots = np.array(sorted((float(p), ms / 1000) for p, ms in machine_ms.items()))
    outcome.delay_s = outcome.delay_s + np.interp(drawn, knots[:, 0], knots[:, 1])
    found = summary(outcome, creation, starts)
    return {"slowdown": found.slowdown, "cost": found.cost, **found.figures}


def _joined(workload: Workload, begin_s: float) -> Requests:
    before, after = workload.before.between(begin_s, HOUR_MINUTES * 60.0), workload.requests
    return Requests(
        np.concatenate([before.at_s - begin_s, after.at_s + _EARLIER_S]),
        np.concatenate([before.function, after.function]),
        np.concatenate([before.duration_s, after.duration_s]),
    )


def _error(simulated: float, live: float) -> float | None:
    """Relative; None where the live figure is 0."""
    return round(simulated / live - 1.0, 4) if live else None
