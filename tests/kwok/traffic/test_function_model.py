"""The function model against its rules, one by one, and against an oracle that computes everything."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwok.errors import TrafficError
from kwok.traffic.function import Function
from kwok.traffic.function_model import Completion, FunctionModel
from tests.kwok.traffic.fluid import Fluid

PLAIN = Function("plain", 1.0, 0.0, concurrency=1, cold_start_s=0.0, cpu_cores=0.5, memory_bytes=1)


def model_with(
    function: Function, *pods: str, cores: float = 8.0, disk_streams: int | None = None
) -> FunctionModel:
    model = FunctionModel()
    model.add_node("n", cores, disk_streams)
    for pod in pods:
        model.add_pod(pod, function, "n", 0.0)
    return model


def answers(model: FunctionModel, until_s: float = 1000.0) -> dict[int, tuple[float, float, float]]:
    return {c.request_id: (c.at_s, c.waited_s, c.served_s) for c in model.advance(until_s)}


def test_one_request_runs_at_the_pods_limit_then_waits_for_its_io() -> None:
    model = model_with(PLAIN, "p")
    model.arrive("p", 1, 1.0, 0.25, 3.0)
    assert model.next_event_s() == 5.0  # its cpu work ends
    assert model.advance(5.0) == []
    assert model.advance(5.25) == [Completion(1, 5.25, 0.0, 2.25)]
    assert model.next_event_s() is None
    assert model.cpu_used_s("p", 9.0) == pytest.approx(1.0)


def test_requests_beyond_the_concurrency_queue_in_order() -> None:
    model = model_with(PLAIN, "p")
    for number in range(3):
        model.arrive("p", number, 1.0, 0.0, 0.5 * number)
    assert model.in_flight("p") == 3
    assert answers(model) == {0: (2.0, 0.0, 2.0), 1: (4.0, 1.5, 2.0), 2: (6.0, 3.0, 2.0)}
    assert model.in_flight("p") == 0


@pytest.mark.parametrize(
    ("cores", "requests", "each_s"),
    [
        (0.5, 2, 4.0),  # two share half a core
        (2.0, 1, 1.0),  # one request uses one core at most
        (2.0, 2, 1.0),
        (2.0, 4, 2.0),
    ],
)
def test_running_requests_share_the_limit(cores: float, requests: int, each_s: float) -> None:
    model = model_with(replace(PLAIN, cpu_cores=cores, concurrency=8), "p")
    for number in range(requests):
        model.arrive("p", number, 1.0, 0.0, 0.0)
    assert answers(model) == dict.fromkeys(range(requests), (each_s, 0.0, each_s))
    assert model.cpu_used_s("p", 100.0) == pytest.approx(requests)


def test_pods_of_an_oversubscribed_node_are_slowed_in_proportion() -> None:
    model = model_with(replace(PLAIN, cpu_cores=1.0), "a", "b", cores=1.0)
    model.add_pod("c", replace(PLAIN, cpu_cores=0.5), "n", 0.0)
    for number, pod in enumerate("abc"):
        model.arrive(pod, number, 1.0, 0.0, 0.0)
    # 2.5 cores wanted, 1 there: a and b get 0.4, c 0.2 until 2.5 s; then c is alone, within its limit.
    assert answers(model) == {
        0: pytest.approx((2.5, 0, 2.5)),
        1: pytest.approx((2.5, 0, 2.5)),
        2: pytest.approx((3.5, 0, 3.5)),
    }


def test_nodes_do_not_disturb_each_other() -> None:
    function = replace(PLAIN, cpu_cores=1.0)
    model = model_with(function, "a", "b", cores=1.0)
    model.add_node("other", 1.0)
    model.add_pod("c", function, "other", 0.0)
    for number, pod in enumerate("abc"):
        model.arrive(pod, number, 1.0, 0.0, 0.0)
    assert {request: at_s for request, (at_s, *_) in answers(model).items()} == {0: 2.0, 1: 2.0, 2: 1.0}


def test_a_pod_that_comes_or_goes_changes_its_neighbours_speed() -> None:
    function = replace(PLAIN, cpu_cores=1.0)
    model = model_with(function, "a", cores=1.0)
    model.arrive("a", 1, 2.0, 0.0, 0.0)
    model.add_pod("b", function, "n", 1.0)
    model.arrive("b", 2, 2.0, 0.0, 1.0)
    assert model.cpu_used_s("a", 1.5) == pytest.approx(1.25)
    assert model.remove_pod("b", 1.5) == [2]
    assert answers(model) == {1: pytest.approx((2.25, 0, 2.25))}


def test_the_first_request_of_a_pod_waits_for_its_cold_start_and_so_do_those_behind_it() -> None:
    model = model_with(replace(PLAIN, cold_start_s=3.0, concurrency=2), "p")
    for number, at_s in enumerate((10.0, 12.0)):
        model.arrive("p", number, 0.25, 0.0, at_s)
    assert model.cpu_used_s("p", 12.9) == 0
    model.arrive("p", 2, 0.25, 0.0, 20.0)
    assert answers(model) == {0: (14.0, 3.0, 1.0), 1: (14.0, 1.0, 1.0), 2: (20.5, 0.0, 0.5)}


def test_disk_streams_of_a_node_are_shared_by_its_pods() -> None:
    model = model_with(PLAIN, "a", "b", "c", disk_streams=2)
    for number, pod in enumerate("abc"):
        model.arrive(pod, number, 0.0, 1.0, 0.1 * number)
    model.cancel(0, 0.5)
    assert answers(model) == {1: pytest.approx((1.1, 0, 1.0)), 2: pytest.approx((1.5, 0, 1.3))}


@pytest.mark.parametrize("phase_s", [0.5, 2.5])  # on cpu, in io
def test_cancel_frees_the_pod_for_who_waits(phase_s: float) -> None:
    model = model_with(PLAIN, "p")
    model.arrive("p", 1, 1.0, 1.0, 0.0)
    model.arrive("p", 2, 1.0, 0.0, 0.0)
    assert model.cancel(1, phase_s)
    assert not model.cancel(1, phase_s)
    assert answers(model) == {2: (phase_s + 2, phase_s, 2.0)}
    assert model.cpu_used_s("p", 100.0) == pytest.approx(min(phase_s / 2, 1.0) + 1.0)


def test_a_cancelled_request_in_the_queue_is_skipped() -> None:
    model = model_with(PLAIN, "p")
    for number in range(3):
        model.arrive("p", number, 1.0, 0.0, 0.0)
    model.cancel(1, 1.0)
    assert model.in_flight("p") == 2
    assert {request: at_s for request, (at_s, *_) in answers(model).items()} == {0: 2.0, 2: 4.0}


def test_removing_a_pod_tells_which_requests_are_lost() -> None:
    model = model_with(PLAIN, "p", "q")
    for number, pod in enumerate("ppq"):
        model.arrive(pod, number, 1.0, 0.0, 0.0)
    assert model.remove_pod("p", 1.0) == [0, 1]
    assert model.remove_pod("p", 1.0) == []
    assert list(answers(model)) == [2]
    with pytest.raises(TrafficError, match="pod p is not known"):
        model.arrive("p", 9, 1.0, 0.0, 5.0)


def test_what_cannot_be_is_refused_with_its_name() -> None:
    model = model_with(PLAIN, "p")
    model.arrive("p", 1, 1.0, 0.0, 0.0)
    with pytest.raises(TrafficError, match="request 1: already in flight"):
        model.arrive("p", 1, 1.0, 0.0, 0.0)
    with pytest.raises(TrafficError, match="request 2: cpu_s nan"):
        model.arrive("p", 2, float("nan"), 0.0, 0.0)
    with pytest.raises(TrafficError, match="node elsewhere is not known"):
        model.add_pod("q", PLAIN, "elsewhere", 0.0)
    with pytest.raises(TrafficError, match="node m: cores 0"):
        model.add_node("m", 0)


tenths = st.integers(0, 30).map(lambda tenth: tenth / 10)
functions = st.builds(
    Function,
    name=st.just("f"),
    cpu_s=st.just(1.0),
    io_s=st.just(0.0),
    concurrency=st.integers(1, 3),
    cold_start_s=st.sampled_from([0.0, 0.7]),
    cpu_cores=st.sampled_from([0.2, 0.5, 1.0, 2.0]),
    memory_bytes=st.just(1),
)
steps = st.lists(
    st.tuples(
        st.sampled_from(["arrive", "arrive", "arrive", "cancel", "add", "remove", "resize", "look"]),
        # Since the step before; irrational, so that no step falls on the end of a request, where rounding
        # would decide which came first.
        tenths.map(lambda gap_s: gap_s * math.sqrt(2) / 3),
        st.integers(0, 5),  # which pod, or which request before
        tenths,
        tenths,
    ),
    max_size=30,
)


@given(st.lists(functions, min_size=1, max_size=6), st.sampled_from([0.5, 1.0, 4.0]), steps)
def test_as_the_oracle_says(
    pods: list[Function], cores: float, steps: list[tuple[str, float, int, float, float]]
) -> None:
    """Whatever comes and goes: nothing is lost, and each request is answered when the rules say."""
    model, fluid = FunctionModel(), Fluid({"n0": cores, "n1": cores})
    for node in fluid.cores:
        model.add_node(node, cores)
    lost: set[int] = set()
    answered: list[Completion] = []
    now_s, requests = 0.0, 0

    def add(number: int) -> None:
        model.add_pod(f"p{number}", pods[number], f"n{number % 2}", now_s)
        if f"p{number}" not in fluid.pods:
            fluid.add_pod(f"p{number}", pods[number], f"n{number % 2}")

    for number in range(len(pods)):
        add(number)
    for kind, gap_s, number, cpu_s, io_s in steps:
        now_s += gap_s
        fluid.advance(now_s)
        pod = f"p{number % len(pods)}"
        if kind == "add":
            add(number % len(pods))
        elif kind == "remove" and pod in fluid.pods:
            gone = model.remove_pod(pod, now_s)
            assert set(gone) == fluid.remove_pod(pod)
            lost |= set(gone)
        elif kind == "arrive" and pod in fluid.pods:
            model.arrive(pod, requests, cpu_s, io_s, now_s)
            fluid.arrive(pod, requests, cpu_s, io_s)
            requests += 1
        elif kind == "resize" and pod in fluid.pods:
            concurrency, cores_now = 1 + round(10 * cpu_s) % 3, (0.2, 0.5, 1.0, 2.0)[round(10 * io_s) % 4]
            model.resize_pod(pod, concurrency, cores_now, now_s)
            fluid.resize_pod(pod, concurrency, cores_now)
        elif kind == "cancel" and number < requests:
            victim = requests - 1 - number
            if model.cancel(victim, now_s):
                fluid.cancel(victim)
                lost.add(victim)
        else:
            answered += model.advance(now_s)
            for pod_id, state in fluid.pods.items():
                assert model.cpu_used_s(pod_id, now_s) == pytest.approx(state.cpu_used_s, abs=1e-6)
    answered += model.advance(now_s + 10_000)
    fluid.advance(now_s + 10_000)
    assert model.next_event_s() is None
    assert [c.at_s for c in answered] == sorted(c.at_s for c in answered)
    assert {c.request_id for c in answered} | lost == set(range(requests))
    assert len(answered) + len(lost) == requests
    for c in answered:
        assert (c.at_s, c.waited_s, c.served_s) == pytest.approx(fluid.answered[c.request_id], abs=1e-6)


@given(
    st.lists(st.tuples(st.integers(0, 3), tenths, tenths), min_size=1, max_size=40),
    st.sampled_from([1.0, 2.0]),
)
def test_a_node_hands_out_what_it_has_and_no_more(
    arrivals: list[tuple[int, float, float]], cores: float
) -> None:
    """Cpu handed out in any step is at most the cores; while all pods are busy it is all of them."""
    model = model_with(replace(PLAIN, cpu_cores=1.0), *"abcd", cores=cores)
    now_s, used_s = 0.0, 0.0
    for number, (pod, gap_s, cpu_s) in enumerate(arrivals):
        busy = sum(model.in_flight(name) > 0 for name in "abcd")
        before_s, now_s = now_s, now_s + gap_s
        still_busy = sum(model.in_flight(name) > 0 for name in "abcd" if model.cpu_used_s(name, now_s) >= 0)
        total_s = sum(model.cpu_used_s(name, now_s) for name in "abcd")
        assert total_s - used_s <= (now_s - before_s) * cores + 1e-9
        if min(busy, still_busy) >= cores:
            assert total_s - used_s == pytest.approx((now_s - before_s) * cores, abs=1e-9)
        used_s = total_s
        model.arrive("abcd"[pod], number, cpu_s, 0.0, now_s)
    assert len(model.advance(1e6)) == len(arrivals)
    assert sum(model.cpu_used_s(name, 1e6) for name in "abcd") == pytest.approx(sum(a[2] for a in arrivals))


def test_thousands_of_pods_cost_a_request_no_more_events() -> None:
    """An event concerns one pod: what waits in the model's calendar does not grow with idle pods."""
    model = model_with(PLAIN, *(f"p{number}" for number in range(2000)), cores=1.0)
    model.arrive("p7", 1, 1.0, 0.0, 0.0)
    assert len(model._events) <= 2
    assert answers(model) == {1: (2.0, 0.0, 2.0)}
