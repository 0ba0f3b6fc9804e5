"""Short arms, each in a lab with everything that runs live."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.pulsenet.live.arm import play
from experiments.pulsenet.live.plan import ARMS, Setting
from experiments.pulsenet.live.workload import Workload
from experiments.pulsenet.model import Cluster, Creation
from experiments.pulsenet.trace import MINUTES, Function, Requests
from kwok.burst.plane import why_no_plane

pytestmark = [pytest.mark.lab, pytest.mark.real_node]


def workload() -> Workload:
    """A burst for a function that had nothing to do for an hour, and requests for one that always has."""
    functions = tuple(
        Function(name, np.ones(MINUTES, np.int64), np.full(7, 0.2), np.full(8, 1e8)) for name in ("a", "b")
    )
    at_s = np.sort(np.concatenate([np.full(3, 4.0), np.arange(0.5, 12.0, 0.5)]))
    requests = Requests(at_s, np.where(at_s == 4.0, 0, 1), np.full(len(at_s), 0.2))
    requests.function[np.flatnonzero(at_s == 4.0)[3:]] = 1
    before_s = np.arange(0.0, 3600.0, 0.5)
    before = Requests(before_s, np.ones(len(before_s), np.int64), np.full(len(before_s), 0.2))
    return Workload(functions, 60, before, requests, np.full(2, 1e8))


@pytest.mark.parametrize("arm", ["pulsenet", "asynchronous", "synchronous"])
def test_every_request_of_an_arm_is_answered(arm: str) -> None:
    if reason := why_no_plane():
        pytest.skip(f"no burst plane here: {reason}")
    small = Setting(arm, ARMS[arm], Cluster(nodes=2), replace(Creation(), alone_s=0.5))
    found = play(workload(), small, warm_up_s=2.0, measured_s=10.0)
    assert found["lost"] == 0
    assert found["requests"] == 23
    assert found["cost"] > 1.0
    assert min(tail for tail in found["p99_slowdown"]) >= 1.0
    assert found["cpu_cores"]["haproxy"] > 0.0
    assert 0.0 <= found["machine_ms"]["0"] <= found["machine_ms"]["50"]
    if arm == "pulsenet":
        assert found["emergency"]["outcomes"]["placed"] >= 1
        assert found["regular_share"] < 1.0
        assert found["held_share"]["created"] > 0.0
    else:
        # The burst waited for instances that it made.
        assert found["regular_share"] == 1.0
        assert found["creations"] >= 1
