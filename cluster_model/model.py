"""A pod to place. In millicores and bytes; prices use cores and GiB (eq. 9)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GIB", "PodToPlace"]

GIB = float(1 << 30)


@dataclass(frozen=True, slots=True)
class PodToPlace:
    """One pod as the cost model sees it: C_p, M_p, Q_p, its containers and its images."""

    uid: str
    namespace: str
    name: str
    cpu_millicores: float
    memory_bytes: float
    containers: int
    images: tuple[str, ...] = ()
    concurrency: float = 1.0
