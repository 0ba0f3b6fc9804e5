"""What is compared with what, on which loads, in which order."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.escra.applications import APPLICATIONS, Application
from experiments.escra.arms import ARMS, BASELINES, OURS, sums
from experiments.escra.plan import Plan, add_finished, read_finished
from experiments.seeds import REPORTED, SWEEP

PEAKS = {
    "a": {"cores": 0.2, "mib": 100.0},
    "b": {"cores": 0.1234567, "mib": 55.5},
    "c": {"cores": 1e-6, "mib": 1},
}


@pytest.mark.parametrize(
    ("static", "ours"),
    [(s, o) for s, o in BASELINES.items() if not ARMS[s].memory_factor and s.startswith("static")],
)
def test_ours_gets_the_sum_of_the_static_arm(static: str, ours: str) -> None:
    limits = ARMS[static].limits(PEAKS).values()
    quotas, memory = [limit.quota_us or 0 for limit in limits], [limit.memory_bytes or 0 for limit in limits]
    assert sums(PEAKS, ARMS[ours].factor) == (sum(quotas), sum(memory))
    assert ARMS[static].factor == ARMS[ours].factor


def test_specs_of_the_other_arms() -> None:
    static = ARMS["static_1_5"].limits(PEAKS)
    assert (static["a"].quota_us, static["a"].memory_bytes) == (30_000, 150 << 20)
    assert static["c"].quota_us == 1_000  # the kernel's least
    assert {(one.quota_us, one.memory_bytes) for one in ARMS["no_limit"].limits(PEAKS).values()} == {
        (None, limit.memory_bytes) for limit in static.values()
    }
    assert all(one.burst_us == one.quota_us for one in ARMS["burst"].limits(PEAKS).values())
    split = ARMS["static_1_cpu"].limits(PEAKS)
    assert (split["a"].quota_us, split["a"].memory_bytes) == (20_000, 150 << 20)
    whole = sums(PEAKS, 1.0)
    assert {(one.quota_us, one.memory_bytes) for one in ARMS["ours_1"].limits(PEAKS).values()} == {whole}


def test_everything_is_compared_with_one_of_ours() -> None:
    assert set(BASELINES) | set(OURS) == set(ARMS)
    assert all(ARMS[ours].ours for ours in OURS)


def test_arms_alternate_on_the_same_loads() -> None:
    plan = Plan()
    runs = [(run.application, run.load, run.seed, run.arm.name) for run in plan.runs()]
    assert set(Counter(runs).values()) == {1}
    assert len(runs) == 2 * 4 * 2 * len(ARMS)
    batches = [runs[at : at + len(ARMS)] for at in range(0, len(runs), len(ARMS))]
    assert all(len({run[:3] for run in batch}) == 1 for batch in batches)
    assert len({batch[0][3] for batch in batches}) > len(ARMS) / 2
    assert set(plan.seeds) <= set(REPORTED)


def test_profiles_draw_other_requests_and_sweeps_other_seeds() -> None:
    plan = replace(Plan(), sweep=True)
    measured = {run.seed for run in plan.runs() if not run.parameter}
    assert not measured & {run.seed for run in plan.profiles()}
    swept = [run for run in plan.runs() if run.parameter]
    assert {run.seed for run in swept} <= set(SWEEP)
    assert len({run.key for run in swept}) == len(swept)


def test_a_full_run_and_a_quick_one_end_in_time() -> None:
    assert Plan().minutes < 150
    assert Plan.quick().minutes < 15


def test_a_line_that_was_cut_off_is_played_again(tmp_path: Path) -> None:
    file = tmp_path / "out" / "escra.partial.jsonl"
    assert read_finished(file) == {} == read_finished(None)
    add_finished(file, "a", {"x": 1})
    add_finished(file, "b", {"x": 2})
    file.write_text(file.read_text()[:-4])
    assert read_finished(file) == {"a": {"x": 1}}


@pytest.mark.parametrize("application", APPLICATIONS.values(), ids=lambda a: a.name)
def test_every_service_is_called_and_none_calls_itself(application: Application) -> None:
    calls = {
        service.name: {name for stage in service.calls for name, _ in stage}
        for service in application.services
    }
    reached: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path
        reached.add(name)
        for called in calls[name]:
            visit(called, (*path, name))

    visit(application.services[0].name, ())
    assert reached == set(calls)
    assert len(calls) == {"media": 7, "shop": 11}[application.name]
