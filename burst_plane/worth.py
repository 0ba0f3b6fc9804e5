"""How long an idle regular instance is worth its memory, and how many instances are worth having. Pure.

An idle instance costs memory for a time; what it saves is emergency starts. Variant `paper` keeps every
instance equally long. Variant `best` gives a start a price in memory and time, and asks twice:

- How long to wait for the next request? As long as the price of one start lasts (ski rental: never more than
  twice what the best choice in hindsight costs). So a small instance waits longer than a large one. A start
  has a higher price where requests are short, because it slows them down most, and where they are long,
  because they take more of the emergency share.
- Is one more instance used enough? It is if it saves a start within that time. Knative's target (70 %) does
  not ask: a busy function gets more than it needs, one with a few short requests at once too little.
"""

from __future__ import annotations

__all__ = ["idle_s", "staffed"]

# Chosen with tuning seeds 0 and 1 of `surgekit bench pulsenet --simulated`, for 98 % of requests on the
# regular track at less memory than Knative's autoscaler.
_REFERENCE_BYTES = 80 << 20  # the instance that waits for `keepalive`
_RUN_S = 20.0  # a request that runs so long has twice the price
_START_S = 0.05  # and so has one that runs so short
_MOST_SHORT = 4.0
_LEAST_S, _MOST_S = 6.0, 1800.0


def idle_s(keepalive_s: float, memory_bytes: int, run_s: float) -> float:
    """How long an instance of this size may wait, for requests that run so long in the mean."""
    short = min(_START_S / run_s, _MOST_SHORT) if run_s > 0 else 0.0
    price_s = keepalive_s * (1.0 + run_s / _RUN_S + short)
    return min(max(price_s * _REFERENCE_BYTES / max(memory_bytes, 1), _LEAST_S), _MOST_S)


def staffed(at_once: float, arrivals: float, concurrency: int, most: int) -> int:
    """The number of instances of which the last one still saves a start, if so many requests arrive.

    Of requests at random, Erlang's B(n) find none of n slots free (`at_once` are there in the mean, whatever
    their run times are). Further slots save B(n) - B(n + concurrency) of the arrivals: ever less."""
    blocked, slots = 1.0, 0
    for instances in range(most):
        left = blocked
        for _ in range(concurrency):
            slots += 1
            left = at_once * left / (slots + at_once * left)
        if arrivals * (blocked - left) <= 1.0:
            return instances
        blocked = left
    return most
