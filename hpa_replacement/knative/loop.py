"""Reconciles PodAutoscalers of our class: when one of its objects changes, and at a resync interval."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import structlog

from hpa_replacement.knative import config_autoscaler, pod_autoscaler
from hpa_replacement.knative.activators import SERVICE, Activators, Address, read_addresses
from hpa_replacement.knative.config_autoscaler import AutoscalerConfig, read_config
from hpa_replacement.knative.pod_autoscaler import PodAutoscalerError, is_ours
from hpa_replacement.knative.presence import Observed, RevisionView
from hpa_replacement.knative.reconciliation import SKS_PATH, Create, Patch, Step, plan
from hpa_replacement.metrics import KneeScaleMetrics
from hpa_replacement.observe.sources import ClusterSource, unchanged
from hpa_replacement.settings import Settings
from surgekit.kube.api_path import Resource
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.kube.scale import NotScalable, Scales
from surgekit.kube.table import RowTable, by_full_name, by_name
from surgekit.kube.watch import Watch, overdue

__all__ = ["PodAutoscalerLoop"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
Name = tuple[str, str]
_CONFIG_MAPS = Resource("v1", "configmaps")
_ENDPOINT_SLICES = Resource("discovery.k8s.io/v1", "endpointslices")
_PERIOD_S = 0.5  # how long the first request of a revision without pods may wait to be seen
_RESYNC_S = 30.0  # the scale of a target is not watched
_RETRY_S = 5.0


class PodAutoscalerLoop:
    """Runs while `leads()`, in a thread of its own: a slow Knative API delays no KneePolicy."""

    def __init__(
        self,
        settings: Settings,
        kube: Kube,
        source: ClusterSource,
        metrics: KneeScaleMetrics,
        leads: Callable[[], bool],
    ) -> None:
        self._settings, self._kube, self._source = settings, kube, source
        self._metrics, self._leads = metrics, leads
        self._scales = Scales(kube)
        self._lock = threading.Lock()
        self._pas, self._skss = (
            RowTable(source.unreadable, unchanged, key=by_full_name, lock=self._lock) for _ in range(2)
        )
        self._configs = RowTable(source.unreadable, _read_config, key=by_name, lock=self._lock)
        self._slices = RowTable(source.unreadable, read_addresses, key=by_name, lock=self._lock)
        system = settings.knative_namespace
        self._watches = {
            "podautoscalers": Watch(kube, pod_autoscaler.PATH, self._pas),
            "serverlessservices": Watch(kube, SKS_PATH, self._skss),
            config_autoscaler.NAME: Watch(
                kube,
                _CONFIG_MAPS.path(system),
                self._configs,
                fieldSelector=f"metadata.name={config_autoscaler.NAME}",
            ),
            "activators": Watch(
                kube,
                _ENDPOINT_SLICES.path(system),
                self._slices,
                labelSelector=f"kubernetes.io/service-name={SERVICE}",
            ),
        }
        self._activators = Activators()
        self._selectors: dict[Name, dict[str, str]] = {}  # of the target's pods, once its scale was read
        # The versions it was reconciled at, and when to reconcile it again.
        self._reconciled: dict[Name, tuple[Any, float]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="knative", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for watch in self._watches.values():
            watch.stop()
        self._activators.stop()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        self._wait_for_knative()
        if self._stopping.is_set():
            return
        for watch in self._watches.values():
            watch.start()
        while not self._stopping.wait(_PERIOD_S):
            now_s = time.monotonic()
            ages_s = {name: watch.age_s(now_s) for name, watch in self._watches.items()}
            if not self._leads() or overdue(ages_s, self._settings.max_input_age_s):
                self._reconciled.clear()  # another replica may have written meanwhile
                self._activators.forget()
                continue
            try:
                self._reconcile_due(now_s, {**self._source.ages_s(now_s), **ages_s})
            except Exception:
                log.exception("reconciling PodAutoscalers failed")

    def _wait_for_knative(self) -> None:
        logged = ""
        while not self._stopping.is_set():
            try:
                for path in (pod_autoscaler.PATH, SKS_PATH):
                    self._kube.get(path, limit=1)
                return
            except (ApiError, KubeUnreachable) as error:
                if str(error) != logged:
                    log.info("waiting for Knative", error=str(error))
                logged = str(error)
            self._stopping.wait(_RETRY_S)

    def _reconcile_due(self, now_s: float, ages_s: Mapping[str, float]) -> None:
        with self._lock:
            pas, skss = dict(self._pas.rows), dict(self._skss.rows)
            config = self._configs.rows.get(config_autoscaler.NAME, AutoscalerConfig())
            addresses = frozenset[Address]().union(*self._slices.rows.values())
        if any(map(is_ours, pas.values())):
            self._activators.ask(addresses, now_s)
        policies = {(p["metadata"]["namespace"], p["metadata"]["name"]): p for p in self._source.policies()}
        for gone in self._reconciled.keys() - pas.keys():
            del self._reconciled[gone]
            self._selectors.pop(gone, None)
        for name, obj in pas.items():
            sks, policy = skss.get(name), policies.get(name)
            demand = self._activators.demand(name, now_s)
            versions = (
                *map(_version, (obj, sks, policy)), self._ready_pods(name), demand.requests > 0, config,
            )  # fmt: skip
            reconciled, requeue_s = self._reconciled.get(name, (None, 0.0))
            if versions != reconciled or now_s >= requeue_s:
                view = RevisionView(obj, sks, policy, "not observed yet", demand, config, time.time(), ages_s)
                again_s = self._reconcile(name, view)
                self._reconciled[name] = (versions, now_s + again_s)

    def _ready_pods(self, name: Name) -> int | None:
        if name not in self._selectors:
            return None
        replicas, _ = self._source.replicas(name[0], self._selectors[name])
        return sum(r.serves for r in replicas)

    def _reconcile(self, name: Name, view: RevisionView) -> float:
        """Seconds after which to look at it again, if nothing changes before."""
        try:
            target = self._observe(name, view.pod_autoscaler, view.config)
            decision = plan(replace(view, target=target), self._settings.knative_max_scale)
            if decision.action.steps:
                log.info(
                    "decision", podautoscaler="/".join(name), valid=decision.valid,
                    steps=[type(step).__name__ for step in decision.action.steps],
                    why="; ".join(decision.reasons), inputs_age_s=dict(decision.inputs_age_s),
                )  # fmt: skip
            for step in decision.action.steps:
                if not self._leads():
                    return _RETRY_S
                self._apply(step)
        except (ApiError, KubeUnreachable, NotScalable) as error:
            # The watch has not delivered our own write yet, or the object was replaced.
            if isinstance(error, ApiError) and error.overtaken:
                return _PERIOD_S
            self._metrics.failures.labels("knative").inc()
            log.warning("reconciling failed, will retry", podautoscaler="/".join(name), error=str(error))
            return _RETRY_S
        except Exception:  # a bug met by one object must not stop the others
            log.exception("reconciling failed", podautoscaler="/".join(name))
            return _RETRY_S
        longest_s = _RESYNC_S if isinstance(target, Observed) else _RETRY_S
        return min(decision.action.again_s, longest_s)

    def _observe(self, name: Name, obj: Json, config: AutoscalerConfig) -> Observed | str:
        if not is_ours(obj):
            return "another class"
        try:
            pa = pod_autoscaler.read(obj, self._settings.knative_max_scale, config)
            scale = self._scales.get(pa.target)
        except (PodAutoscalerError, NotScalable) as error:
            return str(error)
        self._selectors[name] = scale.selector
        return Observed(scale.replicas, self._ready_pods(name) or 0)

    def _apply(self, step: Step) -> None:
        if isinstance(step, Create):
            self._kube.create(step.path, step.body)
        elif isinstance(step, Patch):
            self._kube.patch(step.path, step.body)
        else:
            self._scales.set(step.target, step.replicas)
            self._metrics.changes.inc()


def _read_config(config_map: Json) -> AutoscalerConfig:
    return read_config(config_map.get("data") or {})


def _version(obj: Json | None) -> str:
    return obj["metadata"]["resourceVersion"] if obj else ""
