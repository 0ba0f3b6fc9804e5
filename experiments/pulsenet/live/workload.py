"""Which functions of the trace are played live, and when. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from burst_plane.filter import HOUR_S, InterArrivals
from experiments.pulsenet.trace import MINUTES, Floats, Function, Requests, draw_memory, draw_requests

__all__ = ["HOUR_MINUTES", "Workload", "choose"]

HOUR_MINUTES = 60
# A run must fit a fraction of this machine's cores, and end soon after its last request. Of the sample of 100
# functions nothing is left out. Fixed before any arm ran.
_MOST_PER_S, _LONGEST_S = 15.0, 120.0


@dataclass(frozen=True, eq=False)
class Workload:
    functions: tuple[Function, ...]
    first_minute: int
    before: Requests  # of the hour before; time 0 is its beginning
    requests: Requests
    memory_bytes: Floats

    def names(self) -> list[str]:
        return [f"f{index}" for index in range(len(self.functions))]

    def histories(self) -> list[list[tuple[float, int]]]:
        """What the filter knows of each function after that hour, as a controller saves it."""
        found = []
        for index in range(len(self.functions)):
            history = InterArrivals()
            seconds = np.floor(self.before.at_s[self.before.function == index])
            for second, arrivals in zip(*np.unique(seconds, return_counts=True), strict=True):
                history.observe(int(arrivals), float(second))
            found.append(list(history.saved(HOUR_S)))
        return found

    def needed_before(self, window_s: float) -> list[list[tuple[float, int]]]:
        """For each function when it needed how many instances in the end of that hour, had no request waited.
        Times are negative: 0 is where the run begins."""
        return [
            _at_once(self.before, index, HOUR_MINUTES * 60.0, window_s)
            for index in range(len(self.functions))
        ]

    def replicas_before(self, window_s: float, target: float) -> list[int]:
        """What Knative's autoscaler has at the end of that hour: the mean over its window."""
        found = []
        for of in self.needed_before(window_s):
            ends_s = [at_s for at_s, _ in of[1:]] + [0.0]
            used_s = sum(number * (end_s - at_s) for (at_s, number), end_s in zip(of, ends_s, strict=False))
            found.append(int(np.ceil(round(used_s / window_s / target, 6))))
        return found


def choose(
    functions: Sequence[Function], count: int, warm_up_s: float, measured_s: float, seed: int
) -> Workload:
    """Functions with a request in what is measured, drawn by the seed; the minute is drawn, too."""
    minutes = int(np.ceil((warm_up_s + measured_s) / 60))
    drawn = np.random.default_rng((seed, 3))
    first = int(drawn.integers(HOUR_MINUTES, MINUTES - minutes + 1))
    measured = slice(first + int(warm_up_s // 60), first + minutes)
    eligible = [f for f in functions if f.counts[measured].sum() and _is_small(f, first, minutes)]
    kept = tuple(eligible[i] for i in sorted(drawn.permutation(len(eligible))[:count]))
    return Workload(
        kept,
        first,
        draw_requests(kept, first - HOUR_MINUTES, HOUR_MINUTES, seed),
        draw_requests(kept, first, minutes, seed).between(0.0, warm_up_s + measured_s),
        draw_memory(kept, seed),
    )


def _is_small(function: Function, first: int, minutes: int) -> bool:
    per_s = function.counts[first : first + minutes].max() / 60.0
    return bool(per_s <= _MOST_PER_S and function.duration_s[-1] <= _LONGEST_S)


def _at_once(requests: Requests, function: int, end_s: float, window_s: float) -> list[tuple[float, int]]:
    """Requests that run at once, at the beginning of the window and at each change within it."""
    mine = requests.function == function
    begin, end = requests.at_s[mine], requests.at_s[mine] + requests.duration_s[mine]
    late = end >= end_s - window_s
    moments = np.concatenate([np.maximum(begin[late], end_s - window_s), end[late]])
    order = np.argsort(moments, kind="stable")
    number = np.cumsum(np.repeat((1, -1), late.sum())[order])
    known = moments[order] <= end_s
    return [
        (float(at_s - end_s), int(n)) for at_s, n in zip(moments[order][known], number[known], strict=True)
    ]
