"""docs/results.md: written from the files beside it, with nothing typed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.results.about import about
from experiments.results.checked_figures import UnknownBench, bench_of
from experiments.results.command import keep, with_table, write
from experiments.results.page import page, summary_table
from experiments.results.plot import Lines
from experiments.results.sections import section

DOCS = Path(__file__).parents[3] / "docs"
ABOUT = {
    "command": "surgekit bench knee-search --noise 0.03",
    "date": "2026-11-18",
    "commit": "abc",
    "cores": 2,
    "memory_gib": 24,
}
SEARCHES = {
    "ours": {
        "within": {"mean": 0.75, "low": 0.7, "high": 0.79},
        "error_mean": 0.0251,
        "samples_mean": 7.25,
        "samples_most": 12,
    }
}
FIGURES: dict[str, Any] = {
    "about": ABOUT,
    "curves": 400,
    "noise": 0.03,
    "searches": SEARCHES,
    "by_curve": [{"name": "a"}],
}


def test_the_page_is_what_the_kept_figures_say(tmp_path: Path) -> None:
    """If this fails: `surgekit bench results` writes it."""
    data = {file.name: json.loads(file.read_text()) for file in (DOCS / "results" / "data").glob("*.json")}
    assert data
    assert (DOCS / "results.md").read_text() == page(data)
    readme = (DOCS.parent / "README.md").read_text()
    table = summary_table(data)
    assert table in readme
    assert with_table(readme, table) == readme


def test_a_table_has_its_command_its_date_and_its_interval(tmp_path: Path) -> None:
    written = page({"knee-search.json": FIGURES})
    assert "`surgekit bench knee-search --noise 0.03`, 2026-11-18, 2 cores, 24 GiB, commit abc:" in written
    assert "| ours | 75% (70% to 79%) | 2.5% | 7.2 (12) |" in written
    assert "400 curves" in written


def test_what_is_kept_has_no_raw_measurements(tmp_path: Path) -> None:
    file = tmp_path / "knee-search.json"
    file.write_text(json.dumps(FIGURES))
    (kept,) = keep([file], tmp_path / "docs")
    assert json.loads(kept.read_text()) == {k: v for k, v in FIGURES.items() if k != "by_curve"}
    assert write(tmp_path / "docs").read_text() == page({"knee-search.json": FIGURES})


RATIO = {"geomean": 1.254, "low": 1.1, "high": 1.4}
CELL = {"measured_s": 1.0, "lower_quartile_s": 0.9, "upper_quartile_s": 1.1, "emulated_s": 1.2, "error": 0.2}
PANEL = {"title": "a", "unit": "s", "lines": [{"name": "x", "at_s": [2, 4, 8], "values": [1.0, 2.0, 3.0]}]}
COSTS = {
    "cost_ratio_total": 0.966,
    "cost_ratio_mean": 0.98,
    "cost_ratio_worst": 1.0,
    "bound_ratio_mean": 1.005,
}


@pytest.mark.parametrize(
    ("command", "figures", "row"),
    [
        (
            "combofunc --simulated",
            {"simulated": True, "seeds": [1, 2]}
            | {key: {"stock": RATIO} for key in ("time_ratio", "unit_cost_ratio", "cost_ratio")},
            ("a Deployment of one size, stock scheduler", *["1.25 (1.10 to 1.40)"] * 3),
        ),
        (
            "placement --simulated",
            {
                "points": [
                    {"step_s": 5.0, "spread": 0.34, "probe_age_s": {"mean": 3.14}}
                    | {"speedup": dict.fromkeys(("ours", "known", "counted"), RATIO)}
                ]
            },
            ("5 s", "0.34", *["1.25 (1.10 to 1.40)"] * 3, "3.1 s"),
        ),
        (
            "extender --nodes 5000",
            {"nodes": 5000, "rounds": 9, "ratio": RATIO, "outside_ratio": RATIO, "stock_pods_per_s": 150.2}
            | {"prioritize_ms_p50": 0.5, "prioritize_ms_p99": 4.0},
            ("pods/s with the extender / stock", "1.25 (1.10 to 1.40)"),
        ),
        (
            "expander",
            {"mixes": 240}
            | {f"cost over {name}": RATIO for name in ("least-waste", "price", "most-pods", "random")}
            | {f"worst over {name}": 1.5 for name in ("least-waste", "price", "most-pods", "random")},
            ("least-waste", "1.254 (1.100 to 1.400)", "1.50"),
        ),
        (
            "fcma --set paper80",
            {"set": "paper80", "problems": 40, **COSTS, "paper": COSTS | {"cost_ratio_mean": 1.01}},
            ("ours", "0.966", "0.980", "1.000", "1.005"),
        ),
        (
            "nodes",
            {key: {"karpenter": RATIO | {"worst": 1.5}} for key in ("cost_ratio", "time_ratio")},
            ("cost of the nodes", "1.25 (1.10 to 1.40)", "1.50"),
        ),
        (
            "placement --rounds 7",
            {"speedup": RATIO, "equal_nodes_speedup": None, "speedup_worst_round": 1.1},
            ("seconds until all pods are Ready", "1.25 (1.10 to 1.40)"),
        ),
        (
            "kneescale --simulated",
            {"ratio_over": {"stationary": {"hpa30": RATIO}, "dynamic": {"constant": RATIO}}},
            ("hpa30", "1.25 (1.10 to 1.40)", ""),
        ),
        (
            "planner",
            {
                "instances": 400,
                "p99_cpu_ms_16x16": 9.0,
                "cpu_ms_5000x16": 300.0,
                "short": 0,
                "greedy_short": 3,
            }
            | {
                "excess_mean": 0.0,
                "excess_worst": 0.0,
                "greedy_excess_mean": 0.157,
                "greedy_excess_worst": 4.65,
            },
            ("ours", "0.00%", "0.0%", "0"),
        ),
        (
            "dashboard",
            {"parts": ["probe"], "seconds": 60, "silent": ["b"], "answered": [PANEL]},
            ("a", "1"),
        ),
        (
            "node-model --pulls-only",
            {
                "image_pull": {"cells": {"large": CELL}, "fixed_s": 0.1, "mebibytes_per_s": 170.0}
                | {"pull_error_mean": 0.05, "pull_error_worst": 0.2}
            },
            ("large", "1.00", "0.90 to 1.10", "1.20", "20%"),
        ),
    ],
)
def test_each_bench_has_its_section(command: str, figures: dict[str, Any], row: tuple[str, ...]) -> None:
    found = section({"about": ABOUT | {"command": f"surgekit bench {command}"}} | figures)
    assert tuple(map(str, found.rows[0])) == row
    assert {len(row) for row in found.rows} == {len(found.columns)}


def test_the_readme_says_what_came_out_and_where_ours_is_behind() -> None:
    worse = RATIO | {"geomean": 0.9}
    about = ABOUT | {"command": "surgekit bench combofunc --simulated"}
    figures: dict[str, Any] = {"about": about, "seeds": [1]}
    figures |= {
        "time_ratio": {"stock": RATIO},
        "unit_cost_ratio": {"stock": RATIO},
        "cost_ratio": {"stock": worse},
    }
    said = summary_table({"a.json": figures, "b.json": FIGURES})
    assert "a stock Deployment takes 1.25 (1.10 to 1.40) times as long" in said
    assert "cost of what was asked for against a Deployment of one size, stock scheduler: 0.90" in said
    assert "time against" not in said, "it is surely above 1"
    assert said.splitlines()[-1].startswith("| KneeScale's search | 75% (70% to 79%) of unknown curves")
    assert with_table("no marks", said) == "no marks"


def test_both_worlds_of_trimaran_are_told() -> None:
    keys = ("time_ratio", "unit_cost_ratio", "cost_ratio")
    about = ABOUT | {"command": "surgekit bench combofunc --simulated"}
    blind = {key: {"trimaran": RATIO | {"geomean": 3.0}} for key in keys}
    figures = {"about": about, "seeds": [1], "load_hides_speed": blind}
    figures |= {key: {"stock": RATIO, "trimaran": RATIO} for key in keys}
    found = section(figures)
    assert tuple(map(str, found.rows[1])) == ("one size, placed by Trimaran", *["1.25 (1.10 to 1.40)"] * 3)
    (note,) = [note for note in found.notes if "Trimaran" in note]
    assert note.endswith("its row is 3.00 (1.10 to 1.40), 3.00 (1.10 to 1.40), 3.00 (1.10 to 1.40).")


def test_placement_is_summed_up_where_busy_nodes_are() -> None:
    about = ABOUT | {"command": "surgekit bench placement --simulated"}
    points = [
        {"step_s": step_s, "spread": spread, "probe_age_s": {"mean": 3.0}}
        | {"speedup": dict.fromkeys(("ours", "known", "counted"), RATIO | {"geomean": gain})}
        for step_s, spread, gain in ((20.0, 0.34, 1.3), (60.0, 0.34, 1.4), (60.0, 0.0, 0.99))
    ]
    said = summary_table({"a.json": {"about": about, "points": points}})
    assert "200 pods take 1.30 (1.10 to 1.40) times as long" in said
    assert "on nodes of equal speed: 0.99" in said


def test_the_extenders_line_says_only_what_was_measured() -> None:
    slow = {"median": 0.8, "low": 0.7, "high": 0.9}
    figures: dict[str, Any] = {"about": ABOUT | {"command": "surgekit bench extender"}, "nodes": 1000}
    figures |= {"rounds": 9, "ratio": RATIO, "outside_ratio": slow, "stock_pods_per_s": 150.0}
    said = summary_table({"a.json": figures | {"prioritize_ms_p50": 0.5, "prioritize_ms_p99": 4.0}})
    assert "pods that did not opt in: 0.80 (0.70 to 0.90) of stock's pods/s" in said


def test_a_bench_that_no_section_shows_is_refused(tmp_path: Path) -> None:
    unknown = FIGURES | {"about": ABOUT | {"command": "surgekit bench adapter"}}
    with pytest.raises(UnknownBench, match="bench adapter"):
        section(unknown)
    file = tmp_path / "adapter.json"
    file.write_text(json.dumps(unknown))
    with pytest.raises(UnknownBench):
        keep([file], tmp_path)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text("{}")
    with pytest.raises(UnknownBench, match="about"):
        keep([file], tmp_path)


def test_live_and_simulated_are_two_benches() -> None:
    simulated = {"about": ABOUT | {"command": "surgekit bench combofunc --seeds 1-2 --simulated"}}
    assert bench_of(simulated) == "combofunc --simulated"
    assert bench_of({"about": ABOUT}) == "knee-search"


def test_a_command_is_kept_without_where_its_output_went(monkeypatch: pytest.MonkeyPatch) -> None:
    argv = [
        "/usr/bin/surgekit",
        "bench",
        "combofunc",
        "--json",
        "/a/b.json",
        "--simulated",
        "--plots",
        "/c d",
    ]
    monkeypatch.setattr(sys, "argv", argv)
    said = about()
    assert said["command"] == "surgekit bench combofunc --simulated"
    assert said["cores"] >= 1


def kneescale(constant: dict[str, float], *loads: str) -> dict[str, Any]:
    arm = {"replicas": RATIO, "latency": RATIO, "requests": RATIO, "better_in_both": False}
    return {"about": ABOUT | {"command": "surgekit bench kneescale --simulated"}} | {
        "ratio_over": {load: {"constant": constant, "hpa40": RATIO} for load in loads},
        "front": {load: {"constant": arm, "hpa40": arm} for load in loads},
    }


@pytest.mark.parametrize(
    ("low", "result", "behind"),
    [(1.01, "1.25 (1.01 to 1.40) times that of a constant number", ""), (0.9, "", "1.25 (0.90 to 1.40)")],
)
def test_kneescale_is_behind_unless_it_is_surely_ahead(low: float, result: str, behind: str) -> None:
    said = section(kneescale(RATIO | {"low": low}, "dynamic")).summary
    assert said is not None
    assert result in said.result
    assert ("constant" in said.result) is bool(result)
    assert behind in said.behind
    assert bool(said.behind) is bool(behind)


def test_budgets_and_loads_of_our_own_are_not_what_the_readme_is_about() -> None:
    found = section(kneescale(RATIO, "dynamic", "dynamic, 2 x budget"))
    assert found.title.endswith("(dynamic, 2 x budget)")
    assert found.summary is None
    assert section(kneescale(RATIO, "bursts")).title.endswith("(bursts)")


def test_one_seed_of_escras_bench_gives_no_line_in_the_readme() -> None:
    file = next((DOCS / "results" / "data").glob("escra*.json"))
    figures = json.loads(file.read_text())
    assert section(figures | {"seeds": [2001]}).summary is None
    assert section(figures | {"seeds": [2001, 2002, 2003]}).summary is not None


def test_a_line_of_the_dashboard_has_gaps_where_prometheus_had_no_answer() -> None:
    line = {"name": "x", "at_s": [2, 4, 8], "values": [1.0, 2.0, 3.0]}
    figures = {
        "parts": [],
        "seconds": 8,
        "silent": [],
        "answered": [{"title": "a", "unit": "s", "lines": [line]}],
    }
    (plot,) = section({"about": ABOUT | {"command": "surgekit bench dashboard"}} | figures).plots
    assert isinstance(plot, Lines)
    assert [(p.x, p.y) for p in plot.curves[0].points] == [(2, 1), (4, 2), (6, None), (8, 3)]
