"""What Knative's autoscaler is told of a revision, once a second, as an activator tells it. Pure.

The autoscaler adds up what all senders say of a second (serving v0.50.0, collector.go in
pkg/autoscaler/metrics). It asks the queue-proxies of regular pods itself, so that is left out.
Added are requests that wait for a pod, and those in emergency instances as far as the filter lets them count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from burst_plane.knative.stat_pb2 import Stat, WireStatMessage, WireStatMessages

__all__ = ["Excess", "encoded"]


@dataclass(frozen=True, slots=True)
class Excess:
    """One second of one revision's requests that no queue-proxy has."""

    namespace: str
    revision: str
    concurrency: float  # queued, and what counts of those in emergency instances
    requests: float  # that came; for a revision that scales by requests per second

    @property
    def is_any(self) -> bool:
        return self.concurrency > 0 or self.requests > 0


def encoded(pod_name: str, excess: Iterable[Excess]) -> bytes:
    """One binary message. A revision without excess is left out: its zero would stand for pods that the
    autoscaler could not ask, and scale them down."""
    messages = (
        WireStatMessage(
            namespace=of.namespace,
            name=of.revision,
            stat=Stat(
                pod_name=pod_name,
                average_concurrent_requests=of.concurrency,
                request_count=of.requests,
            ),
        )
        for of in excess
        if of.is_any
    )
    return WireStatMessages(messages=messages).SerializeToString()
