"""The publisher against an API server that refuses, forgets and lacks things."""

from __future__ import annotations

import time

import pytest
from prometheus_client import CollectorRegistry, Counter

from node_speed_probe.ledger import Snapshot
from node_speed_probe.model import NodeSpeedEstimate, Reason
from node_speed_probe.publication import PATH
from node_speed_probe.publisher import Publisher
from node_speed_probe.settings import Settings
from surgekit.kube.client import ApiError
from tests.fake_api_server import FakeApiServer


class Held:
    held = True


class Rig:
    def __init__(self, nodes: int = 3) -> None:
        self.server, self.lease = FakeApiServer(), Held()
        self.settings = Settings(publish_interval_s=0.1, writes_per_s=1000.0)
        self.estimates = tuple(
            NodeSpeedEstimate(f"n{i}", f"u{i}", 1.0 + i, 0.1, 5, "measured", Reason.MEASURED, 0)
            for i in range(nodes)
        )
        self.writes = Counter("writes", "", ["result"], registry=CollectorRegistry())
        self.publisher = Publisher(
            self.server, self.settings, lambda: self.lease.held, self._snapshot, self.writes
        )

    def _snapshot(self) -> Snapshot:
        return Snapshot(1.0, self.estimates)

    def taus_s(self) -> dict[str, float]:
        objects = self.server.objects("nodespeeds")
        return {o["metadata"]["name"]: o["status"]["tauCreateSeconds"] for o in objects if "status" in o}

    def count(self, result: str) -> float:
        return float(self.writes.labels(result)._value.get())


ALL = {"n0": 1.0, "n1": 2.0, "n2": 3.0}


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_objects_are_made_once_and_then_left_alone(rig: Rig) -> None:
    rig.publisher.step()
    assert rig.taus_s() == ALL
    writes = len(rig.server.writes)
    rig.publisher.step()
    assert len(rig.server.writes) == writes


def test_what_was_deleted_is_made_again_when_it_changes(rig: Rig) -> None:
    rig.publisher.step()
    rig.server.delete(PATH)
    rig.estimates = tuple(
        NodeSpeedEstimate(e.node, "u", 9.0, 0.1, 5, "measured", Reason.MEASURED, 0) for e in rig.estimates
    )
    rig.publisher.step()
    assert rig.taus_s() == dict.fromkeys(ALL, 9.0)


def test_another_replicas_objects_are_taken_over(rig: Rig) -> None:
    rig.publisher.step()
    second = Rig()
    second.server = rig.server
    second.publisher = Publisher(
        rig.server, rig.settings, lambda: rig.lease.held, second._snapshot, second.writes
    )
    writes = len(rig.server.writes)
    second.publisher.step()
    assert len(rig.server.writes) == writes


def test_a_conflict_is_tried_later_and_holds_nobody_up(rig: Rig) -> None:
    rig.server.fail(ApiError(409, "Conflict", ""))
    rig.publisher.step()
    assert len(rig.taus_s()) == 2
    rig.publisher.step()
    assert rig.taus_s() == ALL
    assert rig.count("conflict") == 1


def test_a_rejected_object_waits_for_a_change(rig: Rig) -> None:
    rig.server.fail(ApiError(422, "Invalid", ""))
    rig.publisher.step()
    writes = len(rig.server.writes)
    rig.publisher.step()
    assert len(rig.server.writes) == writes
    assert rig.count("rejected") == 1


@pytest.mark.parametrize("code", [403, 404, 429, 500, 503])
def test_an_overloaded_server_is_left_alone_for_the_rest_of_the_round(rig: Rig, code: int) -> None:
    rig.server.fail(ApiError(code, "", ""), times=2)
    with pytest.raises(ApiError):
        rig.publisher.step()
    assert len(rig.server.writes) <= 2


def test_a_replica_that_loses_the_lease_stops_in_the_middle(rig: Rig) -> None:
    rig.lease.held = False
    rig.publisher.step()
    assert rig.server.writes == []


def test_writes_are_paced_and_refusals_are_the_shells_to_back_off_from() -> None:
    rig = Rig(nodes=40)
    rig.server.fail(ApiError(503, "", ""))
    rig.settings = Settings(publish_interval_s=0.4, writes_per_s=100.0)
    rig.publisher = Publisher(rig.server, rig.settings, lambda: rig.lease.held, rig._snapshot, rig.writes)
    with pytest.raises(ApiError):
        rig.publisher.step()
    assert rig.count("failed") == 1
    began_s = time.monotonic()
    assert rig.publisher.step() == 0.4
    assert len(rig.taus_s()) == 40
    assert time.monotonic() - began_s > 0.35  # 40 writes at 100 a second
