"""The table of KneePolicies that requests are answered from, kept by a watch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpa_replacement.adapter.model import PolicyFacts, PolicyTable
from hpa_replacement.kneepolicy import PATH
from surgekit.kube import duration
from surgekit.kube.checked import checked
from surgekit.kube.client import Kube
from surgekit.kube.conditions import unix_s
from surgekit.kube.table import Seen, Table, Unreadable
from surgekit.kube.watch import Watch
from surgekit.process.modes import Mode

__all__ = ["Policies", "read_policy"]

Json = dict[str, Any]
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
