"""The phases, each against what the paper prints for it."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace

import pytest

from cluster_autoscaler_hook.solver import problem_file
from cluster_autoscaler_hook.solver.deadline import Deadline
from cluster_autoscaler_hook.solver.model import Allocation, App, Container, InstanceClass, Problem
from cluster_autoscaler_hook.solver.paper import paper
from cluster_autoscaler_hook.solver.paper.container_allocation import PlacedNode, allocate, most_by_sfmpl
from cluster_autoscaler_hook.solver.paper.node_aggregation import (
    AggregationSet,
    aggregate_nodes,
    aggregation_sets,
)
from cluster_autoscaler_hook.solver.paper.partial_ilp import candidate_classes, solve_partial
from cluster_autoscaler_hook.solver.verifier import violations
from tests.cluster_autoscaler_hook.solver.builders import EXAMPLES, PROBLEMS

TABLE_3 = problem_file.load(EXAMPLES / "table3.json")
SIZES = (1, 2, 4, 8, 18, 24, 36, 48)


def soon() -> Deadline:
    return Deadline.after(60)


def family_a(*apps: App, containers: dict[str, Container], memory: int = 4) -> Problem:
    """Family A of table 3, AM with a higher price than AC by a tenth."""
    lean = tuple(InstanceClass(f"AC{n}", "A", n, memory * n, n * 0.1) for n in SIZES)
    wide = tuple(InstanceClass(f"AM{n}", "A", n, 4 * memory * n, n * 0.11) for n in SIZES)
    return Problem(apps, lean + wide, {(name, "A"): c for name, c in containers.items()})


def small(cores: float, memory: float = 0.0) -> Container:
    return Container(cores, 1.0, (1,), (memory,))


def nodes_of(placed: list[PlacedNode]) -> list[tuple[str, dict[str, int]]]:
    return [(node.filling.instance_class.name, node.filling.counts) for node in placed]


# Phase 1


def test_simplifications_leave_the_classes_of_fig_4a() -> None:
    assert [c.name for c in candidate_classes(TABLE_3)] == [
        *("AC1", "AC2", "AC8", "AC18"),
        *("BC1", "BC2", "BC8", "BC18"),
    ]


def test_a_multiple_stays_if_a_container_fits_only_the_large_class() -> None:
    problem = family_a(App("a", 1.0), containers={"a": small(3.0)})
    # AC4 takes it and AC8, 24, 36 and 48 are multiples of AC4; AC18 is not.
    assert [c.name for c in candidate_classes(problem)] == ["AC4", "AC18"]


def test_a_multiple_at_a_lower_price_stays() -> None:
    problem = Problem(
        (App("a", 1.0),),
        (InstanceClass("S", "F", 1, 4, 0.1), InstanceClass("L", "F", 2, 8, 0.19)),
        {("a", "F"): small(0.5)},
    )
    assert [c.name for c in candidate_classes(problem)] == ["S", "L"]


def test_the_partial_ilp_covers_the_workload_within_its_gap() -> None:
    partial = solve_partial(TABLE_3, soon())
    for app in TABLE_3.apps:
        served = sum(
            count * TABLE_3.containers[pair].performance
            for pair, count in partial.containers.items()
            if pair[0] == app.name
        )
        assert served >= app.workload * (1 - 1e-9)
    cost = sum(TABLE_3.class_by_name[name].price_per_hour * n for name, n in partial.nodes.items())
    # 19 BC8 + 11 BC2 + 4 AC1 cost 12.58: the bound cannot be higher, nor the answer over 2 % above it.
    assert partial.bound_per_hour <= 12.58 + 1e-6
    assert cost <= partial.bound_per_hour / (1 - 0.02) + 1e-6


def test_a_container_too_large_for_its_family_is_left_out() -> None:
    problem = Problem(
        (App("a", 1.0),),
        (InstanceClass("S", "F", 1, 1, 0.1), InstanceClass("G", "G", 1, 4, 5.0)),
        {("a", "F"): small(0.5, 2.0), ("a", "G"): small(0.5, 2.0)},
    )
    assert solve_partial(problem, soon()).containers == {("a", "G"): 1}


# Phase 2


def test_aggregation_sets_of_fig_6() -> None:
    def of(target: int, **nodes: int) -> AggregationSet:
        sizes = SIZES[: SIZES.index(target)]
        return AggregationSet(SIZES.index(target), tuple(nodes.get(f"n{size}", 0) for size in sizes))

    expected = [
        *(of(2, n1=2), of(4, n2=2), of(8, n4=2), of(18, n2=1, n8=2)),
        *(of(24, n8=3), of(24, n2=1, n4=1, n18=1)),
        *(of(36, n18=2), of(36, n4=1, n8=1, n24=1), of(36, n2=1, n8=2, n18=1)),
        *(of(48, n24=2), of(48, n4=1, n8=1, n36=1), of(48, n2=1, n4=1, n18=1, n24=1)),
    ]
    assert sorted(aggregation_sets(SIZES), key=repr) == sorted(expected, key=repr)


def test_the_worked_example_of_node_aggregation() -> None:
    assert aggregate_nodes(TABLE_3, {"AC2": 12, "AC8": 3, "AC18": 8}, soon()) == {"AC48": 4}


def test_nodes_of_other_families_or_prices_are_not_merged() -> None:
    before = {"AC1": 1, "AM1": 1, "BC1": 1}
    assert aggregate_nodes(TABLE_3, before, soon()) == before


# Phases 2 to 4, from the output of phase 1 as printed


def test_table_3_gives_fig_4() -> None:
    nodes = aggregate_nodes(TABLE_3, {"AC1": 4, "BC18": 10}, soon())
    assert nodes == {"AC4": 1, "BC36": 5}
    placed = allocate(TABLE_3, nodes, {("A1", "A"): 6, ("A2", "B"): 20, ("A3", "B"): 18})
    assert nodes_of(placed) == [
        ("AC4", {"A1": 6}),
        *[("BC36", {"A2": 4, "A3": 4})] * 4,
        ("BC36", {"A2": 4, "A3": 2}),
    ]
    allocation = Allocation(tuple(node.filling.frozen() for node in placed))
    assert allocation.cost_per_hour(TABLE_3) == pytest.approx(13.0)
    assert violations(TABLE_3, allocation) == []
    aggregated: Counter[tuple[str, int]] = Counter()
    for node in allocation.nodes:
        family = TABLE_3.class_by_name[node.instance_class].family
        for name, count in node.containers.items():
            containers = TABLE_3.containers[name, family].aggregation.containers(count)
            aggregated.update({(name, level): n for level, n in containers.items()})
    assert aggregated == {("A1", 4): 1, ("A1", 2): 1, ("A2", 1): 20, ("A3", 2): 9}


def test_table_3_costs_no_more_than_the_paper_says() -> None:
    """13.0 is printed, found with a gap of 5 % (the authors' example_article.py); 2 % finds cheaper."""
    solution = paper.solve(TABLE_3, soon())
    assert violations(TABLE_3, solution.allocation) == []
    assert solution.lower_bound_per_hour <= 12.58 + 1e-6
    assert solution.cost_per_hour <= 13.0
    assert [step[:8] for step in solution.steps if step.startswith("Phase")] == [
        f"Phase {n}:" for n in (1, 2, 3, 4)
    ]


# Phase 3


@pytest.mark.parametrize(
    ("sfmpl", "workload", "most"),
    [(0.25, 8.0, 2), (0.25, 7.0, 1), (0.5, 1.0, 1), (0.1, 3.0, 1), (1.0, 3.5, 4), (0.3, 10.0, 3)],
)
def test_eq_9(sfmpl: float, workload: float, most: int) -> None:
    assert most_by_sfmpl(App("a", workload, sfmpl), small(1.0)) == most


def test_sfmpl_is_met_where_it_costs_nothing() -> None:
    problem = family_a(App("a", 8.0, 0.5), containers={"a": small(1.0)})
    placed = allocate(problem, {"AC8": 2}, {("a", "A"): 8})
    assert nodes_of(placed) == [("AC8", {"a": 4}), ("AC8", {"a": 4})]


def test_sfmpl_gives_way_to_cost() -> None:
    problem = family_a(App("a", 8.0, 0.5), containers={"a": small(1.0)})
    assert nodes_of(allocate(problem, {"AC8": 1}, {("a", "A"): 8})) == [("AC8", {"a": 8})]


def test_nodes_below_the_limit_are_filled_before_it_is_broken() -> None:
    """Attempt 2 before attempt 3: AC8 stays at its 4 as long as AC2 has room."""
    problem = family_a(App("a", 8.0, 0.5), containers={"a": small(1.0)})
    assert nodes_of(allocate(problem, {"AC2": 1, "AC8": 1}, {("a", "A"): 6})) == [
        ("AC2", {"a": 2}),
        ("AC8", {"a": 4}),
    ]


def test_the_cheapest_promotion_of_the_paper() -> None:
    """AC2 with 0.5 and AC8 with 0.4 free cores: one core more promotes AC2 to AC4, not AC8 to AC18."""
    containers = {"big": small(7.6), "mid": small(1.5), "one": small(1.0)}
    problem = family_a(App("big", 1.0), App("mid", 1.0), App("one", 1.0), containers=containers)
    placed = allocate(problem, {"AC2": 1, "AC8": 1}, {("big", "A"): 1, ("mid", "A"): 1, ("one", "A"): 1})
    assert nodes_of(placed) == [("AC4", {"mid": 1, "one": 1}), ("AC8", {"big": 1})]
    before = placed[0].before_promotion
    assert before is not None
    assert (before.instance_class.name, before.counts) == ("AC2", {"mid": 1})


def test_a_promotion_may_be_to_more_memory() -> None:
    problem = family_a(App("a", 2.0), containers={"a": small(0.5, 4.0)})
    assert nodes_of(allocate(problem, {"AC1": 1}, {("a", "A"): 2})) == [("AM1", {"a": 2})]


def test_nodes_are_added_when_no_promotion_is_possible() -> None:
    problem = family_a(App("a", 10.0), containers={"a": small(16.0)})
    placed = allocate(problem, {"AC48": 1}, {("a", "A"): 10})
    assert [name for name, _ in nodes_of(placed)] == ["AC48", "AC48", "AC48", "AC18"]
    assert sum(counts["a"] for _, counts in nodes_of(placed)) == 10


def test_promotions_are_reverted_if_adding_is_cheaper() -> None:
    """2 of 17 cores: AC18 + AC18, not AC36; here one AC18 is promoted to AC24 for 7 more cores and 1.5
    cores are better served by an AC2."""
    containers = {"big": small(17.0), "one": small(1.5)}
    problem = family_a(App("big", 1.0), App("one", 1.0), containers=containers)
    assert nodes_of(allocate(problem, {"AC18": 1}, {("big", "A"): 1, ("one", "A"): 1})) == [
        ("AC24", {"big": 1, "one": 1})
    ]
    solution = paper.solve(problem, soon())
    assert Counter(node.instance_class for node in solution.allocation.nodes) == {"AC18": 1, "AC2": 1}


def test_hard_limits_hold() -> None:
    problem = family_a(App("a", 6.0, max_per_node=2), containers={"a": small(0.5)})
    solution = paper.solve(problem, soon())
    assert violations(problem, solution.allocation) == []
    few_pods = replace(
        problem,
        apps=(App("a", 6.0),),
        classes=tuple(replace(c, max_containers=2) for c in problem.classes),
    )
    assert violations(few_pods, paper.solve(few_pods, soon()).allocation) == []


def test_memory_is_checked_after_aggregation() -> None:
    """8 of one app fit 1 GiB as one container; 7 would be three of them."""
    container = Container(0.1, 1.0, (1, 2, 4, 8), (1.0, 1.0, 1.0, 1.0))
    problem = Problem((App("a", 8.0),), (InstanceClass("S", "F", 1, 1, 0.1),), {("a", "F"): container})
    assert nodes_of(allocate(problem, {"S": 1}, {("a", "F"): 8})) == [("S", {"a": 8})]


def test_without_time_first_fit_answers() -> None:
    solution = paper.solve(TABLE_3, Deadline.after(0))
    assert solution.deadline_reached
    assert violations(TABLE_3, solution.allocation) == []
    assert 0 < solution.lower_bound_per_hour <= solution.cost_per_hour


# The authors' program

with (PROBLEMS / "reference.csv").open() as reference:
    REFERENCE = list(csv.DictReader(reference))


@pytest.mark.parametrize("row", REFERENCE, ids=lambda row: row["scenario"][:12])
def test_the_authors_program_gives_about_the_same(row: dict[str, str]) -> None:
    sfmpl = 1.0 if row["scenario"].startswith("scalability") else 0.5
    problem = problem_file.load(PROBLEMS / f"{row['scenario']}.json", sfmpl)
    solution = paper.solve(problem, soon())
    assert violations(problem, solution.allocation) == []
    # Both stop within 2 % of the partial ILP's optimum, and not at the same solution.
    assert solution.cost_per_hour <= float(row["cost"]) * 1.03
    assert solution.lower_bound_per_hour >= float(row["lower_bound"]) * 0.98
    assert solution.cost_per_hour >= float(row["best_known_bound"]) * (1 - 1e-4)
