"""The next CPU quota of every container (section IV-D.1), in three variants.

`paper`: the printed equations. Throttled in the last period: raise by (mean throttles) * Upsilon *
unallocated, at most by what is unallocated. More than gamma of the quota unused: cut by kappa * mean unused.
The mean is over the last n periods. The paper gives gamma no unit; as in the authors' program it is a share
of the quota.

`published`: as the authors' program. Throttled in a mean of at least 0.1 of the window: raise by Upsilon *
(mean throttles) * slice, at most by what is unallocated. Cuts are as in `paper`, but never under one slice.

`best`: sets the quota to what the next period is predicted to use, plus a margin.
- A throttled container says how much it lacked: the run time it used, plus the time for which its threads
  were ready and not allowed to run. Give it that at once. If the agent does not know that time, double the
  quota for each throttled period in a row.
- Otherwise predict the next use. Without bursts that is the highest use of the window, where a period counts
  less the older it is: a quota rises in one period and falls over several. With bursts (cpu.max.burst), what
  a period does not use helps the next one: so the mean counts, of the window, or of its last periods if more.
- The margin follows the container: gamma / 2 of the prediction, or so many standard deviations of its use if
  that is more. It widens with the share of the window's periods that were throttled.
- Cuts of less than gamma / 2 and raises of less than gamma / 4 of the quota are not worth a write.

In every variant the sum stays within the application's limit. If it is too small for what is wanted, `best`
shares all of it by max-min; the others share what is unallocated, so that nobody is cut for another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limit_allocator.allocation.fair_share import fair_share, group_sums
from limit_allocator.allocation.model import Booleans, Integers, Parameters, Reason, Variant
from limit_allocator.allocation.telemetry import Window

__all__ = ["CpuContainers", "CpuQuotas", "explain", "initial_quotas_us", "next_quotas"]

_THROTTLED_FROM = 0.1  # mean throttles from which the authors' program raises
_MOST_DOUBLINGS = 10
# From experiments/escra/policy_sweep.py. Without bursts: 1 throttles half as often again, 2 has a sixth more
# slack. With bursts: two thirds as many throttled periods at little more than half of the slack; 1.5
# throttles a third less often and has a quarter more slack.
_MARGIN_DEVIATIONS = 1.5
_BURST_DEVIATIONS = 1.0
_LAST_PERIODS = 3


@dataclass(frozen=True, slots=True)
class CpuContainers:
    """Containers of one or more applications with the same parameters, as arrays of one length."""

    application: Integers  # index into the limits
    quota_us: Integers  # the quota last decided; 0: a newcomer
    floor_us: Integers
    ceiling_us: Integers  # the limit in the pod's spec
    window: Window


@dataclass(frozen=True, slots=True)
class CpuQuotas:
    """What each container should have, and why (`Reason`)."""

    quota_us: Integers
    reason: Integers
    wanted_us: Integers  # before the application's limit


def initial_quotas_us(limits_us: Integers, containers: Integers) -> Integers:
    """Eq. (1), per application: global limit / containers."""
    return limits_us // np.maximum(containers, 1)


def next_quotas(
    containers: CpuContainers, limits_us: Integers, parameters: Parameters, now_s: float
) -> CpuQuotas:
    """The quotas of the next period. `limits_us` are the applications' global limits."""
    application, quota = containers.application, containers.quota_us
    window = containers.window
    count = group_sums(np.ones_like(quota), application, len(limits_us))
    unallocated = np.maximum(limits_us - group_sums(quota, application, len(limits_us)), 0)[application]

    newcomer = quota == 0
    silent = ~newcomer & ((window.known == 0) | (now_s - window.heard_at_s > parameters.silent_after_s))
    decide = {Variant.PAPER: _paper, Variant.PUBLISHED: _published, Variant.BEST: _best}[parameters.variant]
    wanted, reason = decide(quota, window, unallocated, parameters)
    wanted = np.where(newcomer, initial_quotas_us(limits_us, count)[application], wanted)
    reason = np.where(newcomer, Reason.NEWCOMER, reason)

    floor = np.minimum(containers.floor_us, containers.ceiling_us)
    bounded = np.clip(wanted, floor, containers.ceiling_us)
    reason = np.where(bounded < wanted, Reason.CEILING, np.where(bounded > wanted, Reason.FLOOR, reason))
    # A silent container may be out of reach: it keeps what it has.
    bounded = np.where(silent, quota, bounded)
    reason = np.where(silent, Reason.SILENT, reason)

    least = np.where(silent, quota, floor)
    if parameters.variant != Variant.BEST:
        kept = np.where(newcomer, floor, np.minimum(bounded, quota))
        fits = group_sums(kept, application, len(limits_us)) <= limits_us
        least = np.where(fits[application], kept, least)
    shared = fair_share(bounded, least, application, limits_us)
    reason = np.where(shared < bounded, Reason.FAIR_SHARE, reason)
    reason = np.where((shared == quota) & (reason != Reason.SILENT), Reason.UNCHANGED, reason)
    return CpuQuotas(shared, reason, bounded)


def explain(reason: int, before_us: int, after_us: int, wanted_us: int) -> str:
    """The decision about one container, as a sentence."""
    before, after, wanted = (f"{us / 100_000:.2f}" for us in (before_us, after_us, wanted_us))
    return {
        Reason.UNCHANGED: f"{after} cores: fits its use",
        Reason.THROTTLED: f"raised from {before} to {after} cores: it was throttled",
        Reason.PREDICTED: f"set from {before} to {after} cores: predicted from its recent use",
        Reason.UNUSED: f"cut from {before} to {after} cores: the rest was not used",
        Reason.NEWCOMER: f"begins with {after} cores: an equal share of the application's limit",
        Reason.FAIR_SHARE: f"{after} cores of {wanted} needed: its fair share of the application's limit",
        Reason.FLOOR: f"{after} cores: its floor",
        Reason.CEILING: f"{after} cores: the limit in its pod's spec",
        Reason.SILENT: f"keeps {after} cores: its agent is silent",
    }[Reason(reason)]


def _paper(
    quota: Integers, window: Window, unallocated: Integers, parameters: Parameters
) -> tuple[Integers, Integers]:
    throttles = _mean(window.throttled, parameters)
    raised = quota + np.minimum((throttles * parameters.upsilon * unallocated).astype(np.int64), unallocated)
    return _raise_or_cut(window.throttled[:, 0], raised, quota, window, parameters)


def _published(
    quota: Integers, window: Window, unallocated: Integers, parameters: Parameters
) -> tuple[Integers, Integers]:
    throttles = _mean(window.throttled, parameters)
    step = (parameters.upsilon * throttles * parameters.slice_us).astype(np.int64)
    raised = quota + np.minimum(step, unallocated)
    wanted, reason = _raise_or_cut(throttles >= _THROTTLED_FROM, raised, quota, window, parameters)
    return np.maximum(wanted, parameters.slice_us), reason


def _raise_or_cut(
    starved: Booleans, raised: Integers, quota: Integers, window: Window, parameters: Parameters
) -> tuple[Integers, Integers]:
    unused = quota - window.used_us[:, 0] > parameters.gamma * quota
    mean_unused = _mean(window.quota_us - window.used_us, parameters)
    cut = quota - (parameters.kappa * np.maximum(mean_unused, 0.0)).astype(np.int64)
    wanted = np.where(starved, raised, np.where(unused, cut, quota))
    reason = np.where(starved, Reason.THROTTLED, np.where(unused, Reason.UNUSED, Reason.UNCHANGED))
    return wanted, reason


def _mean(per_period: Integers | Booleans, parameters: Parameters) -> NDArray[np.float64]:
    total: NDArray[np.float64] = per_period.sum(axis=1) / parameters.window_periods
    return total


def _best(
    quota: Integers, window: Window, _unallocated: Integers, parameters: Parameters
) -> tuple[Integers, Integers]:
    used = window.used_us
    last, known = used[:, 0], np.maximum(window.known, 1)
    mean = used.sum(axis=1) / known
    if parameters.burst:
        recent = used[:, :_LAST_PERIODS].sum(axis=1) / np.minimum(known, _LAST_PERIODS)
        predicted, deviations = np.maximum(mean, recent), _BURST_DEVIATIONS
    else:
        # A period counts in full when it is new, and half when it leaves the window.
        ages = np.arange(used.shape[1])
        predicted, deviations = (used * (1.0 - 0.5 * ages / used.shape[1])).max(axis=1), _MARGIN_DEVIATIONS
    deviation = np.sqrt(np.maximum((used.astype(np.float64) ** 2).sum(axis=1) / known - mean**2, 0.0))
    throttles = window.throttled.sum(axis=1) / known
    margin = np.maximum(parameters.gamma / 2 * predicted, deviations * deviation)
    wanted = predicted + margin * (1.0 + throttles)

    throttled = window.throttled[:, 0]
    in_a_row = np.minimum(np.cumprod(window.throttled, axis=1).sum(axis=1), _MOST_DOUBLINGS)
    lacked = window.throttled_us[:, 0]
    raised = np.where(lacked > 0, last + lacked, window.quota_us[:, 0] * 2.0**in_a_row)
    wanted = np.where(throttled, np.maximum(raised, wanted), wanted).astype(np.int64)

    band = parameters.gamma * quota
    close = ~throttled & (wanted >= quota - band / 2) & (wanted <= quota + band / 4)
    wanted = np.where(close, quota, wanted)
    reason = np.where(throttled, Reason.THROTTLED, np.where(wanted < quota, Reason.UNUSED, Reason.PREDICTED))
    return wanted, reason
