"""The committed workload: what it promises of itself."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest
import yaml

from experiments.combofunc.arms import AS_SHIPPED_S
from experiments.combofunc.workload import FUNCTIONS, Function, Workload
from kwok.errors import TrafficError
from surgekit.kube.duration import seconds
from tests.paths import ROOT

SEEDS = range(1, 6)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=lambda f: f.name)
def test_memory_a_concurrency_falls_with_the_size(function: Function) -> None:
    """Fig. 6; and no size takes more than half a node."""
    shares = [size.memory_bytes / size.concurrency for size in function.sizes]
    assert shares == sorted(shares, reverse=True)
    assert len(set(shares)) == len(shares)
    largest = function.sizes[-1]
    assert largest.cpu_millicores <= 4000
    assert largest.memory_bytes <= 8 << 30


@pytest.mark.parametrize("seed", SEEDS)
def test_targets_change_and_stay_within_the_peak(seed: int) -> None:
    workload = Workload()
    targets = workload.targets(seed)
    assert list(targets) == list(FUNCTIONS)
    assert len({t.of_trace for t in targets.values()}) == len(FUNCTIONS)
    for name, function in FUNCTIONS.items():
        peak = workload.peak_cores * 1000 / function.cpu_millicores
        values = [target for _, target in targets[name].changes]
        assert max(values) == round(peak)  # the busiest minute is among those played
        assert min(values) >= 1
        assert all(a != b for a, b in pairwise(values))
        assert targets[name].changes[-1][0] < workload.duration_s


def test_a_shorter_run_is_the_beginning_of_the_longer() -> None:
    whole, short = Workload().targets(1), replace(Workload(), minutes=10).targets(1)
    for name in FUNCTIONS:
        assert whole[name].changes[: len(short[name].changes)] == short[name].changes


@pytest.mark.parametrize("seed", SEEDS)
def test_residents_fit_and_leave_fragments(seed: int) -> None:
    workload = Workload()
    cpu, memory = defaultdict[int, int](int), defaultdict[int, int](int)
    for resident in workload.residents(seed):
        cpu[resident.node] += resident.cpu_millicores
        memory[resident.node] += resident.memory_bytes
    shares = [cpu[n] / workload.node_cpu_millicores for n in range(workload.nodes)]
    assert all(0.1 <= share <= 0.45 for share in shares)
    assert all(memory[n] < workload.node_memory_bytes for n in range(workload.nodes))


def test_the_same_seed_draws_the_same() -> None:
    for ask in (Workload.targets, Workload.residents, Workload.newcomers):
        assert ask(Workload(), 3) == ask(Workload(), 3)
        assert ask(Workload(), 3) != ask(Workload(), 4)


def test_more_minutes_than_there_are() -> None:
    with pytest.raises(TrafficError, match="minutes: 10000"):
        replace(Workload(), minutes=10000).targets(1)


def test_ours_keeps_warm_as_long_as_is_shipped() -> None:
    """5 minutes of the trace."""
    crd = yaml.safe_load((ROOT / "manifests/combofunc/combofunc.yaml").read_text())
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    shipped_s = seconds(spec["properties"]["keepWarm"]["default"])
    assert shipped_s is not None
    assert shipped_s * Workload().minute_s / 60 == AS_SHIPPED_S
