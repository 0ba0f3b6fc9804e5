"""The bench's figures, on problems small enough for a test; the sets themselves are run by hand."""

from __future__ import annotations

import shutil
from itertools import islice
from pathlib import Path

import pytest

from cluster_autoscaler_hook.solver.solve import Variant
from experiments.fcma import bench, random_problems
from tests.cluster_autoscaler_hook.solver.builders import PROBLEMS

TOP = {
    *("cost_ratio_total", "cost_ratio_mean", "cost_ratio_worst", "bound_ratio_mean"),
    *("seconds_mean", "seconds_worst", "unsolved"),
}


def quiet(text: str) -> None:
    pass


@pytest.fixture
def recorded(tmp_path: Path) -> list[bench.BenchProblem]:
    folder = tmp_path / "paper80"
    folder.mkdir()
    lines = (PROBLEMS / "reference.csv").read_text().splitlines()
    (folder / "reference.csv").write_text("\n".join(line for line in lines if "scalability" not in line))
    for path in PROBLEMS.glob("fcma_prob_*.json"):
        shutil.copy(path, folder)
    return bench.recorded_set("paper80", tmp_path)


def test_every_variant_beside_the_reference(recorded: list[bench.BenchProblem]) -> None:
    said: list[str] = []
    figures = bench.run(recorded, bench.Deadlines(2, 60), said.append)
    assert figures.keys() >= TOP
    assert len(said) == len(recorded) == len(figures["rows"]) == 3
    assert {"paper", "ffc", "ffp"} <= figures.keys()
    assert figures["unsolved"] == figures["paper"]["unsolved"] == 0
    assert figures["paper"]["cost_ratio_mean"] == pytest.approx(1.0, abs=0.03)
    assert figures["ffc"]["cost_ratio_mean"] > 1
    for row in figures["rows"]:
        assert row["reference_cost"] >= row["best_known_bound"] * (1 - 1e-6)
        for variant in Variant:
            assert row[variant]["bound_ratio"] >= 1 - 1e-6


def test_fresh_problems_have_variant_paper_as_reference() -> None:
    problems = [p for p in bench.random_set("paper80", 30, [2]) if len(p.problem.apps) <= 2][:2]
    figures = bench.run(problems, bench.Deadlines(2, 60), quiet, paper_is_reference=True)
    assert figures["paper"]["cost_ratio_total"] == pytest.approx(1.0)
    assert figures["compared"] == 2


def test_node_recycling_solves_twice() -> None:
    problems = [p for p in bench.random_set("paper80", 30, [2]) if len(p.problem.apps) == 1][:1]
    figures = bench.run(
        problems, bench.Deadlines(2, 60), quiet, variants=[Variant.PAPER, Variant.FFC], recycling=True
    )
    assert 0 <= figures["paper"]["node_recycling"] <= 1


def test_quick_is_spread_out() -> None:
    problems = bench.random_set("paper80", 10, [1])
    assert [p.name for p in bench.spread_out(problems, 5)] == [f"paper80-1-{n}" for n in (0, 2, 4, 6, 8)]
    assert bench.spread_out(problems, 99) == problems


@pytest.mark.parametrize("draw", [random_problems.paper_grid, random_problems.scalability])
def test_a_seed_gives_the_same_problems(draw: type) -> None:
    assert list(islice(draw(4), 3)) == list(islice(draw(4), 3))
    assert list(islice(draw(4), 3)) != list(islice(draw(5), 3))


def test_fresh_problems_are_of_the_papers_kinds() -> None:
    grid = list(islice(random_problems.paper_grid(1), 80))
    assert {len(p.apps) for p in grid} == {1, 2, 5, 15, 30}
    assert {len(p.classes) for p in grid} == {24, 105}
    scalability = list(islice(random_problems.scalability(1), 20))
    assert all(1 <= len(p.apps) <= 100 for p in scalability)
    assert {app.sfmpl for p in scalability for app in p.apps} == {1.0}
