"""How creations and resizes on one node slow each other down: S_np of eq. (6) without image pulls. Pure.

    S_np = tau_n^c * work(m) * slowdown(k_n)          a pod of m containers; k_n counts the pod itself
    S_np = tau_n^u * slowdown(r_n)                    a resize in place; r_n counts the resize itself

The paper has work(m) = m and slowdown(k) = k for creations, and slowdown(r) = 1 for resizes (`PAPER`). A real
kubelet and containerd are kinder to creations and less kind to resizes (`MEASURED`): a share of each job, its
latency, slows nobody down; several jobs run side by side; and a pod's sandbox is more work than a container.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["CONTENTION", "MEASURED", "PAPER", "Contention", "ContentionForm", "Sharing"]


@dataclass(frozen=True, slots=True)
class Sharing:
    """Jobs of one kind on one node. All times are multiples of the time one job takes alone."""

    side_by_side: float  # so many jobs run at full speed; more share it
    latency: float  # the share of a job that is not slowed down and slows nobody down

    def slowdown(self, jobs: float) -> float:
        """How many times as long a job takes while `jobs` run, itself included."""
        return self.latency + (1.0 - self.latency) * self.crowding(jobs)

    def crowding(self, contending: float) -> float:
        """How many times as long a job takes after its latency while so many contend, itself included."""
        return max(1.0, contending / self.side_by_side)


@dataclass(frozen=True, slots=True)
class Contention:
    creation: Sharing
    resize: Sharing
    extra_container: float  # the work of each container after a pod's first; the first with its sandbox is 1

    def work(self, containers: int) -> float:
        return 1.0 + self.extra_container * (max(containers, 1) - 1)


PAPER = Contention(Sharing(1.0, 0.0), Sharing(1.0, 1.0), extra_container=1.0)
# A real node (kubelet v1.36.3, containerd 1.6, runc, 2 cores), as `surgekit bench node-model` found it on
# 2026-11-18 on an otherwise idle machine; docs/results/lab.md has the errors on rounds it was not fitted to.
MEASURED = Contention(Sharing(1.36, 0.153), Sharing(1.10, 0.237), extra_container=0.381)


class ContentionForm(StrEnum):
    """The form of eq. (6), as settings name it."""

    MEASURED = "measured"
    PAPER = "paper"


CONTENTION = {ContentionForm.MEASURED: MEASURED, ContentionForm.PAPER: PAPER}
