"""Ratios, and which way round they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.escra.figures import figures, reaction_figures
from experiments.escra.pictures import draw_all
from experiments.escra.plan import Plan
from experiments.results.sections import SECTIONS

PLAN = replace(
    Plan(),
    applications=("media",),
    loads=("fixed", "burst"),
    arms=("static_1", "no_limit", "ours_1", "ours_1_5"),
)
PEAKS = {("media", load): {"front": {"cores": 0.4, "mib": 100.0}} for load in PLAN.loads}


def run(p999_ms: float, slack: float | None, **given: Any) -> dict[str, Any]:
    of = slack and {"p50": slack, "p99": 2 * slack, "cdf": [slack] * 21}
    return {
        "answers": {
            "requests": 100, "failed": 10, "p50_ms": 1.0, "p99_ms": 2.0, "p999_ms": p999_ms,
            "throughput_per_s": 90.0,
        },
        "oom_kills": 1, "oom_kills_with_memory_left": 1, "restarts": 1, "ready": True,
        "cpu_slack_cores": of, "memory_slack_mib": of or None,
        "mean_limit_cores": 0.3, "most_limit_cores": 0.42, "mean_used_cores": 0.2, "throttled_share": 0.1,
        "reactions_ms": [50.0, 100.0], "reactions_unanswered": 3,
    } | given  # fmt: skip


def found() -> dict[str, Any]:
    values = {
        "static_1": run(40.0, 0.2), "no_limit": run(8.0, None), "ours_1": run(10.0, 0.1),
        "ours_1_5": run(9.0, 0.1, oom_kills=0, oom_kills_with_memory_left=0),
    }  # fmt: skip
    runs = {each.key: values[each.arm.name] for each in PLAN.runs()}
    slow = next(key for key in runs if key.startswith("media/burst") and "static_1" in key)
    runs[slow] = run(160.0, 0.2)
    return figures(runs, PLAN, PEAKS)


def test_above_1_ours_is_better() -> None:
    latency = found()["latency_ratio"]
    assert latency["static_1"]["by_load"] == {"media/fixed": 4.0, "media/burst": 8.0}
    assert latency["static_1"]["best"] == 8.0
    assert latency["static_1"]["mean"] == pytest.approx(32**0.5, abs=1e-3)
    assert latency["static_1"]["low"] <= latency["static_1"]["mean"] <= latency["static_1"]["high"]
    assert latency["no_limit"]["mean"] == pytest.approx(8 / 9, abs=1e-3)
    assert found()["throughput_ratio"]["static_1"]["mean"] == 1.0


def test_no_limit_has_no_slack_to_compare() -> None:
    ratios = found()["cpu_slack_ratio"]
    assert set(ratios) == {"static_1"}
    assert ratios["static_1"]["p50"]["mean"] == ratios["static_1"]["p99"]["mean"] == 2.0


def test_counts_of_all_runs() -> None:
    kills = found()["oom_kills"]
    assert kills == {"ours": 4, "ours_1": 4, "ours_1_5": 0, "static_1": 4, "no_limit": 4}
    left = found()["oom_kills_with_memory_left"]
    assert left == kills
    assert found()["over_the_limit"] == {"ours_1": 1.05, "ours_1_5": 0.7}
    assert found()["reaction_ms_of_applications"]["unanswered"] == 24


def test_reactions_without_an_episode() -> None:
    assert reaction_figures([], 2, 200) == {"containers": 200, "episodes": 0, "unanswered": 2}
    assert reaction_figures([10.0, 20.0, 30.0], 0, 200)["p50"] == 20.0


def test_the_pages_section_shows_each_baseline() -> None:
    section = SECTIONS["escra"](found())
    assert [row[0] for row in section.rows] == ["static limits, 1 x peak", "no CPU limit"]
    assert [row[-1] for row in section.rows] == ["4, 4", "4, 0"]
    assert any("memory left" in note and "ours_1_5 0" in note for note in section.notes)
    assert all(len(row) == len(section.columns) for row in section.rows)


def test_a_picture_of_the_sweep_has_a_panel_for_each_parameter(tmp_path: Path) -> None:
    at = {"exponential": {"p999_ms": 9.0}, "burst": {"p999_ms": 12.0}}
    sweep = {f"{name}={value}": at for name in ("paper upsilon", "ours_1_5 gamma") for value in (10, 20)}
    (drawn,) = draw_all({"latency_ratio": {}, "sweep": sweep}, tmp_path)
    assert drawn.name == "sweep.png"
    assert drawn.stat().st_size > 1000


def test_pictures(tmp_path: Path) -> None:
    steps = {
        "at_s": [0, 1],
        "limit_cores": [1, 1],
        "used_cores": [0, 1],
        "mean_slack_cores": 0.5,
        "throttled_share": 0,
    }
    drawn = draw_all(found() | {"stepping": {"ours_1_5": steps}}, tmp_path)
    assert {file.name for file in drawn} == {"ratios.png", "slack.png", "stepping.png"}
    assert all(file.stat().st_size > 1000 for file in drawn)
