"""A small cluster in memory: API server, scheduler and kubelets as far as function pods meet them.

It speaks through the same objects and errors as the real ones, so that what reads and writes them is
tested along. Time is a number that the test moves.
"""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

from combofunc.labels import PLACEMENT_GATE
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.kube.pods import requests
from surgekit.kube.quantity import parse

Json = dict[str, Any]
GIB = 2**30


def node(name: str, cpu: str = "8", memory: str = "16Gi", pods: str = "110", **spec: Any) -> Json:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": pods},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


class World(Kube):
    """Answers what an actuator asks, and moves on by `tick`."""

    def __init__(self, nodes: list[Json], tau_create_s: float = 1.0, tau_resize_s: float = 0.2) -> None:
        self.nodes = {n["metadata"]["name"]: n for n in nodes}
        self.pods: dict[str, Json] = {}
        self.now_s = 1_000_000.0
        self.lose_answers = self.lose_requests = 0
        self.memory_in_use: dict[str, float] = {}  # bytes by pod; a kubelet does not take them away
        self.refusals: list[tuple[str, float, float]] = []  # pod, time, and bytes in use
        self._failed: set[str] = set()  # uids of pods whose resize was granted in vain
        self.calls: list[str] = []
        self._version = 0
        self._tau_create_s, self._tau_resize_s = tau_create_s, tau_resize_s
        self._until_s: dict[str, float] = {}  # uid -> when its creation or resize is over

    # --- the API server ---

    def create(self, path: str, body: Json, **query: Any) -> Json:
        name = body["metadata"]["name"]

        def write() -> Json:
            if name in self.pods:
                raise ApiError(409, "AlreadyExists", f'pods "{name}" already exists')
            pod = copy.deepcopy(body)
            self._version += 1
            pod["metadata"] |= {
                "uid": f"uid-{self._version}",
                "namespace": path.split("/")[4],
                "generation": 1,
                "creationTimestamp": self._stamp(),
            }
            pod["status"] = {"phase": "Pending", "conditions": []}
            self.pods[name] = pod
            return self._changed(pod)

        return self._answer(f"create {name}", write)

    def get(self, path: str, **query: Any) -> Json:
        return copy.deepcopy(self._pod(path.rpartition("/")[2]))

    def patch(self, path: str, body: Any, content_type: str = "", **query: Any) -> Json:
        name, _, subresource = path.partition("/pods/")[2].partition("/")

        def write() -> Json:
            pod = self._pod(name)
            uid = body.get("metadata", {}).get("uid", pod["metadata"]["uid"])
            if uid != pod["metadata"]["uid"]:
                said = f'Pod "{name}" is invalid: metadata.uid: Invalid value: "{uid}": field is immutable'
                raise ApiError(422, "Invalid", said)
            if subresource == "resize":
                if "resources" not in (pod["status"].get("containerStatuses") or [{}])[0]:
                    raise ApiError(422, "Invalid", "not running")
                self._resize(pod, body)
            elif subresource == "status":
                pod["status"] |= body["status"]
            else:
                _merge(pod["metadata"], {k: v for k, v in body.get("metadata", {}).items() if k != "uid"})
                if "schedulingGates" in body.get("spec", {}):
                    pod["spec"]["schedulingGates"] = [
                        g for g in pod["spec"].get("schedulingGates", ()) if g["name"] != PLACEMENT_GATE
                    ]
            return self._changed(pod)

        return self._answer(f"patch {name} {subresource}", write)

    def delete(self, path: str, body: Json | None = None, **query: Any) -> Json:
        name = path.rpartition("/")[2]

        def write() -> Json:
            pod = self._pod(name)
            if body and body["preconditions"]["uid"] != pod["metadata"]["uid"]:
                raise ApiError(409, "Conflict", "the uid is another")
            pod["metadata"] |= {"deletionTimestamp": self._stamp(), "deletionGracePeriodSeconds": 1}
            self._until_s[pod["metadata"]["uid"]] = self.now_s + 1.0
            return self._changed(pod)

        return self._answer(f"delete {name}", write)

    def _answer(self, call: str, write: Any) -> Json:
        if self.lose_requests:
            self.lose_requests -= 1
            raise KubeUnreachable(f"{call}: lost on the way")
        self.calls.append(call)
        answer: Json = write()
        if self.lose_answers:
            self.lose_answers -= 1
            raise KubeUnreachable(f"{call}: the answer was lost")
        return answer

    def _pod(self, name: str) -> Json:
        if name not in self.pods:
            raise ApiError(404, "NotFound", f'pods "{name}" not found')
        return self.pods[name]

    def _changed(self, pod: Json) -> Json:
        self._version += 1
        pod["metadata"]["resourceVersion"] = str(self._version)
        return copy.deepcopy(pod)

    def _resize(self, pod: Json, body: Json) -> None:
        wanted = {c["name"]: c["resources"] for c in body["spec"]["containers"]}
        for container in pod["spec"]["containers"]:
            for part, amounts in wanted.get(container["name"], {}).items():
                container.setdefault("resources", {}).setdefault(part, {}).update(amounts)
        pod["metadata"]["generation"] += 1
        self._until_s.pop(pod["metadata"]["uid"], None)
        self._failed.discard(pod["metadata"]["uid"])

    # --- the scheduler and the kubelets ---

    def tick(self, seconds: float = 0.1) -> None:
        self.now_s += seconds
        for pod in list(self.pods.values()):
            uid, spec = pod["metadata"]["uid"], pod["spec"]
            if "deletionTimestamp" in pod["metadata"]:
                if self.now_s >= self._until_s[uid] or not spec.get("nodeName"):
                    del self.pods[pod["metadata"]["name"]]
            elif not spec.get("nodeName"):
                if not spec.get("schedulingGates"):
                    self._schedule(pod)
            elif pod["status"]["phase"] == "Pending":
                self._start(pod)
            elif pod["status"]["phase"] == "Running":
                self._follow_resize(pod)

    def kill(self, name: str) -> None:
        """As an eviction does: it has failed, and stays until somebody deletes it."""
        self.pods[name]["status"] |= {"phase": "Failed", "conditions": []}
        self._changed(self.pods[name])

    def _schedule(self, pod: Json) -> None:
        first = pod["status"].get("nominatedNodeName")
        for name in sorted(self.nodes, key=lambda n: (n != first, n)):
            if not self.nodes[name]["spec"].get("unschedulable") and self._fits(name, requests(pod)):
                pod["spec"]["nodeName"] = name
                pod["status"].pop("nominatedNodeName", None)
                _set_condition(pod, "PodScheduled", "True", "", self._stamp())
                self._until_s[pod["metadata"]["uid"]] = self.now_s + self._tau_create_s
                self._changed(pod)
                return
        if not any(c["type"] == "PodScheduled" for c in pod["status"]["conditions"]):
            _set_condition(pod, "PodScheduled", "False", "Unschedulable", self._stamp())
            self._changed(pod)

    def _start(self, pod: Json) -> None:
        if self.now_s < self._until_s[pod["metadata"]["uid"]]:
            return
        del self._until_s[pod["metadata"]["uid"]]
        pod["status"] |= {
            "phase": "Running",
            "containerStatuses": [
                {"name": c["name"], "state": {"running": {}}, "resources": copy.deepcopy(c["resources"])}
                for c in pod["spec"]["containers"]
            ],
        }
        _set_condition(pod, "Ready", "True", "", self._stamp())
        self._changed(pod)

    def _follow_resize(self, pod: Json) -> None:
        asked = {c["name"]: c["resources"] for c in pod["spec"]["containers"]}
        if all(asked[c["name"]] == c["resources"] for c in pod["status"]["containerStatuses"]):
            self._drop_condition(pod, "PodResizePending")
            self._drop_condition(pod, "PodResizeInProgress")
            return
        uid, name = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        cpu, memory = _of(pod["spec"]["containers"])
        allocatable = self.nodes[name]["status"]["allocatable"]
        if cpu > parse(allocatable["cpu"]) * 1000 or memory > parse(allocatable["memory"]):
            self._pending(pod, "Infeasible")
        elif uid in self._failed:
            if not self._uses(pod):
                self._failed.discard(uid)
        elif uid not in self._until_s:
            if self._fits(name, (cpu, memory), without=uid):
                self._drop_condition(pod, "PodResizePending")
                self._until_s[uid] = self.now_s + self._tau_resize_s
            else:
                self._pending(pod, "Deferred")
        elif self.now_s >= self._until_s[uid]:
            del self._until_s[uid]
            if used := self._uses(pod):
                self._fail(pod, used)
                return
            for status in pod["status"]["containerStatuses"]:
                status["resources"] = copy.deepcopy(asked[status["name"]])
            self._changed(pod)

    def _uses(self, pod: Json) -> float:
        """More than it is to have, where that is less than it has; else 0."""
        used = self.memory_in_use.get(pod["metadata"]["name"], 0.0)
        wanted, had = _of(pod["spec"]["containers"])[1], _of(pod["status"]["containerStatuses"])[1]
        return used if wanted < had and used >= wanted else 0.0

    def _fail(self, pod: Json, used: float) -> None:
        self._failed.add(pod["metadata"]["uid"])
        self.refusals.append((pod["metadata"]["name"], self.now_s, used))
        _set_condition(pod, "PodResizeInProgress", "True", "Error", self._stamp())
        pod["status"]["conditions"][-1] |= {
            "observedGeneration": pod["metadata"]["generation"],
            "message": "cannot decrease memory limits: attempting to set pod memory limit (1) below current "
            f"usage ({used:.0f})",
        }
        self._changed(pod)

    def _pending(self, pod: Json, reason: str) -> None:
        there = [c for c in pod["status"]["conditions"] if c["type"] == "PodResizePending"]
        if not there or there[0]["reason"] != reason:
            _set_condition(pod, "PodResizePending", "True", reason, self._stamp())
            self._changed(pod)

    def _drop_condition(self, pod: Json, kind: str) -> None:
        conditions = pod["status"]["conditions"]
        if any(c["type"] == kind for c in conditions):
            pod["status"]["conditions"] = [c for c in conditions if c["type"] != kind]
            self._changed(pod)

    def _fits(self, name: str, wanted: tuple[float, float], without: str = "") -> bool:
        cpu, memory = self.used(name, without)
        allocatable = self.nodes[name]["status"]["allocatable"]
        return cpu + wanted[0] <= parse(allocatable["cpu"]) * 1000 and memory + wanted[1] <= parse(
            allocatable["memory"]
        )

    def used(self, name: str, without: str = "") -> tuple[float, float]:
        """By what runs, as kubelets count: what was allocated, not what is asked for."""
        there = [
            # A resize that has begun has its room.
            p["spec"]["containers"]
            if p["metadata"]["uid"] in {*self._until_s, *self._failed}
            and "deletionTimestamp" not in p["metadata"]
            else p["status"].get("containerStatuses") or p["spec"]["containers"]
            for p in self.pods.values()
            if p["spec"].get("nodeName") == name and p["metadata"]["uid"] != without
            if p["status"]["phase"] in ("Pending", "Running")
        ]
        amounts = [_of(containers) for containers in there]
        return sum(a[0] for a in amounts), sum(a[1] for a in amounts)

    def _stamp(self) -> str:
        return datetime.fromtimestamp(self.now_s, UTC).isoformat()


def _of(containers: list[Json]) -> tuple[float, float]:
    asked = [c.get("resources", {}).get("requests", {}) for c in containers]
    return sum(parse(a.get("cpu", 0)) * 1000 for a in asked), sum(parse(a.get("memory", 0)) for a in asked)


def _set_condition(pod: Json, kind: str, status: str, reason: str, at: str) -> None:
    conditions = [c for c in pod["status"].get("conditions", ()) if c["type"] != kind]
    conditions.append({"type": kind, "status": status, "reason": reason, "lastTransitionTime": at})
    pod["status"]["conditions"] = conditions


def _merge(into: Json, patch: Json) -> None:
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        else:
            into[key] = value
