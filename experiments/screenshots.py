"""`surgekit docs screenshots`: the pictures of the live page in README and docs, taken of a lab.

The lab has functions with real traffic, KneeScale at a knee, a ComboFunc, and Deployments that opted in to
placement, one namespace of them in shadow. Nodes are emulated; their classes and prices are the FCMA paper's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from cluster_autoscaler_hook.karpenter.strict_catalogue import SHIPPED
from cluster_view.server import serve
from cluster_view.settings import Settings
from experiments import browser
from kwok import parts
from kwok.lab import Lab
from kwok.traffic import lab_traffic
from surgekit.cli import lab as lab_command
from surgekit.cli.cluster_view import open_view
from surgekit.kube.api_path import Resource

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator
    from playwright.sync_api import Page as Tab

__all__ = ["take"]

# Class, cores and GiB of the catalogue, and how many of them.
_NODES = (("c5.2xlarge", 4, 16, 10), ("m5.2xlarge", 4, 32, 6), ("c5.4xlarge", 8, 32, 6))
_KNEE_EXAMPLE = parts.MANIFESTS / "kneescale" / "examples" / "lab.yaml"
_COMBOFUNC_EXAMPLE = parts.MANIFESTS / "combofunc" / "examples" / "replicas.yaml"
_POLICIES = Resource("surgekit.dev/v1alpha1", "kneepolicies")
_NAMESPACES, _PODS = Resource("v1", "namespaces"), Resource("v1", "pods")
_DEPLOYMENTS = Resource("apps/v1", "deployments")
_KNEE_S, _READY_S = 900.0, 300.0
_READY = ("Ready", "True")
# Namespace, its mode, name, replicas, cores and MiB of each.
_APPS = (
    ("shop", "enforce", "checkout", 26, "250m", "768Mi"),
    ("shop", "enforce", "search", 9, "1", "1Gi"),
    ("media", "shadow", "transcode", 12, "500m", "2Gi"),
)
_SURGE = 64  # replicas of the first: the picture is taken while they are created


def take(directory: Path, say: Callable[[str], object]) -> list[Path]:
    """Write the pictures into the directory, and return them."""
    lab_traffic.check()
    browser.find()
    with Lab.temporary("docs", time_factor=lab_traffic.TIME_FACTOR) as lab:
        say("a lab with traffic and KneeScale")
        settings = Settings(catalogue=SHIPPED, prometheus_url=_fill(lab))
        page = serve(open_view(settings, lab.name, None, None), settings.bind, port=0)
        try:
            # Not before: the lab's network is made by asyncio, which goes with no browser in the same thread.
            with browser.started() as chromium:
                return _pictures(lab, page.url, chromium, directory, say)
        finally:
            page.stop()


def _fill(lab: Lab) -> str:
    """Start everything; return Prometheus's URL."""
    names: list[str] = []
    for zone, (kind, cores, memory_gib, count) in zip("abc", _NODES, strict=True):
        labels = {
            "node.kubernetes.io/instance-type": kind,
            "topology.kubernetes.io/zone": f"eu-west-1{zone}",
        }
        prefix = kind.replace(".", "-")
        names += lab.add_nodes(count, cpu=str(cores), memory=f"{memory_gib}Gi", prefix=prefix, labels=labels)
    plan = lab_command.Plan(tuple(names), seed=1, real_nodes=0)
    extras = (lab_command.TRAFFIC, lab_command.KNEESCALE)
    for _, start in [*lab_command.PARTS, *((extra, lab_command.EXTRAS[extra]) for extra in extras)]:
        start(lab, plan)
    lab.apply(_KNEE_EXAMPLE)
    lab.apply(_COMBOFUNC_EXAMPLE)
    for namespace, mode in {app[0]: app[1] for app in _APPS}.items():
        labels = {"surgekit.dev/placement": mode}
        lab.kube.create(_NAMESPACES.path(), {"metadata": {"name": namespace, "labels": labels}})
    for namespace, _, name, replicas, cpu, memory in _APPS:
        lab.kube.create(_DEPLOYMENTS.path(namespace), _deployment(name, replicas, cpu, memory))
    return plan.prometheus_url


def _deployment(name: str, replicas: int, cpu: str, memory: str) -> dict[str, Any]:
    labels = {"app": name}
    container = {
        "name": "server",
        "image": f"registry.example/{name}:1",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


def _pictures(
    lab: Lab, url: str, chromium: Browser, directory: Path, say: Callable[[str], object]
) -> list[Path]:
    """Wait for what each picture is to show, then take it."""
    tab = chromium.new_page(
        viewport={"width": 1440, "height": 900}, device_scale_factor=1.5, reduced_motion="reduce"
    )
    tab.set_default_timeout(120_000)
    tab.goto(url)
    say("KneeScale searches the knee")
    lab.wait_for(partial(_at_knee, lab), "a knee", _KNEE_S)
    say("a surge")
    namespace, _, name, *_ = _APPS[0]
    before = _ready(lab, namespace)
    lab.kube.patch(_DEPLOYMENTS.path(namespace, name), {"spec": {"replicas": _SURGE}})
    lab.wait_for(lambda: len(_ready(lab, namespace)) > len(before), "the first new pod Ready", _READY_S)
    tab.wait_for_timeout(1_000)  # two rounds of the page's stream
    taken = [_shot(tab, directory / "page.png")]
    lab.wait_for(lambda: len(_ready(lab, namespace)) >= _SURGE, "all Ready", _READY_S)
    (pod, *_) = sorted(_ready(lab, namespace) - before)
    first = f"{_NODES[0][0].replace('.', '-')}-0"
    for file, chosen in (
        ("page-pod.png", {"pod": f"{namespace}/{pod}"}),
        ("page-node.png", {"node": first}),
        ("page-knee.png", {"function": "KneePolicy/functions/float-operation"}),
        ("page-sizes.png", {"function": "ComboFunc/default/thumbnails"}),
    ):
        say(file)
        tab.goto(f"{url}#{urlencode(chosen)}")
        tab.get_by_role("complementary").wait_for()
        tab.wait_for_timeout(1_000)
        taken.append(_shot(tab.get_by_role("complementary"), directory / file))
    return taken


def _shot(what: Tab | Locator, file: Path) -> Path:
    what.screenshot(path=file)
    return file


def _at_knee(lab: Lab) -> bool:
    policy = lab.kube.get(_POLICIES.path("functions", "float-operation"))
    return any(condition["reason"] == "AtKnee" for condition in policy["status"]["conditions"])


def _ready(lab: Lab, namespace: str) -> set[str]:
    """Names of pods."""
    pods, _ = lab.kube.list_all(_PODS.path(namespace))
    return {pod["metadata"]["name"] for pod in pods if _READY in _conditions(pod)}


def _conditions(pod: dict[str, Any]) -> set[tuple[str, str]]:
    return {(c["type"], c["status"]) for c in pod["status"].get("conditions", ())}
