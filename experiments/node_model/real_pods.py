"""Create, resize and delete pods on a lab's real node, and note when each was done.

Two clocks, because the kubelet lists containers only once a second (generic PLEG): `started_s` is when
containerd started the last container of a pod, by its own event, and `seen_s` when a watch showed it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

from kwok import images, real_node
from kwok.lab import Lab
from kwok.real_node.containerd import SOCKET
from kwok.real_node.machine import Machine
from kwok.waiting import wait_for
from node_speed_probe.model import PullEnded
from node_speed_probe.pulls import pull_event
from surgekit.kube.client import STRATEGIC_MERGE
from surgekit.kube.watch import Watch

__all__ = ["RealPods", "Times"]

Json = dict[str, Any]
Times = dict[str, list[float]]  # clock -> seconds since the first request, one for each pod, in order
Size = dict[str, str]
# Eight of the larger size fit beside 64 containers on two cores.
_SIZES: tuple[Size, Size] = ({"cpu": "50m", "memory": "32Mi"}, {"cpu": "100m", "memory": "64Mi"})
_AT_ONCE = 16
_LONGEST_S = 180.0


class RealPods:
    """Pods in the default namespace on the first real node. `residents` stay, to be resized."""

    def __init__(self, lab: Lab, node: str, residents: int) -> None:
        self._kube, self._node = lab.kube, node
        self._path = "/api/v1/namespaces/default/pods"
        self._number = 0
        self._pods: dict[str, Json] = {}
        self._changed = threading.Condition()
        self._waiting: dict[str, Callable[[Json | None], bool]] = {}
        self._done: dict[str, float] = {}
        self._started = _Started(lab)
        self._pool = ThreadPoolExecutor(_AT_ONCE)
        self._watch = Watch(lab.kube, self._path, self).start()
        self._residents = self._names(residents)
        self._at_once(lambda name: self._post(name, 1, _SIZES[0]), dict.fromkeys(self._residents, _runs))

    def close(self) -> None:
        self._watch.stop()
        self._pool.shutdown()

    def create_and_delete(self, pods: int, containers: int) -> Times:
        """Create pods at once, bound to the node; when all their containers run, delete them at once.

        `gone_s` is when a pod is gone from the API, which is after its containers have ended.
        """
        names = self._names(pods)
        began_s, seen_s = self._at_once(
            lambda name: self._post(name, containers), dict.fromkeys(names, _runs)
        )
        started_s = sorted(self._started.last_s(_container_ids(self._pods[name])) - began_s for name in names)
        _, gone_s = self._at_once(
            lambda name: self._kube.delete(f"{self._path}/{name}"), dict.fromkeys(names, _is_gone)
        )
        return {"seen_s": seen_s, "started_s": started_s, "gone_s": gone_s}

    def pull(self, images_of_pods: Sequence[str]) -> Times:
        """Create a pod for each image at once; when all run, delete them.

        `pulled_s` is how long each pull took without its wait for others, by the kubelet's Events.
        """
        names = dict(zip(self._names(len(images_of_pods)), images_of_pods, strict=True))
        _, seen_s = self._at_once(
            lambda name: self._post(name, 1, image=names[name]), dict.fromkeys(names, _runs)
        )
        # The kubelet sends Events in the background.
        wait_for(lambda: len(self._pulls(names)) == len(names), "the kubelet's Events of pulls", 30)
        pulled_s = sorted(pull.seconds or 0.0 for pull in self._pulls(names))
        self._at_once(lambda name: self._kube.delete(f"{self._path}/{name}"), dict.fromkeys(names, _is_gone))
        return {"seen_s": seen_s, "pulled_s": pulled_s}

    def resize(self, pods: int) -> Times:
        """Give so many residents their other size at once; done when the status follows."""
        wanted = {name: _other_size(self._pods[name]) for name in self._residents[:pods]}

        def request(name: str) -> object:
            resources = {"requests": wanted[name], "limits": wanted[name]}
            body = {"spec": {"containers": [{"name": "c0", "resources": resources}]}}
            return self._kube.patch(f"{self._path}/{name}/resize", body, STRATEGIC_MERGE)

        _, seen_s = self._at_once(request, {name: _has_size(size) for name, size in wanted.items()})
        return {"seen_s": seen_s}

    def probed(self) -> dict[str, float | None]:
        """What the probe has published about the node."""
        status = self._kube.get(f"/apis/surgekit.dev/v1alpha1/nodespeeds/{self._node}").get("status") or {}
        return {"create_s": status.get("tauCreateSeconds"), "resize_s": status.get("tauResizeSeconds")}

    def replace(self, objects: list[Json], arrival_s: float) -> None:
        there = {pod["metadata"]["name"] for pod in objects}
        for name in [name for name in self._pods if name not in there]:
            self.apply("DELETED", self._pods[name], arrival_s)
        for pod in objects:
            self.apply("ADDED", pod, arrival_s)

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:
        name, now = obj["metadata"]["name"], None if kind == "DELETED" else obj
        with self._changed:
            if now is None:
                self._pods.pop(name, None)
            else:
                self._pods[name] = now
            if name in self._waiting and self._waiting[name](now):
                del self._waiting[name]
                self._done[name] = arrival_s
                self._changed.notify_all()

    def _at_once(
        self, request: Callable[[str], object], until: Mapping[str, Callable[[Json | None], bool]]
    ) -> tuple[float, list[float]]:
        """Send a request for each pod; the Unix time of the first, and when each pod was done."""
        with self._changed:
            self._waiting, self._done = dict(until), {}
        began_unix_s, began_s = time.time(), time.monotonic()
        list(self._pool.map(request, until))
        with self._changed:
            if not self._changed.wait_for(lambda: not self._waiting, _LONGEST_S):
                raise TimeoutError(f"pods {', '.join(self._waiting)}: not done after {_LONGEST_S:.0f} s")
            return began_unix_s, sorted(at_s - began_s for at_s in self._done.values())

    def _pulls(self, pods: Container[str]) -> list[PullEnded]:
        """Pulls that have ended, one for each pod; an image that was there already took no time."""
        events, _ = self._kube.list_all("/api/v1/namespaces/default/events")
        found = [
            pull_event(event["reason"], event["message"], "", self._node)
            for event in events
            if event["involvedObject"]["name"] in pods
        ]
        return [pull for pull in found if isinstance(pull, PullEnded)]

    def _names(self, count: int) -> list[str]:
        self._number += count
        return [f"p{number}" for number in range(self._number - count, self._number)]

    def _post(
        self, name: str, containers: int, size: Size | None = None, image: str = images.reference("pause")
    ) -> object:
        """Create a pod that needs no scheduler. Without a `size` it has no limits: these would also slow the
        start of its containers down."""
        resources = {"requests": size, "limits": size} if size else {"requests": {"cpu": "5m"}}
        each = {"image": image, "resources": resources}
        body = {
            "metadata": {"name": name},
            "spec": {
                "nodeName": self._node,
                "tolerations": [real_node.TOLERATION],
                "automountServiceAccountToken": False,
                # Not 0: the API server would drop the pod at once, and its containers would end later.
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": f"c{number}", **each} for number in range(containers)],
            },
        }
        return self._kube.create(self._path, body)


class _Started:
    """When containerd started each container, from the events that it publishes."""

    def __init__(self, lab: Lab) -> None:
        argv: list[str | Path] = ["ctr", "--address", SOCKET, "--namespace", "k8s.io", "events"]
        self._lab, self._log = lab, Machine(lab, 0).start_process("events", argv).log
        self._at_s: dict[str, float] = {}
        self._read = 0

    def last_s(self, container_ids: Sequence[str]) -> float:
        """The Unix time at which the last of these containers started."""
        self._lab.wait_for(lambda: self._know_all(container_ids), "containerd's events", 30)
        return max(self._at_s.pop(container) for container in container_ids)

    def _know_all(self, container_ids: Sequence[str]) -> bool:
        with self._log.open("rb") as file:
            file.seek(self._read)
            *lines, rest = file.read().split(b"\n")
            self._read = file.tell() - len(rest)
        for line in lines:
            # 2026-11-18 01:58:26.123456789 +0000 UTC k8s.io /tasks/start {"container_id":"...","pid":1}
            words = line.decode().split(maxsplit=6)
            if len(words) == 7 and words[5] == "/tasks/start":
                at = datetime.fromisoformat(f"{words[0]}T{words[1][:26].ljust(26, '0')}+00:00")
                self._at_s[json.loads(words[6])["container_id"]] = at.timestamp()
        return all(container in self._at_s for container in container_ids)


def _runs(pod: Json | None) -> bool:
    containers = (pod or {}).get("status", {}).get("containerStatuses") or ()
    return bool(containers) and all("running" in container["state"] for container in containers)


def _is_gone(pod: Json | None) -> bool:
    return pod is None


def _has_size(size: Size) -> Callable[[Json | None], bool]:
    return lambda pod: (
        pod is not None and pod["status"]["containerStatuses"][0].get("resources", {}).get("limits") == size
    )


def _other_size(pod: Json) -> Size:
    small, large = _SIZES
    return small if pod["spec"]["containers"][0]["resources"]["limits"] == large else large


def _container_ids(pod: Json) -> list[str]:
    return [c["containerID"].removeprefix("containerd://") for c in pod["status"]["containerStatuses"]]
