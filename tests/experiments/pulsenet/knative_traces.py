"""Concurrency over time, for Knative's autoscaler and ours: random, and of functions of Azure's trace."""

from __future__ import annotations

import random
from typing import Any

from experiments.pulsenet.trace import draw_requests, read

__all__ = ["traces"]

Json = dict[str, Any]


def traces() -> list[Json]:
    return [*_random(), *_azure()]


def _random() -> list[Json]:
    found = []
    for number in range(12):
        draw = random.Random(number)
        window_s = (60, 60, 6, 10, 30, 120)[number % 6]
        up, down = draw.choice(((1000.0, 2.0), (1.5, 1.5), (10.0, 4.0)))
        level, ready, steps = 0.0, 0, []
        at_s = draw.random()
        for _ in range(250):
            if draw.random() < 0.05:
                level = draw.choice((0.0, 0.3, 1.0, 7.0, 60.0, 500.0)) * draw.random()
            silent = draw.random() < (0.5 if number % 3 == 2 else 0.02)
            seen = None if silent else round(level * draw.uniform(0.7, 1.3), 3)
            if draw.random() < 0.2:
                ready = draw.choice((0, 1, round(level / 0.7), round(level * 2)))
            steps.append({"at_s": round(at_s, 3), "concurrency": seen, "ready": ready})
            # A gap longer than a window, steps within a second, and Knative's own two seconds.
            at_s += draw.choice((window_s * 1.5, 0.3, 2.0)) if draw.random() < 0.02 else draw.choice((1, 2))
        found.append(
            _trace(f"random-{number}", window_s, draw.choice((0.7, 1.0, 7.0, 70.0)), up, down, steps)
        )
    return found


def _azure() -> list[Json]:
    """The busiest functions of the extract: requests at once each second, with enough instances."""
    functions = read()
    busiest = sorted(functions, key=lambda f: -float(f.counts[:20].sum() * f.duration_s.mean()))[:6]
    requests = draw_requests(busiest, 0, 10, 7)
    found = []
    for index, function in enumerate(busiest):
        own = requests.function == index
        begin, end = requests.at_s[own], requests.at_s[own] + requests.duration_s[own]
        steps = []
        for second in range(0, 600, 2):
            at_once = float(((begin <= second) & (end > second)).sum())
            steps.append({"at_s": float(second), "concurrency": at_once, "ready": round(at_once)})
        found.append(_trace(f"azure-{function.name}", 60, 0.7, 1000.0, 2.0, steps))
    return found


def _trace(name: str, window_s: float, target: float, up: float, down: float, steps: list[Json]) -> Json:
    return {
        "name": name, "window_s": window_s, "target": target, "max_scale_up_rate": up,
        "max_scale_down_rate": down, "steps": steps,
    }  # fmt: skip
