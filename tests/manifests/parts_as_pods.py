"""Installs parts as pods on a lab's real nodes, from the manifests, and looks at what came of it."""

from __future__ import annotations

import http.client
import os
from base64 import b64decode
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from kwok.cgroups import trees
from kwok.lab import Lab
from kwok.network.namespaces import inside
from kwok.network_namespace import CONTROL_PLANE, namespace_path
from tests.manifests.installed_cluster import MANIFESTS, NAMESPACE

Json = dict[str, Any]
_REAL_NODES = Path(__file__).parent / "on_real_node"
_UPGRADED = """\
- op: add
  path: /spec/template/metadata/annotations
  value: {example.com/version: "%s"}
"""
# Objects that come and go by themselves.
_PASSING = {"events", "events.events.k8s.io", "leases.coordination.k8s.io"}


def overlay(lab: Lab, part: str, version: str = "") -> Path:
    """A kustomization of the part for real nodes; another `version` changes its pods."""
    directory = lab.directory / "overlays" / part.replace("/", "-")
    directory.mkdir(parents=True, exist_ok=True)
    content: Json = {
        "resources": [os.path.relpath(MANIFESTS / part, directory)],
        "components": [os.path.relpath(_REAL_NODES, directory)],
    }
    if version:
        content["patches"] = [{"target": {"kind": "Deployment"}, "patch": _UPGRADED % version}]
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return directory


def wait_for_rollouts(lab: Lab, timeout_s: float = 300.0) -> None:
    """Until every Deployment of ours runs its newest pods, all Ready, and no older ones."""

    def rolled_out() -> bool:
        deployments, _ = lab.kube.list_all(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments")
        return bool(deployments) and all(_is_rolled_out(d) for d in deployments)

    lab.wait_for(rolled_out, "all parts are rolled out", timeout_s)


def _is_rolled_out(deployment: Json) -> bool:
    status, wanted = deployment["status"], deployment["spec"]["replicas"]
    counts = [status.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas")]
    seen = status.get("observedGeneration") == deployment["metadata"]["generation"]
    return bool(seen and counts == [wanted] * 3)


def parts_pods(lab: Lab, part: str = "") -> list[Json]:
    """The pods of parts that are not on their way out; without those of Jobs."""
    name = f"app.kubernetes.io/name={part}" if part else "app.kubernetes.io/name"
    pods, _ = lab.kube.list_all(
        f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=f"{name},pod-template-hash"
    )
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def address(lab: Lab, service: str) -> str:
    found = lab.kube.get(f"/api/v1/namespaces/{NAMESPACE}/services/{service}")
    return str(found["spec"]["clusterIP"])


def write_secret(lab: Lab, name: str, directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for file, content in lab.kube.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}")["data"].items():
        (directory / file).write_bytes(b64decode(content))
    return directory


def scheduler_configuration(lab: Lab) -> Json:
    """manifests/control-plane, as its README says to complete it."""
    content: Json = yaml.safe_load((MANIFESTS / "control-plane" / "kube-scheduler-config.yaml").read_text())
    (extender,) = content["extenders"]
    extender["urlPrefix"] = f"https://{address(lab, 'surgekit-extender')}"
    tls, directory = extender["tlsConfig"], lab.directory / "scheduler-client"
    write_secret(lab, "surgekit-scheduler-client-tls", directory)
    for key in ("caFile", "certFile", "keyFile"):
        tls[key] = str(directory / Path(tls[key]).name)
    return content | {"leaderElection": {"leaderElect": False}}


def get_in_lab(lab: Lab, host: str, port: int, name: str) -> int:
    """The status of GET / with this name as Host, from where the control plane runs."""

    def get() -> int:
        connection = http.client.HTTPConnection(host, port, timeout=20)
        try:
            connection.request("GET", "/", headers={"Host": name})
            return connection.getresponse().status
        finally:
            connection.close()

    return inside(namespace_path(lab.directory, CONTROL_PLANE), get)


def all_objects(lab: Lab) -> set[str]:
    """Kind, namespace and name of all objects that do not come and go by themselves."""
    kinds = set(lab.kubectl("api-resources", "--verbs=list", "--output=name", "--cached=false").split())
    columns = "custom-columns=A:.apiVersion,K:.kind,S:.metadata.namespace,N:.metadata.name"
    wanted = ",".join(sorted(kinds - _PASSING))
    said = lab.kubectl("get", wanted, "--all-namespaces", "--no-headers", f"--output={columns}")
    return {" ".join(line.split()) for line in said.splitlines()}


def start_s(pod: Json) -> float:
    """Seconds from the last container's start to Ready; the API server has whole seconds."""
    started = [c["state"]["running"]["startedAt"] for c in pod["status"]["containerStatuses"]]
    ready = next(c["lastTransitionTime"] for c in pod["status"]["conditions"] if c["type"] == "Ready")
    return (datetime.fromisoformat(ready) - max(map(datetime.fromisoformat, started))).total_seconds()


def memory_mib(pod: Json) -> dict[str, float]:
    """Of each container: what the kernel counts, without file pages that it may drop (the working set)."""
    used = {}
    for container in pod["status"]["containerStatuses"]:
        name = container["containerID"].removeprefix("containerd://")
        groups = [group for tree in trees() for group in tree.glob(f"surgekit-*/*/kubepods/**/{name}")]
        (group,) = (g for g in groups if (g / "memory.stat").exists())
        usage = next(f for f in ("memory.current", "memory.usage_in_bytes") if (group / f).exists())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        inactive = int(stat.get("total_inactive_file", stat.get("inactive_file", "0")))
        used[container["name"]] = (int((group / usage).read_text()) - inactive) / 2**20
    return used
