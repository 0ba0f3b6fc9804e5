"""What the cluster wants: applications, their limits and their pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from limit_allocator.allocation.model import Parameters
from limit_allocator.wire.messages import Ceiling
from surgekit.process.modes import Mode

__all__ = ["Application", "LaterTerm", "PodRow"]


class LaterTerm(Exception):
    """An agent has greeted a later controller: begin a new `Fleet` with a higher term than this one."""

    def __init__(self, term: int) -> None:
        super().__init__(f"an agent has greeted a controller of term {term}")
        self.term = term


@dataclass(frozen=True, slots=True)
class PodRow:
    """A pod of an application, as the API server has it."""

    node: str
    name: str
    ceilings: tuple[Ceiling, ...] = ()  # of the containers whose ids are known; 0: no limit
    containers: Mapping[str, str] = field(default_factory=dict)  # names by id


@dataclass(frozen=True, slots=True)
class Application:
    """A DistributedContainer. A pod belongs to one application at most."""

    name: str  # namespace/name
    mode: Mode
    parameters: Parameters
    cpu_limit_us: int  # per period of 100 ms
    memory_limit_bytes: int
    pods: Mapping[str, PodRow]  # by uid
    nodes_with_limits: frozenset[str] = frozenset()  # written ahead to the object's status
