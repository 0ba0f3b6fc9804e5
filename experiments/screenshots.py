"""`surgekit docs screenshots`: the pictures of the live page in README and docs, taken of a lab.

The lab has functions with real traffic, KneeScale in search of a knee, a ComboFunc, and Deployments that opted in to
placement, one namespace of them in shadow. Its nodes are emulated; their classes and prices are the FCMA paper's.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from cluster_autoscaler_hook.karpenter.strict_catalogue import SHIPPED
from cluster_view.server import Page, serve
from cluster_view.settings import Settings
from experiments.browser import started
from kwok import parts
from kwok.lab import Lab
from kwok.traffic import lab_traffic
from kwok.waiting import wait_for
from surgekit.cli import lab as lab_command
from surgekit.cli.cluster_view import open_view
from surgekit.kube.api_path import Resource

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from playwright.sync_api import Page as Tab

__all__ = ["take"]

# Class, cores and GiB of the catalogue, and how many of them.
_NODES = (("c5.2xlarge", 4, 16, 10), ("m5.2xlarge", 4, 32, 6), ("c5.4xlarge", 8, 32, 6))
_KNEE_EXAMPLE = parts.MANIFESTS / "kneescale" / "examples" / "lab.yaml"
_COMBOFUNC_EXAMPLE = parts.MANIFESTS / "combofunc" / "examples" / "replicas.yaml"
_POLICY = Resource("surgekit.dev/v1alpha1", "kneepolicies")
_PODS = Resource("v1", "pods")
_DEPLOYMENTS = Resource("apps/v1", "deployments")
_KNEE_S, _READY_S = 600.0, 180.0
# Namespace, its mode, name, replicas, cores and MiB of each.
_APPS = (
    ("shop", "enforce", "checkout", 26, "250m", "768Mi"),
    ("shop", "enforce", "search", 9, "1", "1Gi"),
    ("media", "shadow", "transcode", 12, "500m", "2Gi"),
)
_SURGE = 70  # replicas of the first: the picture is taken while they are created


def take(directory: Path, say: Callable[[str], object]) -> list[Path]:
    """Write the pictures into the directory, and return them."""
    lab_traffic.check()
    with started() as browser, Lab.temporary("docs", time_factor=lab_traffic.TIME_FACTOR) as lab:
        say("a lab with traffic and KneeScale")
        prometheus_url = _fill(lab)
        settings = Settings(catalogue=SHIPPED, prometheus_url=prometheus_url)
        page = serve(open_view(settings, lab.name, None, None), settings.bind, port=0)
        try:
            return _pictures(lab, page, browser, directory, say)
        finally:
            page.stop()


def _fill(lab: Lab) -> str:
    names: list[str] = []
    for zone, (kind, cores, memory_gib, count) in enumerate(_NODES):
        labels = {
            "node.kubernetes.io/instance-type": kind,
            "topology.kubernetes.io/zone": f"eu-west-1{'abc'[zone]}",
        }
        prefix = kind.replace(".", "-")
        names += lab.add_nodes(count, cpu=str(cores), memory=f"{memory_gib}Gi", prefix=prefix, labels=labels)
    plan = lab_command.Plan(tuple(names), seed=1, real_nodes=0)
    extras = (lab_command.TRAFFIC, lab_command.KNEESCALE)
    for _, start in [*lab_command.PARTS, *((extra, lab_command.EXTRAS[extra]) for extra in extras)]:
        start(lab, plan)
    lab.apply(_KNEE_EXAMPLE)
    lab.apply(_COMBOFUNC_EXAMPLE)
    for namespace, mode in dict((app[0], app[1]) for app in _APPS).items():
        lab.kube.create(
            Resource("v1", "namespaces").path(),
            {"metadata": {"name": namespace, "labels": {"surgekit.dev/placement": mode}}},
        )
    for app in _APPS:
        lab.kube.create(_DEPLOYMENTS.path(app[0]), _deployment(*app[2:]))
    return plan.prometheus_url


def _deployment(name: str, replicas: int, cpu: str, memory: str) -> dict[str, Any]:
    container = {
        "name": "server",
        "image": f"registry.example/{name}:1",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
