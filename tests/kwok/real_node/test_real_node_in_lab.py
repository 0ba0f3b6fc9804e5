"""Real nodes beside emulated ones: who reaches whom, and what a kubelet does that KWOK only plays."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kwok import metrics_server, real_node
from kwok.binaries import METRICS_SERVER, Binaries
from kwok.cgroups import trees
from kwok.lab import Lab
from kwok.node_model_process import CREATED
from kwok.traffic.function_process import CONTAINER, FUNCTION, POD_PORT
from kwok.traffic.functions import FUNCTIONS
from kwok.traffic.live import start_functions
from surgekit.kube import quantity
from surgekit.kube.client import ApiError
from surgekit.tls import ensure
from tests.kwok.real_node.real_pods import (
    FUNCTION_PORT,
    answers_in_lab,
    create,
    real_pod,
    service,
    status_in_lab,
    tool_pod,
    wait_until_ready,
)

pytestmark = [pytest.mark.lab, pytest.mark.real_node]

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def curl(lab: Lab, namespace: str, pod: str, *arguments: str) -> str:
    """The status that curl sees in the pod."""
    quiet = ("-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "10")
    return lab.kubectl("exec", "-n", namespace, pod, "--", "/usr/bin/curl", *quiet, *arguments)


def test_the_control_plane_reaches_a_real_pod(lab: Lab, namespace: str) -> None:
    """By its address, by its Service, and as the API server's proxy; its log is read from the kubelet."""
    create(lab, namespace, real_pod("f"), service("f"))
    pod = wait_until_ready(lab, namespace, "f")
    assert pod["spec"]["nodeName"].startswith("real-")
    assert status_in_lab(lab, pod["status"]["podIP"], FUNCTION_PORT) == 200
    address = lab.kube.get(f"/api/v1/namespaces/{namespace}/services/f")["spec"]["clusterIP"]
    lab.wait_for(lambda: answers_in_lab(lab, address, 80), "kube-proxy knows the Service")
    proxied = f"/api/v1/namespaces/{namespace}/services/f:80/proxy/healthz"
    assert lab.kubectl("get", "--raw", proxied) == "ok\n"
    lab.kubectl("logs", "-n", namespace, "f")


@pytest.mark.parametrize("node", ["real-0", "real-1"])
def test_a_real_pod_reaches_the_cluster(lab: Lab, namespace: str, node: str) -> None:
    """The API server with its own account, Services by address and by name, on its node and on another."""
    create(lab, namespace, real_pod("f", "real-0"), service("f"), tool_pod("tools", node))
    for name in ("f", "tools"):
        wait_until_ready(lab, namespace, name)
    address = lab.kube.get(f"/api/v1/namespaces/{namespace}/services/f")["spec"]["clusterIP"]
    lab.wait_for(lambda: curl(lab, namespace, "tools", f"http://{address}") == "200", "its Service answers")
    assert curl(lab, namespace, "tools", "http://f") == "200"
    assert curl(lab, namespace, "tools", f"http://f.{namespace}.svc.cluster.local") == "200"
    token = lab.kubectl("exec", "-n", namespace, "tools", "--", "/usr/bin/cat", f"{ACCOUNT}/token")
    server = ("--cacert", f"{ACCOUNT}/ca.crt", "https://kubernetes.default.svc/api")
    assert curl(lab, namespace, "tools", "-H", f"Authorization: Bearer {token}", *server) == "200"
    assert curl(lab, namespace, "tools", *server) in ("401", "403")


def test_a_real_pod_calls_emulated_ones(lab: Lab, namespace: str) -> None:
    """By a Service, as if their nodes were real, too."""
    start_functions(lab, {"float-operation": FUNCTIONS["float-operation"]})
    emulated = {
        "metadata": {"name": "e", "labels": {"app": "e", FUNCTION: "float-operation"}},
        "spec": {"containers": [{"name": CONTAINER, "image": "i"}]},
    }
    create(lab, namespace, emulated, service("e", target=POD_PORT), tool_pod("tools"))
    for name in ("e", "tools"):
        wait_until_ready(lab, namespace, name)
    lab.wait_for(lambda: curl(lab, namespace, "tools", "http://e") == "200", "an emulated pod answers")


def test_the_api_server_calls_a_webhook_in_a_real_pod(lab: Lab, namespace: str, tmp_path: Path) -> None:
    ensure(tmp_path, [f"hook.{namespace}.svc"], [], datetime.now(UTC))
    data = {
        name: base64.b64encode((tmp_path / name).read_bytes()).decode() for name in ("tls.crt", "tls.key")
    }
    lab.kube.create(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "hook"}, "data": data})
    program = (
        "import http.server, json, ssl\n"
        "class Hook(http.server.BaseHTTPRequestHandler):\n"
        "    def do_POST(self):\n"
        "        uid = json.loads(self.rfile.read(int(self.headers['Content-Length'])))['request']['uid']\n"
        "        said = {'uid': uid, 'allowed': False, 'status': {'message': 'said the pod'}}\n"
        "        about = {'apiVersion': 'admission.k8s.io/v1', 'kind': 'AdmissionReview'}\n"
        "        review = about | {'response': said}\n"
        "        self.send_response(200); self.end_headers(); self.wfile.write(json.dumps(review).encode())\n"
        "context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)\n"
        "context.load_cert_chain('/tls/tls.crt', '/tls/tls.key')\n"
        "server = http.server.HTTPServer(('', 8443), Hook)\n"
        "server.socket = context.wrap_socket(server.socket, server_side=True)\n"
        "server.serve_forever()\n"
    )
    python = f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    pod = tool_pod(
        "hook", command=[python, "-c", program], volumeMounts=[{"name": "tls", "mountPath": "/tls"}],
        readinessProbe={"tcpSocket": {"port": 8443}, "periodSeconds": 1},
    )  # fmt: skip
    pod["spec"]["volumes"].append({"name": "tls", "secret": {"secretName": "hook"}})
    create(lab, namespace, pod, service("hook", 443, 8443))
    wait_until_ready(lab, namespace, "hook")
    hook: dict[str, Any] = {
        "name": "hook.surgekit.dev",
        "clientConfig": {
            "service": {"name": "hook", "namespace": namespace},
            "caBundle": base64.b64encode((tmp_path / "ca.crt").read_bytes()).decode(),
        },
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    lab.kube.create(path, {"metadata": {"name": namespace}, "webhooks": [hook]})
    try:
        lab.wait_for(lambda: "said the pod" in refusal(lab, namespace), "the pod's answer", 60)
    finally:
        lab.kube.delete(f"{path}/{namespace}")


def refusal(lab: Lab, namespace: str) -> str:
    """Why a config map is not created."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    try:
        lab.kube.create(path, {"metadata": {"generateName": "c-"}})
    except ApiError as error:
        return error.message
    return ""


def test_a_resize_changes_the_cgroup(lab: Lab, namespace: str) -> None:
    """As the kernel has it, not as a status says."""
    create(lab, namespace, real_pod("f"))
    pod = wait_until_ready(lab, namespace, "f")
    assert quota_cores(pod) == 0.1
    more = {"cpu": "250m", "memory": "64Mi"}
    body = {"spec": {"containers": [{"name": "c", "resources": {"requests": more, "limits": more}}]}}
    path = f"/api/v1/namespaces/{namespace}/pods/f"
    lab.kube.patch(f"{path}/resize", body, "application/strategic-merge-patch+json")
    lab.wait_for(lambda: quota_cores(pod) == 0.25, "the kernel's quota")
    lab.wait_for(
        lambda: lab.kube.get(path)["status"]["containerStatuses"][0]["resources"]["limits"] == more,
        "its status",
    )


def test_a_node_that_is_switched_off_takes_its_pods_along(lab: Lab, namespace: str) -> None:
    assert real_node.start(lab) == ["real-2"]
    create(lab, namespace, real_pod("f", "real-2"))
    pod = wait_until_ready(lab, namespace, "f")
    assert status_in_lab(lab, pod["status"]["podIP"], FUNCTION_PORT) == 200
    running = [line for group in cgroups(pod) for line in (group / "cgroup.procs").read_text().split()]
    assert running
    lab.kill("real-2")
    lab.wait_for(lambda: not any(Path("/proc", pid).exists() for pid in running), "its processes are gone")
    lab.kube.delete("/api/v1/nodes/real-2")


def test_the_stock_metrics_pipeline_sees_real_pods(
    built: Callable[..., Binaries], lab: Lab, namespace: str
) -> None:
    built(METRICS_SERVER)
    create(lab, namespace, real_pod("f", env=[{"name": "MEMORY_MIB", "value": "32"}]))
    wait_until_ready(lab, namespace, "f")
    metrics_server.start(lab)
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods/f"
    lab.wait_for(lambda: lab.kube.get(path)["containers"], "its usage is known", 120)
    assert 32 <= quantity.parse(lab.kube.get(path)["containers"][0]["usage"]["memory"]) / 2**20 < 64


def quota_cores(pod: dict[str, Any]) -> float:
    """The CPU quota of the pod's only container."""
    for group in cgroups(pod):
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
            return int(quota) / int(period)
        if (group / "cpu.cfs_quota_us").exists():
            quota, period = ((group / f"cpu.cfs_{what}_us").read_text() for what in ("quota", "period"))
            return int(quota) / int(period)
    raise LookupError("no cgroup with a CPU quota")


def cgroups(pod: dict[str, Any]) -> list[Path]:
    """The groups of the pod's only container, one in each tree."""
    (container,) = pod["status"]["containerStatuses"]
    name = container["containerID"].removeprefix("containerd://")
    return [group for tree in trees() for group in tree.glob(f"surgekit-*/*/kubepods/**/{name}")]


def test_emulated_nodes_work_beside(lab: Lab, namespace: str) -> None:
    """Who does not ask for a real node does not land there; the node model leaves real pods alone."""
    emulated = {"metadata": {"name": "e"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    create(lab, namespace, emulated, real_pod("f"))
    assert wait_until_ready(lab, namespace, "e")["spec"]["nodeName"].startswith("node-")
    pod = wait_until_ready(lab, namespace, "f")
    assert CREATED not in pod["metadata"].get("annotations", {})
    assert pod["status"]["hostIP"].startswith("172.21.0.")
    node = lab.kube.get("/api/v1/nodes/real-0")
    assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.3"
    assert "kwok" not in json.dumps(node["status"])
