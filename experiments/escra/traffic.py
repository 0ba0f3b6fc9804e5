"""Open-loop load on an application's door, and what became of it. The generator is the lab's.

A latency counts from the time the request was due. A request that fails, or is not answered within the
time-out, counts with the time-out.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.escra.node import Node
from kwok.errors import LabError
from kwok.ports import answers_ready, free_ports
from kwok.processes import marked_environment
from kwok.traffic.load_records import Records, read_records

__all__ = ["TIMEOUT_S", "Answers", "answers", "play"]

TIMEOUT_S = 10.0
_NICE = -10  # the generator stands for other machines: containers must not keep it from sending
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Answers:
    """Of the requests that were due while it was measured."""

    requests: int
    failed: int  # or too late
    p50_ms: float
    p99_ms: float
    p999_ms: float
    throughput_per_s: float  # successful answers while it was measured


def play(
    node: Node, door: int, offsets_s: Sequence[float], duration_s: float, look: Callable[[float], None]
) -> tuple[Records, float]:
    """Send the requests. `look` is called all the time. Returns the records, and when offset 0 was."""
    control, records = free_ports(1)[0], node.directory / "load.records"
    records.unlink(missing_ok=True)
    process = subprocess.Popen(
        [
            sys.executable, "-m", "kwok.traffic.load_process",
            "--gateway-port", str(door), "--port", str(control), "--records", str(records),
        ],
        env=marked_environment(node.directory), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    try:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
        while not answers_ready(control, "/readyz"):
            if process.poll() is not None:
                raise LabError("the load generator ended while starting")
            look(time.monotonic())
            time.sleep(_LOOK_S)
        began_s = time.time()
        _ask(control, "POST", "/replay", {"target": "door", "offsets_s": list(offsets_s)})
        last_s = time.monotonic() + duration_s + TIMEOUT_S
        while time.monotonic() < last_s:
            look(time.monotonic())
            time.sleep(_LOOK_S)
            if time.time() - began_s > duration_s and not _unfinished(control):
                break
    finally:
        process.terminate()  # requests on their way are recorded as failed
        process.wait()
    return read_records(records), began_s


def answers(records: Records, began_s: float, first_s: float, last_s: float) -> Answers:
    """Requests that were due between these seconds after the beginning."""
    due_s = records["sent_s"] - began_s
    mine = records[(due_s >= first_s) & (due_s < last_s)]
    good = (mine["status"] == 200) & (mine["latency_s"] <= TIMEOUT_S)
    latency_ms = 1e3 * np.where(good, mine["latency_s"], TIMEOUT_S)
    ended_s = due_s + records["latency_s"]
    answered = (records["status"] == 200) & (ended_s >= first_s) & (ended_s < last_s)
    p50, p99, p999 = (float(np.percentile(latency_ms, p)) for p in (50, 99, 99.9))
    return Answers(len(mine), int((~good).sum()), p50, p99, p999, float(answered.sum()) / (last_s - first_s))


def _unfinished(control: int) -> bool:
    targets = _ask(control, "GET", "/counters")["targets"].values()
    return any(target["in_flight"] or target["still_due"] for target in targets)


def _ask(port: int, method: str, path: str, body: object = None) -> dict[str, dict[str, dict[str, int]]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, None if body is None else json.dumps(body))
    answer = connection.getresponse().read()
    connection.close()
    return json.loads(answer) if method == "GET" else {}
