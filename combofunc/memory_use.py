"""Polls metrics.k8s.io for the memory use of functions' pods, in a thread of its own.

Without metrics-server the use is not known; then kubelets refuse a resize that takes away memory in use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import structlog

from combofunc.labels import TEMPLATE_LABEL
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.kube.quantity import QuantityError, parse

__all__ = ["MemoryUsePoll", "read_use"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
_PATH = "/apis/metrics.k8s.io/v1beta1/pods"
_EVERY_S = 15.0  # as often as metrics-server reads the kubelets


class MemoryUsePoll:
    def __init__(self, kube: Kube, leads: Callable[[], bool]) -> None:
        self._kube, self._leads = kube, leads
        self._use: Mapping[str, Mapping[str, float]] = {}  # by namespace and name of pod; replaced as a whole
        self._said = ""

    def of(self, namespace: str) -> Mapping[str, float]:
        """Bytes by name of pod, at the last poll."""
        return self._use.get(namespace, {})

    def step(self) -> float:
        """Ask for all pods; seconds until the next time."""
        said = ""
        try:
            found = self._kube.get(_PATH, labelSelector=TEMPLATE_LABEL) if self._leads() else {}
            self._use = read_use(found)
        except (ApiError, KubeUnreachable) as error:
            self._use, said = {}, str(error)
        if said and said != self._said:  # info only: a cluster need not serve it
            log.info("memory use is not known", error=said)
        self._said = said
        return _EVERY_S


def read_use(listed: Json) -> dict[str, dict[str, float]]:
    """Read a PodMetricsList: bytes by namespace and name of pod. Pods that cannot be read are left out."""
    found: dict[str, dict[str, float]] = {}
    for pod in listed.get("items") or ():
        try:
            used = sum(parse(container["usage"]["memory"]) for container in pod["containers"])
            found.setdefault(pod["metadata"]["namespace"], {})[pod["metadata"]["name"]] = used
        except (KeyError, TypeError, AttributeError, QuantityError):
            continue
    return found
