"""Knative Serving v0.50.0 in a lab, unmodified: `surgekit lab up --with knative`.

    client -> ingress (127.0.0.1:PORT, by Host) -> activator -> pods' queue-proxy -> function
                                                `-> pods, once Knative serves without the activator

Knative's controller, autoscaler, activator, webhook and autoscaler-hpa are processes, each in a network
namespace of its own on the lab's bridge and under the service account of its manifest. kube-proxy serves
cluster addresses, CoreDNS names. One process plays the containers of all emulated pods, with queue-proxy's
own code (`kwok/binaries/knative/pods`); the node model says when a pod is created.

    with Lab.temporary("try", own_network=True) as lab:
        port = lab.free_port()
        nodes = lab.add_nodes(4, kubelet_port=port)
        lab.start_scheduler()
        lab.start_node_model(Scenario.draw(1, nodes))  # or Lab.temporary(..., instant_pods=True)
        knative = start(lab, kubelet_port=port)
        annotations = {"autoscaling.knative.dev/max-scale": "5"}
        host = knative.deploy("hello", concurrency=1, annotations=annotations)
        knative.traffic.clients(host, 20)  # a closed loop; traffic.replay(host, offsets_s) an open one
        knative.traffic.sample()[host]  # answered, errors by status, sum of latencies
        knative.pods()  # those that serve: requests in flight, most at once, CPU used

For processes inside the lab (`lab.start`), AUTOSCALER is where activators send their statistics (a websocket
with WireStatMessages), and ACTIVATOR where requests wait for pods. `send_to` points one of Knative's Services
elsewhere, for a process that stands between.
"""

from kwok.knative.installation import DOMAIN, IMAGE, INGRESS_CLASS, NAMESPACE, send_to
from kwok.knative.requirements import why_no_knative
from kwok.knative.serving import ACTIVATOR, AUTOSCALER, BINARIES, EXAMPLE, PodView, Serving, find, start

__all__ = [
    "ACTIVATOR",
    "AUTOSCALER",
    "BINARIES",
    "DOMAIN",
    "EXAMPLE",
    "IMAGE",
    "INGRESS_CLASS",
    "NAMESPACE",
    "PodView",
    "Serving",
    "find",
    "send_to",
    "start",
    "why_no_knative",
]
