"""Requests as kube-scheduler counts them, and how far a pod is."""

from __future__ import annotations

from typing import Any

import pytest

from surgekit.pods import Creation, PodError, creation, image_name, images, requests

GIB = float(1 << 30)


def container(cpu: str = "0", memory: str = "0", **rest: Any) -> dict[str, Any]:
    return {"name": rest.pop("name", "c"), "resources": {"requests": {"cpu": cpu, "memory": memory}}, **rest}


@pytest.mark.parametrize(
    ("spec", "millicores", "gib"),
    [
        ({"containers": [container("250m", "1Gi"), container("1", "512Mi", name="d")]}, 1250, 1.5),
        ({"containers": [{"name": "c"}]}, 0, 0),
        ({"containers": [container("1")], "initContainers": [container("3"), container("2")]}, 3000, 0),
        # a sidecar runs beside the init containers after it and beside the containers
        (
            {
                "containers": [container("1")],
                "initContainers": [container("500m", restartPolicy="Always"), container("2")],
            },
            2500,
            0,
        ),
        (
            {"containers": [container("3")], "initContainers": [container("500m", restartPolicy="Always")]},
            3500,
            0,
        ),
        ({"containers": [container("1", "1Gi")], "resources": {"requests": {"cpu": "2"}}}, 2000, 1),
        ({"containers": [container("1")], "overhead": {"cpu": "100m", "memory": "1Gi"}}, 1100, 1),
    ],
)
def test_requests(spec: dict[str, Any], millicores: float, gib: float) -> None:
    assert requests({"spec": spec}) == pytest.approx((millicores, gib * GIB))


def test_a_container_being_shrunk_still_holds_what_it_had() -> None:
    status = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]}
    pod = {"spec": {"containers": [container("1", "2Gi")]}, "status": status}
    assert requests(pod) == (2000, 2 * GIB)


def test_a_bad_quantity_names_its_field() -> None:
    with pytest.raises(PodError, match=r"spec\.containers\[1\]\.resources\.requests\.memory.*'lots'"):
        requests({"spec": {"containers": [container("1"), container("1", "lots")]}})


RUNNING: dict[str, Any] = {"running": {}}
WAITING = {"waiting": {"reason": "ContainerCreating"}}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, Creation.CREATING),
        ({"containerStatuses": [{"state": WAITING}, {"state": RUNNING}]}, Creation.CREATING),
        ({"containerStatuses": [{"state": RUNNING}]}, Creation.CREATING),  # one of two is reported
        ({"containerStatuses": [{"state": RUNNING}, {"state": {"terminated": {}}}]}, Creation.STARTED),
        ({"containerStatuses": [{"state": WAITING, "restartCount": 1}]}, Creation.STARTED),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}, Creation.SET_ASIDE),
        ({"initContainerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]}, Creation.SET_ASIDE),
        ({"phase": "Failed"}, Creation.FINISHED),
        ({"phase": "Succeeded"}, Creation.FINISHED),
    ],
)
def test_creation(status: dict[str, Any], expected: Creation) -> None:
    assert creation({"spec": {"containers": [{}, {}]}, "status": status}) is expected


@pytest.mark.parametrize(
    ("written", "one"),
    [
        ("nginx", "nginx:latest"),
        ("docker.io/library/nginx:1.27", "nginx:1.27"),
        ("registry.example:5000/web", "registry.example:5000/web:latest"),
        ("web@sha256:abc", "web@sha256:abc"),
    ],
)
def test_one_spelling_per_image(written: str, one: str) -> None:
    assert image_name(written) == one
    assert images({"spec": {"containers": [{"image": written}, {"image": one}]}}) == (one,)
