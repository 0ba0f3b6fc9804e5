"""Variant best: finds the knee from few, noisy samples; measures the costly right end only if that helps.

Bayes weighs every curve of curves.py by how well it explains the points, with unknown height and noise. Each
curve has its knee, so the weights are a distribution of the knee. The next sample is taken where the curves'
predictions correlate most with their knees, relative to the replicas it costs. The search ends when the knee
is known to the tolerance with enough probability, when no sample would tell more, or after ten samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpa_replacement.search import curves
from hpa_replacement.search.load import Moved, at_load, at_load_of_last
from hpa_replacement.search.state import Ask, Found, Point, SearchState, Step

__all__ = ["SAMPLES_MAX", "Fit", "fitted", "knee_at", "next_step", "tolerance"]

Array = NDArray[np.float64]

SAMPLES_MAX = 10
_POINTS_MIN = 5  # fewer than the curves have parameters prove nothing
# Probability of being within the tolerance at which the search ends, by number of points: more certainty is
# cheap early and expensive late.
_SURE = {5: 0.8, 6: 0.7, 7: 0.5}
_SURE_LATE = 0.4
# The same when only one thing matters: that the knee is above what the budget affords.
_SURE_ENOUGH = 0.9
_POINTS_ENOUGH = 3
_NOTHING_MORE = 0.02  # share of the knee's variance the best sample must promise to take away
# Relative noise of a score: a few percent for a window of 30 s with some hundred invocations.
_NOISE = np.array([0.012, 0.03, 0.06])
# Error of the curves themselves, as a share of the highest score. Without it a small score, which says little
# about the knee, would weigh as much as a high one.
_MISFIT = 0.01
# Scores farther than this (root mean square, share of the highest) from the likeliest curve follow no curve.
_UNEXPLAINED = 0.15
_GOOD_ENOUGH = 0.9
_CURVES_MIN = 10.0
_TRUST = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12)
_FIRST = 0.4  # where to measure first, as a share of the range; nearer to 0 or 1 costs a sample more
_COST_OFFSET = 0.1


def tolerance(right: int) -> float:
    """2 % of the capacity, at least one replica."""
    return max(1.0, 0.02 * right)


@dataclass(frozen=True)
class _Belief:
    weight: Array  # of each curve; the sum is 1
    log_height: Array
    noise_variance: float
    highest: float
    unexplained: float  # distance of the points from the likeliest curve, as a share of the highest


def next_step(state: SearchState) -> Step:
    own = len(state.points)
    points = at_load_of_last((*state.evidence, *state.points))
    if not points:
        first = round(state.left + (state.right - state.left) * _FIRST)
        return Ask(min(max(first, _least(state)), state.reach), "first sample, where knees usually are")
    if max(p.score for p in points) <= 0.0:
        return _nothing_served(state)
    belief = _weigh(points, state.right)
    at = curves.knees(state.left, state.right) * state.right
    knee, sure = _estimate(belief.weight, at, tolerance(state.right))
    replicas, promise = _most_telling(state, belief, at, knee)
    beyond = 0.0 if state.enough is None else float(belief.weight[at >= state.enough].sum())
    if own >= SAMPLES_MAX or {*range(_least(state), state.reach + 1)} <= {p.replicas for p in state.points}:
        why = f"{sure:.0%} sure after {own} samples, the most it takes"
    elif len(points) >= _POINTS_MIN and sure >= _SURE.get(len(points), _SURE_LATE):
        why = f"{sure:.0%} sure after {own} samples"
    elif state.enough is not None and len(points) >= _POINTS_ENOUGH and beyond >= _SURE_ENOUGH:
        knee = max(knee, state.enough)
        why = f"{beyond:.0%} sure after {own} samples that it is not below {state.enough}, which is enough"
    elif len(points) >= _POINTS_MIN and promise < _NOTHING_MORE:
        why = f"{sure:.0%} sure, no sample would tell more ({own} taken)"
    else:
        return Ask(replicas, f"tells most about the knee, {knee} so far ({sure:.0%} sure)")
    return _found(state, points, belief, knee, why)


def knee_at(load: float, points: tuple[Point, ...], left: int, right: int) -> int:
    """Estimate the knee at another load from the points of a finished search."""
    moved = at_load(load, points)
    if left == right or not moved or max(p.score for p in moved) <= 0.0:
        return left
    at = curves.knees(left, right) * right
    return min(max(_estimate(_weigh(moved, right).weight, at, tolerance(right))[0], left), right)


@dataclass(frozen=True)
class Fit:
    """The likeliest curve at the load of the last point, for pictures."""

    replicas: tuple[int, ...]
    scores: tuple[float, ...]
    knee: int
    sure: float  # probability that the knee is right to the tolerance


def fitted(points: tuple[Point, ...], left: int, right: int) -> Fit | None:
    """None: nothing was served, or left = right."""
    moved = at_load_of_last(points)
    if left == right or not moved or max(p.score for p in moved) <= 0.0:
        return None
    belief = _weigh(moved, right)
    likeliest = int(belief.weight.argmax())
    replicas = np.unique(np.round(np.linspace(left, right, 120)).astype(np.int64))
    scores = np.exp(curves.log_values_at(replicas / right)[likeliest] + belief.log_height[likeliest])
    knee, sure = _estimate(belief.weight, curves.knees(left, right) * right, tolerance(right))
    return Fit(tuple(map(int, replicas)), tuple(map(float, scores)), min(max(knee, left), right), sure)


def _weigh(points: tuple[Moved, ...], right: int) -> _Belief:
    score = np.array([p.score for p in points])
    highest = float(score.max())
    score = np.maximum(score, curves.LEAST * highest)
    predicted = curves.log_values_at(np.array([p.replicas for p in points]) / right)
    apart = np.log(score)[None, :] - predicted
    log_weights, heights = [], []
    for noise in _NOISE:
        precision = 1.0 / (noise**2 + (_MISFIT * highest / score) ** 2)
        height = apart @ precision / precision.sum()
        misfit = ((apart - height[:, None]) ** 2) @ precision
        # The last term integrates the unknown height out.
        constant = 0.5 * np.log(precision).sum() - 0.5 * np.log(precision.sum())
        log_weights.append(curves.log_prior() - 0.5 * misfit + constant)
        heights.append(height)
    joint = _tempered(np.array(log_weights))
    weight = joint.sum(axis=0)
    log_height = (joint * np.array(heights)).sum(axis=0) / np.maximum(weight, 1e-300)
    likeliest = int(weight.argmax())
    residual = (np.exp(predicted[likeliest] + log_height[likeliest]) - score) / highest
    return _Belief(
        weight,
        log_height,
        float(joint.sum(axis=1) @ _NOISE**2),
        highest,
        float(np.sqrt((residual**2).mean())),
    )


def _tempered(log_weights: Array) -> Array:
    """Weights with the sum 1, flattened until `_CURVES_MIN` curves share them.

    Where only a few curves of the table are near the points, the true one lies between them.
    """
    log_weights = log_weights - log_weights.max()
    for trust in _TRUST:
        joint = np.exp(trust * log_weights)
        joint /= joint.sum()
        if 1.0 / (joint.sum(axis=0) ** 2).sum() >= _CURVES_MIN:
            break
    return joint


def _estimate(weight: Array, at: Array, within: float) -> tuple[int, float]:
    """The median of the knees, and the probability that the knee is within the tolerance of it."""
    order = at.argsort()
    middle = int(np.searchsorted(weight[order].cumsum(), 0.5))
    knee = round(float(at[order[min(middle, len(order) - 1)]]))
    return knee, float(weight[np.abs(at - knee) <= within].sum())


def _most_telling(state: SearchState, belief: _Belief, at: Array, knee: int) -> tuple[int, float]:
    """The replicas whose sample removes most of the knee's variance per cost; the largest share removed."""
    replicas, columns = _candidates(state)
    likely = belief.weight > 1e-3 * belief.weight.max()
    weight = belief.weight[likely] / belief.weight[likely].sum()
    far = 3.0 * tolerance(state.right)  # errors beyond this all count the same
    off = np.clip(at[likely] - knee, -far, far)
    off = off - weight @ off
    predicted = belief.log_height[likely, None] + curves.log_values()[np.ix_(likely, columns)]
    mean = weight @ predicted
    spread = predicted - mean
    together = (weight * off) @ spread
    noise = belief.noise_variance + (_MISFIT * belief.highest / np.exp(mean)) ** 2
    gain = together**2 / (weight @ spread**2 + noise)  # variance the best linear predictor removes
    variance = max(float(weight @ off**2), 1e-12)
    best = int((gain / np.sqrt(replicas + _COST_OFFSET * state.right)).argmax())
    return int(replicas[best]), float(gain.max()) / variance


def _least(state: SearchState) -> int:
    return min(max(state.left, state.least), state.reach)


def _candidates(state: SearchState) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """About fifty replica counts, denser at the low end, and their columns of the grid."""
    least = _least(state)
    few = np.geomspace(least, state.reach, 24)
    replicas = np.unique(np.round([*few, *np.linspace(least, state.reach, 32)]).astype(np.int64))
    # A point that no curve explains would be measured for ever: measure it twice at most.
    fresh = replicas[[sum(p.replicas == r for p in state.points) < 2 for r in replicas]]
    replicas = fresh if len(fresh) else replicas
    columns = np.searchsorted(curves.grid(), replicas / state.right - 1e-9)
    return replicas, np.minimum(columns, len(curves.grid()) - 1)


def _nothing_served(state: SearchState) -> Step:
    """Try more replicas: no score is above 0 yet, most likely with too few of them."""
    most = max((p.replicas for p in state.points), default=state.left)
    if most >= state.reach or len(state.points) >= SAMPLES_MAX:
        return Found(state.left, f"nothing was served with up to {most} replicas: the fewest")
    return Ask(min(max(2 * most, state.left), state.reach), f"nothing was served with {most} replicas")


def _found(state: SearchState, points: tuple[Moved, ...], belief: _Belief, knee: int, why: str) -> Found:
    if belief.unexplained > _UNEXPLAINED:
        enough = _GOOD_ENOUGH * belief.highest
        knee = round(min(p.replicas for p in points if p.score >= enough))
        why = f"scores follow no curve: the fewest replicas within 10 % of the best of {len(points)}"
    return Found(min(max(knee, state.left), state.reach), why)
