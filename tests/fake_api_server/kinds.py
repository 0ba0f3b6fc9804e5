"""The kinds that the fake API server serves: built-in ones that our code uses, and our CRDs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from surgekit.kube.client import ApiError
from tests.paths import MANIFESTS

__all__ = ["Kind", "ScalePaths", "Target", "custom_kinds", "parse_path", "served_kinds"]

Json = dict[str, Any]
_ALWAYS = frozenset({"metadata.name", "metadata.namespace"})


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where the scale subresource finds its numbers, as in a CRD."""

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str = ".status.selector"


@dataclass(frozen=True, slots=True)
class Kind:
    api_version: str
    plural: str
    kind: str
    namespaced: bool = True
    custom: bool = False  # a CRD: no strategic merge patch; its status subresource ignores metadata
    has_status: bool = True  # as a subresource
    has_generation: bool = True
    replace_needs_version: bool = False
    scale: ScalePaths | None = None
    fields: frozenset[str] = frozenset()  # for field selectors, beside name and namespace

    @property
    def qualified_plural(self) -> str:
        group, _, _ = self.api_version.rpartition("/")
        return f"{self.plural}.{group}" if group else self.plural

    @property
    def selectable(self) -> frozenset[str]:
        return self.fields | _ALWAYS

    @property
    def subresources(self) -> frozenset[str]:
        found = {"status"} if self.has_status else set()
        if self.scale:
            found.add("scale")
        if self.plural == "pods":
            found |= {"resize"}
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names."""

    api_version: str
    plural: str = ""  # empty: the group itself, for discovery
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(path: str) -> Target:
    parts = path.strip("/").split("/")
    if parts[0] not in ("api", "apis") or len(parts) < (2 if parts[0] == "api" else 3):
        raise ApiError(404, "", "404 page not found\n")
    cut = 2 if parts[0] == "api" else 3
    api_version, rest = "/".join(parts[1:cut]), parts[cut:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource, *more = *rest, "", "", ""
    if any(more):
        raise ApiError(404, "NotFound", "the server could not find the requested resource")
    return Target(api_version, plural, namespace, name, subresource)


_WORKLOAD_SCALE = ScalePaths(selector=".spec.selector")
_PLAIN: Json = {"has_status": False, "has_generation": False}
_CLUSTER: Json = {"namespaced": False}
_BUILT_IN = (
    Kind("v1", "namespaces", "Namespace", namespaced=False, has_generation=False),
    Kind("v1", "nodes", "Node", namespaced=False, has_generation=False),
    Kind("v1", "pods", "Pod", fields=frozenset({"spec.nodeName", "spec.schedulerName", "status.phase"})),
    Kind("v1", "services", "Service", has_generation=False),
    Kind("v1", "configmaps", "ConfigMap", **_PLAIN),
    Kind("v1", "secrets", "Secret", fields=frozenset({"type"}), **_PLAIN),
    Kind(
        "v1", "events", "Event", has_status=False, has_generation=False,
        fields=frozenset({"involvedObject.kind", "involvedObject.name", "involvedObject.uid", "reason"}),
    ),
    Kind("v1", "replicationcontrollers", "ReplicationController", scale=_WORKLOAD_SCALE),
    Kind("apps/v1", "deployments", "Deployment", scale=_WORKLOAD_SCALE),
    Kind("apps/v1", "replicasets", "ReplicaSet", scale=_WORKLOAD_SCALE),
    Kind("apps/v1", "daemonsets", "DaemonSet"),
    Kind("autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", has_generation=False),
    Kind(
        "coordination.k8s.io/v1", "leases", "Lease",
        has_status=False, has_generation=False, replace_needs_version=True,
    ),
    Kind("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", has_status=False),
    Kind("events.k8s.io/v1", "events", "Event", **_PLAIN),
    Kind("apiregistration.k8s.io/v1", "apiservices", "APIService", **_CLUSTER, replace_needs_version=True),
)  # fmt: skip


def custom_kinds(crd: Json) -> list[Kind]:
    """A CustomResourceDefinition's kinds, one a version."""
    spec, found = crd["spec"], []
    for version in spec["versions"]:
        subresources = version.get("subresources") or {}
        scale = subresources.get("scale")
        paths = scale and ScalePaths(
            scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", "")
        )
        found.append(
            Kind(
                f"{spec['group']}/{version['name']}", spec["names"]["plural"], spec["names"]["kind"],
                namespaced=spec["scope"] == "Namespaced", custom=True, has_status="status" in subresources,
                replace_needs_version=True, scale=paths,
            )
        )  # fmt: skip
    return found


@cache
def served_kinds() -> tuple[Kind, ...]:
    """The built-in kinds and ours."""
    texts = [file.read_text() for file in sorted(MANIFESTS.rglob("*.yaml"))]
    documents = [d for text in texts if "CustomResourceDefinition" in text for d in yaml.safe_load_all(text)]
    crds = [d for d in documents if d and d.get("kind") == "CustomResourceDefinition"]
    return (*_BUILT_IN, *(kind for crd in crds for kind in custom_kinds(crd)))
