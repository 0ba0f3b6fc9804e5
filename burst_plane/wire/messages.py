"""The messages of the burst plane.

Two services. Every node agent serves `surgekit.burst.Pulselet`:

- `Start` (StartRequest -> StartReply) and `End` (EndRequest -> EndReply), for placements only;
- `Prepare` (PrepareRequest -> PrepareReply), for the controller only;
- `Watch` (WatchRequest -> stream of NodeState): at once, then on a change and at least each second.

The leading controller serves `surgekit.burst.Director`:

- `Attach` (stream of TrafficReport -> stream of Directory), for placements only.

A message that cannot be read is a `MessageError`; sizes are bounded.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from burst_plane.model import Function, NodeState, Preparation, Started
from surgekit.wire.messages import LARGEST_BYTES, MessageError, decode, encode

__all__ = [
    "DIRECTOR",
    "LARGEST_BYTES",
    "PULSELET",
    "AgentAddress",
    "Directory",
    "EndReply",
    "EndRequest",
    "FunctionTraffic",
    "Listed",
    "MessageError",
    "NodeState",
    "PrepareReply",
    "PrepareRequest",
    "StartReply",
    "StartRequest",
    "TrafficReport",
    "WatchRequest",
    "decode",
    "encode",
]

PULSELET, DIRECTOR = "surgekit.burst.Pulselet", "surgekit.burst.Director"


Name = Annotated[str, msgspec.Meta(max_length=200)]  # agents remember these


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    pass


class StartRequest(_Message, frozen=True):
    """Start one instance for one request. `request` is the caller's own name for it: a Start that is sent
    twice with it starts one instance."""

    request: Name
    placement: Name  # the caller's own name, new at each of its starts; its instances end when it is gone
    function: Function
    template: str
    budget_s: float  # the caller waits no longer than this


class StartReply(_Message, frozen=True):
    """`started`, or why not: unknown, no-budget, not-prepared, draining, too-late, failed."""

    started: Started | None = None
    refused: str = ""
    error: str = ""
    retryable: bool = True  # function code has not seen a request


class EndRequest(_Message, frozen=True):
    """These instances' requests have ended; empty: none, the caller says that it is alive."""

    placement: Name
    instances: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()  # of Starts whose answer never came: what runs for them ends, too


class EndReply(_Message, frozen=True):
    pass


class PrepareRequest(_Message, frozen=True):
    """Everything this node should be ready for; what is not listed is given up. Of two requests the one with
    the higher (term, sequence) holds."""

    term: int
    sequence: int
    preparations: tuple[Preparation, ...] = ()


class PrepareReply(_Message, frozen=True):
    accepted: bool


class WatchRequest(_Message, frozen=True):
    pass


class FunctionTraffic(_Message, frozen=True):
    """One function, as one placement saw it since its last report."""

    function: Function
    arrivals: int  # requests of both tracks
    in_regular: float  # mean number in regular pods
    queued: float  # mean number waiting for a regular pod; counts unfiltered
    in_emergency: float  # mean number in emergency instances; the controller's filter says what counts
    started: int = 0  # emergency instances
    hits: int = 0  # of these, from a prepared instance
    refused: int = 0  # requests that waited in the regular queue because no instance could be had
    failed: int = 0


class TrafficReport(_Message, frozen=True):
    placement: str
    sequence: int
    interval_s: float
    functions: tuple[FunctionTraffic, ...] = ()


class Listed(_Message, frozen=True):
    """A function that may overflow."""

    function: Function
    template: str
    mode: str  # shadow or enforce
    cpu_millis: int
    memory_bytes: int
    longest_s: float
    idempotent: bool
    most_instances: int  # at once, in the whole cluster
    variant: str = "best"  # or paper: how a node is chosen


class AgentAddress(_Message, frozen=True):
    node: str
    address: str
    port: int
    speed: float = 1.0  # creations a second of the node, relative to the mean (NodeSpeed)


class Directory(_Message, frozen=True):
    """Everything a placement needs to know; replaces the one before."""

    term: int
    sequence: int
    placements: int = 1  # that are attached: each may use its share of what is capped in the whole cluster
    most_in_namespace: int = 100  # emergency instances at once, of all functions of a namespace
    functions: tuple[Listed, ...] = ()
    agents: tuple[AgentAddress, ...] = ()
