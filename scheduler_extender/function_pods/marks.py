"""Labels, annotations and the gate by which a pod says what it is to its function."""

from __future__ import annotations

from scheduler_extender.pod_template import SERVING_LABEL, TEMPLATE_LABEL

__all__ = [
    "CONCURRENCY", "DRAINING_SINCE", "GATE", "PLANNED_NODE", "SERVING_LABEL", "SIZE_LABEL", "TEMPLATE_LABEL",
]  # fmt: skip

# A Service selects SERVING_LABEL beside the function's own label: a pod that drains has lost it.
SIZE_LABEL = "surgekit.dev/size"

# Annotations.
CONCURRENCY = "surgekit.dev/concurrency"  # what the load balancer may send at a time
PLANNED_NODE = "surgekit.dev/planned-node"
DRAINING_SINCE = "surgekit.dev/draining-since"  # Unix time

# Holds a new pod back from the scheduler until it is nominated for its planned node.
GATE = "surgekit.dev/placement"
