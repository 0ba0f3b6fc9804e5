"""What a look at an InPlaceDeployment leads to when the API server refuses, and what its status says."""

from __future__ import annotations

import time
from typing import Any

from combofunc.actuator import carry_out
from combofunc.in_place_deployment.reconciler import InPlaceDeploymentReconciler
from combofunc.pods.pod_table import PodTable
from surgekit.kube.client import ApiError
from tests.combofunc.immediate_desk import Told
from tests.combofunc.in_place_deployment.test_rollout import spec_of
from tests.combofunc.pods.world import World, node

Json = dict[str, Any]
UID = "web"


class Quota(World):
    """Refuses pods beyond a number, as a ResourceQuota does."""

    most = 100

    def create(self, path: str, body: Json, **query: Any) -> Json:
        if len(self.pods) >= self.most:
            raise ApiError(403, "Forbidden", "exceeded quota: few")
        return super().create(path, body, **query)


class Seen:
    def __init__(self, replicas: int, cpu: str = "8") -> None:
        self.world = Quota([node("node-0", cpu)])
        self.world.now_s = time.time()  # by which failures are timed
        self.pods = PodTable()
        self.events = Told()
        self.deployments = InPlaceDeploymentReconciler(self.pods, 15.0, self.events)
        self.wants(1, spec_of(replicas))

    def wants(self, generation: int, spec: Json) -> None:
        metadata = {"name": "web", "namespace": "shop", "uid": UID, "generation": generation}
        self.deployments.objects[UID] = {"metadata": metadata, "spec": spec}

    def reconcile(self) -> str:
        """Reason and message of Ready."""
        work = self.deployments.reconcile(UID, self.world.now_s)
        assert work is not None
        if work.status:
            self.deployments.objects[UID]["status"] = work.status[1]["status"]
        if work.event:
            work.event()
        self.deployments.on_results(UID, [carry_out(self.world, "shop", a) for a in work.actions], "")
        return self._said("Ready")

    def resized(self) -> str:
        return self._said("Resized")

    def _said(self, kind: str) -> str:
        conditions = self.deployments.objects[UID]["status"]["conditions"]
        (said,) = [f"{c['reason']}: {c['message']}" for c in conditions if c["type"] == kind]
        return said

    def after(self, seconds: float) -> str:
        for _ in range(round(seconds * 10)):
            self.world.tick(0.1)
        self.pods.keep_only({pod["metadata"]["uid"] for pod in self.world.pods.values()})
        for pod in self.world.pods.values():
            self.pods.put(pod)
        return self.reconcile()


def test_what_is_awaited_is_said() -> None:
    web = Seen(3, cpu="1")
    assert web.reconcile() == "Progressing: 0 of 3 ready, 0 as the template says; 3 to be created"
    assert web.after(0.2).endswith("0 as the template says; 1 to find a node, 2 to become Ready")
    assert web.after(2) == "Progressing: 2 of 3 ready, 2 as the template says; 1 to find a node"
    web.wants(2, spec_of(2))
    assert web.reconcile() == "Rolling: 2 of 2 ready, 2 as the template says; 1 to go"
    assert web.after(2) == "Ready: 2 of 2 ready, 2 as the template says"
    web.wants(3, spec_of(2, cpu="600m"))
    web.reconcile()
    assert web.after(2) == "Rolling: 2 of 2 ready, 0 as the template says; 2 to be resized"
    web.wants(4, spec_of(2, image="app:2"))
    assert web.reconcile().endswith("; 2 to be created, 2 to be replaced")


def test_what_the_api_server_refuses_is_said_until_it_does_not() -> None:
    web = Seen(2)
    web.world.most = 1
    web.reconcile()
    said = web.after(0.5)
    assert said.startswith("Failing: 0 of 2 ready, 0 as the template says; create web-")
    assert said.endswith("exceeded quota: few")
    web.world.most = 2
    assert web.after(5).startswith("Failing: 1 of 2"), "until it is tried again"
    assert web.after(5) == "Ready: 2 of 2 ready, 2 as the template says"


def test_while_a_pod_of_it_cannot_be_read_nothing_is_created_or_removed() -> None:
    web = Seen(2)
    web.reconcile()
    web.after(2)
    bad = next(iter(web.world.pods.values()))
    web.pods.keep_only(set())  # a replica that starts
    for pod in web.world.pods.values():
        web.pods.put_unread(pod) if pod is bad else web.pods.put(pod)
    before = list(web.world.calls)
    web.wants(2, spec_of(5, image="app:2"))
    assert "1 of its pods cannot be read" in web.reconcile()
    assert web.world.calls == before


def test_a_failure_is_forgotten_when_nothing_is_left_to_do() -> None:
    web = Seen(1)
    web.world.lose_answers = 1
    web.reconcile()
    assert web.reconcile().startswith("Failing")
    assert web.after(5) == "Ready: 1 of 1 ready, 1 as the template says", "it was created all the same"


def test_a_new_spec_starts_without_the_failures_of_the_old_one() -> None:
    web = Seen(2)
    web.world.most = 1
    web.reconcile()
    assert web.after(0.5).startswith("Failing")
    web.wants(2, spec_of(1))
    assert web.reconcile().startswith("Progressing: 0 of 1")


def test_while_paused_nobody_is_said_to_be_replaced() -> None:
    web = Seen(2, cpu="1")
    web.reconcile()
    web.after(2)
    web.wants(2, spec_of(2, cpu="600m"))
    web.reconcile()
    web.after(50)
    assert web.resized().startswith("Replacing: 1 waited too long for room on its node and is replaced")
    web.wants(3, spec_of(2, cpu="600m") | {"paused": True})
    web.reconcile()
    assert web.resized() == "Deferred: 2 wait for room on their node, which the kubelet tries again"


def shrunk(memory: str, **rest: Any) -> Json:
    amounts = {"cpu": "100m", "memory": memory}
    spec = spec_of(2, **rest)
    spec["template"]["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return spec


def has(web: Seen) -> list[tuple[str, str]]:
    limits = [p["status"]["containerStatuses"][0]["resources"]["limits"] for p in web.world.pods.values()]
    return sorted((of["cpu"], of["memory"]) for of in limits)


def test_memory_in_use_is_kept_and_said_and_the_cpu_is_as_the_template_says() -> None:
    web = Seen(2)
    web.reconcile()
    web.after(2)
    before = set(web.world.pods)
    using = min(before)
    web.world.memory_in_use[using] = 200 * 2**20
    web.wants(2, shrunk("128Mi"))
    web.reconcile()
    for _ in range(4):
        said = web.after(1)
    assert has(web) == [("100m", "128Mi"), ("100m", "256Mi")]
    assert said.startswith("Ready: 2 of 2 ready, 1 as the template says")
    assert web.resized().startswith("MemoryInUse: 1 keep their memory")
    assert [(reason, using in note) for reason, note in web.events.told] == [("MemoryInUse", True)]
    calls = len(web.world.calls)
    for _ in range(20):
        web.after(10)
    assert (len(web.world.calls), len(web.events.told)) == (calls, 1), "it is left alone"
    web.world.memory_in_use.clear()
    for _ in range(12):
        web.after(10)
    assert has(web) == [("100m", "128Mi"), ("100m", "128Mi")]
    assert web.resized().startswith("Resized")
    assert set(web.world.pods) == before, "nothing was replaced"


def test_more_memory_is_given_although_some_is_in_use() -> None:
    web = Seen(2)
    web.reconcile()
    web.after(2)
    web.world.memory_in_use[min(web.world.pods)] = 200 * 2**20
    web.wants(2, shrunk("128Mi"))
    web.reconcile()
    for _ in range(4):
        web.after(1)
    web.wants(3, shrunk("512Mi"))
    web.reconcile()
    web.after(2)
    assert has(web) == [("100m", "512Mi")] * 2
    assert web.resized().startswith("Resized")
