"""What a pod object says of itself, and its resources."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_extender.function_pods.actions import Mark, Resize
from scheduler_extender.function_pods.pod import FunctionPod, Resizing, read
from scheduler_extender.function_pods.resize_steps import become
from scheduler_extender.function_pods.resources import amounts_of, includes, of_size, resize_patch, written
from scheduler_extender.planner.model import Size

Json = dict[str, Any]
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
    assert become(before, to, "app") == step


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
