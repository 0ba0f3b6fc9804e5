"""Start Knative in a lab, deploy Services on it, and send them requests."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from kwok import metrics_server, prometheus
from kwok.binaries import COREDNS, KNATIVE, METRICS_SERVER, PROMETHEUS, REAL_NODE
from kwok.errors import LabError
from kwok.knative import installation, processes
from kwok.knative.installation import DOMAIN, IMAGE, INGRESS, INGRESS_CLASS, NAMESPACE
from kwok.knative.requirements import why_no_knative
from kwok.lab import Lab
from kwok.network import addresses
from kwok.network.namespaces import inside
from kwok.network_namespace import EMULATED_PODS, has_network, namespace_path
from kwok.pods import wait_for_account
from kwok.ports import answers_ready
from kwok.real_node import dns, proxy
from kwok.traffic.live import Traffic, ask, start_load
from kwok.traffic.network import make_traffic_namespace
from surgekit.kube.client import ApiError

__all__ = ["ACTIVATOR", "AUTOSCALER", "BINARIES", "EXAMPLE", "PodView", "Serving", "find", "start"]

Json = dict[str, Any]
AUTOSCALER = f"{addresses.KNATIVE['autoscaler']}:8080"
ACTIVATOR = f"{addresses.KNATIVE['activator']}:8012"
EXAMPLE = Path(__file__).with_name("example.yaml")
BINARIES = (KNATIVE, COREDNS, REAL_NODE, PROMETHEUS, METRICS_SERVER)  # what it needs, beside the lab's own
_METRICS_PORT = 9090  # of each of Knative's processes
_SERVICES = "/apis/serving.knative.dev/v1/namespaces/{}/services"


@dataclass(frozen=True)
class PodView:
    """A pod that serves, as the process that plays it sees it."""

    namespace: str
    name: str
    node: str
    address: str
    container: str
    cpu_s: float  # used so far
    memory_bytes: int
    started_s: float  # Unix time
    in_flight: int  # requests in queue-proxy, waiting ones included
    most_at_once: int  # requests in the function
    answered: int
    ending: bool  # deleted, and draining


@dataclass(frozen=True)
class Serving:
    """Knative in a lab. All ports are of 127.0.0.1, inside and outside the lab."""

    lab: Lab
    ingress_port: int
    load_port: int
    prometheus_port: int
    pods_port: int  # in the emulated pods' namespace; `pods` asks there

    @property
    def traffic(self) -> Traffic:
        """Sends load through the ingress; a target is a Host, which `deploy` returns."""
        return Traffic(self.lab, {}, self.ingress_port, 0, 0, self.load_port)

    @property
    def url(self) -> str:
        """Of the ingress; the Host of a request says for whom it is."""
        return f"http://127.0.0.1:{self.ingress_port}/"

    @property
    def prometheus_url(self) -> str:
        """Has metrics of Knative's processes, and of the pods' queue-proxies as they export them."""
        return f"http://127.0.0.1:{self.prometheus_port}"

    def deploy(
        self,
        name: str,
        namespace: str = "default",
        *,
        image: str = IMAGE,
        concurrency: int = 0,
        env: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        resources: Mapping[str, Any] | None = None,
        timeout_s: int = 300,
        wait_s: float = 120.0,
    ) -> str:
        """Create a Knative Service, wait until it is Ready, and return its Host.

        `concurrency` is its containerConcurrency (0: no limit), `env` what the function reads
        (SERVICE_TIME_MS, CPU_TIME_MS, MEMORY_MIB), `annotations` go to its revision. With a `wait_s` of 0 it
        is not waited for.
        """
        container = {
            "image": image,
            "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
            "resources": dict(resources or {}),
        }
        spec = {"containerConcurrency": concurrency, "timeoutSeconds": timeout_s, "containers": [container]}
        template = {"metadata": {"annotations": dict(annotations or {})}, "spec": spec}
        body = {
            "apiVersion": "serving.knative.dev/v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"template": template},
        }
        wait_for_account(self.lab.kube, namespace)
        self.lab.kube.create(_SERVICES.format(namespace), body)
        if wait_s:
            self.wait_until_ready(name, namespace, wait_s)
        return f"{name}.{namespace}.{DOMAIN}"

    def wait_until_ready(self, name: str, namespace: str = "default", timeout_s: float = 120.0) -> None:
        def ready() -> bool:
            service = self.get(name, namespace)
            known = service["status"]["observedGeneration"] == service["metadata"]["generation"]
            return known and any(
                c["type"] == "Ready" and c["status"] == "True" for c in service["status"]["conditions"]
            )

        self.lab.wait_for(ready, f"Knative Service {namespace}/{name} is Ready", timeout_s)

    def get(self, name: str, namespace: str = "default") -> Json:
        return self.lab.kube.get(f"{_SERVICES.format(namespace)}/{name}")

    def delete(self, name: str, namespace: str = "default") -> None:
        self.lab.kube.delete(f"{_SERVICES.format(namespace)}/{name}")

    def pods(self) -> list[PodView]:
        """The pods that serve, those that drain included."""
        namespace = namespace_path(self.lab.directory, EMULATED_PODS)
        return [PodView(**pod) for pod in inside(namespace, partial(ask, self.pods_port, "/pods"))]

    def set_clients(self, service: str, count: int) -> None:
        """Clients of a Service, NAME or NAMESPACE/NAME; each waits for its answer before it asks again."""
        namespace, _, name = service.rpartition("/")
        try:
            self.get(name, namespace or "default")
        except ApiError as error:
            if error.code != 404:
                raise
            raise LabError(f"lab {self.lab.name!r} has no Knative Service {service!r}") from error
        self.traffic.clients(f"{name}.{namespace or 'default'}.{DOMAIN}", count)


def start(
    lab: Lab, kubelet_port: int | None = None, config: Mapping[str, Mapping[str, str]] | None = None
) -> Serving:
    """Start Knative in a lab that has nodes and a network of its own; wait until it takes Services.

    With the nodes' `kubelet_port` metrics-server runs, which autoscaling by CPU or memory needs. `config`:
    entries of Knative's ConfigMaps, by name, such as {"config-autoscaler": {"stable-window": "30s"}}.
    """
    if reason := why_no_knative():
        raise LabError(f"lab {lab.name}: no Knative: {reason}")
    if not has_network(lab.directory):
        raise LabError(f"lab {lab.name}: Knative needs `Lab.up(..., own_network=True)`")
    for group in BINARIES if kubelet_port is not None else BINARIES[:-1]:  # a build may take minutes
        lab.binaries.directory(group)
    dns.start(lab)
    proxy.start_beside_control_plane(
        lab, lab.kube.get("/api/v1/nodes", limit=1)["items"][0]["metadata"]["name"]
    )
    ingress_port, pods_port = lab.free_port(), lab.free_port()
    installation.install(lab, ingress_port, config or {})
    processes.start(lab)
    targets = {name: [f"{address}:{_METRICS_PORT}"] for name, address in addresses.KNATIVE.items()}
    prometheus_port = prometheus.start(lab, targets).port or 0
    _start_pods(lab, pods_port)
    _start_ingress(lab, ingress_port)
    if kubelet_port is not None:
        _start_kubelets(lab, kubelet_port, pods_port)
        metrics_server.start(lab)
    serving = Serving(lab, ingress_port, start_load(lab, ingress_port), prometheus_port, pods_port)
    known = {field.name: getattr(serving, field.name) for field in fields(serving) if field.name != "lab"}
    _record(lab).write_text(json.dumps(known))
    lab.wait_for(partial(_takes_services, lab), "Knative's webhook to admit Services")
    return serving


def find(lab: Lab) -> Serving | None:
    """Knative in this lab, whichever process started it; None if it has none."""
    try:
        return Serving(lab, **json.loads(_record(lab).read_text()))
    except FileNotFoundError:
        return None


def _start_pods(lab: Lab, port: int) -> None:
    namespace = make_traffic_namespace(lab.directory)
    lab.start(
        "knative-pods",
        [
            "nsenter", f"--net={namespace}", lab.binaries.path("knative-pods"),
            "--kubeconfig", processes.bridge_kubeconfig(lab), "--port", str(port),
            "--prometheus-targets", lab.directory / prometheus.PROMETHEUS / "targets-pods.json",
        ],
        ready=lambda: inside(namespace, lambda: answers_ready(port)),
        port=port,
    )  # fmt: skip


def _start_ingress(lab: Lab, port: int) -> None:
    domain = f"{INGRESS}.{NAMESPACE}.svc.cluster.local"
    lab.start(
        "knative-ingress",
        [
            lab.binaries.path("knative-ingress"), "--kubeconfig", lab.kubeconfig,
            "--listen", f"0.0.0.0:{port}", "--class", INGRESS_CLASS, "--internal-domain", domain,
        ],
        ready=lambda: answers_ready(port),
        port=port,
    )  # fmt: skip


def _start_kubelets(lab: Lab, kubelet_port: int, pods_port: int) -> None:
    ready = lab.directory / "knative-kubelets.ready"
    lab.start(
        "knative-kubelets",
        [
            sys.executable, "-m", "kwok.knative.kubelets_process", "--kubeconfig", lab.kubeconfig,
            "--kubelet-port", str(kubelet_port), "--ready-file", ready,
            "--certificates", metrics_server.kubelet_certificates(lab),
            "--pods", f"http://{addresses.TRAFFIC}:{pods_port}/pods",
        ],
        ready=ready.exists,
    )  # fmt: skip


def _takes_services(lab: Lab) -> bool:
    container = {"image": IMAGE}
    body = {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Service",
        "metadata": {"name": "asking", "namespace": "default"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    try:
        lab.kube.create(_SERVICES.format("default"), body, dryRun="All")
    except ApiError:  # the webhook has no certificate yet, or kube-proxy no address of it
        return False
    return True


def _record(lab: Lab) -> Path:
    return lab.directory / "knative.json"
