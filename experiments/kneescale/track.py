"""The record of one function of one arm."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Track"]


@dataclass
class Track:
    """One entry an interval. Figures are nominal, whatever the time factor."""

    replicas: list[int] = field(default_factory=list)
    clients: list[int] = field(default_factory=list)
    throughput_per_s: list[float] = field(default_factory=list)
    errors_per_s: list[float] = field(default_factory=list)
    latency_s: list[float | None] = field(default_factory=list)
    score: list[float] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)  # of each search that ended
    knees: list[int] = field(default_factory=list)  # found by the searches that found one
    latency_quantiles_s: dict[str, float] = field(default_factory=dict)
    first_latencies_s: list[float] = field(default_factory=list)  # fig. 16: of the first 200 invocations

    @property
    def performance(self) -> float:
        return sum(self.score)

    def note(
        self,
        replicas: int,
        clients: int,
        throughput_per_s: float,
        errors_per_s: float,
        latency_s: float | None,
    ) -> None:
        """Record a finished interval."""
        self.replicas.append(replicas)
        self.clients.append(clients)
        self.throughput_per_s.append(round(throughput_per_s, 4))
        self.errors_per_s.append(round(errors_per_s, 4))
        self.latency_s.append(None if latency_s is None else round(latency_s, 4))
        self.score.append(round(throughput_per_s / latency_s, 6) if latency_s else 0.0)
