"""Functions on this machine's cgroups, seconds of each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from experiments.escra.node import Node, why_not
from experiments.escra.serverless.model import Serverless, ServerlessRun
from experiments.escra.serverless.play import play

pytestmark = pytest.mark.lab
PLAN = Serverless(image_s=2.4, jobs=1, tasks=12, paper=False)
RUNS = {(run.function.name, run.arm.name): run for run in PLAN.runs(1)}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    if reason := why_not():
        pytest.skip(reason)
    with Node.temporary() as node:
        yield node


@pytest.mark.parametrize("run", RUNS.values(), ids=["/".join(key) for key in RUNS])
def test_all_is_done_and_no_pod_is_left(node: Node, run: ServerlessRun) -> None:
    found = play(node, PLAN, run)
    assert len(found["latencies_s"]) == (3 if run.function.name == "image" else 1)
    assert (found["failed"], found["oom_kills"]) == (0, 0)
    assert 1 <= found["pods"] <= run.function.most_pods
    assert found["cpu_limit_vcpu"] > 0
    assert run.arm.ours or found["at_ceiling_share"] == 0
    assert not list(node.hierarchy.tree("memory").glob("kubepods/burstable/pod*"))
