"""One agent: its stream, the containers and reserves it has told, and the pods it is to look after."""

from __future__ import annotations

from dataclasses import dataclass, field

from limit_allocator.fleet.intake import Keys
from limit_allocator.wire.messages import Pod, Report

__all__ = ["Agent"]


@dataclass(slots=True)
class Agent:
    node: str
    index: int  # of the node, in arrays
    boot_id: str = ""
    start: int = -1
    session: int | None = None  # None: no stream
    listed: bool = False  # has named all its containers on this stream
    restarted: bool = False  # since then
    number: int = -1  # of its last report on this stream
    early: list[Report] = field(default_factory=list)  # from before it greeted this term
    heard: bool = False  # has reported in this term: what it holds is known
    heard_at_s: float = float("-inf")
    foreign_writes: int = 0
    keys: Keys = field(default_factory=lambda: Keys({}))
    slot_of_id: dict[str, int] = field(default_factory=dict)  # containers of ours
    # Pods' uids by key: containers that still have limits, of pods that no application has told it of.
    unlisted: dict[int, str] = field(default_factory=dict)
    reserves: dict[str, int] = field(default_factory=dict)  # slots by application
    pods: dict[str, Pod] = field(default_factory=dict)  # that it is told, by uid
    # Pods whose application or mode changes: told again once their containers of before are gone.
    changing: dict[str, Pod] = field(default_factory=dict)
    tell_pods: bool = False
    greet: bool = False  # has to be told the term
