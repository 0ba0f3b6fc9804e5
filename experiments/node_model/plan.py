"""What is measured: cells, and rounds that play every cell in an order of their own."""

from __future__ import annotations

import random
from dataclasses import dataclass

__all__ = [
    "CREATE", "CREATIONS", "DELETE", "FITTED", "HELD_OUT", "RESIZE", "RESIZES", "Cell", "Plan", "cells_of",
]  # fmt: skip

FITTED, HELD_OUT = "fitted", "held out"
CREATE, DELETE, RESIZE = "create", "delete", "resize"
_RESIZE_REPETITIONS = 3  # in a round: they are short, and vary more


@dataclass(frozen=True)
class Cell:
    """So many pods at once, each of so many containers. Pods that are created are then deleted."""

    what: str
    pods: int
    containers: int = 1

    @property
    def name(self) -> str:
        return f"{self.what} {self.pods} x {self.containers}"


CREATIONS = tuple(Cell(CREATE, k, m) for k in (1, 2, 4, 8, 16) for m in (1, 2, 4))
RESIZES = tuple(Cell(RESIZE, k) for k in (1, 2, 4, 8))


@dataclass(frozen=True)
class Plan:
    """How many rounds the model is fitted to, and on how many others its error is taken."""

    fitted: int = 10
    held_out: int = 10

    @classmethod
    def quick(cls) -> Plan:
        return cls(2, 2)  # a round takes 2 minutes, and half a minute for pulls

    @property
    def rounds(self) -> list[str]:
        """Fitted and held-out rounds alternate at first: both see the same drift of the machine."""
        return [
            f"{kind} {number}"
            for number in range(max(self.fitted, self.held_out))
            for kind, count in ((FITTED, self.fitted), (HELD_OUT, self.held_out))
            if number < count
        ]

    @property
    def residents(self) -> int:
        return max(cell.pods for cell in RESIZES)


def cells_of(round_name: str) -> list[Cell]:
    """The cells of a round, in its order."""
    cells = [*CREATIONS, *RESIZES * _RESIZE_REPETITIONS]
    random.Random(round_name).shuffle(cells)
    return cells
