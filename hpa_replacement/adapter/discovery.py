"""Discovery documents of the two APIs: groups, versions, resources."""

from __future__ import annotations

from typing import Any

from hpa_replacement.adapter.model import METRIC

__all__ = ["CUSTOM", "EXTERNAL", "POLICIES", "VERSIONS", "group", "group_list", "openapi", "resource_list"]

Json = dict[str, Any]
EXTERNAL, CUSTOM = "external.metrics.k8s.io", "custom.metrics.k8s.io"
VERSIONS = {EXTERNAL: "v1beta1", CUSTOM: "v1beta2"}
POLICIES = "kneepolicies.surgekit.dev"  # resource.group, as custom.metrics names resources
_RESOURCES = {
    EXTERNAL: ("ExternalMetricValueList", [METRIC]),
    CUSTOM: ("MetricValueList", [f"{POLICIES}/{METRIC}", f"pods/{METRIC}"]),
}


def group_list() -> Json:
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in VERSIONS]}


def group(name: str) -> Json:
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name)}


def resource_list(name: str) -> Json:
    kind, resources = _RESOURCES[name]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{name}/{VERSIONS[name]}",
        "resources": [
            {"name": resource, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["get"]}
            for resource in resources
        ],
    }


def openapi() -> Json:
    """An empty document: without one kube-apiserver logs an error every minute."""
    return {"swagger": "2.0", "info": {"title": "surgekit metrics adapter", "version": "v1"}, "paths": {}}


def _group(name: str) -> Json:
    version = {"groupVersion": f"{name}/{VERSIONS[name]}", "version": VERSIONS[name]}
    return {"name": name, "versions": [version], "preferredVersion": version}
