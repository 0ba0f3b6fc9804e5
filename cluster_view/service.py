"""One view of one cluster: watches, what is asked besides, and the loop that publishes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from cluster_view.poller import Poller
from cluster_view.publisher import Publisher
from cluster_view.settings import Settings
from cluster_view.sources import Sources
from cluster_view.state import State
from surgekit.errors import UserError
from surgekit.kube.client import Kube

__all__ = ["Extender", "View"]

Json = dict[str, Any]
_TRAFFIC_S = 5.0
# An extender's clock may be behind another's; what is heard twice is told once.
_OVERLAP_S = 2.0


@dataclass(frozen=True)
class Extender:
    """How the extender is asked. Both raise UserError if it does not answer."""

    about: Callable[[str], Json]  # the pod NAMESPACE/NAME
    since: Callable[[float], list[Json]]  # its decisions after this Unix time
    every_s: float


class View:
    def __init__(
        self, kube: Kube, cluster: str, settings: Settings, prices: Mapping[str, float], extender: Extender
    ) -> None:
        self.state = State(cluster, prices)
        self.sources = Sources(kube, self.state, settings.price_labels)
        self.publisher = Publisher(self.state, self.sources)
        self.ask, self._extender = extender.about, extender
        self._placements_since_s = 0.0  # at first the latest that it keeps
        self._pollers = [Poller("extender", self._ask_extender, extender.every_s)]
        if settings.prometheus_url:
            self._pollers.append(Poller("prometheus", _traffic(settings, self._take_traffic), _TRAFFIC_S))

    def start(self) -> None:
        self.sources.start()
        for poller in self._pollers:
            poller.start()

    def stop(self) -> None:
        for poller in self._pollers:
            poller.stop()
        self.sources.stop()
        self.publisher.stop()

    def _ask_extender(self) -> None:
        heard = self._extender.since(self._placements_since_s - _OVERLAP_S)
        for said in heard:
            self.sources.post(partial(self.state.put_placement, said, time.time()))
            self._placements_since_s = max(self._placements_since_s, float(said["decided_at"]))

    def _take_traffic(self, requests_per_s: float | None) -> None:
        self.sources.post(partial(setattr, self.state, "requests_per_s", requests_per_s))


def _traffic(settings: Settings, take: Callable[[float | None], None]) -> Callable[[], None]:
    """Imported here: the extra `view` brings what it needs."""
    from surgekit.prometheus.client import Prometheus  # noqa: PLC0415

    prometheus = Prometheus(
        settings.prometheus_url,
        settings.prometheus_timeout_s,
        settings.prometheus_ca,
        settings.prometheus_token,
    )

    def ask() -> None:
        try:
            values = list(prometheus.values(settings.requests_promql, time.time()).values())
            if len(values) > 1:
                raise UserError(f"requests_promql gives {len(values)} series, not one")
        except Exception:
            take(None)
            raise
        take(values[0] if values else None)

    return ask
