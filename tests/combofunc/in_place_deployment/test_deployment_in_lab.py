"""InPlaceDeployments with the real API server, scheduler and its `resize` subresource."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwok.binaries import Binaries
from kwok.node_model_resize_status import MEMORY_IN_USE
from tests.combofunc import lab_with_controller
from tests.combofunc.lab_with_controller import GROUP, Json, Running, template

pytestmark = pytest.mark.lab
KIND = "inplacedeployments"


@pytest.fixture(scope="module")
def running(binaries: Binaries) -> Iterator[Running]:
    with lab_with_controller.running("inplace", resize_wait_limit_s=2.0) as running:
        yield running


def sized(cpu: str, image: str = "registry.example/app:1") -> Json:
    amounts = {"cpu": cpu, "memory": "256Mi"}
    return template(image, resources={"requests": amounts, "limits": amounts})


def deploy(running: Running, name: str, replicas: int, of: Json, **spec: object) -> str:
    shop = running.namespace()
    running.create(
        shop, "InPlaceDeployment", name, {"replicas": replicas, "template": of, "drain": "1s", **spec}
    )
    wait_updated(running, shop, name, replicas)
    return shop


def wait_updated(running: Running, shop: str, name: str, replicas: int) -> None:
    def updated() -> bool:
        status = running.status(shop, name, KIND)
        counts = {status.get(f"{which}Replicas") for which in ("ready", "updated")} | {status.get("replicas")}
        return counts == {replicas} and running.condition(shop, name, "Ready", KIND)["reason"] == "Ready"

    running.lab.wait_for(updated, f"{replicas} as the template says", 60)


def uids(running: Running, shop: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in running.pods(shop)}


def test_resized_scaled_and_rolled(running: Running) -> None:
    shop = deploy(running, "web", 4, sized("500m"))
    before = uids(running, shop)
    generation = running.kube.get(f"{GROUP}/namespaces/{shop}/{KIND}/web")["metadata"]["generation"]
    running.patch(shop, "web", {"template": sized("1")}, KIND)
    running.lab.wait_for(
        lambda: running.status(shop, "web", KIND)["observedGeneration"] > generation, "the new generation"
    )
    wait_updated(running, shop, "web", 4)
    assert uids(running, shop) == before, "resized where they were"
    for pod in running.pods(shop):
        (status,) = pod["status"]["containerStatuses"]
        assert (status["resources"]["requests"]["cpu"], status["restartCount"]) == ("1", 0)
    running.lab.kubectl("scale", "--namespace", shop, "inplacedeployment/web", "--replicas=6")
    wait_updated(running, shop, "web", 6)
    assert before < uids(running, shop)
    running.patch(shop, "web", {"template": sized("1", "registry.example/app:2")}, KIND)
    running.lab.wait_for(lambda: not before & uids(running, shop), "new pods", 60)
    wait_updated(running, shop, "web", 6)


def test_a_size_no_node_can_ever_have_beside_the_rest_replaces_the_pod(running: Running) -> None:
    """The first node is too small for the new size; the scheduler finds another."""
    (small,) = running.lab.add_nodes(1, cpu="2", prefix="tiny")
    others = [name for name in running.nodes if name != small]
    for name in others:
        running.kube.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    try:
        shop = deploy(running, "grow", 1, sized("500m"))
        (before,) = running.pods(shop)
        assert before["spec"]["nodeName"] == small
    finally:
        for name in others:
            running.kube.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})
    running.patch(shop, "grow", {"template": sized("4")}, KIND)
    running.lab.wait_for(lambda: not {before["metadata"]["uid"]} & uids(running, shop), "replaced", 60)
    wait_updated(running, shop, "grow", 1)
    (after,) = running.pods(shop)
    assert after["spec"]["nodeName"] in others


def test_a_resize_deferred_for_too_long_replaces_the_pod(running: Running) -> None:
    """There is room for one of the two to grow on their node."""
    pool = {"pool": "deferred"}
    (tight,) = running.lab.add_nodes(1, cpu="2", prefix="tight", labels=pool)
    of = sized("800m")
    of["spec"]["nodeSelector"] = pool
    shop = deploy(running, "wait", 2, of)
    before = uids(running, shop)
    grown = sized("1200m")
    grown["spec"]["nodeSelector"] = pool
    running.patch(shop, "wait", {"template": grown}, KIND)

    def resized() -> Json:
        return running.condition(shop, "wait", "Resized", KIND)

    # It waits for 3 s: on busy cores that may pass unseen.
    waits = ("Deferred", "Replacing")
    running.lab.wait_for(lambda: resized()["reason"] in waits, "one that waits for room", 60)
    running.lab.wait_for(lambda: resized()["reason"] == "Replacing", "one that waited too long", 60)
    assert "1 waited too long for room on its node" in resized()["message"]
    assert running.status(shop, "wait", KIND)["readyReplicas"] == 2, "it serves until the other does"
    (roomy,) = running.lab.add_nodes(1, prefix="roomy", labels=pool)
    wait_updated(running, shop, "wait", 2)
    running.lab.wait_for(lambda: len(running.pods(shop)) == 2, "the old one to be gone")
    assert {pod["spec"]["nodeName"] for pod in running.pods(shop)} == {tight, roomy}
    assert len(uids(running, shop) & before) == 1, "the other grew where it was"


def test_memory_in_use_is_kept_while_the_cpu_shrinks(running: Running) -> None:
    def with_memory(cpu: str, memory: str) -> Json:
        amounts = {"cpu": cpu, "memory": memory}
        of = template(resources={"requests": amounts, "limits": amounts})
        return of | {"metadata": {"annotations": {MEMORY_IN_USE: "700Mi"}}}

    def limits() -> list[tuple[str, str]]:
        of = [p["status"]["containerStatuses"][0]["resources"]["limits"] for p in running.pods(shop)]
        return [(amounts["cpu"], amounts["memory"]) for amounts in of]

    shop = deploy(running, "use", 2, with_memory("1", "1Gi"))
    before = uids(running, shop)
    running.patch(shop, "use", {"template": with_memory("500m", "512Mi")}, KIND)
    running.lab.wait_for(lambda: limits() == [("500m", "1Gi")] * 2, "less cpu and the same memory", 90)
    running.lab.wait_for(
        lambda: running.condition(shop, "use", "Resized", KIND)["reason"] == "MemoryInUse", "said", 90
    )
    running.wait_event(shop, "MemoryInUse", "pods keep memory that they use")
    assert running.condition(shop, "use", "Ready", KIND)["reason"] == "Ready"
    running.patch(shop, "use", {"template": with_memory("500m", "800Mi")}, KIND)
    running.lab.wait_for(lambda: limits() == [("500m", "800Mi")] * 2, "as much as is not in use", 90)
    assert uids(running, shop) == before
