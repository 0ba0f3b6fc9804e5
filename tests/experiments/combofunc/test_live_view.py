"""What the live view makes of pods."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.combofunc.live_view import FUNCTION, LiveView, serving
from experiments.combofunc.workload import FUNCTIONS, Workload

Json = dict[str, Any]
FILE = FUNCTIONS["file"]  # a quarter of a core a request


def pod(name: str = "a", cpu: str = "1", has: str | None = "1", node: str = "node-0", **meta: Any) -> Json:
    resources = {"requests": {"cpu": cpu, "memory": "640Mi"}}
    actual = {"requests": {"cpu": has, "memory": "640Mi"}}
    status: Json = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    status["containerStatuses"] = [{"name": "app", "resources": actual, "state": {"running": {}}}]
    metadata = {"uid": name, "name": name, "labels": {FUNCTION: "file"}} | meta
    spec: Json = {"nodeName": node, "containers": [{"name": "app", "resources": resources}]}
    return {
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Pending"} if has is None else status,
    }


OURS = {FUNCTION: "file", "surgekit.dev/combofunc": "file"}
SERVING = OURS | {"surgekit.dev/serving": "true"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (pod(), 4),
        (pod(has=None), 0),  # being created
        (pod(cpu="2", has="1"), 4),  # growing
        (pod(cpu="500m", has="1"), 2),  # shrinking
        (pod(deletionTimestamp="2026-01-01T00:00:00Z"), 0),
        (pod(labels=SERVING, annotations={"surgekit.dev/concurrency": "3"}), 3),  # not told yet
        (pod(labels=OURS, annotations={"surgekit.dev/concurrency": "4"}), 0),  # drained
    ],
)
def test_serving(body: Json, expected: int) -> None:
    assert serving(body, FILE) == expected


def test_a_measurement_follows_the_events() -> None:
    view = LiveView(Workload())
    view.begin()
    view.aim("file", 4)
    view.apply("ADDED", pod(has=None), 0.0)  # before the measurement: time does not go back
    assert view.state("file").containers[0].ready is False
    view.apply("MODIFIED", pod(), 0.0)
    view.sample(with_utilisation=True)
    (container,) = view.state("file").containers
    assert (container.size, container.ready) == (FILE.sizes[3], True)
    free = view.state("file").nodes[0]
    assert (free.cpu_free_millicores, free.pods_free, free.creating) == (7000, 109, 0)
    view.apply("DELETED", pod(), 0.0)
    assert view.state("file").containers == []
    outcome = view.end()
    track = outcome.tracks["file"]
    assert len(track.scaling_s) == 1
    assert (track.cut_short, track.target, track.ready, track.replicas) == (0, [4], [4], [1])
    assert outcome.cpu_utilisation[0] == 0.125
