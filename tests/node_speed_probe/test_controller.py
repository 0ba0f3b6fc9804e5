"""A replica with a source of its own making, no API server behind it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from node_speed_probe.controller import Probe
from node_speed_probe.model import NodeSeen, NodesListed, PodSeen, Stage
from node_speed_probe.settings import Settings
from node_speed_probe.sources import Tell
from surgekit.kube.client import Kube, KubeUnreachable
from surgekit.process.health_server import pages
from surgekit.process.modes import Mode


class Away:
    """An API server that does not answer."""

    def __getattr__(self, name: str) -> Callable[..., object]:
        def refuse(*_: object, **__: object) -> object:
            raise KubeUnreachable(name)

        return refuse


class Told:
    """A source that says what the test tells it."""

    age_s = 0.0

    def start(self, tell: Tell) -> None:
        self.tell = tell
        tell(NodesListed((NodeSeen("n", "u"),)), time.monotonic())

    def stop(self) -> None: ...

    def ages_s(self, now_s: float) -> dict[str, float]:
        return {"pods": self.age_s}


@pytest.fixture
def source() -> Told:
    return Told()


@pytest.fixture
def probe(source: Told) -> Iterator[Probe]:
    settings = Settings(mode=Mode.SHADOW, publish_interval_s=0.1)
    probe = Probe(settings, cast(Kube, Away()), source)
    probe.start()
    yield probe
    probe.stop()


def wait(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 5.0
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_facts_become_metrics(probe: Probe, source: Told) -> None:
    wait(lambda: bool(probe.snapshot.estimates))
    now_s = time.monotonic()
    for i in range(8):
        source.tell(PodSeen(f"p{i}", "n", Stage.CREATING), now_s + i)
        source.tell(PodSeen(f"p{i}", "n", Stage.STARTED), now_s + i + 0.5)
    source.tell(PodSeen("q", "n", Stage.CREATING), now_s + 8)
    wait(lambda: probe.snapshot.samples_total == 8)
    text = pages(probe).test_client().get("/metrics").text
    assert 'surgekit_probe_tau_create_seconds{node="n"} 0.5' in text
    assert 'surgekit_probe_creating{node="n"} 1.0' in text
    assert "surgekit_probe_samples_total 8.0" in text
    assert 'surgekit_probe_input_age_seconds{source="pods"} 0.0' in text


def test_ready_while_the_picture_is_fresh(probe: Probe, source: Told) -> None:
    client = pages(probe).test_client()
    wait(lambda: probe.snapshot.taken_s > 0)
    assert client.get("/readyz").status_code == 200
    source.age_s = 61.0
    answer = client.get("/readyz")
    assert (answer.status_code, answer.text) == (503, "no word of pods for 61 s")
    assert client.get("/livez").status_code == 200


def test_a_fault_nobody_foresaw_shows_in_livez(probe: Probe, source: Told) -> None:
    wait(lambda: probe.snapshot.taken_s > 0)
    assert probe.alive(time.monotonic())
    assert not probe.alive(time.monotonic() + 120.0)


def test_off_does_nothing_and_is_well(source: Told) -> None:
    probe = Probe(Settings(mode=Mode.OFF), cast(Kube, Away()), source)
    probe.start()
    client = pages(probe).test_client()
    assert not hasattr(source, "tell")
    assert (client.get("/livez").status_code, client.get("/readyz").status_code) == (200, 200)
    probe.stop()
