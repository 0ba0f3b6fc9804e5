"""The simulation against queueing theory, and what becomes of requests when pods come and go."""

from __future__ import annotations

import random
import statistics
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.kneescale.traffic_simulation import Clients, Rate, Sample, Settings, simulate
from kwok.errors import TrafficError
from kwok.traffic.function import Function
from kwok.traffic.functions import FUNCTIONS

FUNCTION = Function("f", 0.5, 0.0, concurrency=1, cold_start_s=0.0, cpu_cores=0.5, memory_bytes=1)
PATIENT = Settings(gateway_timeout_s=1e6)


def mean(samples: list[Sample], field: str) -> float:
    return statistics.fmean(getattr(sample, field) for sample in samples)


def exponential(draw: random.Random) -> tuple[float, float]:
    return draw.expovariate(2.0), 0.0  # 0.5 cpu-seconds: 1 s in a pod of half a core


@pytest.mark.parametrize(("clients", "replicas"), [(1, 1), (5, 3), (20, 10), (20, 40), (20, 45)])
def test_a_closed_network_of_exponential_pods(clients: int, replicas: int) -> None:
    """X = mu*r*N / (N+r-1): a closed product-form network of r like queues and no thinking."""
    samples = simulate(
        FUNCTION, Clients.constant(clients), replicas, 6000, seed=1, settings=PATIENT, demand=exponential
    )
    expected = replicas * clients / (clients + replicas - 1)
    assert mean(samples, "throughput_per_s") == pytest.approx(expected, rel=0.03)
    # Little: clients = throughput * latency.
    latency_s = sum(s.throughput_per_s * (s.latency_s or 0) for s in samples) / len(samples) / expected
    assert latency_s == pytest.approx(clients / expected, rel=0.03)
    assert mean(samples, "cpu_utilisation") == pytest.approx(expected / replicas, rel=0.03)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_one_pod_with_equal_demands_is_an_m_d_1_queue(load: float) -> None:
    samples = simulate(FUNCTION, Rate(load), 1, 60_000, seed=2, settings=PATIENT)
    answered = sum(sample.throughput_per_s for sample in samples)
    latency_s = sum(s.throughput_per_s * s.latency_s for s in samples if s.latency_s is not None) / answered
    assert latency_s == pytest.approx(1 + load / (2 * (1 - load)), rel=0.05)  # Pollaczek-Khinchine
    assert mean(samples, "cpu_utilisation") == pytest.approx(load, rel=0.03)


def test_two_clients_of_one_pod_wait_for_each_other() -> None:
    samples = simulate(FUNCTION, Clients.constant(2), 1, 300, seed=1)
    assert [(s.throughput_per_s, s.errors_per_s, s.replicas_ready, s.clients) for s in samples] == [
        (1.0, 0.0, 1, 2)
    ] * 10
    assert samples[-1].latency_s == pytest.approx(2.0)
    assert samples[-1].cpu_utilisation == pytest.approx(1.0)
    assert samples[-1].score == pytest.approx(0.5)


def test_what_waits_longer_than_the_gateways_timeout_is_an_error() -> None:
    samples = simulate(FUNCTION, Clients.constant(30), 1, 3000, seed=1)
    assert mean(samples, "errors_per_s") > 0.3
    assert all(sample.latency_s is None or sample.latency_s <= 20.0 for sample in samples)
    assert mean(samples, "cpu_utilisation") == pytest.approx(
        1.0, abs=0.01
    )  # cancelled work stops, others start


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.sampled_from(sorted(FUNCTIONS)), st.integers(1, 30), st.integers(1, 40))
def test_the_same_seed_gives_the_same_run(seed: int, name: str, clients: int, replicas: int) -> None:
    def run() -> list[Sample]:
        return simulate(FUNCTIONS[name], Clients.constant(clients), replicas, 120, seed=seed)

    samples = run()
    assert samples == run()
    assert all(sample.clients == clients for sample in samples)
    most = replicas / FUNCTIONS[name].service_s
    assert mean(samples, "throughput_per_s") <= most * 1.5  # demands vary, capacity does not
    assert all(0 <= (sample.cpu_utilisation or 0) <= 1 + 1e-9 for sample in samples)


def test_a_policy_is_asked_every_interval_and_pods_take_time() -> None:
    asked: list[Sample] = []

    def policy(sample: Sample) -> int:
        asked.append(sample)
        return {1: 5, 2: 5, 3: 2}.get(len(asked), 2)

    samples = simulate(
        FUNCTION,
        Clients.constant(8),
        1,
        150,
        seed=1,
        policy=policy,
        settings=replace(PATIENT, creation_s=40.0),
    )
    assert asked == samples
    # Wanted at 30 s, ready at 70 s; at 90 s three of them go.
    assert [sample.replicas_ready for sample in samples] == [1, 1, 5, 2, 2]


@settings(max_examples=25)
@given(st.lists(st.integers(1, 20), min_size=8, max_size=8), st.integers(1, 12))
def test_scaling_loses_no_request(wanted: list[int], clients: int) -> None:
    """Pods that go end with their last request, so a closed loop with patience sees no error."""
    plan = iter(wanted)
    samples = simulate(
        FUNCTION, Clients.constant(clients), 3, 240, seed=3, policy=lambda _: next(plan), settings=PATIENT
    )
    assert all(sample.errors_per_s == 0 for sample in samples)
    assert all(sample.throughput_per_s > 0 for sample in samples)
    assert [s.replicas_ready for s in samples[1:]] == wanted[:-1]


def test_without_a_pod_the_gateway_holds_requests_until_their_timeout() -> None:
    plan = iter([0, 1, 1, 1])
    samples = simulate(FUNCTION, Clients.constant(2), 0, 120, seed=1, policy=lambda _: next(plan))
    # Sent at 0, failed at 20, sent again, failed at 40, 60; served from 62 on.
    assert [s.errors_per_s * 30 for s in samples] == [2, 4, 0, 0]
    assert [s.throughput_per_s * 30 for s in samples] == [0, 0, 28, 30]
    assert samples[0].latency_s is None
    assert samples[0].cpu_utilisation is None
    assert samples[0].score == 0


def test_clients_follow_the_load_and_replicas_the_clusters_room() -> None:
    samples = simulate(
        FUNCTION, Clients(lambda now_s: 5 if now_s < 60 else 2), 100, 120, seed=1, settings=PATIENT
    )
    assert [sample.clients for sample in samples] == [5, 5, 2, 2]
    assert {sample.replicas_ready for sample in samples} == {44}  # of half a core: 12 + 12 + 10 + 10
    with pytest.raises(TrafficError, match="replicas: -1"):
        simulate(FUNCTION, Clients.constant(1), -1, 60, seed=1)
