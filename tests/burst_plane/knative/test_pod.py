"""An emergency instance is the revision's own container: nothing of queue-proxy's makes it ineligible."""

from __future__ import annotations

from typing import Any

import pytest

from burst_plane.knative.pod import without_queue_proxy
from burst_plane.pod import Missing, read_instance
from tests.burst_plane.knative.objects import Json, revision_pod


def instance(pod: Json) -> Any:
    return read_instance(without_queue_proxy(pod), {}, "user-port", 300.0)


def test_the_functions_own_container_is_left() -> None:
    spec = instance(revision_pod())
    assert (spec.image, spec.port, spec.memory_bytes) == ("registry.example/resize:1", 8080, 128 << 20)
    assert dict(spec.env) == {"PORT": "8080", "K_REVISION": "resize-00001"}


def test_the_pod_itself_is_not_changed() -> None:
    pod = revision_pod()
    without_queue_proxy(pod)
    assert pod == revision_pod()


@pytest.mark.parametrize(
    ("where", "change", "text"),
    [
        ("spec", {"volumes": [{"name": "data"}]}, "volumes"),
        ("spec", {"initContainers": [{"name": "first"}]}, "initContainers"),
        ("container", {"lifecycle": {"postStart": {"exec": {"command": ["x"]}}}}, "lifecycle"),
        ("container", {"lifecycle": {"preStop": {"exec": {"command": ["x"]}}}}, "lifecycle"),
        ("container", {"volumeMounts": [{"name": "pod-info", "mountPath": "/x"}]}, "volumes"),
    ],
)
def test_what_the_function_itself_asks_for_is_looked_at_as_always(
    where: str, change: Json, text: str
) -> None:
    pod = revision_pod()
    (pod["spec"] if where == "spec" else pod["spec"]["containers"][0]).update(change)
    with pytest.raises(Missing, match=text):
        instance(pod)


def test_a_second_container_is_one_too_many() -> None:
    pod = revision_pod()
    pod["spec"]["containers"].append({"name": "sidecar", "image": "y"})
    with pytest.raises(Missing, match="one container"):
        instance(pod)
