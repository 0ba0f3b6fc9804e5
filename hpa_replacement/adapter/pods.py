"""The pods of Knative's revisions, as an HPA sees them: kept by a watch, asked by label selector."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Set
from typing import Any

from hpa_replacement.adapter.model import PodFacts
from surgekit.kube.checked import checked
from surgekit.kube.client import Kube
from surgekit.kube.label_selector import LabelSelector
from surgekit.kube.table import ObjectTable, Seen, Unreadable
from surgekit.kube.watch import Watch

__all__ = ["REVISION", "KnativePods", "read_pod"]

Json = dict[str, Any]
REVISION = "serving.knative.dev/revision"
_Key = tuple[str, str]  # namespace, uid


@checked
def read_pod(obj: Json) -> PodFacts | None:
    """None: the HPA does not count it."""
    metadata, phase = obj["metadata"], (obj.get("status") or {}).get("phase") or "Pending"
    labels = metadata["labels"]
    if "deletionTimestamp" in metadata or phase == "Failed":
        return None
    return PodFacts(metadata["name"], labels[REVISION], labels, phase == "Pending")


class KnativePods:
    def __init__(self, kube: Kube, unreadable: Unreadable) -> None:
        self._lock = threading.Lock()
        self._by_namespace: defaultdict[str, dict[str, PodFacts]] = defaultdict(dict)
        table = ObjectTable[_Key, PodFacts | None](
            unreadable, read_pod, key=_key, lock=self._lock,
            on_list=self._keep, on_put=self._put, on_drop=lambda key, _: self._put(key, None, 0.0),
        )  # fmt: skip
        self._watch = Watch(kube, "/api/v1/pods", table, labelSelector=REVISION)

    def start(self) -> None:
        self._watch.start()

    def stop(self) -> None:
        self._watch.stop()

    def age_s(self, now_s: float) -> float:
        return self._watch.age_s(now_s)

    def selected(self, namespace: str, selector: LabelSelector) -> list[PodFacts]:
        with self._lock:
            pods = list(self._by_namespace.get(namespace, {}).values())
        return sorted((pod for pod in pods if selector.matches(pod.labels)), key=lambda pod: pod.name)

    def _keep(self, keys: Set[_Key], _: float) -> None:
        for namespace, pods in list(self._by_namespace.items()):
            for uid in [uid for uid in pods if (namespace, uid) not in keys]:
                self._put((namespace, uid), None, 0.0)

    def _put(self, key: _Key, pod: PodFacts | None, _: float) -> None:
        namespace, uid = key
        if pod:
            self._by_namespace[namespace][uid] = pod
        elif pods := self._by_namespace.get(namespace):
            pods.pop(uid, None)
            if not pods:
                del self._by_namespace[namespace]


def _key(obj: Seen) -> _Key:
    return obj.namespace, obj.uid
