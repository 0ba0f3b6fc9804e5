"""The slow loop of the leader: what the cluster wants goes to the fleet, what the fleet did goes to statuses.

    sources.py -> membership.py -> allowance.py -> Fleet.set_applications
    Fleet.view -> status.py -> the object; ceilings.py -> pods/resize

A node is written to an object's status before the first limit goes there (`Fleet.confirm_nodes`): the next
controller reads there which agents may hold limits that it has not heard of.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import structlog

from limit_allocator import distributed_container, status
from limit_allocator.allowance import Allowance
from limit_allocator.applications import allowances_of, applications_of, view_of
from limit_allocator.ceilings import Resize, resizes
from limit_allocator.distributed_container import (
    DISTRIBUTED_CONTAINERS,
    DistributedContainer,
    SpecError,
)
from limit_allocator.leader_session import LeaderSession
from limit_allocator.membership import Membership, members, oldest
from limit_allocator.metrics import LimitMetrics
from limit_allocator.pod import Pod
from limit_allocator.settings import Settings
from limit_allocator.sources import ClusterSource
from limit_allocator.view import View
from surgekit.kube.api_path import Resource
from surgekit.kube.client import STRATEGIC_MERGE, ApiError, Kube
from surgekit.kube.conditions import status_before
from surgekit.kube.events import Events
from surgekit.kube.status import patch_status

__all__ = ["Reconciler"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]

_PODS = Resource("v1", "pods")
_EVERY_S = 0.5  # between two looks, and after a change at once
_LEAST_GAP_S = 0.1  # a busy cluster changes pods all the time
_MOST_RESIZES = 20  # a look
_AGENTS_REPORT_S = 30.0  # from a term's begin; an agent's longest back-off is 5 s
_RESIZE_AGAIN_S = 30.0  # after the API server refused one, or until its pod shows it


class Reconciler:
    """Lives as long as this replica leads; the next one starts from the objects and the agents."""

    def __init__(
        self,
        settings: Settings,
        kube: Kube,
        source: ClusterSource,
        events: Events,
        metrics: LimitMetrics,
        *,
        session: Callable[[], LeaderSession | None],
        leads: Callable[[], bool],
    ) -> None:
        self._settings, self._kube, self._source = settings, kube, source
        self._events, self._metrics = events, metrics
        self._session, self._leads = session, leads
        self._valid: dict[str, DistributedContainer] = {}  # by uid: the last spec that could be read
        self._written_s: dict[str, float] = {}  # by uid: when the status was last written
        self._reasons: dict[str, str] = {}  # by uid: of the condition Enforced
        self._resized_s: dict[str, float] = {}  # by pod uid
        self._shown: dict[str, tuple[str, Allowance, View]] = {}  # what metrics say of each application

    def step(self) -> float:
        session = self._session()
        if session is None or not self._source.complete:
            return _LEAST_GAP_S
        every = self._source.distributed_containers()
        objects, others = oldest(every, self._settings.most_per_namespace)
        self._forget({str(obj["metadata"]["uid"]) for obj in every})
        invalid = self._read(objects)
        specs = self._specs(objects)
        pods = self._source.pods()
        membership = members(specs, pods, self._settings.mode, self._settings.exclusive_cpus)
        namespaces = {spec.namespace for spec in specs}
        allowances = allowances_of(
            specs,
            membership,
            {namespace: self._source.quotas(namespace) for namespace in namespaces},
            {namespace: self._source.limit_ranges(namespace) for namespace in namespaces},
        )
        known = {_key(o): status.nodes_before(status_before(o)) for o in objects}
        with session.lock:
            session.fleet.set_applications(applications_of(membership, allowances, known))
        written = [self._write_one(session, o, membership, allowances, invalid) for o in objects]
        self._shown = {key: shown for key, shown in self._shown.items() if key in membership.applications}
        for obj in others:
            self._say_too_many(obj)
        self._metrics.show(self._shown.values(), len(others))
        self._resize(resizes(pods, membership, allowances, self._limited(session, pods)))
        return _LEAST_GAP_S if any(written) else _EVERY_S

    def stop(self) -> None:
        self._metrics.show(())

    def _read(self, objects: Iterable[Json]) -> dict[str, str]:
        """Keep each object's last valid spec; return why others are invalid, by uid."""
        invalid, there = {}, set()
        for obj in objects:
            uid = str(obj["metadata"]["uid"])
            there.add(uid)
            try:
                self._valid[uid] = distributed_container.read(obj)
            except SpecError as error:
                invalid[uid] = str(error)
        for gone in self._valid.keys() - there:
            del self._valid[gone]
        return invalid

    def _forget(self, there: set[str]) -> None:
        for gone in self._written_s.keys() - there:
            del self._written_s[gone]
            self._reasons.pop(gone, None)

    def _specs(self, objects: Iterable[Json]) -> list[DistributedContainer]:
        return [spec for o in objects if (spec := self._valid.get(o["metadata"]["uid"]))]

    def _write_one(
        self,
        session: LeaderSession,
        obj: Json,
        membership: Membership,
        allowances: dict[str, Allowance],
        invalid: dict[str, str],
    ) -> bool:
        """One object's trouble does not keep the others from their status."""
        try:
            return self._write(session, obj, membership, allowances, invalid)
        except (ApiError, status.TooManyNodes) as error:
            self._metrics.failures.labels("status").inc()
            log.warning("status not written", distributed_container=_key(obj), error=str(error))
            return False

    def _write(
        self,
        session: LeaderSession,
        obj: Json,
        membership: Membership,
        allowances: dict[str, Allowance],
        invalid: dict[str, str],
    ) -> bool:
        """Write the status if it is due, or a node must be confirmed. True if it was."""
        key, uid, before = _key(obj), obj["metadata"]["uid"], status_before(obj)
        now_s, due = time.time(), self._is_due(uid)
        # What is wrong with the spec, instead of the conditions of the last valid one.
        fault = (
            status.invalid_status(before, obj["metadata"].get("generation", 0), invalid[uid], now_s)
            if uid in invalid
            else {}
        )
        if key not in membership.applications:
            return due and self._say(obj, fault)
        with session.lock:
            nodes = session.fleet.nodes_with_limits(key)
        if nodes <= status.nodes_before(before):
            with session.lock:
                session.fleet.confirm_nodes(key, nodes)
            if not due:
                return False
        with session.lock:
            seen = session.fleet.view(key, time.monotonic())
        if seen is None:  # of a term that has just begun
            return due and self._say(obj, fault)
        view = view_of(seen, nodes, now_s)
        application, step_s = membership.applications[key], self._settings.status_every_s
        said = status.status_of(before, application, allowances[key], view, now_s, step_s) | fault
        self._shown[key] = (_reason(said), allowances[key], view)
        if not self._say(obj, said):
            return False
        with session.lock:
            session.fleet.confirm_nodes(key, nodes)
        return True

    def _say_too_many(self, obj: Json) -> None:
        """Once: an object that does not count is no work."""
        before, generation = status_before(obj), obj["metadata"].get("generation", 0)
        if status.says_too_many(before, generation) or not self._is_due(obj["metadata"]["uid"]):
            return
        most = self._settings.most_per_namespace
        try:
            self._say(obj, status.too_many_status(before, generation, most, time.time()))
        except ApiError as error:
            self._failed(obj, error)

    def _failed(self, obj: Json, error: Exception) -> None:
        """Do not try again at once: a refusal costs a request, too."""
        self._written_s[obj["metadata"]["uid"]] = time.monotonic()
        self._metrics.failures.labels("status").inc()
        log.warning("status not written", distributed_container=_key(obj), error=str(error))

    def _say(self, obj: Json, said: Json) -> bool:
        """Patch the status, and post an Event if limits begin or end to be enforced."""
        if not said:
            return False
        self._tell(obj, said["conditions"])
        return self._patch(obj, said)

    def _is_due(self, uid: str) -> bool:
        return time.monotonic() - self._written_s.get(uid, -1e9) >= self._settings.status_every_s

    def _patch(self, obj: Json, said: Json) -> bool:
        """False: another replica may lead, so nothing was written."""
        if not self._leads():
            return False
        patch_status(self._kube, DISTRIBUTED_CONTAINERS, obj["metadata"], said)
        self._written_s[obj["metadata"]["uid"]] = time.monotonic()
        return True

    def _tell(self, obj: Json, conditions: Iterable[Json]) -> None:
        """An Event when it begins or ends to be enforced, and why."""
        for condition in conditions:
            uid, reason = obj["metadata"]["uid"], condition["reason"]
            if condition["type"] == "Enforced" and self._reasons.get(uid) != reason:
                self._reasons[uid] = reason
                usual = condition["status"] == "True" or reason in ("Shadow", "Off")
                self._events.post(
                    obj["metadata"], reason, condition["message"], "Normal" if usual else "Warning"
                )

    @staticmethod
    def _limited(session: LeaderSession, pods: Iterable[Pod]) -> set[str]:
        """Pods with limits of ours. An agent that has not reported in this term may have left some."""
        with session.lock:
            limited = session.fleet.pods_with_limits()
            if time.monotonic() - session.began_s < _AGENTS_REPORT_S:
                limited |= {pod.uid for pod in pods if not session.fleet.has_heard(pod.node)}
        return limited

    def _resize(self, wanted: Iterable[Resize]) -> None:
        now_s = time.monotonic()
        recently = {uid for uid, at_s in self._resized_s.items() if now_s - at_s < _RESIZE_AGAIN_S}
        self._resized_s = {uid: self._resized_s[uid] for uid in recently}
        due = [resize for resize in wanted if resize.uid not in recently]
        for resize in due[:_MOST_RESIZES]:
            if not self._leads():
                return
            self._resized_s[resize.uid] = now_s
            path = _PODS.path(resize.namespace, resize.pod, "resize")
            try:
                self._kube.patch(path, resize.patch, STRATEGIC_MERGE)
            except ApiError as error:  # one pod's refusal does not keep the others from theirs
                self._metrics.resizes.labels("failed").inc()
                log.warning(
                    "resize refused",
                    namespace=resize.namespace,
                    pod=resize.pod,
                    reason=resize.reason,
                    error=str(error),
                )
            else:
                self._metrics.resizes.labels("done").inc()
                log.info("resized", namespace=resize.namespace, pod=resize.pod, reason=resize.reason)


def _reason(said: Json) -> str:
    """Why limits are enforced, or not."""
    return next(str(c["reason"]) for c in said["conditions"] if c["type"] == "Enforced")


def _key(obj: Json) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
