"""What the simulation takes as given, and where each number comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

__all__ = ["CREATED_BYTES", "ROUTING_S", "Cluster", "Creation", "Outcome", "Starts", "Track"]

# HAProxy with slots, measured for issue 16: 99 us at the median. All arms have the same gateway.
ROUTING_S = 0.0001
# `runc create` of a static binary: memory.usage_in_bytes of its cgroup, 2,277,376, kernel memory included.
CREATED_BYTES = 2_300_000


@dataclass(frozen=True, slots=True)
class Creation:
    """A regular instance, from the decision to its first request."""

    # A real kubelet, alone and 16 at once: 0.73 s and 6.64 s, so 1.76 make full progress side by side
    # (node model t * max(1, k / c); 2 cores). PulseNet's testbed took 1 to 3 s (section 3.2.1).
    alone_s: float = 0.73
    at_once: float = 1.76  # on one node
    per_s: float = 50.0  # that the control plane begins, in the cluster (section 3.3, figure 3)
    # 16 at once kept 2 cores busy for 6.64 s: at most so much CPU time each.
    cpu_s: float = 0.83


@dataclass(frozen=True, slots=True)
class Starts:
    """An emergency instance, from the request's arrival to function code."""

    # The real agent over gRPC with mutual TLS, runc, a static binary, until the first HTTP answer: medians of
    # `surgekit bench pulsenet --starts` on 2 cores with nothing beside it (docs/results.md).
    frozen_s: float = 0.0030
    created_s: float = 0.0073
    image_s: float = 0.0452  # with the image there and nothing else
    # Ten at once took 22 ms (created) and 291 ms (image alone): each other one adds 0.23 or 0.6 of one.
    crowd: float = 0.6
    make_s: float = 0.060  # to make a container again in the background
    cpu_s: float = 0.05  # to make, start and remove one
    source: str = "surgekit bench pulsenet --starts, 2026-11-19"


@dataclass(frozen=True, slots=True)
class Cluster:
    """PulseNet's testbed (section 5): 8 nodes of 20 cores and 192 GB."""

    nodes: int = 8
    cores: float = 20.0
    memory_bytes: int = 192 << 30
    emergency_share: float = 0.1


class Track(IntEnum):
    WARM = 0  # an idle regular instance
    WAITED = 1  # for a regular instance
    EMERGENCY = 2


Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(eq=False)
class Outcome:
    """Of one run, of what was measured."""

    # one entry a request
    function: Integers
    duration_s: Floats
    delay_s: Floats  # until function code ran
    track: Integers
    finished: bool
    # one entry a function
    memory_bytes: Floats
    held_s: Floats  # instance-seconds of all instances, prepared ones included
    busy_s: Floats  # instance-seconds of those that run function code
    measured_s: float = 0.0
    prepared_byte_s: float = 0.0  # of containers that were created and not started; no function's
    creations: int = 0
    creation_s: list[float] = field(default_factory=list)
    creations_by_second: list[int] = field(default_factory=list)
    starts: dict[str, int] = field(default_factory=dict)  # emergency instances by origin
    refused: dict[str, int] = field(default_factory=dict)  # by reason
    predictions: int = 0
