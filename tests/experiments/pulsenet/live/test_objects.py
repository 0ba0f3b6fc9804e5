"""Objects and processes of the live harness."""

from __future__ import annotations

import pytest

from burst_plane import status as burst_status
from burst_plane.burst_function import Variant, read
from experiments.pulsenet.live.objects import objects, status
from experiments.pulsenet.live.processes import EMULATION, kind_of
from function_gateway.endpoints import read_burst


def test_parts_read_what_the_harness_makes() -> None:
    made = objects(["f0"], [2], "paper", 600.0)
    burst, probe = (obj for obj in made if obj["kind"] == "BurstFunction")
    assert probe["spec"]["mode"] == "off"
    burst["metadata"] |= {"uid": "u", "generation": 1}
    spec = read(burst)
    assert (spec.variant, spec.keepalive_s, spec.concurrency) == (Variant.PAPER, 600.0, 1)
    burst["status"] = status([(0.0, 3), (5.0, 1)], overflows=True, now_s=1000.0)
    assert burst_status.history_before(burst["status"]) == ([(0.0, 3), (5.0, 1)], 1000.0)
    assert read_burst(burst).overflow


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("/usr/sbin/haproxy -db -f x", "haproxy"),
        ("/x/python -m surgekit serve pulselet --settings x", "pulselet"),
        ("/x/kube-apiserver --v=1", "kube-apiserver"),
        ("/x/python -m kwok.traffic.function_process --port 1", EMULATION),
        ("/x/kwok --config x", EMULATION),
    ],
)
def test_processes_have_the_names_of_their_parts(command: str, kind: str) -> None:
    assert kind_of(command.split()) == kind
