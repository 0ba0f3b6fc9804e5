"""Plans of CPU use, as the microservice's -burn wants them. Pure."""

from __future__ import annotations

import random

__all__ = ["STEPPING", "STEPPING_S", "bursts"]

# As fig. 2: levels between 0.1 and 1.5 cores.
_LEVELS = (0.1, 1.5, 0.5, 1.0, 0.3, 1.5, 0.1)
_LEVEL_S = 4.0
STEPPING = ",".join(f"{level:g}@{_LEVEL_S:g}" for level in _LEVELS)
STEPPING_S = _LEVEL_S * len(_LEVELS)

_BURST_CORES, _BURST_S, _IDLE_S, _COUNT = 0.4, 0.5, 40.0, 50


def bursts(seed: int, number: int) -> str:
    """Half a second at 0.4 core, and 40 s of nothing in the mean: 200 of these take one core."""
    draw = random.Random(f"escra/bursts/{seed}/{number}")
    steps = []
    for _ in range(_COUNT):
        steps.append(f"0@{draw.expovariate(1 / _IDLE_S) + 0.01:.3f}")
        steps.append(f"{_BURST_CORES:g}@{_BURST_S:g}")
    return ",".join(steps)
