"""Algorithm 2 of the paper: when to search, when to reuse a known knee (variants other than best).

What a cluster needs beyond it: latency can trigger as errors do; errors go before a fall of CPU utilisation
(printed, the second `if` could undo the first); a known knee with errors at it for two clean samples is
forgotten.
"""

from __future__ import annotations

from dataclasses import replace

from hpa_replacement.decision.context import Round
from hpa_replacement.decision.model import Decision, KnownKnee
from hpa_replacement.decision.searching import begin

__all__ = ["TROUBLED_MAX", "handle_load"]

TROUBLED_MAX = 2  # clean samples with errors at a known knee after which it no longer holds


def handle_load(this: Round) -> Decision:
    """Lines 30 to 38."""
    if this.sample.throughput_per_s <= 0 and not this.trouble:
        return this.stay("no load")
    if this.trouble:
        return _scale_up(this)
    before, now = this.state.cpu_utilisation, this.sample.cpu_utilisation
    if before and now is not None and (before - now) / before > this.policy.thresholds.cpu_drop:
        return _scale_down(this, f"CPU utilisation fell from {before:.0%} to {now:.0%}")
    return this.stay("no errors, no fall of CPU utilisation")


def _closest(this: Round) -> KnownKnee | None:
    """FindClosestThroughput, lines 3 to 11."""
    t = this.sample.throughput_per_s
    return min(this.state.known, key=lambda k: abs(k.throughput_per_s - t), default=None)


def _scale_up(this: Round) -> Decision:
    """Lines 12 to 25."""
    limits, r, t = this.policy.thresholds, this.sample.replicas, this.sample.throughput_per_s
    known, state = _closest(this), this.state
    if known is not None and abs(known.throughput_per_s - t) < limits.throughput_per_s:
        if this.within(known.replicas) != r:
            why = f"{this.trouble}: the knee known for {known.throughput_per_s:.3g}/s"
            return this.scale(known.replicas, why, state=replace(state, troubled=0))
        troubled = state.troubled + this.sample.clean
        state = replace(state, troubled=troubled)
        if troubled < TROUBLED_MAX or known.confirmed:
            return this.stay(f"{this.trouble}, but {r} is the knee known for this load", state=state)
        rest = tuple(k for k in state.known if k is not known)
        state = replace(state, known=rest, doubted=True)
    cautious = this.sample.errors_per_s < limits.errors_per_s
    right = min(r + this.high // 2, this.high) if cautious else this.high
    return begin(this, r + 1, right, this.trouble, state=state)


def _scale_down(this: Round, why: str) -> Decision:
    """Lines 26 to 29. Without history it does nothing."""
    known = _closest(this)
    if known is None:
        return this.stay(f"{why}; no knee is known yet")
    if this.within(known.replicas) == this.sample.replicas:
        return this.stay(f"{why}; {this.sample.replicas} is the knee known for the closest throughput")
    return this.scale(known.replicas, f"{why}: the knee known for {known.throughput_per_s:.3g}/s")
