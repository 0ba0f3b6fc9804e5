"""The account of what instances may take of the node. Sums never pass the share."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Amount", "Share"]


@dataclass(frozen=True, slots=True)
class Amount:
    cpu_millis: int = 0
    memory_bytes: int = 0


@dataclass
class Share:
    """Entries by the names of containers."""

    total: Amount
    _held: dict[str, Amount] = field(default_factory=dict)

    @property
    def free(self) -> Amount:
        return Amount(
            self.total.cpu_millis - sum(each.cpu_millis for each in self._held.values()),
            self.total.memory_bytes - sum(each.memory_bytes for each in self._held.values()),
        )

    def held(self, name: str) -> Amount:
        return self._held.get(name, Amount())

    def set(self, name: str, amount: Amount) -> bool:
        """Hold this much for a container instead of what it held. False, and no change: it is too much."""
        free, had = self.free, self.held(name)
        if (
            amount.cpu_millis > free.cpu_millis + had.cpu_millis
            or amount.memory_bytes > free.memory_bytes + had.memory_bytes
        ):
            return False
        self._held[name] = amount
        return True

    def give_back(self, name: str) -> None:
        self._held.pop(name, None)
