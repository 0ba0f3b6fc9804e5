"""A lab with the controller in it under its own account: real API server, scheduler and node model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kwok import parts
from kwok.lab import Lab
from kwok.pods import wait_for_account
from kwok.scenario import Scenario
from surgekit.kube.client import ApiError

Json = dict[str, Any]
GROUP = "/apis/surgekit.dev/v1alpha1"
TAU_CREATE_S = 0.3
SIZES = [
    {"name": "small", "cpu": "500m", "memory": "512Mi", "concurrency": 1},
    {"name": "medium", "cpu": "1", "memory": "1Gi", "concurrency": 3},
    {"name": "large", "cpu": "2", "memory": "2Gi", "concurrency": 8},
]


def template(image: str = "registry.example/app:1", **container: Any) -> Json:
    containers = [{"name": "app", "image": image, **container}]
    return {"spec": {"terminationGracePeriodSeconds": 0, "containers": containers}}


class Running:
    """The lab, and what tests ask of it."""

    def __init__(self, lab: Lab, nodes: list[str]) -> None:
        self.lab, self.kube, self.nodes = lab, lab.kube, nodes
        self._namespaces = 0
        self.start_node_model()

    def start_node_model(self) -> None:
        self.lab.start_node_model(Scenario.equal(self.nodes, tau_create_s=TAU_CREATE_S))

    def namespace(self) -> str:
        self._namespaces += 1
        name = f"shop-{self._namespaces}"
        self.kube.create("/api/v1/namespaces", {"metadata": {"name": name}})
        wait_for_account(self.kube, name)
        return name

    def create(self, namespace: str, kind: str, name: str, spec: Json) -> None:
        body = {"apiVersion": "surgekit.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.kube.create(f"{GROUP}/namespaces/{namespace}/{kind.lower()}s", body)

    def function(self, namespace: str, name: str, target: int, **spec: Any) -> None:
        body = {
            "template": template(),
            "sizes": SIZES,
            "drain": "1s",
            "keepWarm": "0s",
            "targetConcurrency": target,
        } | spec
        self.create(namespace, "ComboFunc", name, body)

    def patch(self, namespace: str, name: str, spec: Json, kind: str = "combofuncs") -> None:
        self.kube.patch(f"{GROUP}/namespaces/{namespace}/{kind}/{name}", {"spec": spec})

    def status(self, namespace: str, name: str, kind: str = "combofuncs") -> Json:
        found: Json = self.kube.get(f"{GROUP}/namespaces/{namespace}/{kind}/{name}").get("status") or {}
        return found

    def condition(self, namespace: str, name: str, which: str, kind: str = "combofuncs") -> Json:
        conditions = self.status(namespace, name, kind).get("conditions") or ()
        found: Json = next((c for c in conditions if c["type"] == which), {})
        return found

    def pods(self, namespace: str) -> list[Json]:
        return self.kube.list_all(f"/api/v1/namespaces/{namespace}/pods")[0]

    def settled(self, namespace: str, name: str, target: int) -> bool:
        """As many as wanted are Ready, and nothing is to come."""
        status = self.status(namespace, name)
        ready: Json = next((c for c in status.get("conditions", ()) if c["type"] == "Ready"), {})
        return (
            status.get("targetConcurrency") == target
            and status["readyConcurrency"] >= target
            and ready.get("reason") == "Ready"
        )

    def wait_settled(self, namespace: str, name: str, target: int, timeout_s: float = 60.0) -> None:
        try:
            self.lab.wait_for(lambda: self.settled(namespace, name, target), "settled", timeout_s)
        except Exception as error:
            raise AssertionError(f"{error}: {self.status(namespace, name)}") from error

    def events(self, namespace: str, reason: str) -> list[str]:
        events, _ = self.kube.list_all(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
        return [event.get("note", "") for event in events if event.get("reason") == reason]

    def wait_event(self, namespace: str, reason: str, words: str) -> None:
        """Until the last of these Events says so."""
        self.lab.wait_for(
            lambda: any(words in note for note in self.events(namespace, reason)[-1:]), f"{reason}: {words}"
        )


@contextmanager
def running(name: str, before: Callable[[Lab], Json] = lambda _: {}, **settings: Any) -> Iterator[Running]:
    """`before` starts what the controller is to find, and gives the settings that follow from it."""
    with Lab.temporary(name) as lab:
        nodes = lab.add_nodes(6)
        parts.install(lab)
        parts.install_combofunc(lab)
        lab.start_scheduler()
        lab.wait_for(lambda: _served(lab), "the CRDs")
        parts.start_combofunc(lab, settings | before(lab))
        yield Running(lab, nodes)


def _served(lab: Lab) -> bool:
    try:
        return all(
            lab.kube.get(f"{GROUP}/{kind}") is not None for kind in ("combofuncs", "inplacedeployments")
        )
    except ApiError:
        return False
