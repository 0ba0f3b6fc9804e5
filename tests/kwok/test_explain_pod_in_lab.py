"""`surgekit explain pod` on a cluster known by its kubeconfig only: by port-forward, as kube-scheduler.

The API server and the protocol are real: KWOK answers for the kubelet with Kubernetes' streaming code, and
leads to the extender's process. What a kubelet does then, dialling inside the pod, is not tried here.
"""

from __future__ import annotations

import base64
import json
import shutil
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from kwok import parts
from kwok.binaries import Binaries
from kwok.cluster import stage_files
from kwok.lab import Lab
from kwok.pods import pod, wait_for_account
from surgekit.cli import app
from surgekit.tls import ensure

pytestmark = pytest.mark.lab

SHOP, NODE = "shop", "node-1"
EXTENDERS = f"/api/v1/namespaces/{parts.NAMESPACE}"
# All that is needed to explain; an operator's account in the tests has nothing more.
RIGHTS = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["get", "create"]},
    {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": ["surgekit-scheduler-client-tls"],
        "verbs": ["get"],
    },
]


@pytest.fixture(scope="module")
def cluster(binaries: Binaries) -> Iterator[Lab]:
    """Pods of the namespace shop are in shadow; one of them is placed."""
    with Lab.temporary("explain", instant_pods=True) as lab:
        parts.install(lab)
        kubelet_port = lab.free_port()
        lab.add_nodes(2, kubelet_port=kubelet_port)
        extender = parts.start_extender(lab)
        entry = extender.scheduler_entry(parts.WEIGHT) | {"httpTimeout": "30s"}  # late is not asked
        lab.start_scheduler({"extenders": [entry]})
        labels = {parts.PLACEMENT: "shadow"}
        lab.kube.create("/api/v1/namespaces", {"metadata": {"name": SHOP, "labels": labels}})
        wait_for_account(lab.kube, SHOP)
        lab.kube.create(f"/api/v1/namespaces/{SHOP}/pods", pod("web", "100m", "64Mi"))
        web = f"/api/v1/namespaces/{SHOP}/pods/web"
        lab.wait_for(lambda: "nodeName" in lab.kube.get(web)["spec"], "the pod is placed")
        yield lab


@pytest.fixture(scope="module")
def operator(cluster: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig, outside the lab's directory, of an account with these rights only."""
    role = {"metadata": {"name": "explainer"}, "rules": RIGHTS}
    binding = {
        "metadata": {"name": "explainer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "explainer"},
        "subjects": [{"kind": "ServiceAccount", "namespace": SHOP, "name": "default"}],
    }
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{parts.NAMESPACE}"
    cluster.kube.create(f"{rbac}/roles", role)
    cluster.kube.create(f"{rbac}/rolebindings", binding)
    file = tmp_path_factory.mktemp("operator") / "kubeconfig"
    shutil.copy(cluster.account_kubeconfig(SHOP, "default"), file)
    return file


def explain(kubeconfig: Path, *more: str) -> Any:
    return CliRunner().invoke(app, ["explain", "pod", f"{SHOP}/web", "--kubeconfig", str(kubeconfig), *more])


def test_a_labs_extender_is_a_process_that_is_asked_by_the_labs_name(cluster: Lab) -> None:
    assert "--lab" in str(explain(cluster.kubeconfig).exception)
    result = CliRunner().invoke(app, ["explain", "pod", f"{SHOP}/web", "--lab", cluster.name])
    assert result.exit_code == 0, result.exception
    assert "shadow: the scheduler got neutral scores" in result.stdout


def test_a_cluster_without_an_extender_says_so(cluster: Lab, operator: Path) -> None:
    def said() -> str:
        return str(explain(operator).exception)

    # Its rights count a moment after they were given.
    cluster.wait_for(lambda: "no extender runs in namespace surgekit-system" in said(), "what is missing")
    assert "kubectl apply --server-side -k" in said()


def test_a_clusters_extender_is_asked_through_a_port_forward(cluster: Lab, operator: Path) -> None:
    _play_kubelet(cluster)
    _pod_of_the_extender(cluster)
    _certificate_of_the_scheduler(cluster)

    def asked() -> dict[str, Any]:
        result = explain(operator, "--json", "-")
        assert result.exit_code == 0, result.exception
        said: dict[str, Any] = json.loads(result.stdout)
        return said

    cluster.wait_for(lambda: asked()["bound_to"] is not None, "the extender sees the binding")
    said = asked()
    web = cluster.kube.get(f"/api/v1/namespaces/{SHOP}/pods/web")
    assert (said["mode"], said["bound_to"]) == ("shadow", web["spec"]["nodeName"])
    assert "shadow: the scheduler got neutral scores" in explain(operator).stdout


def _play_kubelet(lab: Lab) -> None:
    """A second KWOK that manages no node, only for its kubelet API on the node's address."""
    node = lab.kube.get(f"/api/v1/nodes/{NODE}")["status"]
    (reachable,) = [a for a in node["addresses"] if a["type"] == "InternalIP"]
    address = reachable["address"]
    # The API server would rather dial the node's name, which nobody resolves.
    lab.kube.patch(f"/api/v1/nodes/{NODE}/status", {"status": {"addresses": [reachable]}})
    port = node["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    extender = parts.find_extender(lab)
    assert extender is not None
    options = {
        "enableDebuggingHandlers": True, "manageNodesWithLabelSelector": "managed=never",
        "cidr": "10.0.0.0/24", "podPlayStageParallelism": 1, "nodePlayStageParallelism": 1,
        "nodeLeaseParallelism": 1, "podsOnNodeSyncParallelism": 1,
    }  # fmt: skip
    forward = {"forwards": [{"ports": [8443], "target": {"address": "127.0.0.1", "port": extender.port}}]}
    documents = [
        {"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration", "options": options},
        {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "ClusterPortForward",
            "metadata": {"name": "extender"},
            "spec": forward,
        },
    ]
    config, certificates = lab.directory / "kubelet.yaml", lab.directory / "tls" / "kubelet"
    stages = [file.read_text() for file in stage_files(instant_pods=True)]  # it wants some
    config.write_text("---\n".join([*stages, yaml.safe_dump_all(documents)]))
    ensure(certificates, [address], [], datetime.now(UTC))
    argv: list[str | Path] = [
        lab.binaries.path("kwok"), "--config", config, "--kubeconfig", lab.kubeconfig,
        "--server-address", f"{address}:{port}",
        "--tls-cert-file", certificates / "tls.crt", "--tls-private-key-file", certificates / "tls.key",
    ]  # fmt: skip
    lab.start("kubelet", argv, ready=lambda: _listens(address, port))


def _listens(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=1):
            return True
    except OSError:
        return False


def _pod_of_the_extender(lab: Lab) -> None:
    """As its Deployment makes it; here without the Deployment's controller."""
    rendered = yaml.safe_load_all(lab.kubectl("kustomize", parts.MANIFESTS / "overlays" / "self-signed"))
    (template,) = [
        d["spec"]["template"]
        for d in rendered
        if (d["kind"], d["metadata"]["name"]) == ("Deployment", "surgekit-extender")
    ]
    body = {
        "metadata": {"name": "surgekit-extender-0", "labels": template["metadata"]["labels"]},
        "spec": template["spec"] | {"nodeName": NODE},
    }
    lab.kube.create(f"{EXTENDERS}/pods", body)
    lab.wait_for(
        lambda: lab.kube.get(f"{EXTENDERS}/pods/surgekit-extender-0")["status"]["phase"] == "Running",
        "the extender's pod runs",
    )


def _certificate_of_the_scheduler(lab: Lab) -> None:
    extender = parts.find_extender(lab)
    assert extender is not None
    files = {"ca.crt": "ca.crt", "tls.crt": "kube-scheduler.crt", "tls.key": "kube-scheduler.key"}
    data = {
        key: base64.b64encode((extender.certificates / file).read_bytes()).decode()
        for key, file in files.items()
    }
    secret = {
        "metadata": {"name": "surgekit-scheduler-client-tls"},
        "type": "kubernetes.io/tls",
        "data": data,
    }
    lab.kube.create(f"{EXTENDERS}/secrets", secret)
