"""What is applied: a real API server takes it, and its pods and Services come to be."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kwok.lab import Lab
from tests.manifests.installed_cluster import MANIFESTS, NAMESPACE, SCORED, until

pytestmark = pytest.mark.lab

# Other projects' CRDs, from the Go modules they publish: (module, where in it, the files we need).
CERT_MANAGER = ("github.com/cert-manager/cert-manager@v1.19.1", "deploy/crds", "cert-manager.io_{}.yaml")
PROMETHEUS_OPERATOR = (
    "github.com/prometheus-operator/prometheus-operator@v0.85.0",
    "example/prometheus-operator-crd",
    "monitoring.coreos.com_{}.yaml",
)


@pytest.mark.parametrize(
    "directory",
    [
        "overlays/self-signed",
        "overlays/second-scheduler",
        "base/opt-in",
        "expander",
        "karpenter",
        "karpenter/opt-in",
        "kneescale",
        "combofunc",
        "adapter",
        "adapter/apiservices",
        "limit-allocator",
        "burst-plane",
        "burst-plane/agent",
        "burst-plane/balancer",
    ],
)
def test_the_api_server_takes_everything_and_warns_of_nothing(installed: Lab, directory: str) -> None:
    arguments = ("apply", "--server-side", "-k", MANIFESTS / directory, "--dry-run=server")
    installed.kubectl(*arguments, "--warnings-as-errors")


@pytest.mark.parametrize(
    ("overlay", "module", "resources"),
    [
        ("cert-manager", CERT_MANAGER, ["certificates", "issuers"]),
        ("monitoring", PROMETHEUS_OPERATOR, ["servicemonitors", "podmonitors", "prometheusrules"]),
    ],
)
def test_objects_of_other_projects(
    installed: Lab, overlay: str, module: tuple[str, str, str], resources: list[str]
) -> None:
    version, folder, pattern = module
    crds = _module(version) / folder
    for resource in resources:
        installed.apply(crds / pattern.format(resource))
    group = pattern.split("_", maxsplit=1)[0]
    overlay_directory = MANIFESTS / "overlays" / overlay
    said = installed.kubectl("apply", "--server-side", "-k", overlay_directory, "--dry-run=server")
    for resource in resources:
        assert f"{resource[:-1]}.{group}/" in said


def _module(version: str) -> Path:
    go = shutil.which("go")
    if not go:
        pytest.skip("needs Go, to fetch the module that carries the CRDs")
    done = subprocess.run(
        [go, "mod", "download", "-json", version], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"the module that carries the CRDs cannot be fetched: {version}")
    return Path(json.loads(done.stdout)["Dir"])


@pytest.mark.parametrize(
    "name",
    [
        "surgekit-extender",
        "surgekit-probe",
        "surgekit-scheduler",
        "surgekit-kneescale",
        "surgekit-combofunc",
        "surgekit-adapter",
        "surgekit-limit-allocator",
        "surgekit-burst-controller",
    ],
)
def test_hardened_pods_are_let_in_spread_and_kept_available(installed: Lab, name: str) -> None:
    """The namespace enforces the restricted Pod Security Standard: what violates it makes no pod."""
    installed.kubectl("-n", NAMESPACE, "rollout", "status", f"deployment/{name}", "--timeout=60s")
    pods, _ = installed.kube.list_all(
        f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=f"app.kubernetes.io/name={name}"
    )
    assert len({pod["spec"]["nodeName"] for pod in pods}) == len(pods) == 2
    for pod in pods:
        assert pod["spec"]["priority"] == 1_000_000
        assert SCORED not in pod["spec"]["containers"][0]["resources"].get("requests", {})
        assert pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"]

    def budget() -> Any:
        path = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/{name}"
        return installed.kube.get(path).get("status", {}).get("disruptionsAllowed")

    until(lambda: budget() == 1, f"the disruption budget of {name} allows one")


def test_an_agent_is_let_in_on_every_node(installed: Lab) -> None:
    """In a namespace of its own, whose PodSecurity level lets root and hostPath in."""
    path = "/apis/apps/v1/namespaces/surgekit-agents/daemonsets/surgekit-limit-agent"
    nodes = len(installed.kube.list_all("/api/v1/nodes")[0])
    until(lambda: installed.kube.get(path)["status"]["numberReady"] == nodes, "an agent on every node")
    pods, _ = installed.kube.list_all("/api/v1/namespaces/surgekit-agents/pods")
    assert len({pod["spec"]["nodeName"] for pod in pods}) == nodes
    assert {pod["spec"]["priority"] for pod in pods} == {1_000_000}


def test_services_find_their_pods(installed: Lab) -> None:
    for name, wanted in (
        ("surgekit-extender", {8443, 8080}),
        ("surgekit-probe", {8080}),
        ("surgekit-kneescale", {8080}),
        ("surgekit-combofunc", {8080}),
        ("surgekit-adapter", {8443, 8080}),
        ("surgekit-limit-allocator", {8444, 8080}),
        ("surgekit-burst-controller", {8445, 8080}),
    ):

        def ports(name: str = name) -> set[int]:
            slices, _ = installed.kube.list_all(
                f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices",
                labelSelector=f"kubernetes.io/service-name={name}",
            )
            return {p["port"] for s in slices if len(s.get("endpoints") or []) == 2 for p in s["ports"]}

        until(lambda ports=ports, wanted=wanted: ports() == wanted, f"endpoints of {name}")  # type: ignore[misc]  # mypy cannot infer a lambda with defaults


def test_an_overlay_of_your_own_sets_image_and_settings(installed: Lab, tmp_path: Path) -> None:
    """As the README shows it."""
    mine = {
        "resources": [os.path.relpath(MANIFESTS / "overlays" / "self-signed", tmp_path)],
        "images": [{"name": "surgekit", "newName": "registry.example/surgekit", "newTag": "9"}],
        "configMapGenerator": [
            {
                "name": "surgekit-extender-settings",
                "namespace": NAMESPACE,
                "behavior": "replace",
                "files": ["settings.yaml"],
            }
        ],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(mine))
    (tmp_path / "settings.yaml").write_text("mode: shadow")
    built = list(yaml.safe_load_all(installed.kubectl("kustomize", tmp_path)))
    images = set(re.findall(r"'image': '([^']+)'", str(built)))
    assert images == {"registry.example/surgekit:9"}
    (settings,) = [o for o in built if o["metadata"]["name"].startswith("surgekit-extender-settings-")]
    assert settings["data"] == {"settings.yaml": "mode: shadow"}
    (deployment,) = [
        o for o in built if (o["kind"], o["metadata"]["name"]) == ("Deployment", "surgekit-extender")
    ]
    assert settings["metadata"]["name"] in str(deployment)
