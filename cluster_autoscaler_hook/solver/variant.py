"""The names of the solvers, in a module of their own: the command line lists them without loading HiGHS."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["DEFAULT_DEADLINE_S", "Variant"]

DEFAULT_DEADLINE_S = 3.0


class Variant(StrEnum):
    BEST = "best"
    PAPER = "paper"
    FFC = "ffc"
    FFP = "ffp"
