"""Our own writes that the watches have not shown yet. They are assumed to hold, each for a short time.

Like kube-scheduler's cache of assumed pods: without it, the next step would rent, release or hand over again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from cluster_autoscaler_hook.karpenter.claim_lifecycle import PodRelease
from cluster_autoscaler_hook.karpenter.labels import GATE
from cluster_autoscaler_hook.karpenter.model import Claim, PendingPod, WaitingPod
from cluster_autoscaler_hook.karpenter.pending_pods import HandOver

__all__ = ["AssumedWrites"]

# A claim that the watch has not shown for so long was created and deleted while the watch was down.
_CLAIM_TTL_S = 30.0
# A pod that still shows our gate after so long gets the write again.
_POD_TTL_S = 2.0


class AssumedWrites:
    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self._released: dict[str, tuple[str, float]] = {}  # pod uid -> its node, when
        self._handed_over: dict[str, float] = {}  # pod uid -> when

    def created(self, claims: Iterable[Claim]) -> None:
        self._claims |= {claim.name: claim for claim in claims}

    def released(self, releases: Iterable[PodRelease], now: float) -> None:
        self._released |= {release.uid: (release.node, now) for release in releases}

    def handed_over(self, hand_overs: Iterable[HandOver], now: float) -> None:
        self._handed_over |= {pod.uid: now for pod in hand_overs}

    def expire(self, known_claims: Collection[str], now: float) -> None:
        """Forget claims that the watch has shown, and whatever is older than its TTL."""
        self._claims = {
            name: claim
            for name, claim in self._claims.items()
            if name not in known_claims and now - claim.created < _CLAIM_TTL_S
        }
        self._released = {
            uid: (node, at) for uid, (node, at) in self._released.items() if now - at < _POD_TTL_S
        }
        self._handed_over = {uid: at for uid, at in self._handed_over.items() if now - at < _POD_TTL_S}

    @property
    def claims(self) -> tuple[Claim, ...]:
        return tuple(self._claims.values())

    @property
    def handed_over_uids(self) -> frozenset[str]:
        return frozenset(self._handed_over)

    def without_handed_over(self, pods: Iterable[PendingPod]) -> list[PendingPod]:
        """The pods, except those that still show the gate that we removed."""
        return [pod for pod in pods if pod.uid not in self._handed_over or GATE not in pod.gates]

    def with_releases(self, waiting: Iterable[WaitingPod]) -> tuple[WaitingPod, ...]:
        """The pods, with those marked as released and nominated that still show the gate that we removed."""
        return tuple(
            replace(pod, nominated=self._released[pod.uid][0], released=True)
            if pod.gated and pod.uid in self._released
            else pod
            for pod in waiting
        )
