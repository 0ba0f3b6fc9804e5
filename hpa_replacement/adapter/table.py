"""The watch of KneePolicies, as the table that requests are answered from."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hpa_replacement.adapter.model import PolicyFacts, PolicyTable
from hpa_replacement.kneepolicy import PATH
from surgekit import duration
from surgekit.kube import Kube
from surgekit.modes import Mode
from surgekit.watch import Watch

__all__ = ["Policies", "read_policy"]

Json = dict[str, Any]
_DEFAULT_INTERVAL = "30s"  # the CRD's default, which the paper uses


class Policies:
    """The consumer of the watch; `table` is replaced as a whole, so that readers need no lock."""

    def __init__(self, kube: Kube) -> None:
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

    def replace(self, objects: list[Json], arrival_s: float) -> None:  # noqa: ARG002
        table: dict[str, dict[str, PolicyFacts]] = {}
        for facts in map(read_policy, objects):
            table.setdefault(facts.namespace, {})[facts.name] = facts
        self.table = table

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:  # noqa: ARG002
        facts = read_policy(obj)
        there = dict(self.table.get(facts.namespace, {}))
        if kind == "DELETED":
            there.pop(facts.name, None)
        else:
            there[facts.name] = facts
        self.table = {**self.table, facts.namespace: there}


def read_policy(obj: Json) -> PolicyFacts:
    """Absent fields have the CRD's defaults (mode shadow, via scale): served is only what says so."""
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
    decided_at_s = _moment_s(decided)
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


def _moment_s(text: Any) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment.timestamp() if moment.tzinfo else None
