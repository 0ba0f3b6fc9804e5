"""A lab with the real Karpenter and the hook, for the lab tests of this folder."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from experiments.arrivals import Arrivals, is_ready
from kwok import karpenter
from kwok.lab import Lab
from surgekit.kube.client import ApiError
from tests.paths import ROOT

TABLE = ROOT / "cluster_autoscaler_hook" / "data" / "aws_eu_west_1.csv"
CLAIMS, PLAN = "/apis/karpenter.sh/v1/nodeclaims", "/apis/surgekit.dev/v1alpha1/nodeplans/fcma"
TYPE, ARCHITECTURE = "node.kubernetes.io/instance-type", "kubernetes.io/arch"
ZONE, OTHER_ZONE = karpenter.ZONE, "eu-west-1b"
# Of AWS's names; offered where nothing of the table is.
GPU_TYPE = karpenter.instance_type(
    "g4dn.xlarge",
    4,
    16,
    {("on-demand", OTHER_ZONE): 0.587, ("spot", OTHER_ZONE): 0.2},
    **{"nvidia.com/gpu": "1"},
)
# What the opt-in policy does to a pod, for pods created while no hook runs.
GATED: dict[str, Any] = {
    "schedulingGates": [{"name": "surgekit.dev/node-plan"}],
    "tolerations": [{"key": "surgekit.dev/pool", "value": "fcma", "effect": "NoSchedule"}],
}


def start_karpenter(lab: Lab, without: Collection[str] = ()) -> None:
    karpenter.start(lab, TABLE, without, [GPU_TYPE])


def claims(lab: Lab) -> list[dict[str, Any]]:
    return lab.kube.list_all(CLAIMS)[0]


def all_run(lab: Lab, namespace: str, count: int, timeout_s: float = 90.0) -> dict[str, str]:
    """Wait until `count` pods are Ready; the node of each."""
    arrivals = Arrivals(lab.kube, namespace, ready=is_ready)
    try:
        arrivals.wait("ready", count, timeout_s)
        return dict(arrivals.node)
    finally:
        arrivals.close()


def plan(lab: Lab) -> dict[str, Any]:
    try:
        return lab.kube.get(PLAN).get("status") or {}
    except ApiError:
        return {}


def labels_of(lab: Lab, node: str) -> dict[str, str]:
    labels: dict[str, str] = lab.kube.get(f"/api/v1/nodes/{node}")["metadata"]["labels"]
    return labels


def hand_over_reasons(lab: Lab, namespace: str) -> dict[str, str]:
    """Pod -> why the hook handed it over to Karpenter."""
    events, _ = lab.kube.list_all(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    return {e["regarding"]["name"]: e["note"] for e in events if e["reason"] == "LeftToKarpenter"}


def selecting(key: str, operator: str, *values: str) -> dict[str, Any]:
    line = {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
    terms = {"nodeSelectorTerms": [{"matchExpressions": [line]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}
