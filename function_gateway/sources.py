"""Reads the cluster: the watches, and the functions and pods that they know of."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from function_gateway.endpoints import (
    BURST_FUNCTION,
    COMBOFUNC,
    Endpoints,
    Slice,
    read_addresses,
    read_burst,
    read_concurrency,
    read_slice,
)
from function_gateway.revisions import PRIVATE, Revisions, read_private_slice
from function_gateway.settings import Settings
from surgekit.kube.api_path import Resource
from surgekit.kube.client import Kube
from surgekit.kube.table import ObjectTable, RowTable, Unreadable, by_uid
from surgekit.kube.watch import Watch

__all__ = ["Sources"]

SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
BURST_FUNCTIONS = "/apis/surgekit.dev/v1alpha1/burstfunctions"
# The controller writes a status every 10 s, and another replica leads after 15 s. Shorter than requests wait
# (`gateway_timeout_s`), so that those that wait are given to the ingress in time.
_LONGEST_SILENCE_S = 30.0


class Sources:
    """`lock` guards `endpoints`. `on_change` is called from the watches' threads."""

    def __init__(
        self, kube: Kube, settings: Settings, unreadable: Unreadable, on_change: Callable[[], None]
    ) -> None:
        self.endpoints, self.lock = Endpoints(), threading.Lock()
        # With no other way to Knative's pods, functions stay here whether their controller is heard or not.
        silence_s = _LONGEST_SILENCE_S if settings.ingress else float("inf")
        self._revisions = Revisions(self.endpoints, silence_s)
        state, revisions, lock = self.endpoints, self._revisions, self.lock

        def slices(is_burst: bool) -> ObjectTable[str, Slice]:
            # A slice whose label changes leaves one table and comes to the other, in any order.
            kind = "burst" if is_burst else "combofunc"
            return ObjectTable(
                unreadable,
                read_slice,
                key=lambda seen: f"{kind}/{seen.uid}",
                lock=lock,
                on_list=lambda uids, _: state.keep_slices(uids, is_burst),
                on_put=lambda uid, piece, _: state.put_slice(uid, piece),
                on_drop=lambda uid, _: state.put_slice(uid, None),
                on_change=on_change,
            )

        private = ObjectTable(
            unreadable,
            read_private_slice,
            key=by_uid,
            lock=lock,
            on_list=lambda uids, _: revisions.keep_slices(uids),
            on_put=lambda uid, piece, _: revisions.put_slice(uid, piece),
            on_drop=lambda uid, _: revisions.put_slice(uid, None),
            on_change=on_change,
        )
        bursts = ObjectTable(
            unreadable,
            read_burst,
            key=by_uid,
            lock=lock,
            on_list=lambda uids, _: revisions.keep_bursts(uids),
            on_put=revisions.put_burst,
            on_drop=lambda uid, arrival_s: revisions.put_burst(uid, None, arrival_s),
            on_change=on_change,
        )
        pods = ObjectTable(
            unreadable,
            read_concurrency,
            key=by_uid,
            lock=lock,
            on_list=lambda uids, _: state.keep_pods(uids),
            # An annotation that says nothing usable changes nothing: what the pod said before stands.
            on_put=lambda uid, limit, _: limit is not None and state.put_pod(uid, limit),
            on_drop=lambda uid, _: state.put_pod(uid, None),
            on_change=on_change,
        )
        self.watches = {
            "endpointslices": Watch(
                kube, SLICES, slices(is_burst=False), labelSelector=f"{COMBOFUNC},!{BURST_FUNCTION}"
            ),
            "burst endpointslices": Watch(kube, SLICES, slices(is_burst=True), labelSelector=BURST_FUNCTION),
            "revisions' endpointslices": Watch(kube, SLICES, private, labelSelector=PRIVATE),
            "burstfunctions": Watch(kube, BURST_FUNCTIONS, bursts, may_be_absent=True),
            "pods": Watch(kube, "/api/v1/pods", pods, labelSelector=COMBOFUNC),
        }
        self._replicas = RowTable(unreadable, read_addresses, key=by_uid, lock=lock, on_change=on_change)
        if settings.replicas_service:
            namespace, _, service = settings.replicas_service.partition("/")
            self.watches["replicas"] = Watch(
                kube,
                Resource("discovery.k8s.io/v1", "endpointslices").path(namespace),
                self._replicas,
                labelSelector=f"kubernetes.io/service-name={service}",
            )

    def look(self) -> bool:
        """Let time pass. True if anything changed."""
        with self.lock:
            return self._revisions.look(time.monotonic())

    def replicas(self) -> set[str]:
        """Addresses of the balancer's replicas."""
        with self.lock:
            return {address for row in self._replicas.rows.values() for address in row.addresses}
