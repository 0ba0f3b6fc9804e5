"""Pods for tests of real nodes: functions, and pods with the host's programs to look around from."""

from __future__ import annotations

import http.client
import sys
from typing import Any

from kwok import images, real_node
from kwok.lab import Lab
from kwok.network.namespaces import inside
from kwok.network_namespace import CONTROL_PLANE, namespace_path

Json = dict[str, Any]
FUNCTION_PORT = 8080


def real_pod(name: str, node: str = "", **container: Any) -> Json:
    """A function on a real node, with 100m and 64Mi; `container` adds to its container."""
    resources = {"cpu": "100m", "memory": "64Mi"}
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"kubernetes.io/hostname": node} if node else {real_node.LABEL: "true"},
            "tolerations": [real_node.TOLERATION],
            "containers": [
                {
                    "name": "c",
                    "image": images.reference("function-server"),
                    "env": [{"name": "SERVICE_TIME_MS", "value": "10"}],
                    "resources": {"requests": resources, "limits": resources},
                    # Without it a container that has started counts as Ready before it listens.
                    "readinessProbe": {"tcpSocket": {"port": FUNCTION_PORT}, "periodSeconds": 1},
                    **container,
                }
            ],
        },
    }


def tool_pod(name: str, node: str = "", **container: Any) -> Json:
    """A pod that waits. It has the host's programs and this Python, not its network or processes."""
    waits: Json = {"command": ["/usr/bin/sleep", "3600"], "readinessProbe": None}
    pod = real_pod(name, node, **waits | container)
    places = {"/usr": "/usr", "/lib": "/usr/lib", "/lib64": "/usr/lib64", sys.base_prefix: sys.base_prefix}
    pod["spec"]["volumes"] = [
        {"name": f"v{i}", "hostPath": {"path": path}} for i, path in enumerate(places.values())
    ]
    mounts = [{"name": f"v{i}", "mountPath": place, "readOnly": True} for i, place in enumerate(places)]
    (only,) = pod["spec"]["containers"]
    only["volumeMounts"] = [*mounts, *only.get("volumeMounts", [])]
    return pod


def service(name: str, port: int = 80, target: int = FUNCTION_PORT) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": port, "targetPort": target}]},
    }


def create(lab: Lab, namespace: str, *objects: Json) -> None:
    for body in objects:
        kind = "pods" if "containers" in body["spec"] else "services"
        lab.kube.create(f"/api/v1/namespaces/{namespace}/{kind}", body)


def wait_until_ready(lab: Lab, namespace: str, name: str) -> Json:
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"

    def ready() -> bool:
        conditions = lab.kube.get(path)["status"]["conditions"]
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    lab.wait_for(ready, f"pod {name} is Ready", 120)
    return dict(lab.kube.get(path))


def status_in_lab(lab: Lab, host: str, port: int) -> int:
    """The status of GET / from where the control plane runs."""

    def get() -> int:
        connection = http.client.HTTPConnection(host, port, timeout=5)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status
        finally:
            connection.close()

    return inside(namespace_path(lab.directory, CONTROL_PLANE), get)


def answers_in_lab(lab: Lab, host: str, port: int) -> bool:
    try:
        return status_in_lab(lab, host, port) == 200
    except OSError:
        return False
