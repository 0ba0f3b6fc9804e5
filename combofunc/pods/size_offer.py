"""The annotation of a pod that waits for a node: which other sizes would do as well. Pure.

All pods created for the same shortage form a batch. A part that rents nodes may answer for a batch with other
sizes of at least the same concurrency, if their nodes are cheaper.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from combofunc.planner.model import Size

__all__ = ["batch_of", "size_offer"]

Json = dict[str, Any]
_LONGEST = 16_384  # 64 sizes with names of 63 characters


def size_offer(batch: str, need: int, sizes: Sequence[Size], most_pods: int) -> str:
    """`sizes`: of whole pods. `need`: the concurrency that the batch must reach, with at most `most_pods`."""
    offered = [
        {
            "name": size.name,
            "cpuMillicores": size.cpu_millicores,
            "memoryBytes": size.memory_bytes,
            "concurrency": size.concurrency,
        }
        for size in sizes
    ]
    says = {"batch": batch, "need": need, "mostPods": most_pods, "sizes": offered}
    return json.dumps(says, separators=(",", ":"))


def batch_of(text: object) -> str:
    """The batch that an offer names; empty if there is none, or it cannot be read."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        return ""
    try:
        batch = json.loads(text)["batch"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return batch if isinstance(batch, str) and len(batch) <= 63 else ""
