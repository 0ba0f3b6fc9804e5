"""Run the node model against a lab: watch pods, and let KWOK make them Ready when the model has created
them.

`python -m kwok.node_model_process`. It does what a kubelet does and KWOK does not: it sets the annotation
that KWOK's stages wait for (kwok/stages/pod-ready.yaml), writes the images in a node's status and the
Events of image pulls, and resizes pods in place (`kwok.node_model_resize_status`). Pods that hang or whose
image cannot be pulled take no share of a node's speed: nothing is being created there. Pods on real nodes
are left to their kubelets.
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

from kwok.node_model import (
    Created,
    Event,
    NodeModel,
    Pulled,
    PullStarted,
    Resized,
    ResizeFailed,
    ResizePending,
    ResizeStarted,
)  # fmt: skip
from kwok.node_model_resize_status import (
    allocated,
    asked,
    failed,
    in_progress,
    is_asked,
    memory_in_use,
    pending,
    resized,
    too_small,
)
from kwok.node_model_room import Amount
from kwok.nodes import REAL_NODE, NodeNames
from kwok.scenario import Scenario
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.kube.pods import requests
from surgekit.kube.watch import Watch
from surgekit.process import logs

__all__ = ["NodeModelProcess"]

log = structlog.get_logger(__name__)

CREATED = "lab.surgekit.dev/created"
FATE = "lab.surgekit.dev/fate"
_NEVER_CREATED = {"hang", "pull-error"}
# The API server's admission (PodResize, 1.36) already refuses more than the allocatable. A kubelet refuses
# more, such as a Guaranteed pod under the static CPU manager.
_RESIZE_INFEASIBLE = "resize-infeasible"
_MORE_THAN_ANY_NODE = Amount(10**9, 10**18)
_WRITERS = 16  # as many as surgekit.kube.client keeps connections
_RETRIES = 3
MERGE_PATCH, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"

Json = dict[str, Any]
_ResizeEvent = ResizePending | ResizeStarted | ResizeFailed | Resized


class NodeModelProcess:
    """Consumes the pod watch, and writes what the model reports."""

    def __init__(self, kube: Kube, scenario: Scenario) -> None:
        self._kube, self._scenario = kube, scenario
        self._model = NodeModel(scenario)
        self.real_nodes: set[str] = set()
        self._pods: dict[str, tuple[str, str, str]] = {}  # uid -> (namespace, name, node)
        self._resizing: dict[str, dict[int, Json]] = {}  # uid -> generation -> the pod that asks for it
        self._known_nodes: set[str] = set()  # nodes whose allocatable the model knows
        self._changed = threading.Condition()
        # A pod always uses the same one, so that its writes stay in order.
        self._writers = [ThreadPoolExecutor(1, thread_name_prefix="writer") for _ in range(_WRITERS)]
        self._image_writes = threading.Lock()
        # The model's time 0 is the scenario's epoch, so that others can compute tau at any time.
        self._start_s = time.monotonic() - (time.time() - scenario.epoch_s)
        nodes, _ = kube.list_all("/api/v1/nodes")
        for node in nodes:
            self._tell_allocatable(node)
            for image in node["status"].get("images") or []:
                for name in image.get("names") or []:
                    self._model.has_image(node["metadata"]["name"], name)

    def replace(self, objects: list[Json], arrival_s: float) -> None:
        with self._changed:
            there = {pod["metadata"]["uid"] for pod in objects}
            for uid in self._pods.keys() - there:
                self._gone(uid, arrival_s)
            for pod in objects:
                self._observe(pod, arrival_s)
            self._changed.notify()

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:
        with self._changed:
            if kind == "DELETED":
                self._gone(obj["metadata"]["uid"], arrival_s)
            else:
                self._observe(obj, arrival_s)
            self._changed.notify()

    def run(self, stopping: threading.Event) -> None:
        """Until `stopping` is set: sleep until the model's next event and write it."""
        while not stopping.is_set():
            with self._changed:
                happened = self._model.advance(time.monotonic() - self._start_s)
                if not happened:
                    wait_s = self._model.next_event_s() - (time.monotonic() - self._start_s)
                    self._changed.wait(min(max(wait_s, 0.0), 1.0))
            for event in happened:
                self._writers[hash(event.pod) % _WRITERS].submit(self._write, event)

    def _observe(self, pod: Json, arrival_s: float) -> None:
        meta, spec, status = pod["metadata"], pod["spec"], pod["status"]
        uid, node, now_s = meta["uid"], spec.get("nodeName"), arrival_s - self._start_s
        if not node or node in self.real_nodes:
            return
        if status.get("phase") in ("Succeeded", "Failed"):
            self._gone(uid, arrival_s)
            return
        self._pods[uid] = (meta["namespace"], meta["name"], node)
        self._model.hold(uid, node, allocated(pod))
        if "deletionTimestamp" in meta:
            self._model.cancel(uid, node, now_s)  # its resources stay taken until it is gone
        elif CREATED not in (meta.get("annotations") or {}):
            if (meta.get("labels") or {}).get(FATE) in _NEVER_CREATED:
                return
            containers = spec["containers"] + (spec.get("initContainers") or [])
            self._model.bind(uid, node, len(containers), [c.get("image", "") for c in containers], now_s)
        elif is_asked(pod):
            if node not in self._known_nodes:  # added after the start
                self._tell_allocatable(self._kube.get(f"/api/v1/nodes/{node}"))
            self._resizing.setdefault(uid, {}).setdefault(meta["generation"], pod)
            refused = (meta.get("labels") or {}).get(FATE) == _RESIZE_INFEASIBLE
            amount = _MORE_THAN_ANY_NODE if refused else asked(pod)
            self._model.resize(uid, node, meta["generation"], now_s, amount)
            self._model.uses_memory(uid, node, too_small(pod, memory_in_use(pod)), now_s)

    def _tell_allocatable(self, node: Json) -> None:
        name, amounts = node["metadata"]["name"], node["status"].get("allocatable") or {}
        if "cpu" in amounts and "memory" in amounts:
            cpu, memory = requests({"spec": {"containers": [{"resources": {"requests": amounts}}]}})
            self._model.allocatable(name, Amount(round(cpu), round(memory)))
        self._known_nodes.add(name)

    def _gone(self, uid: str, arrival_s: float) -> None:
        self._resizing.pop(uid, None)
        if known := self._pods.pop(uid, None):
            self._model.gone(uid, known[2], arrival_s - self._start_s)

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
                case ResizePending() | ResizeStarted() | ResizeFailed() | Resized():
                    self._write_resize(pod, event)
                case PullStarted():
                    self._tell(pod, event, "Pulling", f'Pulling image "{event.image}"')
                case Pulled():
                    self._tell(pod, event, "Pulled", _pulled_message(event, self._scenario))
        except (ApiError, KubeUnreachable) as error:
            if not (isinstance(error, ApiError) and error.code == 404):  # deleted in the meantime
                log.warning("node model write failed", node=event.node, error=str(error))
        except Exception:
            log.exception("node model write failed", node=event.node)

    def _annotate(self, pod: tuple[str, str, str], uid: str, key: str, value: str) -> None:
        # With the uid, so that a newer pod of the same name is not changed.
        body = {"metadata": {"uid": uid, "annotations": {key: value}}}
        self._patch(f"/api/v1/namespaces/{pod[0]}/pods/{pod[1]}", body)

    def _patch(self, path: str, body: Json, content_type: str = MERGE_PATCH) -> None:
        for attempt in range(_RETRIES):
            try:
                self._kube.patch(path, body, content_type)
                return
            except KubeUnreachable:
                if attempt == _RETRIES - 1:
                    raise
                time.sleep(0.2 * 2**attempt)

    def _write_resize(self, pod: tuple[str, str, str], event: _ResizeEvent) -> None:
        with self._changed:
            generations = self._resizing.get(event.pod, {})
            wanted = generations.get(event.generation)
            if isinstance(event, Resized):
                for generation in [g for g in generations if g <= event.generation]:
                    del generations[generation]
        if wanted is None:
            return
        match event:
            case ResizePending():
                status = pending(wanted, event.reason, event.message, datetime.now(UTC))
            case ResizeStarted():
                status = in_progress(wanted, datetime.now(UTC))
            case ResizeFailed():
                status = failed(wanted, event.message, datetime.now(UTC))
            case Resized():
                status = resized(wanted)
        body = {"metadata": {"uid": event.pod}, "status": status}
        self._patch(f"/api/v1/namespaces/{pod[0]}/pods/{pod[1]}/status", body, STRATEGIC)

    def _write_images(self, node: str) -> None:
        with self._image_writes:  # the last write must be complete
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


def _pulled_message(event: Pulled, scenario: Scenario) -> str:
    """The kubelet's message, from which probes read the duration."""
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


def _await(watch: Watch, stopping: threading.Event) -> None:
    while not watch.synced.wait(0.5) and not stopping.is_set():
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--scenario", type=Path, required=True)
    parser.add_argument("--ready-file", type=Path, required=True, help="created when the pods are known")
    given = parser.parse_args()
    logs.configure()
    kube = Kube.connect(given.kubeconfig)
    process = NodeModelProcess(kube, Scenario.load(given.scenario))
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    # First the nodes: a pod on a real node is not to be touched once.
    nodes = Watch(kube, "/api/v1/nodes", NodeNames(process.real_nodes), labelSelector=REAL_NODE).start()
    _await(nodes, stopping)
    pods = Watch(kube, "/api/v1/pods", process, fieldSelector="spec.nodeName!=").start()
    _await(pods, stopping)
    given.ready_file.touch()
    log.info("node model runs")
    process.run(stopping)


if __name__ == "__main__":
    main()
