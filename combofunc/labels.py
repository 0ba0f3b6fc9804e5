"""Labels, annotations and the gate by which a pod says what it is to its function."""

from __future__ import annotations

from combofunc.pods.pod_template import DRAINING_SINCE, GATE, PLANNED_NODE, SERVING_LABEL, TEMPLATE_LABEL

__all__ = [
    "CONCURRENCY", "DRAINING_SINCE", "GATE", "MAX_CONCURRENCY", "PLANNED_NODE", "SERVING_LABEL", "SIZE_LABEL",
    "TEMPLATE_LABEL",
]  # fmt: skip

# A Service selects SERVING_LABEL beside the function's own label: a pod that drains has lost it.
SIZE_LABEL = "surgekit.dev/size"

CONCURRENCY = "surgekit.dev/concurrency"  # annotation: what the load balancer may send at a time
MAX_CONCURRENCY = 10_000  # of a size: the CRD's bound
