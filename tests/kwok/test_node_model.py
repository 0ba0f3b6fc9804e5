"""The node model's maths: processor sharing against its formula and against brute force."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kwok.node_model import (
    Created,
    NodeModel,
    Pulled,
    PullStarted,
    Resized,
    ResizeFailed,
    ResizePending,
    ResizeStarted,
)
from kwok.node_model_resize_status import too_small
from kwok.node_model_room import Amount
from kwok.physics import NodeSpeed, Physics
from kwok.processor_sharing import ProcessorSharing
from kwok.scenario import Image, Scenario

TAU = 0.5


def created(model: NodeModel, until_s: float = 1e6) -> dict[str, float]:
    return {event.pod: event.at_s for event in model.advance(until_s) if isinstance(event, Created)}


def constant(tau_s: float = TAU) -> ProcessorSharing:
    return ProcessorSharing(lambda _: tau_s, lambda _: math.inf)


@given(k=st.integers(1, 100), tau_s=st.floats(0.01, 10))
def test_k_pods_together_take_k_times_tau(k: int, tau_s: float) -> None:
    model = NodeModel(Scenario.equal(tau_create_s=tau_s))
    for i in range(k):
        model.bind(f"p{i}", "n", 1, [], 0.0)
    assert model.creating("n") == k
    assert list(created(model).values()) == pytest.approx([k * tau_s] * k)


@given(k=st.integers(1, 40), side_by_side=st.floats(1, 8), tau_s=st.floats(0.01, 10))
def test_up_to_c_pods_are_created_side_by_side(k: int, side_by_side: float, tau_s: float) -> None:
    physics = Physics(creations_side_by_side=side_by_side)
    model = NodeModel(Scenario.equal(tau_create_s=tau_s, physics=physics))
    for i in range(k):
        model.bind(f"p{i}", "n", 1, [], 0.0)
    assert list(created(model).values()) == pytest.approx([tau_s * max(1, k / side_by_side)] * k)


@pytest.mark.parametrize(("containers", "work"), [(0, 1.0), (1, 1.0), (2, 1.3), (4, 1.9)])
def test_a_pod_of_several_containers_shares_their_sandbox(containers: int, work: float) -> None:
    model = NodeModel(Scenario.equal(tau_create_s=TAU, physics=Physics(extra_container=0.3)))
    model.bind("p", "n", containers, [], 0.0)
    assert created(model) == pytest.approx({"p": work * TAU})


@given(k=st.integers(1, 40), side_by_side=st.floats(1, 8))
def test_resizes_slow_each_other_down_and_creations_not(k: int, side_by_side: float) -> None:
    physics = Physics(resizes_side_by_side=side_by_side)
    model = NodeModel(Scenario.equal(tau_create_s=TAU, tau_resize_s=0.2, physics=physics))
    for i in range(k):
        model.resize(f"p{i}", "n", 1, 0.0)
    model.bind("new", "n", 1, [], 0.0)
    events = model.advance(1e6)
    ends = [event.at_s for event in events if isinstance(event, Resized)]
    assert ends == pytest.approx([0.2 * max(1, k / side_by_side)] * k)
    assert [event.at_s for event in events if isinstance(event, Created)] == pytest.approx([TAU])


@given(k=st.integers(1, 40), m=st.integers(1, 4), side_by_side=st.floats(1, 8), latency=st.floats(0, 1))
def test_latency_does_not_contend(k: int, m: int, side_by_side: float, latency: float) -> None:
    physics = Physics(side_by_side, side_by_side, 0.3, creation_latency=latency, resize_latency=latency)
    model = NodeModel(Scenario.equal(tau_create_s=TAU, tau_resize_s=0.2, physics=physics))
    for i in range(k):
        model.bind(f"p{i}", "n", m, [], 0.0)
        model.resize(f"r{i}", "n", 1, 0.0)
    assert model.creating("n") == k
    events, slowdown = model.advance(1e6), max(1, k / side_by_side)
    ends = [event.at_s for event in events if isinstance(event, Created)]
    assert ends == pytest.approx([TAU * (1 + 0.3 * (m - 1)) * (latency + (1 - latency) * slowdown)] * k)
    ends = [event.at_s for event in events if isinstance(event, Resized)]
    assert ends == pytest.approx([0.2 * (latency + (1 - latency) * slowdown)] * k)


def test_a_pod_in_its_latency_slows_nobody_down() -> None:
    """a and b overlap from 1.0 to 2.0; b contends from 1.8 on, when a has 0.2 of its work left."""
    model = NodeModel(Scenario.equal(tau_create_s=2.0, physics=Physics(creation_latency=0.4)))
    model.bind("a", "n", 1, [], 0.0)
    model.bind("b", "n", 1, [], 1.0)
    assert created(model) == pytest.approx({"a": 2.2, "b": 3.2})


@given(k=st.integers(1, 20), seed=st.integers(0, 100), spread=st.floats(0.01, 0.3))
def test_equal_pods_do_not_finish_together_if_their_work_varies(k: int, seed: int, spread: float) -> None:
    """Each has its own work, the same with the same seed; the node is busy as long as all of it takes."""
    scenario = replace(Scenario.equal(tau_create_s=TAU, physics=Physics(spread=spread)), seed=seed)
    runs = []
    for _ in range(2):
        model = NodeModel(scenario)
        for i in range(k):
            model.bind(f"p{i}", "n", 1, [], 0.0)
        runs.append(created(model))
    assert runs[0] == runs[1]
    assert len(set(runs[0].values())) == k
    assert max(runs[0].values()) == pytest.approx(TAU * sum(scenario.luck(f"p{i}") for i in range(k)))


def test_varied_work_has_the_spread_that_was_asked_for() -> None:
    scenario = Scenario.equal(physics=Physics(spread=0.2))
    logs = [math.log(scenario.luck(f"p{i}")) for i in range(2000)]
    assert statistics.mean(logs) == pytest.approx(0.0, abs=0.02)
    assert statistics.stdev(logs) == pytest.approx(0.2, rel=0.05)


def test_a_newer_resize_starts_over_in_its_share() -> None:
    model = NodeModel(Scenario.equal(tau_resize_s=1.0, physics=Physics(resizes_side_by_side=1)))
    model.resize("a", "n", 1, 0.0)
    model.resize("b", "n", 1, 0.0)
    model.resize("a", "n", 2, 1.0)  # half done, as b is
    done = {(e.pod, e.generation): e.at_s for e in model.advance(1e6) if isinstance(e, Resized)}
    assert done == pytest.approx({("b", 1): 2.0, ("a", 2): 2.5})


@pytest.mark.parametrize(
    ("arrivals", "expected"),
    [
        # (arrival, containers); a: alone to 0.25, then shared with b until it ends.
        ({"a": (0.0, 1), "b": (0.25, 1)}, {"a": 0.75, "b": 1.0}),
        # One leaves before the other comes: nobody shares.
        ({"a": (0.0, 1), "b": (0.5, 1)}, {"a": 0.5, "b": 1.0}),
        # Three containers are three units of work, one share.
        ({"a": (0.0, 3), "b": (0.0, 1)}, {"a": 2.0, "b": 1.0}),
    ],
)
def test_shares_by_hand(arrivals: dict[str, tuple[float, int]], expected: dict[str, float]) -> None:
    model = NodeModel(Scenario.equal(tau_create_s=TAU))
    for pod, (at_s, containers) in arrivals.items():
        model.bind(pod, "n", containers, [], at_s)
    assert created(model) == pytest.approx(expected)


jobs = st.lists(st.tuples(st.floats(0, 20), st.integers(1, 4)), min_size=1, max_size=12)


@given(jobs)
def test_work_is_conserved(arrivals: list[tuple[float, int]]) -> None:
    """The node is busy exactly as long as its work takes, whatever the order: no work is lost or gained."""
    server = constant()
    done: list[tuple[float, str]] = []
    for i, (at_s, work) in enumerate(sorted(arrivals)):
        done += server.add(str(i), work, at_s)
    done += server.advance(1e6)
    free_s = 0.0
    for at_s, work in sorted(arrivals):
        free_s = max(at_s, free_s) + work * TAU
    assert len(done) == len(arrivals)
    assert max(at_s for at_s, _ in done) == pytest.approx(free_s)


@given(jobs, st.integers(0, 11))
def test_one_more_pod_makes_nobody_faster(arrivals: list[tuple[float, int]], left_out: int) -> None:
    assume(left_out < len(arrivals))
    full, fewer = NodeModel(Scenario.equal()), NodeModel(Scenario.equal())
    for i, (at_s, work) in sorted(enumerate(arrivals), key=lambda each: each[1][0]):
        full.bind(str(i), "n", work, [], at_s)
        if i != left_out:
            fewer.bind(str(i), "n", work, [], at_s)
    together, apart = created(full), created(fewer)
    assert all(together[pod] >= at_s - 1e-6 for pod, at_s in apart.items())


@given(
    arrivals=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 3)), min_size=1, max_size=5),
    changes=st.lists(
        st.tuples(st.integers(1, 40), st.floats(0.2, 3.0)), max_size=4, unique_by=lambda c: c[0]
    ),
    latency=st.floats(0, 1),
    side_by_side=st.floats(1, 4),
)
def test_against_brute_force_with_changing_speed(
    arrivals: list[tuple[int, int]], changes: list[tuple[int, float]], latency: float, side_by_side: float
) -> None:
    """A change of tau counts from the moment it happens, also in the middle of a creation."""
    speed = NodeSpeed(1.0, 0.1, tuple((float(t), tau) for t, tau in sorted(changes)))
    physics = Physics(creations_side_by_side=side_by_side, creation_latency=latency)
    scenario = Scenario(0, {"n": speed}, speed, physics=physics)
    model = NodeModel(scenario)
    for i, (at_s, work) in sorted(enumerate(arrivals), key=lambda each: each[1][0]):
        model.bind(str(i), "n", work, [], float(at_s))
    step_s, remaining, expected, now_s = 0.01, dict[str, float](), dict[str, float](), 0.0
    while len(expected) < len(arrivals):
        for i, (at_s, work) in enumerate(arrivals):
            if abs(now_s - at_s) < step_s / 2:
                remaining[str(i)] = work
        unit = step_s / scenario.tau_create_s("n", now_s + step_s / 2)
        contending = [job for job, left in remaining.items() if left <= arrivals[int(job)][1] * (1 - latency)]
        share = unit / max(1.0, len(contending) / side_by_side)
        now_s += step_s
        remaining = {job: work - (share if job in contending else unit) for job, work in remaining.items()}
        for job in [job for job, work in remaining.items() if work <= 0]:
            del remaining[job]
            expected[job] = now_s
    assert created(model) == pytest.approx(expected, abs=0.2)


@given(jobs, st.floats(0.05, 3))
def test_how_often_time_is_looked_at_does_not_matter(
    arrivals: list[tuple[float, int]], step_s: float
) -> None:
    scenario = Scenario.draw(1, ["n"], physics=Physics(creation_latency=0.3))
    looked, once = NodeModel(scenario), NodeModel(scenario)
    often: dict[str, float] = {}
    now_s = 0.0
    for i, (at_s, work) in enumerate(sorted(arrivals)):
        while now_s < at_s:
            often |= created(looked, now_s)
            now_s += step_s
        looked.bind(str(i), "n", work, [], at_s)
        once.bind(str(i), "n", work, [], at_s)
    while now_s < 100:
        often |= created(looked, now_s)
        now_s += step_s
    assert often | created(looked) == pytest.approx(created(once), abs=1e-6)


def test_nodes_do_not_disturb_each_other() -> None:
    """ComboFunc fig. 4."""
    model = NodeModel(Scenario.equal(tau_create_s=TAU))
    for i in range(8):
        model.bind(f"p{i}", f"n{i}", 1, [], 0.0)
    assert set(created(model).values()) == {TAU}


def test_cancelling_gives_the_share_back() -> None:
    model = NodeModel(Scenario.equal(tau_create_s=TAU))
    model.bind("a", "n", 1, [], 0.0)
    model.bind("b", "n", 1, [], 0.0)
    model.cancel("b", "n", 0.5)  # a has half its work left
    assert created(model) == pytest.approx({"a": 0.75})


def test_a_pod_is_bound_once() -> None:
    model = NodeModel(Scenario.equal(tau_create_s=TAU))
    model.bind("a", "n", 1, [], 0.0)
    model.bind("a", "n", 1, [], 0.25)
    assert created(model) == pytest.approx({"a": TAU})


def test_the_first_use_of_an_image_waits_for_its_pull_and_pods_share_it() -> None:
    model = NodeModel(Scenario.equal(tau_create_s=TAU, images={"big": Image(2.0)}))
    model.bind("a", "n", 1, ["big"], 0.0)
    model.bind("b", "n", 1, ["big"], 1.0)
    model.bind("c", "n", 1, ["small"], 0.0)
    events = model.advance(100)
    big = [e for e in events if isinstance(e, PullStarted | Pulled) and e.image == "big:latest"]
    assert big == [
        PullStarted(0.0, "n", "a", "big:latest"),
        Pulled(2.0, "n", "a", "big:latest", 2.0, 2.0),
    ]
    times = {e.pod: e.at_s for e in events if isinstance(e, Created)}
    # c, bound after time had come to 1.0, is alone while the others wait; then a and b share.
    assert times == pytest.approx({"c": 1.5, "a": 3.0, "b": 3.0})
    model.bind("d", "n", 1, ["big"], 100.0)
    assert created(model) == pytest.approx({"d": 100.5})


def test_a_pull_that_takes_no_time_is_told_and_waits_for_no_other() -> None:
    model = NodeModel(Scenario.equal(tau_create_s=TAU, images={"big": Image(2.0)}))
    model.bind("a", "n", 1, ["big"], 0.0)
    model.bind("b", "n", 1, ["small"], 1.0)
    assert model.images("n") == ["small:latest"]
    told = [e for e in model.advance(1.0) if isinstance(e, PullStarted | Pulled) and e.pod == "b"]
    assert told == [
        PullStarted(1.0, "n", "b", "small:latest"),
        Pulled(1.0, "n", "b", "small:latest", 0.0, 0.0),
    ]
    model.bind("c", "n", 1, ["small"], 1.5)
    assert [type(e) for e in model.advance(100) if e.pod == "c"] == [Created], "no second pull"


def test_a_node_pulls_one_image_at_a_time() -> None:
    model = NodeModel(Scenario.equal(tau_create_s=TAU, images={"x": Image(2.0), "y": Image(1.0)}))
    model.bind("a", "n", 1, ["x"], 0.0)
    model.bind("b", "n", 1, ["y"], 0.5)
    pulls = [e for e in model.advance(100) if isinstance(e, Pulled)]
    assert [(e.image, e.at_s, e.pull_s, e.waited_s) for e in pulls] == [
        ("x:latest", 2.0, 2.0, 2.0),
        ("y:latest", 3.0, 1.0, 2.5),
    ]


def test_images_already_there_are_not_pulled() -> None:
    model = NodeModel(Scenario.equal(tau_create_s=TAU, images={"big": Image(2.0)}))
    model.has_image("n", "big:latest")
    model.bind("a", "n", 1, ["big"], 0.0)
    assert created(model) == pytest.approx({"a": TAU})


def test_a_resize_takes_tau_u_and_a_newer_one_starts_over() -> None:
    model = NodeModel(Scenario.equal(tau_resize_s=0.2))
    model.resize("a", "n", 2, 0.0)
    model.resize("a", "n", 2, 0.1)  # the same one, seen again
    model.resize("b", "n", 2, 0.0)
    model.resize("b", "n", 3, 0.1)
    events = [e for e in model.advance(10) if isinstance(e, Resized)]
    assert [(e.pod, e.generation) for e in events] == [("a", 2), ("b", 3)]
    assert [e.at_s for e in events] == pytest.approx([0.2, 0.3])


def test_a_resize_waits_for_room_and_goes_on_when_something_is_freed() -> None:
    model = NodeModel(Scenario.equal(tau_resize_s=0.2))
    model.allocatable("n", Amount(1000, 1000))
    model.hold("a", "n", Amount(400, 400))
    model.hold("b", "n", Amount(500, 500))
    model.resize("a", "n", 2, 0.0, Amount(600, 400))
    model.resize("a", "n", 2, 0.1, Amount(600, 400))  # seen again
    model.resize("b", "n", 2, 0.5, Amount(2000, 500))
    assert [(type(e), e.pod) for e in model.advance(1.0)] == [(ResizePending, "a"), (ResizePending, "b")]
    model.gone("b", "n", 2.0)
    events = model.advance(10)
    assert [type(e) for e in events] == [ResizeStarted, Resized]
    assert [e.at_s for e in events] == pytest.approx([2.0, 2.2])


def test_what_shrinks_makes_room_at_once() -> None:
    """The kubelet counts what it granted, not what it has carried out."""
    model = NodeModel(Scenario.equal(tau_resize_s=0.2))
    model.allocatable("n", Amount(1000, 1000))
    for pod in ("a", "b"):
        model.hold(pod, "n", Amount(500, 500))
    model.resize("a", "n", 2, 0.0, Amount(700, 500))
    model.resize("b", "n", 2, 1.0, Amount(300, 500))
    events = [(type(e), e.pod, round(e.at_s, 6)) for e in model.advance(10)]
    assert events[0] == (ResizePending, "a", 0.0)
    assert set(events[1:]) == {
        (ResizeStarted, "b", 1.0),
        (ResizeStarted, "a", 1.0),
        (Resized, "a", 1.2),
        (Resized, "b", 1.2),
    }


def test_what_is_under_way_is_carried_on_while_a_newer_resize_waits() -> None:
    model = NodeModel(Scenario.equal(tau_resize_s=0.2))
    model.allocatable("n", Amount(1000, 1000))
    model.hold("a", "n", Amount(100, 100))
    model.hold("b", "n", Amount(500, 500))
    model.resize("a", "n", 2, 0.0, Amount(200, 100))
    model.resize("a", "n", 3, 0.1, Amount(600, 100))
    model.resize("a", "n", 4, 0.15, Amount(9000, 100))
    events = [(type(e), getattr(e, "reason", "")) for e in model.advance(10)]
    assert events == [
        (ResizeStarted, ""),
        (ResizePending, "Deferred"),
        (ResizePending, "Infeasible"),
        (Resized, ""),
    ]
    model.gone("b", "n", 20.0)  # nobody waits any more: Infeasible is not looked at again
    assert model.advance(30) == []


def test_the_next_event_is_when_something_happens() -> None:
    model = NodeModel(Scenario.equal(tau_create_s=TAU))
    assert model.next_event_s() == math.inf
    model.bind("a", "n", 1, [], 0.0)
    assert model.next_event_s() == pytest.approx(TAU)
    assert model.advance(0.49) == []
    assert [type(e) for e in model.advance(model.next_event_s())] == [Created]


def test_memory_in_use_is_not_taken_away_until_it_is_free() -> None:
    model = NodeModel(Scenario.equal(tau_resize_s=TAU))
    model.allocatable("n", Amount(1000, 100))
    model.hold("p", "n", Amount(500, 80))
    model.resize("p", "n", 2, 0.0, Amount(100, 20))
    model.uses_memory("p", "n", "in use", 0.0)
    assert model.advance(9.0) == [ResizeStarted(0.0, "n", "p", 2), ResizeFailed(TAU, "n", "p", 2, "in use")]
    assert model.advance(100.0) == [], "for ever"
    model.hold("q", "n", Amount(100, 1))
    model.resize("q", "n", 2, 100.0, Amount(100, 80))
    assert [type(e) for e in model.advance(101.0)] == [ResizeStarted, Resized], "what was granted counts"
    model.uses_memory("p", "n", "", 200.0)
    assert model.advance(300.0) == [Resized(200.0 + TAU, "n", "p", 2)]


def test_a_resize_that_failed_is_taken_back_by_another() -> None:
    model = NodeModel(Scenario.equal(tau_resize_s=TAU))
    model.resize("p", "n", 2, 0.0, Amount(100, 20))
    model.uses_memory("p", "n", "in use", 0.0)
    model.advance(9.0)
    model.resize("p", "n", 3, 9.0, Amount(100, 80))
    model.uses_memory("p", "n", "", 9.0)
    assert model.advance(100.0) == [ResizeStarted(9.0, "n", "p", 3), Resized(9.0 + TAU, "n", "p", 3)]


@pytest.mark.parametrize(
    ("had", "wanted", "in_use", "why_not"),
    [
        (
            {"app": "2Gi"},
            {"app": "512Mi"},
            700 * 2**20,
            "cannot decrease memory limits: [attempting to set pod memory limit (536870912) below current "
            'usage (734003200), attempting to set container "app" memory limit (536870912) below current '
            "usage (734003200)]",
        ),
        # A second container without a limit: the pod has none.
        (
            {"app": "2Gi", "side": None},
            {"app": "512Mi", "side": None},
            512 * 2**20,
            'cannot decrease memory limits: attempting to set container "app" memory limit (536870912) below '
            "current usage (536870912)",
        ),
        ({"app": "2Gi"}, {"app": "512Mi"}, 511 * 2**20, ""),
        ({"app": "512Mi"}, {"app": "2Gi"}, 4 * 2**30, ""),
        ({"app": "2Gi"}, {"app": "2Gi"}, 4 * 2**30, ""),
    ],
)
def test_a_kubelets_words_for_memory_in_use(
    had: dict[str, str | None], wanted: dict[str, str | None], in_use: int, why_not: str
) -> None:
    """validateMemoryResizeAction of kubelet 1.36.3 (pkg/kubelet/kuberuntime/kuberuntime_manager.go)."""

    def containers(limits: dict[str, str | None]) -> list[dict[str, object]]:
        return [
            {"name": name, "resources": {"limits": {"memory": limit}} if limit else {}}
            for name, limit in limits.items()
        ]

    pod = {"spec": {"containers": containers(wanted)}, "status": {"containerStatuses": containers(had)}}
    assert too_small(pod, in_use) == why_not
