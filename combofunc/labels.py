"""Labels, annotations and the scheduling gate on pods of a ComboFunc or an InPlaceDeployment.

Only the controller writes them; manifests/combofunc/admissionpolicy.yaml refuses other writers.
"""

from __future__ import annotations

__all__ = [
    "CONCURRENCY_ANNOTATION", "DEPLOYMENT_LABEL", "DRAINING_SINCE_ANNOTATION", "FUNCTION_LABEL",
    "MAX_CONCURRENCY", "PLACEMENT_GATE", "PLANNED_NODE_ANNOTATION", "SERVING_LABEL", "SIZE_LABEL",
    "SIZE_OFFER_ANNOTATION", "TEMPLATE_LABEL",
]  # fmt: skip

# The owner's name: a ComboFunc, or an InPlaceDeployment.
FUNCTION_LABEL, DEPLOYMENT_LABEL = "surgekit.dev/combofunc", "surgekit.dev/inplacedeployment"
# "true" until the pod drains. A Service selects it, together with the owner's label.
SERVING_LABEL = "surgekit.dev/serving"
TEMPLATE_LABEL = "surgekit.dev/template"  # hash of the pod template
SIZE_LABEL = "surgekit.dev/size"  # name of the pod's size

CONCURRENCY_ANNOTATION = "surgekit.dev/concurrency"  # requests the load balancer may send at a time
MAX_CONCURRENCY = 10_000  # the CRD's bound for one size
PLANNED_NODE_ANNOTATION = "surgekit.dev/planned-node"
DRAINING_SINCE_ANNOTATION = "surgekit.dev/draining-since"  # Unix time
# On a pod that waits for a node: the sizes that would do as well, for who rents nodes (pods/size_offer.py).
SIZE_OFFER_ANNOTATION = "surgekit.dev/size-offer"

# Holds a new pod back until it is nominated for its planned node.
PLACEMENT_GATE = "surgekit.dev/planned-placement"
