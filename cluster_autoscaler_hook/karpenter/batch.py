"""When to plan: once no more waiting pods arrive, as Karpenter batches (1 s idle, 10 s at most)."""

from __future__ import annotations

from collections.abc import Hashable, Set

from cluster_autoscaler_hook.karpenter.settings import Settings

__all__ = ["Batch"]

# A plan that could not serve all pods is tried again after this time, even if nothing changed.
_RETRY_S = 10.0


class Batch:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._first_s = self._last_s = 0.0
        self._seen: Set[str] = frozenset()
        self._planned: tuple[Set[str], Hashable] | None = None
        self._planned_s = 0.0

    def due_in_s(self, waiting: Set[str], inputs: Hashable, now_s: float) -> float | None:
        """Seconds until a plan is due; None if there is nothing to plan. `inputs`: everything else that a
        plan depends on."""
        if not waiting:
            self._seen, self._planned = frozenset(), None
            return None
        if waiting - self._seen:
            if not self._seen:
                self._first_s = now_s
            self._last_s = now_s
        self._seen = waiting
        if self._planned == (waiting, inputs):
            return max(0.0, self._planned_s + _RETRY_S - now_s)
        due_s = min(self._last_s + self._settings.batch_idle_s, self._first_s + self._settings.batch_max_s)
        return max(0.0, due_s - now_s)

    def planned(self, waiting: Set[str], inputs: Hashable, now_s: float) -> None:
        """A plan was made for these pods; the next pod starts a new window."""
        self._planned, self._planned_s, self._first_s = (waiting, inputs), now_s, now_s
