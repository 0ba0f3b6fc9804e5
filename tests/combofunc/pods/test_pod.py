"""What a pod object says of itself, and its resources."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from combofunc.planner.model import Size
from combofunc.pods.actions import Mark, Resize
from combofunc.pods.memory_in_use import Refused, least_memory, next_try_s, with_refusals
from combofunc.pods.pod import FunctionPod, Resizing, read
from combofunc.pods.pod_transitions import resize_step
from combofunc.pods.resources import amounts_of, includes, of_size, resize_patch, written

Json = dict[str, Any]
MEMORY = (("requests", "memory"), ("limits", "memory"))
SMALL, LARGE = Size("small", 500, 512 * 2**20, 2), Size("large", 2000, 2**31, 8)


def pod(asked: Size = SMALL, has: Size | None = SMALL, **rest: Any) -> Json:
    def resources(size: Size) -> Json:
        amounts = {"cpu": f"{size.cpu_millicores}m", "memory": str(size.memory_bytes)}
        return {"requests": amounts, "limits": amounts}

    statuses = [{"name": "app", "state": {"running": {}}, "resources": resources(has)}] if has else []
    return {
        "metadata": {
            "name": "video-1",
            "uid": "u1",
            "generation": 2,
            "labels": {"surgekit.dev/size": "small", "surgekit.dev/template": "abc"},
            "annotations": {"surgekit.dev/concurrency": "2"} | rest.pop("annotations", {}),
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "app", "resources": resources(asked)}]},
        "status": {"phase": "Running", "containerStatuses": statuses, "conditions": [], **rest},
    }


def condition(kind: str, reason: str = "", **rest: Any) -> Json:
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    } | rest


@pytest.mark.parametrize(
    ("obj", "resizing"),
    [
        (pod(), Resizing.NONE),
        (pod(LARGE), Resizing.IN_PROGRESS),
        (pod(LARGE, None), Resizing.NONE),
        (pod(LARGE, conditions=[condition("PodResizePending", "Deferred")]), Resizing.DEFERRED),
        (pod(LARGE, conditions=[condition("PodResizePending", "Infeasible")]), Resizing.INFEASIBLE),
        # Of the generation before: that resize was taken back, or is another now.
        (
            pod(LARGE, conditions=[condition("PodResizePending", "Infeasible", observedGeneration=1)]),
            Resizing.IN_PROGRESS,
        ),
        # Taken back, and the kubelet has not said so yet.
        (pod(conditions=[condition("PodResizePending", "Infeasible")]), Resizing.NONE),
        (pod(conditions=[condition("PodResizeInProgress")]), Resizing.IN_PROGRESS),
    ],
)
def test_how_far_a_resize_is(obj: Json, resizing: Resizing) -> None:
    assert read(obj).resizing is resizing


@pytest.mark.parametrize(
    ("annotations", "since_s"),
    [
        ({}, None),
        ({"surgekit.dev/draining-since": "12.5"}, 12.5),
        ({"surgekit.dev/draining-since": "?"}, 0.0),
    ],
)
def test_since_when_it_drains(annotations: dict[str, str], since_s: float | None) -> None:
    ready = [condition("Ready")]
    found = read(pod(annotations=annotations, conditions=ready))
    assert found.draining_since_s == since_s
    assert found.serves == (since_s is None)


def test_marks_that_cannot_be_read_are_no_capacity() -> None:
    assert read(pod(annotations={"surgekit.dev/concurrency": "many"})).concurrency == 0


def marked(asked: Size, has: Size, size: Size) -> FunctionPod:
    obj = pod(asked, has)
    obj["metadata"]["labels"]["surgekit.dev/size"] = size.name
    obj["metadata"]["annotations"]["surgekit.dev/concurrency"] = str(size.concurrency)
    return read(obj)


@pytest.mark.parametrize(
    ("before", "to", "step"),
    [
        # Growing: asked for, then waited for, then said.
        (marked(SMALL, SMALL, SMALL), LARGE, Resize("video-1", "u1", of_size(LARGE, "app"))),
        (marked(LARGE, SMALL, SMALL), LARGE, None),
        (marked(LARGE, LARGE, SMALL), LARGE, Mark("video-1", "u1", "large", 8)),
        (marked(LARGE, LARGE, LARGE), LARGE, None),
        # Shrinking: said, then asked for.
        (marked(LARGE, LARGE, LARGE), SMALL, Mark("video-1", "u1", "small", 2)),
        (marked(LARGE, LARGE, SMALL), SMALL, Resize("video-1", "u1", of_size(SMALL, "app"))),
        (marked(SMALL, LARGE, SMALL), SMALL, None),
        # A growth that was refused is taken back.
        (marked(LARGE, SMALL, SMALL), SMALL, Resize("video-1", "u1", of_size(SMALL, "app"))),
    ],
)
def test_the_order_of_marks_and_resizes(before: FunctionPod, to: Size, step: object) -> None:
    assert resize_step(before, to, "app", 0.0) == step


@pytest.mark.parametrize("least_bytes", [SMALL.memory_bytes + 1.0, float("inf")])
def test_memory_in_use_stays_while_the_cpu_shrinks(least_bytes: float) -> None:
    memory = {key: float(LARGE.memory_bytes) for key in MEMORY}
    cpu_alone = {"app": {**of_size(SMALL, "app")["app"], **memory}}
    asked = resize_step(marked(LARGE, LARGE, SMALL), SMALL, "app", least_bytes)
    assert asked == Resize("video-1", "u1", cpu_alone)
    # Asked for before it was known, and refused: the memory is taken back.
    assert resize_step(marked(SMALL, LARGE, SMALL), SMALL, "app", least_bytes) == asked
    assert resize_step(marked(LARGE, SMALL, SMALL), LARGE, "app", least_bytes) is None, "growing is no matter"


def test_a_kubelet_that_cannot_take_memory_away() -> None:
    """In the words of kubelet 1.36.3 (kuberuntime_manager.go)."""
    said = (
        "cannot decrease memory limits: [attempting to set pod memory limit (67108864) below current usage "
        '(94556160), attempting to set container "app" memory limit (67108864) below current usage '
        "(94556160)]"
    )

    def seen(message: str | None, generation: int = 2) -> FunctionPod:
        error = condition("PodResizeInProgress", "Error", message=message, observedGeneration=generation)
        return read(pod(SMALL, LARGE, conditions=[error]))

    refused = seen(said)
    assert (refused.resizing, refused.memory_used_bytes) == (Resizing.MEMORY_IN_USE, 94556160)
    assert seen(said, 1).resizing is Resizing.IN_PROGRESS, "another was asked for meanwhile"
    assert seen("the runtime is down").resizing is Resizing.FAILING
    assert seen(None).resizing is Resizing.FAILING
    vague = seen("cannot decrease memory limits: missing pod memory usage")
    assert (vague.resizing, vague.memory_used_bytes) == (Resizing.MEMORY_IN_USE, 0)


def test_memory_is_asked_for_less_and_less_often_and_then_no_more() -> None:
    one = replace(marked(SMALL, LARGE, SMALL), resizing=Resizing.MEMORY_IN_USE, memory_used_bytes=1000)
    known: dict[str, Refused] = {}
    waits = []
    now_s = 0.0
    while now_s < float("inf"):
        known = with_refusals(known, [one], now_s)
        assert with_refusals(known, [one], now_s) == known, "one refusal is counted once"
        assert least_memory(known, [one], {}, now_s) == {"u1": pytest.approx(1100.0)}
        waits.append(next_try_s(known, now_s) - now_s)
        now_s = known["u1"].until_s
        assert least_memory(known, [one], {}, now_s) == {}
    assert waits == [300.0, 600.0, 1200.0, 2400.0, float("inf")]
    assert with_refusals(known, [], 0.0) == {}


def test_measured_use_counts_before_a_kubelet_refuses() -> None:
    one = marked(LARGE, LARGE, LARGE)
    assert least_memory({}, [one], {"video-1": 500.0, "other": 9.0}, 0.0) == {"u1": pytest.approx(550.0)}
    refused = {"u1": Refused(800.0, 10.0, 1)}
    assert least_memory(refused, [one], {"video-1": 500.0}, 5.0) == {"u1": 800.0}


def test_amounts_are_equal_however_written() -> None:
    one = amounts_of([{"name": "app", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}])
    other = {"cpu": "1000m", "memory": str(2**30)}
    same = amounts_of([{"name": "app", "resources": {"limits": other, "requests": other}}])
    assert one == same
    assert includes(same, amounts_of([{"name": "app", "resources": {"limits": {"cpu": 1}}}]))
    assert not includes(one, of_size(LARGE, "app"))
    assert not includes({}, of_size(LARGE, "app"))


def test_the_patch_of_a_resize() -> None:
    amounts = {"cpu": "2000m", "memory": "2Gi"}
    container = {"name": "app", "resources": {"requests": amounts, "limits": amounts}}
    assert resize_patch(of_size(LARGE, "app")) == {"spec": {"containers": [container]}}


@pytest.mark.parametrize(
    ("amount", "text"), [(2**30, "1Gi"), (512 * 2**20, "512Mi"), (3 * 2**29, "1536Mi"), (1000, "1000")]
)
def test_memory_in_the_unit_people_use(amount: int, text: str) -> None:
    assert written("memory", amount) == text
