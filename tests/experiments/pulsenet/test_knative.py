"""burst_plane.scaling with keepalive 0 beside Knative's own autoscaler, step by step."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from burst_plane.scaling import Concurrency, Parameters, Scaler
from kwok.binaries import Binaries
from tests.experiments.pulsenet.knative_traces import traces

FILE = Path(__file__).parent / "recorded" / "knative_scaling.json"
RECORDED = json.loads(FILE.read_text()) if FILE.exists() else []


@pytest.mark.lab
def test_recorded_answers_are_those_of_knative_now(request: pytest.FixtureRequest) -> None:
    """Builds Knative's package; `--update-golden` renews the recorded answers."""
    if not request.config.getoption("--update-golden"):
        pytest.skip("builds 300 packages: only with --update-golden")
    program = Binaries().path("knative-scaling")
    said = subprocess.run([program], input=json.dumps(traces()), capture_output=True, text=True, check=True)
    rows = ",\n".join(json.dumps(trace, separators=(",", ":")) for trace in json.loads(said.stdout))
    FILE.write_text(f"[{rows}]\n")


def test_recorded_traces_are_many_and_differ() -> None:
    wanted = [answer for trace in RECORDED for answer in trace["wanted"]]
    assert len(RECORDED) == 18
    assert len(set(wanted)) > 50
    assert None in wanted


@pytest.mark.parametrize("trace", RECORDED, ids=lambda trace: trace["name"])
def test_scaler_wants_what_knative_wants(trace: dict[str, Any]) -> None:
    parameters = Parameters(
        concurrency=trace["target"],
        target_share=1.0,
        window_s=trace["window_s"],
        keepalive_s=0.0,
        max_replicas=1_000_000,
        max_scale_up_rate=trace["max_scale_up_rate"],
        max_scale_down_rate=trace["max_scale_down_rate"],
    )
    scaler, found = Scaler(parameters), []
    for step in trace["steps"]:
        now_s = 1e9 + step["at_s"]
        if step["concurrency"] is not None:
            scaler.record(Concurrency(step["concurrency"], 0.0, 0.0), now_s)
        decision = scaler.decide(step["ready"], step["ready"], now_s)
        found.append(decision.action if decision.valid else None)
    assert found == trace["wanted"]
