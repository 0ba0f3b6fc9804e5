"""When to plan: once no more waiting pods come, as Karpenter batches (1 s idle, 10 s at most)."""

from __future__ import annotations

from collections.abc import Hashable, Set

from cluster_autoscaler_hook.karpenter.settings import Settings

__all__ = ["Batch"]

# A plan that could not serve everybody is tried again after this long, though nothing changed.
_RETRY_S = 10.0


class Batch:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._first_s = self._last_s = 0.0
        self._seen: Set[str] = frozenset()
        self._answered: tuple[Set[str], Hashable] | None = None
        self._answered_s = 0.0

    def due_in_s(self, waiting: Set[str], world: Hashable, now_s: float) -> float | None:
        """Seconds until a plan is due; None: nothing to plan. `world` is what else a plan depends on."""
        if not waiting:
            self._seen, self._answered = frozenset(), None
            return None
        if waiting - self._seen:
            if not self._seen:
                self._first_s = now_s
            self._last_s = now_s
        self._seen = waiting
        if self._answered == (waiting, world):
            return max(0.0, self._answered_s + _RETRY_S - now_s)
        due_s = min(self._last_s + self._settings.batch_idle_s, self._first_s + self._settings.batch_max_s)
        return max(0.0, due_s - now_s)

    def answered(self, waiting: Set[str], world: Hashable, now_s: float) -> None:
        """A plan was made for these: the window starts anew with the next pod."""
        self._answered, self._answered_s, self._first_s = (waiting, world), now_s, now_s
