"""Install Knative's objects from its own manifests: all that is not run in pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from kwok.binaries import KNATIVE
from kwok.lab import Lab
from kwok.network import addresses

__all__ = ["DOMAIN", "IMAGE", "INGRESS", "INGRESS_CLASS", "NAMESPACE", "deployments", "install", "send_to"]

Json = dict[str, Any]
NAMESPACE = "knative-serving"
DOMAIN = "example.com"  # a Service's Host: NAME.NAMESPACE.example.com
IMAGE = "localhost/function-server:lab"  # what pods stand for; real nodes have it
INGRESS, INGRESS_CLASS = "lab-ingress", "ingress.lab.surgekit.dev"
_CORE = ("100-namespace.yaml", "300-resources", "200-roles", "200-serviceaccount.yaml", "configmaps")
# In git these are links of serving's, and a module has no links.
_LINKED = {
    "knative-networking": ("certificate", "domain-claim", "ingress", "serverlessservice", "config-network"),
    "knative-caching": ("image",),
}
_DEPLOYMENTS = ("controller", "autoscaler", "activator", "webhook")
# What an operator sets: nobody can ask a registry from inside a lab, and Prometheus scrapes.
_CONFIG = {
    "config-network": {"ingress-class": INGRESS_CLASS},
    "config-domain": {DOMAIN: ""},
    "config-deployment": {
        "queue-sidecar-image": "dev.local/queue:v0.50.0",
        # Names without a host, also localhost/..., count as those of index.docker.io.
        "registries-skipping-tag-resolving": "index.docker.io,dev.local,kind.local,ko.local",
    },
    "config-observability": {"metrics-protocol": "prometheus", "request-metrics-protocol": "prometheus"},
}


def deployments(lab: Lab) -> dict[str, Json]:
    """Knative's Deployments by name. They run as processes here: KWOK's pods run nothing."""
    return {
        document["metadata"]["name"]: document
        for document in _documents(_deployment_files(lab))
        if document["kind"] == "Deployment"
    }


def install(lab: Lab, ingress_port: int, config: Mapping[str, Mapping[str, str]]) -> None:
    """Apply the manifests. `config`: entries of Knative's ConfigMaps, by the ConfigMap's name."""
    directory = lab.binaries.directory(KNATIVE)
    core = directory / "knative-serving" / "core"
    files = [core / name for name in _CORE]
    files += [directory / part / f"{name}.yaml" for part, names in _LINKED.items() for name in names]
    objects = [_configured(document, config) for document in _documents(files)]
    for name, deployment in deployments(lab).items():
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        for document in _documents(_deployment_files(lab)):
            if document["kind"] == "Service" and document["spec"]["selector"].items() <= labels.items():
                objects += _without_pods(document, str(addresses.KNATIVE[name]))
    ports = [{"name": "http", "port": 80, "targetPort": ingress_port}]
    ingress = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": INGRESS, "namespace": NAMESPACE}}
    objects += _without_pods(ingress | {"spec": {"ports": ports}}, str(addresses.CONTROL_PLANE))
    objects += _documents([core / "webhooks"])  # last: from now on the webhook is asked
    file = lab.directory / "knative.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    lab.apply(file)


def send_to(lab: Lab, service: str, address: str, ports: Mapping[str, int]) -> None:
    """Point a Service of Knative's to a process of the lab: the port of each of the Service's named ports."""
    body = {"subsets": _subsets(address, ports)}
    lab.kube.patch(f"/api/v1/namespaces/{NAMESPACE}/endpoints/{service}", body)


def _deployment_files(lab: Lab) -> list[Path]:
    config = lab.binaries.directory(KNATIVE) / "knative-serving"
    files = [config / "core" / "deployments" / f"{name}.yaml" for name in _DEPLOYMENTS]
    return [*files, config / "hpa-autoscaling" / "controller.yaml"]


def _documents(paths: Iterable[Path]) -> list[Json]:
    files = [file for path in paths for file in (sorted(path.glob("*.yaml")) if path.is_dir() else [path])]
    return [document for file in files for document in yaml.safe_load_all(file.read_text()) if document]


def _configured(document: Json, config: Mapping[str, Mapping[str, str]]) -> Json:
    if document["kind"] == "ConfigMap":
        name = document["metadata"]["name"]
        changed = {**_CONFIG.get(name, {}), **config.get(name, {})}
        document["data"] = {**document.get("data", {}), **changed}
    return document


def _without_pods(service: Json, address: str) -> list[Json]:
    """The Service without a selector, and its Endpoints: Knative's controller reads these, not the slices."""
    spec = {key: value for key, value in service["spec"].items() if key != "selector"}
    metadata = {key: service["metadata"][key] for key in ("name", "namespace")}
    ports = {port["name"]: port["targetPort"] for port in spec["ports"]}
    endpoints = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata}
    return [service | {"spec": spec}, endpoints | {"subsets": _subsets(address, ports)}]


def _subsets(address: str, ports: Mapping[str, int]) -> list[Json]:
    named = [{"name": name, "port": port} for name, port in ports.items()]
    return [{"addresses": [{"ip": address}], "ports": named}]
