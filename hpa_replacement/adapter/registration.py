"""Registers our two APIServices; never takes one from another adapter.

A cluster has one APIService per group and version. KEDA and prometheus-adapter use the same ones; overwriting
theirs would break every HPA that depends on them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hpa_replacement.adapter.discovery import CUSTOM, EXTERNAL, VERSIONS
from surgekit.errors import UserError
from surgekit.kube.api_path import Resource
from surgekit.kube.client import ApiError, Kube

__all__ = [
    "OwnedByAnother",
    "Owner",
    "Registration",
    "Service",
    "api_service",
    "compare",
    "register",
    "registrations",
]

Json = dict[str, Any]
_API_SERVICES = Resource("apiregistration.k8s.io/v1", "apiservices")
_TRIES = 5
_ALTERNATIVE = {
    EXTERNAL: "use custom metrics (an Object metric of the KneePolicy)",
    CUSTOM: "use external metrics",
}


@dataclass(frozen=True)
class Service:
    """The Service of the adapter."""

    namespace: str = "surgekit-system"
    name: str = "surgekit-adapter"
    port: int = 443


class Owner(StrEnum):
    NOBODY = "nobody"
    OURS = "ours"
    ANOTHER = "another"


@dataclass(frozen=True)
class Registration:
    """An APIService, compared with ours."""

    group: str
    owner: Owner
    current: bool  # ours, with the present CA and port
    message: str


class OwnedByAnother(UserError):
    """Another adapter owns an APIService; the message names it and says what to do."""


def compare(group: str, found: Json | None, service: Service, ca_pem: bytes | None) -> Registration:
    """Compare the APIService `found` (None: there is none) with ours; without `ca_pem` any CA will do."""
    name = _name(group)
    if found is None:
        return Registration(group, Owner.NOBODY, False, f"APIService {name} does not exist")
    present = found["spec"].get("service")
    if present is None or (present["namespace"], present["name"]) != (service.namespace, service.name):
        owner = f"service {present['namespace']}/{present['name']}" if present else "the API server itself"
        return Registration(
            group,
            Owner.ANOTHER,
            False,
            f"APIService {name} belongs to {owner} and is left alone. Either {_ALTERNATIVE[group]}, which is "
            f"another APIService; or set `via: scale` in the KneePolicies, which needs none; or remove "
            f"the other adapter and its APIService first",
        )
    spec = found["spec"]
    expected = _endpoint(service, ca_pem or b"")
    if ca_pem is None:
        del expected["caBundle"]
    current = all(spec.get(key, False) == value for key, value in expected.items())
    difference = "" if current else ", with another port or CA"
    return Registration(group, Owner.OURS, current, f"APIService {name} is ours{difference}")


def registrations(
    kube: Kube, groups: Sequence[str], service: Service, ca_pem: bytes | None
) -> list[Registration]:
    """Read the owners of the APIServices; write nothing."""
    return [compare(group, _get(kube, group), service, ca_pem) for group in groups]


def register(kube: Kube, groups: Sequence[str], service: Service, ca_pem: bytes) -> list[Registration]:
    """Create or update the APIServices, unless another adapter owns one; returns what was found first."""
    first = registrations(kube, groups, service, ca_pem)
    for tries_left in reversed(range(_TRIES)):
        try:
            _register(kube, groups, service, ca_pem)
            break
        except ApiError as error:
            # Usually the API server wrote the status meanwhile; it may also be another's by now: look again.
            if error.code != 409 or not tries_left:
                raise
    return first


def _register(kube: Kube, groups: Sequence[str], service: Service, ca_pem: bytes) -> None:
    found = {group: _get(kube, group) for group in groups}
    compared = [compare(group, obj, service, ca_pem) for group, obj in found.items()]
    if others := [registration.message for registration in compared if registration.owner is Owner.ANOTHER]:
        raise OwnedByAnother("; ".join(others))
    for registration in compared:
        obj = found[registration.group]
        if obj is None:
            kube.create(_API_SERVICES.path(), api_service(registration.group, service, ca_pem))
        elif not registration.current:
            # With the version that was read: the patch fails if it was changed meanwhile.
            metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            body = {"metadata": metadata, "spec": _endpoint(service, ca_pem)}
            kube.patch(_API_SERVICES.path(name=_name(registration.group)), body)


def api_service(group: str, service: Service, ca_pem: bytes) -> Json:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": _name(group), "labels": {"app.kubernetes.io/part-of": "surgekit"}},
        "spec": {
            "group": group,
            "version": VERSIONS[group],
            # Low, as for other adapters: `kubectl get` must not prefer these resources.
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            **_endpoint(service, ca_pem),
        },
    }


def _endpoint(service: Service, ca_pem: bytes) -> Json:
    return {
        "service": {"namespace": service.namespace, "name": service.name, "port": service.port},
        "caBundle": b64encode(ca_pem).decode(),
        "insecureSkipTLSVerify": False,
    }


def _get(kube: Kube, group: str) -> Json | None:
    try:
        return kube.get(_API_SERVICES.path(name=_name(group)))
    except ApiError as error:
        if error.code == 404:
            return None
        raise


def _name(group: str) -> str:
    return f"{VERSIONS[group]}.{group}"
