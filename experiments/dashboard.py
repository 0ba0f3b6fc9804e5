"""What the Grafana dashboard shows, without Grafana: `surgekit bench dashboard`.

Real parts work in a lab, a real Prometheus scrapes them, and each query of the dashboard is asked as Grafana
asks it. `surgekit report` draws the answers.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from experiments.placement import bench as bench_placement
from experiments.placement.workload import Background, Workload, residents, scale_out
from kwok import parts, prometheus
from kwok.lab import Lab
from kwok.physics import MEASURED
from kwok.scenario import Scenario
from surgekit.shipped_manifests import MANIFESTS

__all__ = ["run"]

DASHBOARD = MANIFESTS / "overlays" / "monitoring" / "surgekit.json"
_SEED, _STEP_S, _RATE = 1, 2, "20s"
_TARGETS = (6, 24, 10, 40, 16)  # of the ComboFunc, one after the other
_COMBOFUNCS = "/apis/surgekit.dev/v1alpha1/namespaces/default/combofuncs"


def run(phase_s: float, say: Callable[[str], None]) -> dict[str, Any]:
    """A scale-out of 200 pods and a function with changing targets, `phase_s` for each of five phases."""
    workload = Workload()
    with Lab.temporary("dashboard") as lab:
        nodes = bench_placement.prepare(lab, workload)
        extender = _start_parts(lab, nodes, workload)
        controllers = ("probe", "combofunc", "kneescale")
        targets = {name: [_health(lab, name)] for name in controllers}
        prometheus.set_targets(lab, targets | {"extender": [f"127.0.0.1:{extender.health_port}"]})
        residents(lab.kube, nodes, workload, _SEED)
        background, began_s = Background(lab.kube, nodes, workload, _SEED), time.time()
        try:
            for index, target in enumerate(_TARGETS):
                say(f"target concurrency {target}" + (", and 200 pods at once" if index == 1 else ""))
                _scale(lab, target)
                if index == 1:
                    scale_out(lab.kube, workload)
                time.sleep(phase_s)
        finally:
            background.stop()
        port = _prometheus_port(lab)
        panels = [_answers(port, panel, began_s, time.time()) for panel in _panels()]
    return {
        "parts": [*targets, "extender"],
        "seconds": round(phase_s * len(_TARGETS)),
        "answered": [panel for panel in panels if panel["lines"]],
        "silent": [panel["title"] for panel in panels if not panel["lines"]],
    }


def _start_parts(lab: Lab, nodes: list[str], workload: Workload) -> parts.ExtenderPart:
    parts.install_combofunc(lab)
    parts.install_kneescale(lab)
    process = prometheus.start(lab, {}, scrape_interval_s=_STEP_S)
    lab.start_node_model(Scenario.draw(_SEED, nodes, tau_create_s=workload.tau_create_s, physics=MEASURED))
    parts.start_probe(lab)
    extender = parts.start_extender(lab)
    lab.start_scheduler({"extenders": [extender.scheduler_entry(parts.WEIGHT)]})
    parts.start_combofunc(lab)
    parts.start_kneescale(lab, {"prometheus_url": f"http://127.0.0.1:{process.port}"})
    return extender


def _scale(lab: Lab, target: int) -> None:
    sizes = [
        {"name": name, "cpu": cpu, "memory": memory, "concurrency": concurrency}
        for name, cpu, memory, concurrency in (("small", "250m", "256Mi", 1), ("large", "1", "640Mi", 4))
    ]
    container = {"name": "function", "image": "registry.example/resize-images:1"}
    spec = {"template": {"spec": {"containers": [container]}}, "sizes": sizes, "keepWarm": "10s"}
    function = {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "ComboFunc",
        "metadata": {"name": "resize-images"},
        "spec": spec | {"targetConcurrency": target},
    }
    if target == _TARGETS[0]:
        lab.kube.create(_COMBOFUNCS, function)
    else:
        lab.kube.patch(f"{_COMBOFUNCS}/resize-images", {"spec": {"targetConcurrency": target}})


def _health(lab: Lab, part: str) -> str:
    """Where its controller serves /metrics."""
    settings = yaml.safe_load((lab.directory / f"{part}.settings.yaml").read_text())
    return str(settings["health_bind"])


def _prometheus_port(lab: Lab) -> int:
    settings = yaml.safe_load((lab.directory / "kneescale.settings.yaml").read_text())
    return int(str(settings["prometheus_url"]).rpartition(":")[2])


def _panels() -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return panels


def _answers(port: int, panel: Mapping[str, Any], began_s: float, ended_s: float) -> dict[str, Any]:
    lines = [line for target in panel["targets"] for line in _lines(port, target, began_s, ended_s)]
    return {"title": panel["title"], "unit": panel["fieldConfig"]["defaults"]["unit"], "lines": lines}


def _lines(port: int, target: Mapping[str, str], began_s: float, ended_s: float) -> list[dict[str, Any]]:
    query = urlencode(
        {
            "query": target["expr"].replace("$__rate_interval", _RATE),
            "start": began_s,
            "end": ended_s,
            "step": f"{_STEP_S}s",
        }
    )
    with urlopen(f"http://127.0.0.1:{port}/api/v1/query_range?{query}", timeout=60) as answer:
        found = json.load(answer)["data"]["result"]
    return [
        {
            "name": _named(target["legendFormat"], series["metric"]),
            "at_s": [round(at - began_s, 1) for at, _ in values],
            "values": [float(f"{float(value):.6g}") for _, value in values],
        }
        for series in found
        if (values := [(at, value) for at, value in series["values"] if math.isfinite(float(value))])
    ]


def _named(legend: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"{{\s*(\w+)\s*}}", lambda found: labels.get(found[1], ""), legend)
