"""Which group is chosen, and what is chosen when it cannot be decided."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_autoscaler_hook.expander import rollout
from cluster_autoscaler_hook.expander.caller_model import Overhead
from cluster_autoscaler_hook.expander.caller_model import offer as as_offered
from cluster_autoscaler_hook.expander.decision import PlanFailed, cheapest_that_fits, choose
from cluster_autoscaler_hook.expander.lookahead import Lookahead
from cluster_autoscaler_hook.expander.model import GroupChoice, Offer, Option
from cluster_autoscaler_hook.expander.plan import as_problem
from cluster_autoscaler_hook.expander.prices import Prices
from cluster_autoscaler_hook.expander.scale_up_request import ScaleUpRequest
from cluster_autoscaler_hook.solver.deadline import Deadline
from cluster_autoscaler_hook.solver.model import Allocation, InfeasibleProblem, Node, Problem, Solution
from surgekit.decision import Decision
from tests.cluster_autoscaler_hook.expander.builders import (
    RECORDED,
    decoded,
    kind,
    no_plan,
    offer,
    prices,
    template,
)

NONE = Overhead()


def request(
    asked: Offer, costs: Prices, overhead: Overhead = NONE, deadline_s: float = 10.0
) -> ScaleUpRequest:
    return ScaleUpRequest(asked, costs, overhead, Deadline.after(deadline_s))


def decide(asked: Offer, costs: Prices, deadline_s: float = 10.0) -> Decision[GroupChoice]:
    return choose(request(asked, costs, deadline_s=deadline_s), no_plan)


def two_groups() -> Offer:
    """`large` swallows everything; `small` cannot take the one pod of 6 CPUs."""
    templates = [template("small", 2, 8), template("large", 8, 32)]
    kinds = [kind(["small", "large"], 0.9, 1), kind(["large"], 6, 1)]
    return as_offered(templates, kinds, [20, 1], {})


def test_it_looks_further_than_the_step() -> None:
    """small: 10 * 0.1 now, large 1 * 0.8 for what it leaves, 1.8; large alone: 4 * 0.8 = 3.2."""
    decision = decide(two_groups(), prices(small=0.1, large=0.8))
    assert decision.action.groups == ("small",)
    totals = {s.group: (round(s.total_per_hour, 6), s.at_least) for s in decision.action.scores}
    assert totals == {"small": (1.8, False), "large": (3.2, True)}
    assert decision.action.scores[0].to_go_per_hour == pytest.approx(0.8)


def test_a_cheap_step_that_leaves_much_is_not_chosen() -> None:
    """small is dearer for its pods than the room large has anyway."""
    assert decide(two_groups(), prices(small=0.3, large=0.7)).action.groups == ("large",)


def test_the_choice_counts_on_spreading_not_on_packing() -> None:
    """Packed, large costs 4 * 0.7 = 2.8 and small 10 * 0.22 + 0.7 = 2.9. But kube-scheduler spreads the small
    pods over all large nodes, where the one of 6 CPUs may then find no room: a fifth node."""
    asked, costs = two_groups(), prices(small=0.22, large=0.7)
    lookahead = Lookahead(request(asked, costs))
    packed = {o.group: o.nodes * costs.by_group[o.group].per_hour + lookahead.after(o) for o in asked.options}
    assert packed == pytest.approx({"small": 2.9, "large": 2.8})
    decision = decide(asked, costs)
    assert decision.action.groups == ("small",)
    totals = {score.group: score.total_per_hour for score in decision.action.scores}
    assert totals["small"] == pytest.approx(2.9)
    assert 2.9 < totals["large"] <= 3.5


def test_a_rollout_of_equal_pods_is_what_packing_says() -> None:
    """However equal pods are spread, as many fit."""
    asked = as_offered([template("a"), template("b", 8, 32)], [kind(["a", "b"], 0.9, 1)], [23], {})
    same = request(asked, prices(a=1, b=1.9))
    for option in asked.options:
        assert rollout.to_go(option, same, Lookahead(same)) == 0.0


def test_no_time_to_play_leaves_the_packed_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout, "to_go", lambda *_: None)
    assert decide(two_groups(), prices(small=0.22, large=0.7)).action.groups == ("large",)


def test_recorded() -> None:
    """20 pods of 900m: c6g.4xlarge 3 * 0.584 = 1.752, c5.2xlarge 5 * 0.384 = 1.92, c5.large 20 * 0.096."""
    asked = decoded(RECORDED[0].read_bytes())
    costs = {group: float(t.labels["price"]) for group, t in asked.templates.items()}
    decision = decide(asked, prices(**costs))
    assert decision.action.groups == ("c6g.4xlarge",)
    assert decision.action.scores[0].total_per_hour == pytest.approx(1.752)


def brute_force(asked: Offer, costs: dict[str, float]) -> dict[str, float]:
    """Every sequence of choices, played with the caller's model: first group -> the cheapest of them."""
    found = {}
    for option in asked.options:
        left = [n - option.pods.get(i, 0) for i, n in enumerate(asked.pending)]
        follows = brute_force(as_offered(list(asked.templates.values()), asked.kinds, left, {}), costs)
        cost = option.nodes * costs[option.group]
        found[option.group] = cost + (min(follows.values()) if follows else 0.0)
    return found


@settings(max_examples=60)
@given(st.data())
def test_the_lookahead_is_the_best_sequence_of_steps(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.tuples(st.integers(1, 8), st.integers(2, 32)), min_size=2, max_size=4))
    groups = [f"g{i}" for i in range(len(sizes))]
    templates = [template(g, *size, pods=9) for g, size in zip(groups, sizes, strict=True)]
    kinds, pending = [], []
    for _ in range(data.draw(st.integers(1, 4))):
        allowed = data.draw(st.sets(st.sampled_from(groups), min_size=1))
        cpus, gib = data.draw(st.integers(1, 40)) / 10, data.draw(st.integers(1, 120)) / 10
        kinds.append(kind(sorted(allowed), cpus, gib, data.draw(st.booleans())))
        pending.append(data.draw(st.integers(1, 12)))
    asked = as_offered(templates, kinds, pending, {})
    costs = {g: data.draw(st.integers(1, 50)) / 10 for g in groups}
    expected = brute_force(asked, costs)
    lookahead = Lookahead(request(asked, prices(**costs)))
    for option in asked.options:
        step = option.nodes * costs[option.group]
        assert step + lookahead.after(option) == pytest.approx(expected[option.group])
        assert lookahead.bound(lookahead.left(option)) <= lookahead.after(option)
    assert decide(asked, prices(**costs)).action.groups or not asked.options


def test_equal_costs_go_to_the_plans_class() -> None:
    templates = [template("a"), template("b"), template("c")]
    asked = offer(templates, [kind(["a", "b", "c"])], [4], [1, 1, 1])

    def plan(problem: Problem, _: float) -> Solution:
        allocation = Allocation((Node("b", {problem.apps[0].name: 4}),))
        return Solution(allocation, 1.0, 1.0)

    decision = choose(request(asked, prices(a=1, b=1, c=1)), plan)
    assert decision.action.groups == ("b",)
    assert (decision.action.plan_per_hour, decision.action.fallback) == (1.0, None)
    assert "1 b for 1 USD" in " ".join(decision.reasons)
    assert decide(asked, prices(a=1, b=1, c=1)).action.groups == ("a",)


def test_a_failed_plan_is_said_and_the_choice_stands() -> None:
    decision = decide(two_groups(), prices(small=0.1, large=0.8))
    assert decision.action.groups == ("small",)
    assert decision.action.fallback == "not in this test"


def test_a_class_without_a_price_is_left_out_while_there_is_another() -> None:
    asked = offer([template("a"), template("b"), template("new")], [kind(["a", "b", "new"])], [4], [1, 1, 1])
    decision = decide(asked, prices(a=2, b=1))
    assert (decision.action.groups, decision.action.unpriced) == (("b",), ("new",))
    assert decide(asked, prices(a=2)).action.groups == ("a",)


def test_without_any_price_the_least_cpu() -> None:
    asked = offer(
        [template("big", 32), template("fit", 4), template("two", 4)], [kind(["big"])], [4], [1, 1, 2]
    )
    asked = Offer(
        tuple(Option(o.group, o.nodes, {0: 4}) for o in asked.options),
        asked.templates,
        asked.kinds,
        asked.pending,
    )
    decision = decide(asked, prices())
    assert decision.action.groups == ("fit",)
    assert decision.action.unpriced == ("big", "fit", "two")
    assert decision.action.fallback == "no option has a price"


def test_a_deadline_of_0_means_the_cheapest_that_fits() -> None:
    decision = decide(two_groups(), prices(small=0.1, large=0.8), deadline_s=0)
    assert decision.action.groups == ("small",)
    assert decision.action.fallback == "no time left to plan"


def test_the_cheapest_that_fits_is_the_least_for_a_pod_helped() -> None:
    options = [Option("a", 1, {0: 10}), Option("b", 2, {0: 25}), Option("c", 1, {0: 1})]
    assert cheapest_that_fits(options, {}, prices(a=1, b=1, c=0.5)).action.groups == ("b",)


@pytest.mark.parametrize("nodes", [0, -3])
def test_an_option_of_no_nodes_is_never_chosen_alone(nodes: int) -> None:
    asked = offer([template("a"), template("b")], [kind(["a", "b"])], [4], [nodes, 2])
    assert decide(asked, prices(a=0.1, b=5)).action.groups == ("b",)
    only = offer([template("a")], [kind(["a"])], [4], [nodes])
    assert decide(only, prices(a=1)).action.groups == ("a",)


def test_nothing_to_choose_from_is_no_valid_decision() -> None:
    """The caller keeps its options. A fallback is a valid decision."""
    nothing = decide(Offer((), {}, (), ()), prices())
    assert (nothing.action.groups, nothing.valid) == ((), False)
    empty = decide(offer([template("a"), template("b")], [kind(["a", "b"])], [4], [0, 0]), prices(a=1, b=2))
    assert (empty.action.groups, empty.valid) == (("a", "b"), False)
    assert decide(two_groups(), prices(small=0.1, large=0.8), deadline_s=0).valid


def test_the_age_of_the_catalogue_is_part_of_every_decision() -> None:
    aged = replace(prices(small=0.1, large=0.8), catalogue_age_s=7.0)
    for deadline_s in (10.0, 0.0):
        assert decide(two_groups(), aged, deadline_s).inputs_age_s == {"catalogue": 7.0}
    assert decide(two_groups(), prices(small=0.1, large=0.8)).inputs_age_s == {}


def test_the_plans_problem() -> None:
    """Groups that help the same kinds are a family; sizes are physical cores after DaemonSets."""
    templates = [template("a", 4, 16, 10), template("b", 8, 32, 20), template("c", 4, 16, 30)]
    kinds = [kind(["a", "b"], 1, 2), kind(["a", "b", "c"], 0.5, 1, alone=True)]
    asked = offer(templates, kinds, [3, 2], [1, 1, 1])
    costs = replace(prices(a=1, b=2, c=3), cpus_per_core=2.0)
    problem = as_problem(request(asked, costs, Overhead(1000, 1 << 30, 2)))
    assert [(c.name, c.family, c.cores, c.memory_gib, c.max_containers) for c in problem.classes] == [
        ("a", "family-0", 1.5, 15.0, 8),
        ("b", "family-0", 3.5, 31.0, 18),
        ("c", "family-1", 1.5, 15.0, 28),
    ]
    assert [(a.name, a.workload, a.max_per_node) for a in problem.apps] == [
        ("kind-0", 3.0, None),
        ("kind-1", 2.0, 1),
    ]
    assert problem.containers[("kind-0", "family-0")].cores == 0.5
    assert ("kind-0", "family-1") not in problem.containers


def test_a_problem_without_an_answer_is_no_plan() -> None:
    """The caller says it fits, our overhead says it does not: the caller is right, and we say so."""
    asked = offer([template("a", 2), template("b", 2)], [kind(["a", "b"], 2)], [1], [1, 1])
    with_overhead = request(asked, prices(a=1, b=2), Overhead(500))
    with pytest.raises(InfeasibleProblem):
        as_problem(with_overhead)
    decision = choose(with_overhead, no_plan)
    assert decision.action.groups == ("a",)
    assert "no plan can be made" in (decision.action.fallback or "")


@pytest.mark.parametrize("seconds", [math.nan, -1.0])
def test_a_deadline_that_means_nothing(seconds: float) -> None:
    with pytest.raises(ValueError, match="deadline"):
        Deadline.after(seconds)


def test_plan_failed_is_what_solves_raise() -> None:
    with pytest.raises(PlanFailed):
        no_plan(None, 0.0)  # type: ignore[arg-type]
