"""Plays the mixes of `surgekit bench nodes` to the real Karpenter and writes down what it rents at first.

    python -m tests.cluster_autoscaler_hook.karpenter.record_first_choices

Each mix twice: with every class of the price table (all end on one large node), and with those of up to
8 CPUs alone, so that pods are spread over many nodes. Karpenter is started when all pods are there, so that
it takes them as one batch. kube-scheduler is stopped meanwhile: it does not follow Karpenter's packing, and
what then fits nowhere gets nodes beyond the first choice. Once it runs again these are written down as well.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from cluster_autoscaler_hook.karpenter.strict_catalogue import SHIPPED
from experiments.arrivals import Arrivals, is_ready
from experiments.nodes.mixes import Mix, mixes
from kwok import karpenter
from kwok.lab import Lab
from kwok.pods import create_pods

RECORDED = Path(__file__).with_name("first_choices.json")
SMALL_CPUS = 8
TYPE, PRICE = "node.kubernetes.io/instance-type", "eks-node-viewer/instance-price"


def main() -> None:
    types = karpenter.instance_types(SHIPPED)
    large = [entry["name"] for entry in types if float(entry["resources"]["cpu"]) > SMALL_CPUS]
    with Lab.temporary("first-choices", instant_pods=True) as lab:
        karpenter.install(lab)
        karpenter.add_node_pool(lab)
        rows = [play(lab, mix, without) for without in ([], large) for mix in mixes()]
    RECORDED.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


def play(lab: Lab, mix: Mix, without: Collection[str]) -> dict[str, object]:
    namespace = f"{mix.name}-{len(without)}"
    lab.kube.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    for index, size in enumerate(mix.sizes):
        requests = f"{size.cpu_millicores}m", f"{size.memory_mib}Mi"
        create_pods(lab.kube, namespace, size.count, *requests, prefix=f"kind{index}")
    lab.start_scheduler()
    pods = f"/api/v1/namespaces/{namespace}/pods"
    lab.wait_for(
        lambda: all(pod["status"].get("conditions") for pod in lab.kube.list_all(pods)[0]), "verdicts", 30
    )
    lab.stop_scheduler()
    karpenter.start(lab, SHIPPED, without=without)
    first = settled_nodes(lab)
    arrivals = Arrivals(lab.kube, namespace, ready=is_ready)
    lab.start_scheduler()
    arrivals.wait("ready", mix.pods, 120)
    arrivals.close()
    in_the_end = node_labels(lab)
    lab.kube.delete(f"/api/v1/namespaces/{namespace}")
    lab.wait_for(lambda: not node_labels(lab), "an empty cluster", 240)
    lab.stop(karpenter.KARPENTER)
    lab.stop_scheduler()
    return {
        "mix": mix.name,
        "only_small_classes": bool(without),
        "sizes": [[size.cpu_millicores, size.memory_mib, size.count] for size in mix.sizes],
        "classes": dict(sorted(Counter(node[TYPE] for node in first).items())),
        "cost_per_hour": cost(first),
        "cost_per_hour_when_all_ran": cost(in_the_end),
    }


def node_labels(lab: Lab) -> list[dict[str, str]]:
    return [node["metadata"]["labels"] for node in lab.kube.list_all("/api/v1/nodes")[0]]


def settled_nodes(lab: Lab) -> list[dict[str, str]]:
    """Once every claim has its node and nothing has changed for 5 s."""
    began_s, before = time.monotonic(), -1
    while time.monotonic() - began_s < 5:
        claims = len(lab.kube.list_all("/apis/karpenter.sh/v1/nodeclaims")[0])
        nodes = node_labels(lab)
        if not nodes or claims != len(nodes) or claims != before:
            began_s, before = time.monotonic(), claims
        time.sleep(0.5)
    return nodes


def cost(nodes: list[dict[str, str]]) -> float:
    return round(sum(float(node[PRICE]) for node in nodes), 6)


if __name__ == "__main__":
    main()
