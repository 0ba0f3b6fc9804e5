"""Estimate tau_c of a node from its samples.

- Recent: a sample's weight halves with every `half_life_s` of age and with every 1.5 containers that were
  begun and created after it. So a node that changed is believed after a few samples, busy or not. Creations
  that ran side by side weigh the same: single samples of one burst scatter (creations.py), and only their
  mean is tau_c.
- Robust: samples are clipped to the weighted median times or over `outlier_factor`. One wild value moves the
  estimate by a bounded share. Several in a row move the median, and then they are the truth.
- Shrunk: the prior (the median of the peers) counts as `prior_samples`; a node without samples has the
  prior. A node's speed is volatile and like nodes are alike in the long run (fig. 3), so its difference from
  the peers halves with every `half_life_s` without a sample.
- Early: a creation that has already taken longer than the estimate counts as a sample with its present
  value, so a stalled node is noticed although it completes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from node_speed_probe.model import Reason, Sample, Unfinished
from node_speed_probe.settings import Settings

__all__ = ["SAMPLES_KEPT", "Prior", "Tau", "estimate_tau", "own_mean_s", "prior_of_peers", "recent_mean_s"]

# With a half-life of 1.5 containers, 5 samples carry 1 - 2^(-5/1.5) = 90 % of the weight: a node that
# became 3 times slower is then estimated to within 25 %. A longer one lags behind nodes that change.
_HALF_LIFE_CONTAINERS = 1.5
# Outliers are found by a median with a longer half-life: with the one above, the newest sample would mostly
# be the median itself.
_JUDGES_HALF_LIFE_CONTAINERS = 5.0
SAMPLES_KEPT = 64  # one after the other 12 would do (2^-8); a burst has its mean only as a whole
# Scatter assumed for a single sample.
_ASSUMED_VARIATION = 0.5
# Samples 1,000 half-lives old. Below this, products of weights and values underflow to 0.
_LEAST_WEIGHT = 1e-300
# The prior may have been another one when the estimate was made.
_LEAST_OF_ESTIMATE = 0.01
# Two half-lives: after that an estimate depends mostly on the peers.
_STALE_BELOW = 0.25


@dataclass(frozen=True, slots=True)
class Prior:
    """The estimate for a node without samples."""

    tau_s: float
    rel_error: float
    reason: Reason


@dataclass(frozen=True, slots=True)
class Tau:
    value_s: float
    rel_error: float
    reason: Reason


def prior_of_peers(peers_s: Sequence[float], settings: Settings) -> Prior:
    """The median of the measured nodes, with their scatter as its uncertainty."""
    if not peers_s:
        return Prior(settings.default_tau_create_s, 1.0, Reason.DEFAULT_PRIOR)
    middle_s = median(peers_s)
    deviation_s = median(abs(p - middle_s) for p in peers_s)
    # 1.4826 makes the median deviation of a normal sample its standard deviation.
    scatter = 1.4826 * deviation_s / middle_s
    few = _ASSUMED_VARIATION / math.sqrt(len(peers_s))
    return Prior(middle_s, math.hypot(scatter, few), Reason.PRIOR_OF_PEERS)


def estimate_tau(
    samples: Sequence[Sample],
    unfinished: Iterable[Unfinished],
    prior: Prior,
    settings: Settings,
    now_s: float,
) -> Tau:
    """tau_c of one node. `samples` are in order of time."""
    tau = _estimate(samples, prior, settings, now_s)
    beyond = [
        Sample(u.began_s, now_s, u.tau_s) for u in unfinished if u.tau_s > tau.value_s and not u.overtaken
    ]
    if not beyond:
        return tau
    suspected = _estimate([*samples, *beyond], prior, settings, now_s)
    # An unfinished creation can only raise the estimate, and does not make it measured.
    return Tau(max(suspected.value_s, tau.value_s), max(suspected.rel_error, tau.rel_error), tau.reason)


def recent_mean_s(samples: Sequence[Sample], settings: Settings, now_s: float) -> float | None:
    """The robust mean without the prior, or None without samples."""
    weighted = _weigh(samples, settings, now_s)
    if sum(w for _, w in weighted) < _LEAST_WEIGHT:
        return None
    judges = _weigh(samples, settings, now_s, _JUDGES_HALF_LIFE_CONTAINERS)
    return _mean(_clip(weighted, judges, settings.outlier_factor))


def own_mean_s(value_s: float, containers: int, prior_s: float, settings: Settings) -> float:
    """The mean of a node's own samples behind an estimate that was shrunk toward `prior_s`.

    To remember the estimate itself would shrink it again at every restart.
    """
    own_share = containers / (containers + settings.prior_samples)
    return max((value_s - (1.0 - own_share) * prior_s) / own_share, _LEAST_OF_ESTIMATE * value_s)


def _estimate(samples: Sequence[Sample], prior: Prior, settings: Settings, now_s: float) -> Tau:
    weighted = _weigh(samples, settings, now_s)
    total = sum(w for _, w in weighted)
    if total < _LEAST_WEIGHT:
        return Tau(prior.tau_s, prior.rel_error, Reason.STALE if samples else prior.reason)
    judges = _weigh(samples, settings, now_s, _JUDGES_HALF_LIFE_CONTAINERS)
    judges.append((prior.tau_s, settings.prior_samples))
    clipped = _clip(weighted, judges, settings.outlier_factor)
    mean_s = _mean(clipped)
    fresh = max(_age_weight(s, settings, now_s) for s in samples)
    known = sum(s.containers for s in samples)
    own_share = fresh * known / (known + settings.prior_samples)
    value_s = own_share * mean_s + (1.0 - own_share) * prior.tau_s

    squares = sum(w * (v / mean_s - 1.0) ** 2 for v, w in clipped)
    variation = math.sqrt((squares + _ASSUMED_VARIATION**2) / (total + 1.0))
    own_error = variation * math.sqrt(sum(w * w for _, w in clipped)) / total
    error_s = math.hypot(own_share * own_error * mean_s, (1.0 - own_share) * prior.rel_error * prior.tau_s)
    return Tau(value_s, error_s / value_s, Reason.MEASURED if fresh >= _STALE_BELOW else Reason.STALE)


def _weigh(
    samples: Sequence[Sample],
    settings: Settings,
    now_s: float,
    half_life_containers: float = _HALF_LIFE_CONTAINERS,
) -> list[tuple[float, float]]:
    """(value, weight), newest first.

    Samples with the same number of containers begun after them form a generation. Whether pods came in
    bursts or one by one, all samples that n containers were begun after have 2^(-n / half-life) of the
    weight; the containers of a generation share theirs evenly.
    """
    decay = 2.0 ** (-1.0 / half_life_containers)
    generations: dict[int, list[Sample]] = {}
    by_start = sorted(samples, key=lambda s: -s.began_s)
    begun_after, containers = 0, 0
    for sample in reversed(samples):
        # In this order the samples that began after this one's end only grow in number.
        while begun_after < len(by_start) and by_start[begun_after].began_s >= sample.ended_s:
            containers += by_start[begun_after].containers
            begun_after += 1
        generations.setdefault(containers, []).append(sample)
    end = containers + sum(s.containers for s in generations.get(containers, ()))
    weighted = []
    for rank, older in pairwise([*generations, end]):
        size = sum(s.containers for s in generations[rank])
        each = (decay**rank - decay**older) / (1.0 - decay) / size
        weighted += [
            (s.tau_s, each * s.containers * _age_weight(s, settings, now_s)) for s in generations[rank]
        ]
    return weighted


def _age_weight(sample: Sample, settings: Settings, now_s: float) -> float:
    return float(2.0 ** (-max(now_s - sample.ended_s, 0.0) / settings.half_life_s))


def _clip(
    weighted: list[tuple[float, float]], believed: list[tuple[float, float]], factor: float
) -> list[tuple[float, float]]:
    middle = _weighted_median(believed)
    return [(min(max(v, middle / factor), middle * factor), w) for v, w in weighted]


def _weighted_median(weighted: list[tuple[float, float]]) -> float:
    """The smallest value with half of the weight at or below it."""
    half = sum(w for _, w in weighted) / 2.0
    below = 0.0
    value = 0.0
    for value, weight in sorted(weighted):  # noqa: B007 - the last one stands when rounding leaves none
        below += weight
        if below >= half:
            break
    return value


def _mean(weighted: list[tuple[float, float]]) -> float:
    return sum(v * w for v, w in weighted) / sum(w for _, w in weighted)
