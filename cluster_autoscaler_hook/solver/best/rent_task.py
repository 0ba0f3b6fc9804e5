"""The common input of the steps that rent nodes: for which need, at which worths, until when."""

from __future__ import annotations

from dataclasses import dataclass

from cluster_autoscaler_hook.solver.best.tables import Floats, Tables
from cluster_autoscaler_hook.solver.deadline import Deadline

__all__ = ["RentTask"]


@dataclass(frozen=True, slots=True)
class RentTask:
    tables: Tables
    need: Floats  # performance per app that is not served yet
    worth: Floats  # of one unit of performance per app, as expected
    deadline: Deadline
