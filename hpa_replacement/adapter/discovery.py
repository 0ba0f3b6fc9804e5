"""What clients may find out about the two APIs before they ask: groups, versions, resources."""

from __future__ import annotations

from typing import Any

from hpa_replacement.adapter.model import METRIC

__all__ = ["CUSTOM", "EXTERNAL", "POLICIES", "VERSIONS", "group", "group_list", "openapi", "resource_list"]

Json = dict[str, Any]
EXTERNAL, CUSTOM = "external.metrics.k8s.io", "custom.metrics.k8s.io"
VERSIONS = {EXTERNAL: "v1beta1", CUSTOM: "v1beta2"}
POLICIES = "kneepolicies.surgekit.dev"  # how custom.metrics spells a resource of another group
_RESOURCES = {
    EXTERNAL: (METRIC, "ExternalMetricValueList"),
    CUSTOM: (f"{POLICIES}/{METRIC}", "MetricValueList"),
}


def group_list() -> Json:
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in VERSIONS]}


def group(name: str) -> Json:
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name)}


def resource_list(name: str) -> Json:
    resource, kind = _RESOURCES[name]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{name}/{VERSIONS[name]}",
        "resources": [
            {"name": resource, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["get"]}
        ],
    }


def openapi() -> Json:
    """That there is nothing to say about the metrics' schemas: without it kube-apiserver logs an error every
    minute. It makes its OpenAPI v3 of this one."""
    return {"swagger": "2.0", "info": {"title": "surgekit metrics adapter", "version": "v1"}, "paths": {}}


def _group(name: str) -> Json:
    version = {"groupVersion": f"{name}/{VERSIONS[name]}", "version": VERSIONS[name]}
    return {"name": name, "versions": [version], "preferredVersion": version}
