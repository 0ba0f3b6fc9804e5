"""Requests as kube-scheduler counts them, and how far a pod is."""

from __future__ import annotations

from typing import Any

import pytest

from surgekit.kube.pods import Creation, PodError, creation, image_name, images, requests

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


def resources(cpu: str) -> dict[str, Any]:
    return {"requests": {"cpu": cpu}}


@pytest.mark.parametrize(("reason", "expected"), [("Deferred", (4, 2, 2)), ("Infeasible", (3, 1, 2))])
@pytest.mark.parametrize("where", ["container", "sidecar", "pod"])
def test_of_a_resize_the_most_counts_but_for_what_can_never_be(
    where: str, reason: str, expected: tuple[int, int, int]
) -> None:
    """Asked, granted and there; as PodRequests of k8s.io/component-helpers 0.36.3 says of the same pods."""
    for (asked, granted, there), cores in zip(
        (("4", "3", "1"), ("2", "1", "1"), ("1", "1", "2")), expected, strict=True
    ):
        held = {"allocatedResources": {"cpu": granted}, "resources": resources(there)}
        spec: dict[str, Any] = {"containers": [container(name="c")]}
        status: dict[str, Any] = {"conditions": [{"type": "PodResizePending", "reason": reason}]}
        if where == "container":
            spec["containers"] = [container(asked)]
            status["containerStatuses"] = [{"name": "c", **held}]
        elif where == "sidecar":
            spec["initContainers"] = [container(asked, name="s", restartPolicy="Always")]
            status["initContainerStatuses"] = [{"name": "s", **held}]
        else:
            spec["resources"] = resources(asked)
            status |= held
        assert requests({"spec": spec, "status": status}) == (cores * 1000, 0)


def test_a_container_without_a_status_counts_as_asked_for() -> None:
    """Its containers have not started, so nothing of it has been resized."""
    status = {
        "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}],
        "containerStatuses": [{"name": "c"}],
    }
    assert requests({"spec": {"containers": [container("1")]}, "status": status}) == (1000, 0)


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


@pytest.mark.parametrize("spec", [None, {}, {"containers": None}, {"initContainers": None, "containers": []}])
def test_a_pod_without_containers_has_no_images(spec: Any) -> None:
    assert images({"spec": spec}) == ()
