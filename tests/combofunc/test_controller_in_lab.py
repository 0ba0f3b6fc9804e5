"""The controller under its own account: real API server, stock scheduler, emulated nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from combofunc.labels import CONCURRENCY_ANNOTATION, PLANNED_NODE_ANNOTATION, SIZE_LABEL
from kwok import parts
from kwok.binaries import Binaries
from kwok.lab import NODE_MODEL
from kwok.node_model_resize_status import MEMORY_IN_USE
from kwok.pods import pod
from surgekit.cli.explain_combofunc import explain_combofunc
from tests.combofunc import lab_with_controller
from tests.combofunc.lab_with_controller import GROUP, SIZES, Json, Running, template

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def running(binaries: Binaries) -> Iterator[Running]:
    with lab_with_controller.running("combofunc", resize_wait_limit_s=2.0) as running:
        yield running


def planned_and_bound(pod: Json) -> tuple[str, str]:
    return pod["metadata"]["annotations"][PLANNED_NODE_ANNOTATION], pod["spec"].get("nodeName", "")


def scale(running: Running, namespace: str, name: str, target: int) -> None:
    """As kubectl scale, an HPA and a KneePolicy do."""
    path = f"{GROUP}/namespaces/{namespace}/combofuncs/{name}/scale"
    running.kube.patch(path, {"spec": {"replicas": target}})


def test_scales_through_the_scale_subresource_on_the_planned_nodes(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = running.namespace()
    running.function(shop, "video", 0)
    running.lab.kubectl("scale", "--namespace", shop, "combofunc/video", "--replicas=40")
    running.wait_settled(shop, "video", 40)
    pods = running.pods(shop)
    assert all(planned == bound for planned, bound in map(planned_and_bound, pods))
    assert len({bound for _, bound in map(planned_and_bound, pods)}) > 1
    running.wait_event(shop, "Planned", "(because the spec or the target changed)")
    found = running.kube.get(f"{GROUP}/namespaces/{shop}/combofuncs/video/scale")
    assert found["spec"]["replicas"] == 40
    assert found["status"] == {"replicas": 40, "selector": "surgekit.dev/combofunc=video"}
    listed = running.kube.list_all(
        f"/api/v1/namespaces/{shop}/pods", labelSelector=found["status"]["selector"]
    )[0]
    assert len(listed) == len(pods)
    explain_combofunc(running.kube, shop, "video", None)
    said = capsys.readouterr().out
    assert "concurrency 40 ready, 40 planned for a target of 40" in said
    assert said.count("serving") == len(pods)
    scale(running, shop, "video", 0)
    running.lab.wait_for(lambda: not running.pods(shop), "no pods", 30)


def test_grows_and_shrinks_in_place(running: Running) -> None:
    shop = running.namespace()
    running.function(shop, "web", 3, sizes=SIZES[1:])
    running.wait_settled(shop, "web", 3)
    (before,) = running.pods(shop)
    assert before["metadata"]["labels"][SIZE_LABEL] == "medium"
    scale(running, shop, "web", 8)
    running.wait_settled(shop, "web", 8)
    (grown,) = running.pods(shop)
    assert grown["metadata"]["uid"] == before["metadata"]["uid"]
    assert grown["metadata"]["labels"][SIZE_LABEL] == "large"
    assert grown["metadata"]["annotations"][CONCURRENCY_ANNOTATION] == "8"
    (status,) = grown["status"]["containerStatuses"]
    assert status["restartCount"] == 0
    assert status["resources"]["requests"] == {"cpu": "2", "memory": "2Gi"}
    # With a high price for room the large one is worth shrinking.
    running.patch(shop, "web", {"targetConcurrency": 3, "priceWeight": 100})
    running.lab.wait_for(
        lambda: [p["metadata"]["labels"][SIZE_LABEL] for p in running.pods(shop)] == ["medium"],
        "shrunk",
    )
    running.wait_settled(shop, "web", 3)
    (shrunk,) = running.pods(shop)
    assert shrunk["metadata"]["uid"] == before["metadata"]["uid"]


def test_a_resize_deferred_for_too_long_is_planned_anew(running: Running) -> None:
    shop, lab, pool = running.namespace(), running.lab, {"pool": "deferred"}
    (tight,) = lab.add_nodes(1, cpu="2", prefix="tight", labels=pool)
    (roomy,) = lab.add_nodes(1, prefix="roomy", labels=pool)
    running.kube.patch(f"/api/v1/nodes/{roomy}", {"spec": {"unschedulable": True}})
    of = template()
    of["spec"]["nodeSelector"] = pool
    running.function(shop, "wait", 3, sizes=[SIZES[1]], template=of)
    running.wait_settled(shop, "wait", 3)
    (before,) = running.pods(shop)
    assert before["spec"]["nodeName"] == tight
    lab.stop(NODE_MODEL)  # holds the resize between being asked for and being looked at
    running.patch(shop, "wait", {"sizes": [SIZES[2]], "targetConcurrency": 8})

    def asked() -> bool:
        (one,) = running.pods(shop)
        return bool(one["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2")

    lab.wait_for(asked, "the resize")
    blocker = pod("a-blocker", "1", "1Gi", nodeName=tight)
    running.kube.create(f"/api/v1/namespaces/{shop}/pods", blocker)
    running.start_node_model()
    lab.wait_for(
        lambda: any(
            c.get("reason") == "Deferred" for p in running.pods(shop) for c in p["status"]["conditions"]
        ),
        "a deferred resize",
    )
    running.kube.patch(f"/api/v1/nodes/{roomy}", {"spec": {"unschedulable": None}})
    running.wait_settled(shop, "wait", 8)

    def nodes() -> list[str]:
        return [p["spec"]["nodeName"] for p in running.pods(shop) if p["metadata"]["name"] != "a-blocker"]

    # The function is Ready before the kubelet has ended the pod that was replaced.
    lab.wait_for(lambda: nodes() == [roomy], "only the new pod")
    lab.wait_for(
        lambda: any("waited too long for room" in note for note in running.events(shop, "Planned")),
        "the Event",
    )


def test_a_node_that_became_impossible_is_passed_over_and_the_record_says_so(running: Running) -> None:
    shop, lab = running.namespace(), running.lab
    lab.stop_scheduler()  # holds what was planned between the plan and its scheduling
    running.function(shop, "ml", 8)
    lab.wait_for(
        lambda: any(p["status"].get("nominatedNodeName") for p in running.pods(shop)), "a nominated pod"
    )
    ((planned, _),) = map(planned_and_bound, running.pods(shop))
    running.kube.patch(f"/api/v1/nodes/{planned}", {"spec": {"unschedulable": True}})
    try:
        lab.start_scheduler()
        running.wait_settled(shop, "ml", 8)
        (pod,) = running.pods(shop)
        bound = pod["spec"]["nodeName"]
        assert bound != planned
        words = f"{pod['metadata']['name']} planned for {planned} went to {bound}"
        lab.wait_for(lambda: words in running.events(shop, "PlacedElsewhere"), "the Event")
        lab.wait_for(lambda: words in running.status(shop, "ml")["plan"]["reasons"], "the record")
    finally:
        running.kube.patch(f"/api/v1/nodes/{planned}", {"spec": {"unschedulable": None}})


def test_killed_in_the_middle_of_a_plan_it_goes_on(running: Running) -> None:
    shop, lab = running.namespace(), running.lab
    small = [SIZES[0]]  # many pods: a plan that takes a while
    running.function(shop, "files", 40, sizes=small)
    lab.wait_for(lambda: len(running.pods(shop)) >= 3, "the first pods")
    lab.kill("combofunc")
    parts.start_combofunc(lab)
    running.wait_settled(shop, "files", 40, 90)
    pods = running.pods(shop)
    assert len(pods) == 40
    assert not any(pod["spec"].get("schedulingGates") for pod in pods)
    running.patch(shop, "files", {"targetConcurrency": 0})
    lab.wait_for(lambda: not running.pods(shop), "no pods", 60)


def test_of_two_replicas_one_leads_and_the_other_takes_over(running: Running) -> None:
    shop, lab = running.namespace(), running.lab
    parts.start_combofunc(lab, name="combofunc-2")
    running.function(shop, "pair", 8)
    running.wait_settled(shop, "pair", 8)
    lab.wait_for(lambda: bool(running.events(shop, "Planned")), "the Event")
    assert len(running.events(shop, "Planned")) == 1
    path = "/apis/coordination.k8s.io/v1/namespaces/surgekit-system/leases/surgekit-combofunc"
    holder = running.kube.get(path)["spec"]["holderIdentity"]
    lab.kill("combofunc")  # began first
    scale(running, shop, "pair", 24)
    running.wait_settled(shop, "pair", 24, 60)
    assert running.kube.get(path)["spec"]["holderIdentity"] not in ("", holder)
    parts.start_combofunc(lab)
    lab.stop("combofunc-2")


def test_another_image_rolls_without_serving_less(running: Running) -> None:
    shop, lab = running.namespace(), running.lab
    running.function(shop, "roll", 24)
    running.wait_settled(shop, "roll", 24)
    old = {pod["metadata"]["uid"] for pod in running.pods(shop)}
    ready: list[int] = []

    def rolled() -> bool:
        ready.append(running.status(shop, "roll")["readyConcurrency"])
        pods = running.pods(shop)
        return not old & {pod["metadata"]["uid"] for pod in pods} and running.settled(shop, "roll", 24)

    running.patch(shop, "roll", {"template": template("registry.example/app:2")})
    lab.wait_for(rolled, "the new image", 60)
    assert min(ready) >= 24
    images = {pod["spec"]["containers"][0]["image"] for pod in running.pods(shop)}
    assert images == {"registry.example/app:2"}


def test_a_spec_that_cannot_be_read_leaves_the_pods_alone(running: Running) -> None:
    shop, lab = running.namespace(), running.lab
    running.function(shop, "bad", 16)
    running.wait_settled(shop, "bad", 16)
    before = {pod["metadata"]["uid"] for pod in running.pods(shop)}
    wrong = template(resources={"requests": {"ephemeral-storage": "a lot"}})
    running.patch(shop, "bad", {"template": wrong, "targetConcurrency": 1})
    lab.wait_for(
        lambda: running.condition(shop, "bad", "Planned").get("reason") == "InvalidSpec", "the condition"
    )
    assert "ephemeral-storage" in running.condition(shop, "bad", "Planned")["message"]
    assert {pod["metadata"]["uid"] for pod in running.pods(shop)} == before
    running.patch(shop, "bad", {"template": template(resources=None), "targetConcurrency": 24})
    running.wait_settled(shop, "bad", 24)
    assert before <= {pod["metadata"]["uid"] for pod in running.pods(shop)}


def test_what_fits_nowhere_is_a_shortage_and_waits_for_a_node(running: Running) -> None:
    shop, lab = running.namespace(), running.lab
    running.function(shop, "huge", 8, sizes=[{"name": "xl", "cpu": "64", "memory": "1Gi", "concurrency": 8}])
    lab.wait_for(lambda: running.status(shop, "huge").get("shortage") == 8, "the shortage")
    assert running.condition(shop, "huge", "SizesUsable")["reason"] == "TooLarge"
    assert running.condition(shop, "huge", "Ready")["reason"] == "Shortage"
    lab.wait_for(
        lambda: running.condition(shop, "huge", "Planned")["reason"] == "AwaitingNodes", "a pod that waits"
    )
    assert len(running.pods(shop)) == 1
    scale(running, shop, "huge", 0)
    lab.wait_for(lambda: not running.pods(shop), "no pod waits for what nobody wants")


def test_shadow_says_and_does_nothing(running: Running) -> None:
    shop, lab = running.namespace(), running.lab
    running.function(shop, "shadow", 8, mode="shadow")
    lab.wait_for(lambda: running.condition(shop, "shadow", "Planned").get("reason") == "Shadow", "the plan")
    assert running.status(shop, "shadow")["plan"]["created"]
    assert running.pods(shop) == []


def test_replicas_by_hand(running: Running) -> None:
    shop = running.namespace()
    sizes = [size | {"replicas": count} for size, count in zip(SIZES, (2, 0, 1), strict=True)]
    body = {"template": template(), "sizes": sizes, "drain": "1s"}
    running.create(shop, "ComboFunc", "hand", body)
    running.wait_settled(shop, "hand", 10)
    sizes_there = sorted(pod["metadata"]["labels"][SIZE_LABEL] for pod in running.pods(shop))
    assert sizes_there == ["large", "small", "small"]


def test_deleted_its_pods_go_with_it(running: Running) -> None:
    shop, lab = running.namespace(), running.lab
    running.function(shop, "gone", 8)
    running.wait_settled(shop, "gone", 8)
    running.kube.delete(f"{GROUP}/namespaces/{shop}/combofuncs/gone")
    # The garbage collector looks for new kinds every 30 s, and tries again later where it lacks one.
    lab.wait_for(lambda: not running.pods(shop), "no pods", 120)


def limits(pod: Json) -> tuple[str, str]:
    """cpu and memory that its container really has."""
    of = pod["status"]["containerStatuses"][0]["resources"]["limits"]
    return of["cpu"], of["memory"]


def test_made_smaller_with_memory_in_use(running: Running) -> None:
    """The node model answers as a kubelet: nothing of a resize below the use is carried out, cpu included."""
    shop = running.namespace()
    using = template()
    using["metadata"] = {"annotations": {MEMORY_IN_USE: "1500Mi"}}
    running.function(shop, "video", 8, template=using, keepWarm="0s")
    running.wait_settled(shop, "video", 8)
    (before,) = running.pods(shop)
    running.patch(shop, "video", {"targetConcurrency": 1})
    running.lab.wait_for(
        lambda: limits(running.pods(shop)[0]) == ("500m", "2Gi"), "less cpu and the same memory", 90
    )
    running.wait_settled(shop, "video", 1, 90)
    running.lab.wait_for(
        lambda: running.condition(shop, "video", "Resized").get("reason") == "MemoryInUse", "said", 90
    )
    running.wait_event(shop, "MemoryInUse", "pods keep memory that they use")
    running.patch(shop, "video", {"targetConcurrency": 8})
    running.wait_settled(shop, "video", 8, 90)
    (after,) = running.pods(shop)
    assert after["metadata"]["uid"] == before["metadata"]["uid"], "it grew where it was; no other was created"
    assert limits(after) == ("2", "2Gi")
    assert running.condition(shop, "video", "Resized")["reason"] == "Resized"
