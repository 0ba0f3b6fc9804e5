"""Asks metrics.k8s.io what functions' pods use, in a thread of its own. Where it is not served, nothing is
known, and kubelets say it by refusing."""

from __future__ import annotations

import threading
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
_EVERY_S = 15.0  # as often as metrics-server asks the kubelets


class MemoryUsePoll:
    def __init__(self, kube: Kube, leads: Callable[[], bool]) -> None:
        self._kube, self._leads = kube, leads
        self._use: Mapping[str, Mapping[str, float]] = {}  # by namespace and pod; replaced as a whole
        self._said = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory use", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def of(self, namespace: str) -> Mapping[str, float]:
        """Bytes by pod, at the last time of asking."""
        return self._use.get(namespace, {})

    def ask(self) -> None:
        said = ""
        try:
            found = self._kube.get(_PATH, labelSelector=TEMPLATE_LABEL) if self._leads() else {}
            self._use = read_use(found)
        except (ApiError, KubeUnreachable) as error:
            self._use, said = {}, str(error)
        if said and said != self._said:  # a cluster need not have it
            log.info("memory use is not known", error=said)
        self._said = said

    def _run(self) -> None:
        while not self._stopping.wait(_EVERY_S):
            try:
                self.ask()
            except Exception:  # of ours: the next round may do
                log.exception("asking for memory use failed")


def read_use(listed: Json) -> dict[str, dict[str, float]]:
    """A PodMetricsList: by namespace and pod, all containers together. What cannot be read is left out."""
    found: dict[str, dict[str, float]] = {}
    for pod in listed.get("items") or ():
        try:
            used = sum(parse(container["usage"]["memory"]) for container in pod["containers"])
            found.setdefault(pod["metadata"]["namespace"], {})[pod["metadata"]["name"]] = used
        except (KeyError, TypeError, AttributeError, QuantityError):
            continue
    return found
