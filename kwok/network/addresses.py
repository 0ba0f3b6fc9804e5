"""The plan of all addresses in a lab; kwok/README.md draws it.

A lab with real nodes is a network namespace of its own, so all labs use the same plan at the same time.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

from kwok.errors import LabError

__all__ = [
    "CONTROL_PLANE", "DNS_SERVICE", "EMULATED_PODS", "KNATIVE", "KUBERNETES_SERVICE", "LINK",
    "MOST_REAL_NODES", "REAL_PODS", "SERVICES", "SHARED_PODS", "TRAFFIC", "emulated_kubelet", "emulated_node",
    "emulated_pods", "real_node", "real_pods",
]  # fmt: skip

# Pods: a /24 for each node. KWOK picks addresses from a node's range, as a CNI plugin does.
EMULATED_PODS = IPv4Network("10.0.0.0/10")
# The end of it is shared by emulated nodes that come without a range, as Karpenter's do.
SHARED_PODS = IPv4Network("10.63.0.0/16")
REAL_PODS = IPv4Network("10.64.0.0/16")
# kube-apiserver gives the Service `kubernetes` the first address; 10 is where kubeadm puts DNS.
SERVICES = IPv4Network("10.96.0.0/16")
KUBERNETES_SERVICE = SERVICES[1]
DNS_SERVICE = SERVICES[10]
# Addresses of emulated nodes. The first kind is never dialled; the second is loopback, for kubelets that a
# process of the lab plays (`kwok.traffic.kubelet_metrics`).
_EMULATED_NODES = IPv4Network("172.20.0.0/16")
_EMULATED_KUBELETS = IPv4Network("127.1.0.0/16")
# The bridge of a lab with real nodes. Addresses from 80 on are free for others that join it.
LINK = IPv4Network("172.21.0.0/24")
CONTROL_PLANE = LINK[1]
TRAFFIC = LINK[2]  # the namespace that answers for emulated pods
_FIRST_REAL_NODE = 16
MOST_REAL_NODES = 48
# Knative's processes, each in a namespace of its own (`kwok.knative`).
KNATIVE = {
    name: LINK[64 + index]
    for index, name in enumerate(("controller", "autoscaler", "activator", "webhook", "autoscaler-hpa"))
}


def emulated_pods(index: int) -> IPv4Network:
    """The pod range of the emulated node with this index."""
    return _slash_24(EMULATED_PODS, index, "emulated nodes", SHARED_PODS.num_addresses)


def emulated_node(index: int) -> IPv4Address:
    return _EMULATED_NODES[index]


def emulated_kubelet(index: int) -> IPv4Address:
    return _EMULATED_KUBELETS[index]


def real_pods(index: int) -> IPv4Network:
    """The pod range of the real node with this index."""
    return _slash_24(REAL_PODS, index, "real nodes")


def real_node(index: int) -> IPv4Address:
    if index >= MOST_REAL_NODES:
        raise LabError(f"a lab has addresses for {MOST_REAL_NODES} real nodes")
    return LINK[_FIRST_REAL_NODE + index]


def _slash_24(network: IPv4Network, index: int, what: str, taken: int = 0) -> IPv4Network:
    most = (network.num_addresses - taken) // 256
    if index >= most:
        raise LabError(f"a lab has addresses for {most} {what}")
    return IPv4Network((int(network.network_address) + 256 * index, 24))
