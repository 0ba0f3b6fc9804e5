"""Algorithm 2 of the paper: search on errors, reuse a known knee (variant paper).

Added for a live cluster: high latency triggers a scale-up as errors do; errors go before a fall of CPU
utilisation (as printed, the second `if` could undo the first); a known knee that shows errors in two clean
samples is forgotten.
"""

from __future__ import annotations

from dataclasses import replace

from hpa_replacement.decision.context import DecisionContext
from hpa_replacement.decision.model import KnownKnee, Scaling
from hpa_replacement.decision.searching import TROUBLED_MAX, begin_search
from surgekit.decision import Decision

__all__ = ["handle_load"]


def handle_load(context: DecisionContext) -> Decision[Scaling]:
    """Lines 30 to 38."""
    if context.sample.throughput_per_s <= 0 and not context.trouble:
        return context.hold("no load")
    if context.trouble:
        return _scale_up(context)
    before, now = context.state.cpu_utilisation, context.sample.cpu_utilisation
    if before and now is not None and (before - now) / before > context.policy.thresholds.cpu_drop:
        return _scale_down(context, f"CPU utilisation fell from {before:.0%} to {now:.0%}")
    return context.hold("no errors, no fall of CPU utilisation")


def _closest_throughput(context: DecisionContext) -> KnownKnee | None:
    """FindClosestThroughput, lines 3 to 11."""
    t_current = context.sample.throughput_per_s
    return min(context.state.known, key=lambda k: abs(k.throughput_per_s - t_current), default=None)


def _scale_up(context: DecisionContext) -> Decision[Scaling]:
    """Lines 12 to 25."""
    thresholds, replicas = context.policy.thresholds, context.sample.replicas
    known, state = _closest_throughput(context), context.state
    if (
        known is not None
        and abs(known.throughput_per_s - context.sample.throughput_per_s) < thresholds.throughput_per_s
    ):
        if context.clamp(known.replicas) != replicas:
            why = f"{context.trouble}: the knee known for {known.throughput_per_s:.3g}/s"
            return context.scale(known.replicas, why, state=replace(state, troubled=0))
        troubled = state.troubled + context.sample.clean
        state = replace(state, troubled=troubled)
        if troubled < TROUBLED_MAX or known.confirmed:
            return context.hold(
                f"{context.trouble}, but {replicas} is the knee known for this load", state=state
            )
        others = tuple(k for k in state.known if k is not known)
        state = replace(state, known=others, doubted=True)
    cautious = context.sample.errors_per_s < thresholds.errors_per_s
    right = min(replicas + context.high // 2, context.high) if cautious else context.high
    return begin_search(context, replicas + 1, right, context.trouble, state=state)


def _scale_down(context: DecisionContext, why: str) -> Decision[Scaling]:
    """Lines 26 to 29. Does nothing while no knee is known."""
    known, replicas = _closest_throughput(context), context.sample.replicas
    if known is None:
        return context.hold(f"{why}; no knee is known yet")
    if context.clamp(known.replicas) == replicas:
        return context.hold(f"{why}; {replicas} is the knee known for the closest throughput")
    return context.scale(known.replicas, f"{why}: the knee known for {known.throughput_per_s:.3g}/s")
