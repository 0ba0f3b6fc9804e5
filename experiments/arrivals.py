"""Measure when things happen in a lab, by the arrival of watch events (API timestamps have whole seconds)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from surgekit.kube.client import Kube
from surgekit.kube.watch import Watch

__all__ = ["Arrivals", "is_bound", "is_ready"]

Json = dict[str, Any]


def is_bound(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName"))


def is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


class Arrivals:
    """The first time at which each pod of a namespace satisfied each of several conditions."""

    def __init__(self, kube: Kube, namespace: str, **questions: Callable[[Json], bool]) -> None:
        self._questions = questions
        self.seen: dict[str, dict[str, float]] = {name: {} for name in questions}
        self.node: dict[str, str] = {}
        self._watch = Watch(kube, f"/api/v1/namespaces/{namespace}/pods", self).start()
        if not self._watch.synced.wait(30):
            raise TimeoutError(f"no list of the pods in {namespace} within 30 s")

    def replace(self, objects: list[Json], arrival_s: float) -> None:
        for obj in objects:
            self.apply("ADDED", obj, arrival_s)

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:
        if kind == "DELETED":
            return
        name = obj["metadata"]["name"]
        if node := obj["spec"].get("nodeName"):
            self.node[name] = node
        for question, holds in self._questions.items():
            if name not in self.seen[question] and holds(obj):
                self.seen[question][name] = arrival_s

    def wait(self, question: str, count: int, timeout_s: float) -> dict[str, float]:
        """Wait for `count` arrivals and return them."""
        deadline_s = time.monotonic() + timeout_s
        while len(self.seen[question]) < count:
            if time.monotonic() > deadline_s:
                raise TimeoutError(
                    f"{len(self.seen[question])} of {count} pods {question} after {timeout_s:.0f} s"
                )
            time.sleep(0.02)
        return self.seen[question]

    def close(self) -> None:
        self._watch.stop()
