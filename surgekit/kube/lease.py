"""A Lease that one replica holds, so that only one replica writes.

kubernetes.leaderelection (37.0) does not do: it cannot be stopped, never gives the lease back (a
rolling update waits the full duration), talks through the client's process-wide default configuration,
lets an unreachable API server end its thread, and exits the process over a bad argument.
"""

from __future__ import annotations

import random
import socket
import threading
import time
import uuid
from datetime import UTC, datetime
from typing import Any

import structlog

from surgekit.kube.api_path import Resource
from surgekit.kube.client import ApiError, Kube, KubeUnreachable

__all__ = ["Lease"]

log = structlog.get_logger(__name__)

_LEASES = Resource("coordination.k8s.io/v1", "leases")
# client-go's defaults: other replicas wait 15 s after the last renewal they saw. The holder stops trusting
# its Lease 5 s earlier, so that clocks which run at slightly different speeds never give two holders.
_DURATION_S = 15
_TRUSTED_S = 10.0
_RETRY_S = 2.0
_STEPPED_DOWN_S = 30.0  # for which another replica gets the Lease, if there is one


class Lease:
    """Tries to hold one Lease in a thread of its own. Ask `held` right before every write."""

    def __init__(self, kube: Kube, namespace: str, name: str, identity: str = "") -> None:
        self._kube, self._namespace, self._name = kube, namespace, name
        # A restarted pod is another holder: it does not own what its predecessor held.
        self._identity = identity or f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
        self._collection, self._path = _LEASES.path(namespace), _LEASES.path(namespace, name)
        self._renewed_s = -float("inf")
        self._seen: tuple[Any, ...] = ()  # the record as last read; it has not changed since _seen_s
        self._seen_s = 0.0
        self.metadata: dict[str, Any] = {"namespace": namespace, "name": name}  # as last read
        self._not_before_s = -float("inf")  # having stepped down, when to try again
        self.term = 0  # counts takeovers; renewing after a lapse without another holder starts no new term
        self.transitions = 0  # takeovers by any replica, as the Lease counts them
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lease {name}", daemon=True)

    def start(self) -> Lease:
        self._thread.start()
        return self

    @property
    def held(self) -> bool:
        return time.monotonic() - self._renewed_s < _TRUSTED_S

    @property
    def alive(self) -> bool:
        """Whether the thread still tries to hold the Lease."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Give the Lease back, so that another replica can take it at once."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)
        if self.held:
            self._renewed_s = -float("inf")
            self._release()

    def step_down(self) -> None:
        """Give it to another replica; try again only after a while."""
        self._not_before_s = time.monotonic() + _STEPPED_DOWN_S
        self._renewed_s = -float("inf")
        self._release()

    def attempt(self, now_s: float) -> bool:
        """Take or renew the Lease; return whether we hold it. Expiry is judged by our own clock only."""
        try:
            lease = self._kube.get(self._path)
        except ApiError as error:
            if error.code != 404:
                raise
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._name}}
            self.term += 1  # before the write, whose answer may be lost
            self._kube.create(self._collection, body | {"spec": self._spec({})})
            self._renewed_s = now_s
            return True
        self.metadata = lease["metadata"]
        spec = lease.get("spec") or {}
        record = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if record != self._seen:
            self._seen, self._seen_s = record, now_s
        holder = spec.get("holderIdentity") or ""
        expired = now_s - self._seen_s > (spec.get("leaseDurationSeconds") or _DURATION_S)
        if holder not in ("", self._identity) and not expired:
            self._renewed_s = -float("inf")
            return False
        # The body keeps the resourceVersion that we read: if two replicas try at once, one gets 409 Conflict.
        self.term += holder != self._identity
        self._kube.replace(self._path, lease | {"spec": self._spec(spec)})
        if now_s < self._not_before_s:  # stepped down while this renewal was on its way
            return False
        self._renewed_s = now_s
        return True

    def _spec(self, before: dict[str, Any]) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        taken_over = before.get("holderIdentity") != self._identity
        self.transitions = int(before.get("leaseTransitions") or 0) + taken_over
        return before | {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": _DURATION_S,
            "acquireTime": now if taken_over else before.get("acquireTime", now),
            "renewTime": now,
            "leaseTransitions": self.transitions,
        }

    def _run(self) -> None:
        was_held = False
        while not self._stopping.is_set():
            try:
                if time.monotonic() >= self._not_before_s:
                    self.attempt(time.monotonic())
            except ApiError as error:
                if error.code != 409:
                    log.warning("lease not renewed", lease=self._name, error=str(error))
            except KubeUnreachable as error:
                log.warning("lease not renewed", lease=self._name, error=str(error))
            if self.held != was_held:
                was_held = self.held
                log.info(
                    "lease taken" if was_held else "lease lost", lease=self._name, identity=self._identity
                )
            self._stopping.wait(_RETRY_S * random.uniform(0.8, 1.2))

    def _release(self) -> None:
        try:
            lease = self._kube.get(self._path)
            if lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                self._kube.replace(self._path, lease)
        except (ApiError, KubeUnreachable) as error:
            log.info("lease not given back", lease=self._name, error=str(error))
