"""Every label, annotation, taint and scheduling gate that the hook writes or reads."""

from __future__ import annotations

__all__ = [
    "ARCHITECTURE",
    "CAPACITY_TYPE",
    "CLAIM_LABEL",
    "DO_NOT_DISRUPT",
    "GATE",
    "HOSTNAME",
    "INSTANCE_TYPE",
    "MANAGED_BY",
    "NODE_POOL",
    "OPERATING_SYSTEM",
    "OPT_IN_LABEL",
    "PLANNED_ANNOTATION",
    "PLAN_LABEL",
    "POOL_LABEL",
    "REGISTERED",
    "SIZE_LABEL",
    "SIZE_OFFER_ANNOTATION",
    "ZONE",
]

# --- ours, on pods and namespaces ---

# On a pod, or on its namespace: enforce or shadow. The pod's own label wins.
OPT_IN_LABEL = "surgekit.dev/nodes"
# The scheduling gate of pods that opted in. The hook removes it when the pod's node is ready.
GATE = "surgekit.dev/node-plan"

# --- ours, on NodeClaims and nodes ---

# Label and taint; pods that opted in tolerate the taint.
POOL_LABEL = "surgekit.dev/pool"
CLAIM_LABEL = "surgekit.dev/claim"
PLAN_LABEL = "surgekit.dev/plan"
# Annotation: the kinds of pods that a claim was made for, and how many of each.
PLANNED_ANNOTATION = "surgekit.dev/planned"

# --- ComboFunc's, on pods that wait for nodes ---

SIZE_LABEL = "surgekit.dev/size"
SIZE_OFFER_ANNOTATION = "surgekit.dev/size-offer"  # the sizes that would do as well

# --- Kubernetes' and Karpenter's ---

MANAGED_BY = "app.kubernetes.io/managed-by"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
HOSTNAME = "kubernetes.io/hostname"
OPERATING_SYSTEM = "kubernetes.io/os"
ARCHITECTURE = "kubernetes.io/arch"
ZONE = "topology.kubernetes.io/zone"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
NODE_POOL = "karpenter.sh/nodepool"  # none of our nodes has it
REGISTERED = "karpenter.sh/registered"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"  # an annotation
