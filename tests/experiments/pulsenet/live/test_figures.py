"""Figures of an arm, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.pulsenet.live.figures import Answers, figures_of, ratios
from experiments.pulsenet.live.observer import Seen
from experiments.pulsenet.live.workload import Workload
from experiments.pulsenet.model import CREATED_BYTES
from experiments.pulsenet.trace import MINUTES, Function, Requests

MIB = 1 << 20


def workload() -> Workload:
    functions = tuple(
        Function(name, np.ones(MINUTES, np.int64), np.zeros(7), np.zeros(8)) for name in ("a", "b")
    )
    requests = Requests(
        np.array([5.0, 12.0, 15.0, 19.0]), np.array([0, 0, 1, 1]), np.array([1.0, 1.0, 2.0, 4.0])
    )
    return Workload(functions, 60, requests, requests, np.array([100.0 * MIB, 50.0 * MIB]))


def answers(statuses: tuple[int, ...] = (200, 200, 200, 200)) -> Answers:
    return Answers(np.array([9.0, 3.0, 2.0, 8.0]), np.array(statuses), np.zeros(4))


def seen() -> Seen:
    return Seen(
        10.0, {"f0": 4.0, "f1": 4.0}, {"f1": 1.0}, {"f0": 2.0}, created_s=25.0, creations=3,
        arrivals={"f0": 6, "f1": 4}, overflowed={"f1": 2},
        cpu_s={"haproxy": 0.5, "functions": 2.0, "emulation": 9.0},
    )  # fmt: skip


def figures(of: Answers) -> dict[str, object]:
    return figures_of(workload(), of, seen(), 10.0, 10.0)


def test_only_what_was_due_in_the_measured_time_counts() -> None:
    found = figures(answers())
    assert (found["requests"], found["lost"]) == (3, 0)
    tails = found["p99_slowdown"]
    assert isinstance(tails, list)
    assert tails == pytest.approx([3.0, np.percentile([1.0, 2.0], 99)], abs=1e-3)
    assert found["slowdown"] == pytest.approx(np.sqrt(3.0 * 1.99), abs=1e-3)


def test_cost_is_memory_held_over_memory_of_running_requests() -> None:
    found = figures(answers())
    # a: 14 to 15 and, from before the time measured, 13 to 14; b: 15 to 17. The last ran from 23 on.
    busy = 2 * 100 * MIB + 2 * 50 * MIB
    held = 4 * 100 * MIB + 4 * 50 * MIB + 50 * MIB + 2 * 100 * MIB + 25 * CREATED_BYTES
    assert found["cost"] == pytest.approx(held / busy, abs=1e-3)
    assert found["regular_share"] == pytest.approx(0.8)
    assert found["emergency_cpu_share"] == pytest.approx(0.25)


def test_what_runs_no_function_is_the_planes_cpu() -> None:
    assert figures(answers())["plane_cpu_cores"] == pytest.approx(0.05)


def test_a_request_without_its_answer_is_lost() -> None:
    found = figures(answers((200, 200, 503, 0)))
    assert (found["lost"], found["statuses"]) == (2, {"0": 1, "200": 1, "503": 1})


def test_ratios_are_baseline_over_ours() -> None:
    def run(slowdown: float, held: float, creations: int) -> dict[str, object]:
        return {
            "p99_slowdown": [slowdown, None], "held_gib_s": [held, held], "busy_gib_s": [1.0, 1.0],
            "creations": creations, "regular_share": 0.99, "emergency_cpu_share": 0.01,
        }  # fmt: skip

    runs = {"pulsenet": [run(2, 3, 10), run(2, 3, 10)], "synchronous": [run(4, 6, 5), run(16, 3, 5)]}
    found = ratios(runs, "pulsenet")
    assert found["slowdown_ratio"]["synchronous"]["geomean"] == 4.0
    assert found["cost_ratio"]["synchronous"]["geomean"] == pytest.approx(2**0.5, abs=1e-3)
    assert found["creations_ratio"] == {"synchronous": 0.5}
    assert found["regular_share"] == 0.99
