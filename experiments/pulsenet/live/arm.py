"""Plays one arm: a lab of its own, the trace's requests, and what was seen of them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np

from experiments.pulsenet.live.autoscaler import Autoscaler
from experiments.pulsenet.live.counters import counters, emergency_figures
from experiments.pulsenet.live.figures import MACHINE, Answers, figures_of
from experiments.pulsenet.live.objects import MODEL, NAMESPACE, PROBE
from experiments.pulsenet.live.observer import Observer
from experiments.pulsenet.live.plan import SYNCHRONOUS, Setting
from experiments.pulsenet.live.policies import Asynchronous, Policy, Synchronous
from experiments.pulsenet.live.workload import Workload
from experiments.pulsenet.live.world import world
from experiments.pulsenet.trace import Floats
from kwok.burst import plane as burst
from kwok.burst.plane import Plane
from kwok.traffic.load_records import CONNECTION

__all__ = ["play"]

Json = dict[str, Any]
_LEAD_S = 2.0  # the first request is due so long after the load generator heard of all
_TARGET = 0.7  # requests at once that autoscalers aim at, as `burst_plane.scaling` has it
_PROBE_HOST, _PROBE_EVERY_S = f"{PROBE}.{NAMESPACE}", 0.5
_PATIENCE_S = 300.0  # for the last answers


def play(
    workload: Workload, setting: Setting, warm_up_s: float, measured_s: float, keep: Path | None = None
) -> Json:
    """The lab's logs are kept in `keep` if a request was lost."""
    # As after the hour before: a keepalive may be longer than the warm-up.
    before = workload.needed_before(setting.retention_s)
    replicas = workload.replicas_before(setting.retention_s, _TARGET)
    if setting.arm == SYNCHRONOUS:
        replicas = [max((needed for _, needed in of), default=0) for of in before]
    load_before = os.getloadavg()[0]
    with world(workload, setting, replicas) as plane, ExitStack() as inside:
        autoscaler = None
        if not setting.has_emergency:
            autoscaler = inside.enter_context(_autoscaler(plane, workload, setting, before, replicas))
        observer = inside.enter_context(Observer(plane, setting.has_emergency))
        began_s = _replay(plane, workload)
        _sleep_until(began_s + warm_up_s)
        first, first_cpu_s = observer.seen(), autoscaler.cpu_s if autoscaler else 0.0
        before_counts = counters(plane) if setting.has_emergency else {}
        _sleep_until(began_s + warm_up_s + measured_s)
        seen = observer.seen().since(first)
        if autoscaler:
            seen.cpu_s["autoscaler"] = autoscaler.cpu_s - first_cpu_s
        counts = counters(plane) if setting.has_emergency else {}
        answers, machine_s = _answers(plane, workload, began_s)
        found = figures_of(workload, answers, seen, warm_up_s, measured_s)
        if found["lost"] and keep:
            shutil.copytree(plane.lab.directory / "logs", keep, dirs_exist_ok=True)
            with suppress(OSError):
                shutil.copy(plane.lab.directory / burst.NODE / "pulselet.log", keep)
        loads = observer.loads
        return found | {
            "load_average": {
                "before": load_before,
                "mean": round(float(np.mean(loads)), 2),
                "most": round(max(loads), 2),
            },
            # Of a function that always has idle instances: gateway, client, and how busy this machine was.
            "machine_ms": {
                str(p): round(1000 * float(np.percentile(machine_s, p)), 2) for p in (0, *MACHINE)
            },
            "emergency": emergency_figures(before_counts, counts),
            "failed_looks": observer.failed_looks,
            "failed_writes": autoscaler.failed_writes if autoscaler else 0,
        }


def _autoscaler(
    plane: Plane, workload: Workload, setting: Setting, before: Sequence[Sequence[tuple[float, int]]],
    replicas: Sequence[int],
) -> Autoscaler:  # fmt: skip
    now_s = time.monotonic()

    def policy(needed: Sequence[tuple[float, int]]) -> Policy:
        if setting.arm == SYNCHRONOUS:
            return Synchronous(setting.retention_s, [(now_s + at_s, number) for at_s, number in needed])
        return Asynchronous(setting.retention_s)

    hosts = [f"{name}.{NAMESPACE}" for name in workload.names()]
    policies = {host: policy(needed) for host, needed in zip(hosts, before, strict=True)}

    def scale(host: str, number: int) -> None:
        plane.traffic.scale(host.partition(".")[0], NAMESPACE, number)

    return Autoscaler(plane.directory, policies, dict(zip(hosts, replicas, strict=True)), scale)


def _replay(plane: Plane, workload: Workload) -> float:
    """Returns when time 0 of the workload is, by the monotonic clock of this machine."""
    requests = workload.requests
    began_s = time.monotonic() + _LEAD_S
    for index, name in enumerate(workload.names()):
        mine = requests.function == index
        paths = [f"/sleep/{seconds:.6f}" for seconds in requests.duration_s[mine]]
        offsets_s = requests.at_s[mine] + (began_s - time.monotonic())
        plane.traffic.replay(f"{name}.{NAMESPACE}", offsets_s.tolist(), paths)
    plane.traffic.replay(_PROBE_HOST, (_probes_s(workload) + (began_s - time.monotonic())).tolist())
    return began_s


def _probes_s(workload: Workload) -> Floats:
    return np.arange(0.0, float(workload.requests.at_s[-1]), _PROBE_EVERY_S)


def _answers(plane: Plane, workload: Workload, began_s: float) -> tuple[Answers, Floats]:
    """Waits until every request has ended. Also what the probe's requests took, less their run time."""
    total, traffic = len(workload.requests.at_s), plane.traffic
    expected = total + len(_probes_s(workload))

    def ended() -> int:
        return sum(seen.answered + sum(seen.errors.values()) for seen in traffic.sample().values())

    deadline_s = time.monotonic() + _PATIENCE_S
    while ended() < expected and time.monotonic() < deadline_s:
        time.sleep(0.5)
    numbers = {name: seen.number for name, seen in traffic.sample().items()}
    records = traffic.records()
    at_s = records["sent_s"] + (time.monotonic() - time.time()) - began_s
    answers = Answers(np.full(total, np.nan), np.full(total, CONNECTION, np.int64), np.zeros(total))
    for index, name in enumerate(workload.names()):
        due = np.flatnonzero(workload.requests.function == index)
        mine = records["target"] == numbers[f"{name}.{NAMESPACE}"]
        # Each request has one record; in the order of the times at which they were due, they pair off.
        order = np.argsort(at_s[mine], kind="stable")
        if len(order) == len(due):
            answers.latency_s[due] = records["latency_s"][mine][order]
            answers.status[due] = records["status"][mine][order]
            answers.skew_s[due] = at_s[mine][order] - workload.requests.at_s[due]
    probes = records["latency_s"][records["target"] == numbers[_PROBE_HOST]].astype(float)
    return answers, probes - traffic.functions[MODEL].service_s


def _sleep_until(at_s: float) -> None:
    while (left_s := at_s - time.monotonic()) > 0:
        time.sleep(min(left_s, 5.0))
