"""The tables that requests are answered from, kept by watches: KneePolicies, and pods as an HPA sees them."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence, Set
from typing import Any

from hpa_replacement.adapter.model import PodFacts, PolicyFacts, PolicyTable
from hpa_replacement.kneepolicy import PATH
from surgekit.kube import duration
from surgekit.kube.checked import checked
from surgekit.kube.client import Kube
from surgekit.kube.conditions import unix_s
from surgekit.kube.label_selector import LabelSelector
from surgekit.kube.table import ObjectTable, Seen, Table, Unreadable
from surgekit.kube.watch import Watch
from surgekit.process.modes import Mode

__all__ = ["REVISION", "KnativePods", "Policies", "read_pod", "read_policy"]

Json = dict[str, Any]
REVISION = "serving.knative.dev/revision"
_Key = tuple[str, str]  # namespace, uid
_DEFAULT_INTERVAL = "30s"  # the CRD's default, which the paper uses


class Policies(Table[PolicyFacts]):
    """Keeps `table` up to date. It is replaced as a whole, so readers need no lock."""

    def __init__(self, kube: Kube, unreadable: Unreadable) -> None:
        super().__init__(unreadable)
        self.table: PolicyTable = {}
        self._watch = Watch(kube, PATH, self)

    def start(self) -> None:
        self._watch.start()

    def stop(self) -> None:
        self._watch.stop()

    def age_s(self, now_s: float) -> float:
        return self._watch.age_s(now_s)

    def count(self) -> int:
        return sum(map(len, self.table.values()))

    def read(self, obj: Json) -> PolicyFacts:
        return read_policy(obj)

    def listed(self, there: Sequence[Seen], arrival_s: float) -> None:  # noqa: ARG002
        """Replace the table at once, so that every answer sees one consistent table."""
        table: dict[str, dict[str, PolicyFacts]] = {}
        for obj in there:
            facts = obj.says if obj.readable else self.table.get(obj.namespace, {}).get(obj.name)
            if facts is not None:
                table.setdefault(obj.namespace, {})[obj.name] = facts
        self.table = table

    def put(self, obj: Seen, says: PolicyFacts, arrival_s: float) -> None:  # noqa: ARG002
        self.table = {
            **self.table,
            obj.namespace: {**self.table.get(obj.namespace, {}), obj.name: says},
        }

    def drop(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002
        there = {n: facts for n, facts in self.table.get(obj.namespace, {}).items() if n != obj.name}
        self.table = {**self.table, obj.namespace: there}


@checked
def read_policy(obj: Json) -> PolicyFacts:
    """Absent fields have the CRD's defaults: mode shadow and via scale, which are not served."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    faults: list[str] = []
    try:
        mode = Mode(spec.get("mode", Mode.SHADOW))
    except ValueError:
        mode = Mode.OFF
        faults.append(f"spec.mode: {spec['mode']!r} is not one of {', '.join(Mode)}")
    interval_s = duration.seconds(spec.get("samplingInterval", _DEFAULT_INTERVAL))
    if not interval_s:
        faults.append(f"spec.samplingInterval: {spec['samplingInterval']!r} is not a duration over 0")
    replicas = status.get("targetReplicas")
    if replicas is not None and (type(replicas) is not int or replicas < 1):
        faults.append(f"status.targetReplicas: {replicas!r} is not a whole number of at least 1")
        replicas = None
    decided = status.get("decidedAt")
    decided_at_s = unix_s(decided)
    if decided is not None and decided_at_s is None:
        faults.append(f"status.decidedAt: {decided!r} is not an RFC 3339 time")
    return PolicyFacts(
        namespace=metadata["namespace"],
        name=metadata["name"],
        mode=mode,
        paused=spec.get("paused", False) is not False,
        via_metrics=spec.get("via") == "metrics",
        sampling_interval_s=interval_s or 0.0,
        target_replicas=replicas,
        decided_at_s=decided_at_s,
        generation=metadata.get("generation", 0),
        observed_generation=status.get("observedGeneration"),
        fault="; ".join(faults),
    )


@checked
def read_pod(obj: Json) -> PodFacts | None:
    """None: the HPA does not count it."""
    metadata, phase = obj["metadata"], (obj.get("status") or {}).get("phase") or "Pending"
    labels = metadata["labels"]
    if "deletionTimestamp" in metadata or phase == "Failed":
        return None
    return PodFacts(metadata["name"], labels[REVISION], labels, phase == "Pending")


class KnativePods:
    """The pods of revisions."""

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
