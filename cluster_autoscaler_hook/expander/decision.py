"""Which node group to grow now.

    cost(g) = nodes_g * price_g + the cheapest way to help the pods g leaves

`nodes_g` is the caller's own count for every pod that g can help: that many nodes are added. `lookahead`
computes the second term, with nodes packed full. Promising options are compared again with pods placed as
kube-scheduler places them (`rollout`). FCMA's plan for all pending pods is the price with freely mixed
classes. Reasons and metrics compare the choice with it, and it decides between equally cheap groups. If there
are none, the choice does not wait for the plan.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cluster_autoscaler_hook.expander import rollout
from cluster_autoscaler_hook.expander.lookahead import Lookahead, infer_overhead
from cluster_autoscaler_hook.expander.model import GroupChoice, Option, Score, Template
from cluster_autoscaler_hook.expander.plan import Solve, as_problem
from cluster_autoscaler_hook.expander.prices import Prices
from cluster_autoscaler_hook.expander.scale_up_request import ScaleUpRequest
from cluster_autoscaler_hook.solver.model import InfeasibleProblem, InvalidProblem, Solution
from surgekit.decision import Decision

__all__ = ["PlanFailed", "Unplanned", "cheapest_that_fits", "choose", "decide_without_plan", "with_plan"]

# Costs closer than this are equal: sums of prices differ in their last digits.
_SAME = 1e-9
# With less time the solver would return too late, and delay the next request.
_LEAST_PLAN_S = 0.1


class PlanFailed(Exception):
    """The solver gave up or hung. The choice then stands without a plan."""


@dataclass(frozen=True, slots=True)
class Unplanned:
    """The decision before there is a plan."""

    decision: Decision[GroupChoice]
    # The cheapest groups; the first of them is chosen. Empty if a plan could not change anything.
    equals: tuple[str, ...] = ()
    request: ScaleUpRequest | None = None  # what to plan for; None if no plan is needed

    @property
    def settled(self) -> bool:
        """Whether no plan can change it."""
        return len(self.equals) < 2


def choose(request: ScaleUpRequest, solve: Solve) -> Decision[GroupChoice]:
    """One group, unless nothing was offered."""
    return with_plan(decide_without_plan(request), solve)


def decide_without_plan(request: ScaleUpRequest) -> Unplanned:
    offer, prices = request.offer, request.prices
    priced = usable(request.priced_options)
    if len(priced) < 2:
        return Unplanned(cheapest_that_fits(offer.options, offer.templates, prices))
    if request.deadline.reached():
        return Unplanned(cheapest_that_fits(offer.options, offer.templates, prices, "no time left to plan"))
    request = replace(request, overhead=infer_overhead(request))
    lookahead = Lookahead(request)
    scores = _scores(priced, prices, lookahead)
    if not lookahead.complete:
        why = "the deadline came before every way was tried"
        return Unplanned(cheapest_that_fits(offer.options, offer.templates, prices, why))
    scores = _play_out(scores, request, lookahead)
    pods = {o.group: o.pod_count for o in priced}
    least = min(score.total_per_hour for score in scores)
    equals = [score.group for score in scores if score.total_per_hour <= least * (1 + _SAME)]
    equals.sort(key=lambda group: (-pods[group], group))
    choice = GroupChoice((), scores=tuple(scores), unpriced=_unpriced(offer.options, prices))
    return Unplanned(_decision_for(choice, equals[0], prices), tuple(equals), request)


def with_plan(unplanned: Unplanned, solve: Solve) -> Decision[GroupChoice]:
    """Add FCMA's plan to the decision. Among equally cheap groups, choose one that the plan rents."""
    request = unplanned.request
    if request is None:
        return unplanned.decision
    plan, failure = _plan(request, solve)
    planned = {node.instance_class for node in plan.allocation.nodes} if plan else set()
    best = next((group for group in unplanned.equals if group in planned), unplanned.equals[0])
    choice = replace(
        unplanned.decision.action,
        fallback=failure,
        plan_per_hour=plan.cost_per_hour if plan else None,
        plan_bound_per_hour=plan.lower_bound_per_hour if plan else None,
    )
    return _decision_for(choice, best, request.prices, _describe_plan(plan, request.prices.currency, failure))


def _decision_for(choice: GroupChoice, best: str, prices: Prices, *plan: str) -> Decision[GroupChoice]:
    scores = sorted(choice.scores, key=lambda s: (s.group != best, s.total_per_hour, s.group))
    reasons = (*_describe_scores(scores, prices.currency), *plan, *prices.remarks)
    return Decision(replace(choice, groups=(best,), scores=tuple(scores)), reasons, prices.ages_s)


def _scores(options: Sequence[Option], prices: Prices, lookahead: Lookahead) -> list[Score]:
    """The scores, most promising first. An option that cannot become the best gets only a lower bound."""
    steps = [
        (o, o.nodes * prices.by_group[o.group].per_hour, lookahead.bound(lookahead.left(o))) for o in options
    ]
    scores, best = [], math.inf
    for option, step, bound in sorted(steps, key=lambda found: (found[1] + found[2], found[0].group)):
        hopeless = step + bound > best * (1 + _SAME)
        to_go = bound if hopeless else lookahead.after(option)
        best = min(best, math.inf if hopeless else step + to_go)
        scores.append(Score(option.group, step, to_go, at_least=hopeless))
    return scores


def _play_out(scores: Sequence[Score], request: ScaleUpRequest, lookahead: Lookahead) -> list[Score]:
    """The scores with pods placed as kube-scheduler places them; these costs are hardly ever lower.

    Options that there was no time for are left out, since they cannot be compared with the others.
    """
    options = {option.group: option for option in request.offer.options}
    played: list[Score] = []
    best = math.inf
    for score in sorted(scores, key=lambda s: (s.total_per_hour, s.group)):
        if score.total_per_hour > best * (1 + _SAME):
            played.append(replace(score, at_least=True))
            continue
        to_go = rollout.to_go(options[score.group], request, lookahead)
        if to_go is None:
            return played or list(scores)
        played.append(Score(score.group, score.step_per_hour, to_go))
        best = min(best, played[-1].total_per_hour)
    return played


def cheapest_that_fits(
    options: Sequence[Option], templates: Mapping[str, Template], prices: Prices, fallback: str | None = None
) -> Decision[GroupChoice]:
    """The option with the lowest price for each pod helped: greedy weighted set cover, without the pods.

    If no group has a price, the one with the least CPU for each pod helped.
    """
    candidates = usable(options)
    if not candidates:
        groups = tuple(dict.fromkeys(o.group for o in options))
        reasons = ("nothing to choose from", *prices.remarks)
        return Decision(GroupChoice(groups, fallback), reasons, prices.ages_s, valid=False)
    priced = [o for o in candidates if o.group in prices.by_group]

    def cost(option: Option) -> float:
        if priced:
            return option.nodes * prices.by_group[option.group].per_hour
        template = templates.get(option.group)
        return option.nodes * template.cpu_millis if template else float("inf")

    best = min(priced or candidates, key=lambda o: (cost(o) / o.pod_count, -o.pod_count, o.group))
    if len(candidates) == 1:
        reason = f"{best.group} is the only option"
    elif len(priced) == 1:
        reason = f"{best.group} is the only option with a price"
    elif priced:
        reason = (
            f"{best.group} helps a pod for the least: {best.nodes} nodes for {cost(best):.4g} "
            f"{prices.currency} an hour, {best.pod_count} pods"
        )
    else:
        reason = f"{best.group} takes the least CPU for a pod helped"
        fallback = fallback or "no option has a price"
    choice = GroupChoice((best.group,), fallback, unpriced=_unpriced(options, prices))
    return Decision(choice, (reason, *prices.remarks), prices.ages_s)


def usable(options: Sequence[Option]) -> list[Option]:
    """Without options of 0 nodes: the caller would not scale up at all."""
    return [option for option in options if option.nodes > 0 and option.pod_count > 0]


def _plan(request: ScaleUpRequest, solve: Solve) -> tuple[Solution | None, str | None]:
    """The plan, or None and the reason."""
    if request.deadline.left_s() < _LEAST_PLAN_S:
        return None, "no time left for FCMA's plan"
    try:
        return solve(as_problem(request), request.deadline.left_s()), None
    except (InvalidProblem, InfeasibleProblem) as error:
        return None, f"no plan can be made: {error}"
    except PlanFailed as error:
        return None, str(error)


def _describe_scores(scores: Sequence[Score], currency: str) -> list[str]:
    best = scores[0]
    said = [
        f"{best.group}: {best.step_per_hour:.4g} now and {best.to_go_per_hour:.4g} for the pods it leaves, "
        f"{best.total_per_hour:.4g} {currency} an hour"
    ]
    if len(scores) > 1:
        how = "at least" if scores[1].at_least else "at"
        said.append(f"next best: {scores[1].group} {how} {scores[1].total_per_hour:.4g}")
    return said


def _describe_plan(plan: Solution | None, currency: str, failure: str | None) -> str:
    if plan is None:
        return f"without a plan: {failure}"
    nodes = Counter(node.instance_class for node in plan.allocation.nodes)
    mix = ", ".join(f"{count} {group}" for group, count in sorted(nodes.items()))
    return f"FCMA's plan, classes mixed freely: {mix} for {plan.cost_per_hour:.4g} {currency} an hour"


def _unpriced(options: Sequence[Option], prices: Prices) -> tuple[str, ...]:
    return tuple(o.group for o in options if o.group not in prices.by_group)
