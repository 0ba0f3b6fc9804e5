"""Writes the Helm chart: charts/surgekit, the output of kustomize for each part, and a schema with all keys.

`make chart` runs it. The result is not in the repository, so it cannot differ from manifests/.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import burst_plane.settings
import cluster_autoscaler_hook.expander.settings
import cluster_autoscaler_hook.karpenter.settings
import combofunc.settings
import function_gateway.settings
import hpa_replacement.adapter.settings
import hpa_replacement.settings
import limit_allocator.settings
import node_speed_probe.settings
import scheduler_extender.settings
from kwok.binaries import Binaries
from surgekit.process.settings import describe
from tests.paths import MANIFESTS, ROOT

__all__ = ["CERT_MANAGER", "PARTS", "SETTINGS", "kustomize", "write"]

# Name in the chart's values, directory of manifests/.
PARTS = {
    "extender": "overlays/self-signed",
    "extenderOptIn": "base/opt-in",
    "secondScheduler": "overlays/second-scheduler",
    "expander": "expander",
    "karpenter": "karpenter",
    "karpenterOptIn": "karpenter/opt-in",
    "kneescale": "kneescale",
    "adapter": "adapter",
    "adapterApiServices": "adapter/apiservices",
    "combofunc": "combofunc",
    "loadBalancer": "load-balancer",
    "limitAllocator": "limit-allocator",
    "burstPlane": "burst-plane",
    "view": "view",
    "monitoring": "overlays/monitoring",
}
# Instead of the objects that our own keeper of certificates needs.
CERT_MANAGER = "cert-manager/objects"
# PROCESS of the ConfigMap surgekit-PROCESS-settings and of the Deployment surgekit-PROCESS.
SETTINGS: dict[str, type[Any]] = {
    "extender": scheduler_extender.settings.Settings,
    "probe": node_speed_probe.settings.Settings,
    "expander": cluster_autoscaler_hook.expander.settings.Settings,
    "nodes": cluster_autoscaler_hook.karpenter.settings.Settings,
    "kneescale": hpa_replacement.settings.Settings,
    "adapter": hpa_replacement.adapter.settings.Settings,
    "combofunc": combofunc.settings.Settings,
    "balancer": function_gateway.settings.Settings,
    "limit-allocator": limit_allocator.settings.Settings,
    "burst-controller": burst_plane.settings.Settings,
}


def kustomize(directory: str | Path, binaries: Binaries) -> str:
    argv: list[str | Path] = [binaries.path("kubectl"), "kustomize", MANIFESTS / directory]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def write(chart: Path, binaries: Binaries) -> None:
    shutil.rmtree(chart, ignore_errors=True)
    shutil.copytree(ROOT / "charts" / "surgekit", chart)
    (chart / "files").mkdir()
    for name, directory in (PARTS | {"certManager": CERT_MANAGER}).items():
        (chart / "files" / f"{name}.yaml").write_text(kustomize(directory, binaries))
    schema = chart / "values.schema.json"
    content = json.loads(schema.read_text())
    content["properties"]["parts"]["properties"] = {part: {"type": "boolean"} for part in PARTS}
    content["properties"]["settings"]["properties"] = {
        process: _keys(settings) for process, settings in SETTINGS.items()
    }
    schema.write_text(json.dumps(content, indent=1) + "\n")


def _keys(settings: type[Any]) -> dict[str, Any]:
    """Keys and their meaning; the process itself checks values, and its error names key and value."""
    keys = {key: {"description": meaning} for key, _, meaning in describe(settings)}
    return {"type": "object", "additionalProperties": False, "properties": keys}


if __name__ == "__main__":
    write(Path(sys.argv[1]), Binaries())
