"""Makes the BurstFunction that a Deployment asks for with the annotation `surgekit.dev/burst: MODE`.

It has defaults in everything else, and its Deployment as owner. Without the annotation it goes again. A
BurstFunction of that name that somebody else made is left alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import structlog

from burst_plane.burst_function import BURST_FUNCTIONS
from burst_plane.metrics import ControllerMetrics
from burst_plane.sources import ClusterSource, Replicas
from burst_plane.turns import in_turns
from surgekit.kube.client import ApiError, Kube
from surgekit.process.modes import Mode

__all__ = ["LABEL", "Registration"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
LABEL = "surgekit.dev/from-annotation"
_AGAIN_S = 3.0  # after a write, until the watch shows it
_REFUSED_AGAIN_S = 30.0
_MOST_AT_ONCE = 20


class Registration:
    def __init__(
        self, kube: Kube, source: ClusterSource, metrics: ControllerMetrics, leads: Callable[[], bool]
    ) -> None:
        self._kube, self._source, self._metrics, self._leads = kube, source, metrics, leads
        self._not_before_s: dict[tuple[str, str], float] = {}

    def follow(self, objects: Iterable[Json]) -> None:
        """Given the BurstFunctions there are, make, change and remove those of annotations."""
        now_s = time.monotonic()
        self._not_before_s = {key: at_s for key, at_s in self._not_before_s.items() if now_s < at_s}
        wanted = {key: of for key, of in self._source.registered().items() if of.burst in list(Mode)}
        there = {(o["metadata"]["namespace"], o["metadata"]["name"]): o for o in objects}
        due = [
            key
            for key in sorted(wanted.keys() | there.keys())
            if key not in self._not_before_s and not _is_right(there.get(key), wanted.get(key))
        ]
        for key in in_turns(due, lambda key: key[0])[:_MOST_AT_ONCE]:
            if not self._leads():
                return
            self._not_before_s[key] = now_s + _AGAIN_S
            try:
                self._write(key, there.get(key), wanted.get(key))
            except ApiError as error:
                self._not_before_s[key] = now_s + _REFUSED_AGAIN_S
                self._metrics.failures.labels("register").inc()
                log.warning("annotation not followed", namespace=key[0], function=key[1], error=str(error))

    def _write(self, key: tuple[str, str], there: Json | None, wanted: Replicas | None) -> None:
        path = BURST_FUNCTIONS.path(*key)
        if there is None and wanted is not None:
            self._kube.create(BURST_FUNCTIONS.path(key[0]), _made(key, wanted))
        elif there is not None and (wanted is None or _owner(there) != wanted.uid):
            # What another Deployment of this name had asked for goes first.
            self._kube.delete(path, {"preconditions": {"uid": there["metadata"]["uid"]}})
        elif wanted is not None:
            self._kube.patch(path, {"spec": {"mode": wanted.burst}})


def _is_right(there: Json | None, wanted: Replicas | None) -> bool:
    if there is not None and not _is_ours(there):
        return True
    if there is None or wanted is None:
        return there is None and wanted is None
    spec = there.get("spec")
    return _owner(there) == wanted.uid and isinstance(spec, dict) and spec.get("mode") == wanted.burst


def _is_ours(obj: Json) -> bool:
    labels = obj["metadata"].get("labels")
    return isinstance(labels, dict) and labels.get(LABEL) == "true"


def _owner(obj: Json) -> object:
    owners = obj["metadata"].get("ownerReferences")
    first = owners[0] if isinstance(owners, list) and owners else None
    return first.get("uid") if isinstance(first, dict) else None


def _made(key: tuple[str, str], deployment: Replicas) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": key[1]}
    return {
        "apiVersion": BURST_FUNCTIONS.api_version,
        "kind": "BurstFunction",
        "metadata": {
            "namespace": key[0],
            "name": key[1],
            "labels": {LABEL: "true"},
            "ownerReferences": [target | {"uid": deployment.uid}],
        },
        "spec": {"targetRef": target, "mode": deployment.burst},
    }
