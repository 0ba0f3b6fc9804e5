"""The stock HPA's formula lands on the target, whatever the tolerance and the state of the pods."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hpa_replacement.adapter.pods_metric import HIGHEST_TOLERANCE, MOST_REPLICAS, pod_values
from tests.hpa_replacement.adapter.stock_hpa import TOLERANCE, desired_replicas


def recommended(replicas: int, running: int, pending: int = 0, tolerance: float = TOLERANCE) -> int:
    up, not_yet = [f"web-{i}" for i in range(running)], [f"new-{i}" for i in range(pending)]
    values = pod_values(replicas, up, pending, tolerance)
    assert all(value >= 0 for value in values.values())
    return desired_replicas(running + pending, up, not_yet, values, tolerance)


_TOLERANCES = st.sampled_from([0.0, 0.01, 0.1, HIGHEST_TOLERANCE])
_PODS = st.integers(1, MOST_REPLICAS)


@given(replicas=_PODS, running=_PODS, pending=st.integers(0, 60), tolerance=_TOLERANCES)
@example(replicas=21, running=20, pending=0, tolerance=TOLERANCE)
@example(replicas=19, running=20, pending=0, tolerance=TOLERANCE)
@example(replicas=1, running=1, pending=1, tolerance=TOLERANCE)
@example(replicas=6, running=6, pending=4, tolerance=TOLERANCE)
@example(replicas=11, running=10, pending=0, tolerance=TOLERANCE)
def test_it_lands_on_the_target(replicas: int, running: int, pending: int, tolerance: float) -> None:
    """At once, or (only upwards, only within the tolerance) in two steps; and stays."""
    pods = running + pending
    first = recommended(replicas, running, pending, tolerance)
    if first != replicas:
        assert pods < replicas <= (1 + tolerance) * pods
        # The least number that the HPA accepts, within a pod.
        assert replicas < first <= (1 + tolerance) * pods + 2
        assert recommended(replicas, first, 0, tolerance) == replicas
    assert recommended(replicas, replicas, 0, tolerance) == replicas


@given(target=_PODS, running=st.integers(1, 200), started=st.integers(0, 200))
def test_it_also_arrives_while_its_steps_are_under_way(target: int, running: int, started: int) -> None:
    """Pods of a step start one after another, and the HPA asks in between."""
    pods, ready = running, running
    for _ in range(4):
        wanted = recommended(target, ready, pods - ready)
        pods, ready = wanted, min(wanted, max(ready, 1 + started % wanted))
    for _ in range(3):
        pods = recommended(target, pods)
    assert pods == target


@pytest.mark.parametrize(
    ("replicas", "running", "pending", "values"),
    [
        (3, ["a", "b"], 0, [1500]),
        (2, ["a", "b"], 0, [1000]),
        (2, ["a", "b"], 2, [499]),  # one gets none, and a third name does: (1 + 0.499 + 0.499) / 3 < 0.9
        (21, ["a"] * 20, 0, [1150]),  # 21 / 20 is within the tolerance: first 23
    ],
)
def test_examples(replicas: int, running: list[str], pending: int, values: list[int]) -> None:
    running = [f"{name}{i}" for i, name in enumerate(running)]
    found = pod_values(replicas, running, pending, TOLERANCE)
    assert sorted(set(found.values())) == sorted(set(values)), found


def test_padding_has_names_that_no_pod_can_have() -> None:
    values = pod_values(19, [f"web-{i}" for i in range(20)], 0, TOLERANCE)
    assert [name for name in values if not name.startswith("web-")] == ["_0", "_1"]


@given(replicas=_PODS, running=st.integers(701, 5000))
def test_from_far_more_pods_it_arrives_too(replicas: int, running: int) -> None:
    """Thousandths are too coarse for the first step, but not for the next ones."""
    for _ in range(4):
        running = recommended(replicas, running)
        assert running >= replicas
    assert running == replicas


@pytest.mark.parametrize(("running", "replicas"), [(0, 3), (5, MOST_REPLICAS + 1)])
def test_what_cannot_be_answered_is_refused(running: int, replicas: int) -> None:
    with pytest.raises(ValueError, match="one must"):
        pod_values(replicas, [f"web-{i}" for i in range(running)], 2, TOLERANCE)
