"""Runs the node model against a lab: watches pods, and lets KWOK make them Ready when the model says.

`python -m kwok.node_model_process`. It plays the kubelet where KWOK does not: the annotations that
KWOK's stages wait for (kwok/stages/pod-ready.yaml, pod-resize.yaml), the images in a node's status,
the Events of image pulls. Pods told to hang or whose image cannot be had take no share of a node's
speed: nothing is being created there.
"""

from __future__ import annotations

import argparse
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from kwok.node_model import Created, Event, NodeModel, Pulled, PullStarted, Resized
from kwok.scenario import Scenario
from surgekit import logs
from surgekit.kube import ApiError, Kube, KubeUnreachable
from surgekit.watch import Watch

__all__ = ["NodeModelProcess"]

log = structlog.get_logger(__name__)

CREATED = "lab.surgekit.dev/created"
RESIZED = "lab.surgekit.dev/resized"
FATE = "lab.surgekit.dev/fate"
_NEVER_CREATED = {"hang", "pull-error"}
_WRITERS = 16  # as many as surgekit.kube keeps connections
_RETRIES = 3

Json = dict[str, Any]


class NodeModelProcess:
    """The consumer of the pod watch, and the clock that asks the model what happened."""

    def __init__(self, kube: Kube, scenario: Scenario) -> None:
        self._kube, self._scenario = kube, scenario
        self._model = NodeModel(scenario)
        self._pods: dict[str, tuple[str, str, str]] = {}  # uid -> (namespace, name, node)
        self._changed = threading.Condition()
        self._writers = ThreadPoolExecutor(_WRITERS, thread_name_prefix="writer")
        self._image_writes = threading.Lock()
        # The model's time 0 is the scenario's epoch, so that others can ask it what tau was when.
        self._start_s = time.monotonic() - (time.time() - scenario.epoch_s)
        nodes, _ = kube.list_all("/api/v1/nodes")
        for node in nodes:
            for image in node["status"].get("images") or []:
                for name in image.get("names") or []:
                    self._model.has_image(node["metadata"]["name"], name)

    def replace(self, objects: list[Json], arrival_s: float) -> None:
        with self._changed:
            there = {pod["metadata"]["uid"] for pod in objects}
            for uid in self._pods.keys() - there:
                self._forget(uid, arrival_s)
            for pod in objects:
                self._observe(pod, arrival_s)
            self._changed.notify()

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:
        with self._changed:
            if kind == "DELETED":
                self._forget(obj["metadata"]["uid"], arrival_s)
            else:
                self._observe(obj, arrival_s)
            self._changed.notify()

    def run(self, stopping: threading.Event) -> None:
        """Until told to stop: sleep to the model's next event, act on it."""
        while not stopping.is_set():
            with self._changed:
                happened = self._model.advance(time.monotonic() - self._start_s)
                if not happened:
                    wait_s = self._model.next_event_s() - (time.monotonic() - self._start_s)
                    self._changed.wait(min(max(wait_s, 0.0), 1.0))
            for event in happened:
                self._writers.submit(self._write, event)

    def _observe(self, pod: Json, arrival_s: float) -> None:
        meta, spec, status = pod["metadata"], pod["spec"], pod["status"]
        uid, node, now_s = meta["uid"], spec.get("nodeName"), arrival_s - self._start_s
        if not node:
            return
        if "deletionTimestamp" in meta or status.get("phase") in ("Succeeded", "Failed"):
            self._forget(uid, arrival_s)
            return
        annotations = meta.get("annotations") or {}
        if CREATED not in annotations:
            if (meta.get("labels") or {}).get(FATE) in _NEVER_CREATED:
                return
            containers = spec["containers"] + (spec.get("initContainers") or [])
            self._pods[uid] = (meta["namespace"], meta["name"], node)
            self._model.bind(uid, node, len(containers), [c.get("image", "") for c in containers], now_s)
        elif _resize_asked(pod) and annotations.get(RESIZED) != str(meta["generation"]):
            self._pods[uid] = (meta["namespace"], meta["name"], node)
            self._model.resize(uid, node, meta["generation"], now_s)

    def _forget(self, uid: str, arrival_s: float) -> None:
        if known := self._pods.pop(uid, None):
            self._model.cancel(uid, known[2], arrival_s - self._start_s)

    def _write(self, event: Event) -> None:
        pod = self._pods.get(event.pod)
        try:
            if isinstance(event, Pulled):
                self._write_images(event.node)
            if pod is None:
                return
            match event:
                case Created():
                    self._annotate(pod, event.pod, CREATED, f"{event.at_s:.3f}")
                case Resized():
                    self._annotate(pod, event.pod, RESIZED, str(event.generation))
                case PullStarted():
                    self._tell(pod, event, "Pulling", f'Pulling image "{event.image}"')
                case Pulled():
                    self._tell(pod, event, "Pulled", _pulled_message(event, self._scenario))
        except (ApiError, KubeUnreachable) as error:
            if not (isinstance(error, ApiError) and error.code == 404):  # deleted meanwhile
                log.warning("node model write failed", node=event.node, error=str(error))
        except Exception:
            log.exception("node model write failed", node=event.node)

    def _annotate(self, pod: tuple[str, str, str], uid: str, key: str, value: str) -> None:
        # With the uid, so that a pod of the same name that came meanwhile is left alone.
        body = {"metadata": {"uid": uid, "annotations": {key: value}}}
        for attempt in range(_RETRIES):
            try:
                self._kube.patch(f"/api/v1/namespaces/{pod[0]}/pods/{pod[1]}", body)
                return
            except KubeUnreachable:
                if attempt == _RETRIES - 1:
                    raise
                time.sleep(0.2 * 2**attempt)

    def _write_images(self, node: str) -> None:
        with self._image_writes:  # the last write must be the fullest
            with self._changed:
                names = self._model.images(node)
            images = [{"names": [n], "sizeBytes": self._scenario.image(n).size_bytes} for n in names]
            self._kube.patch(f"/api/v1/nodes/{node}/status", {"status": {"images": images}})

    def _tell(self, pod: tuple[str, str, str], event: Event, reason: str, message: str) -> None:
        namespace, name, node = pod
        now = datetime.now(UTC)
        stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{time.time_ns():x}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": event.pod,
            },
            "type": "Normal",
            "reason": reason,
            "message": message,
            "source": {"component": "kubelet", "host": node},
            "reportingComponent": "kubelet",
            "reportingInstance": node,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }  # fmt: skip
        self._kube.create(f"/api/v1/namespaces/{namespace}/events", body)


def _resize_asked(pod: Json) -> bool:
    """Whether a running pod's spec asks for other resources than its containers have."""
    if pod["status"].get("phase") != "Running":
        return False
    have = {s["name"]: s.get("resources") or {} for s in pod["status"].get("containerStatuses") or []}
    return any((c.get("resources") or {}) != have.get(c["name"], {}) for c in pod["spec"]["containers"])


def _pulled_message(event: Pulled, scenario: Scenario) -> str:
    """In a kubelet's words, from which probes read the time."""
    size = scenario.image(event.image).size_bytes
    return (
        f'Successfully pulled image "{event.image}" in {_duration(event.pull_s)}'
        f" ({_duration(event.waited_s)} including waiting). Image size: {size} bytes."
    )


def _duration(seconds: float) -> str:
    """As Go prints a time.Duration, to the millisecond."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds, 3), 60)
    text = f"{rest:.3f}".rstrip("0").rstrip(".") + "s"
    return f"{int(minutes)}m{text}" if minutes else text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--scenario", type=Path, required=True)
    parser.add_argument("--ready-file", type=Path, required=True, help="made once the pods are known")
    given = parser.parse_args()
    logs.configure()
    kube = Kube.connect(given.kubeconfig)
    process = NodeModelProcess(kube, Scenario.load(given.scenario))
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    watch = Watch(kube, "/api/v1/pods", process, fieldSelector="spec.nodeName!=").start()
    while not watch.synced.wait(0.5) and not stopping.is_set():
        pass
    given.ready_file.touch()
    log.info("node model runs")
    process.run(stopping)


if __name__ == "__main__":
    main()
