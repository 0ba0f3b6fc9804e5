"""Ratios of serverless runs, and which way round they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.escra.pictures import draw_all
from experiments.escra.serverless.figures import serverless_figures
from experiments.escra.serverless.model import Serverless

VALUES = {"static": (12.0, 3000.0, 2.0), "ours": (6.0, 2000.0, 1.6), "ours_80": (5.0, 1500.0, 2.5)}


def found(*seeds: int) -> dict[str, Any]:
    played = []
    for run in (run for seed in seeds for run in Serverless(paper=False).runs(seed)):
        cpu, memory, latency_s = VALUES[run.arm.name]
        course = {key: [1, 2] for key in ("at_s", "pods", "cpu_limit_vcpu", "memory_limit_mib")}
        of = {
            "latencies_s": [latency_s, latency_s], "failed": 1, "pods": 3, "oom_kills": 0,
            "cpu_limit_vcpu": cpu, "memory_limit_mib": memory, "memory_used_mib": 100.0,
            "at_ceiling_share": 0.1, "timeline": course,
        }  # fmt: skip
        played.append((run, of))
    return serverless_figures(played)


def test_above_1_ours_is_better() -> None:
    figures = found(1, 2)
    assert figures["serverless_cpu_ratio"]["image"] == {"mean": 2.0, "low": 2.0, "high": 2.0}
    assert figures["serverless_memory_ratio"]["batch_80"]["mean"] == 2.0
    assert figures["serverless_latency_ratio"]["image"]["mean"] == pytest.approx(1.25)
    assert figures["serverless_latency_ratio"]["batch_80"]["mean"] == pytest.approx(0.8)
    image = figures["serverless"]["image"]["static"]
    assert (image["finished"], image["failed"], image["cpu_limit_vcpu"]) == (4, 2, 12.0)
    assert len(image["latency_s"]["cdf"]) == 51


def test_the_picture_has_both_functions(tmp_path: Path) -> None:
    (drawn,) = draw_all({"latency_ratio": {}} | found(1), tmp_path)
    assert drawn.name == "serverless.png"
    assert drawn.stat().st_size > 1000
