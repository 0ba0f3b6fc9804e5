"""Our two APIServices: looked at first, made where there is none, never taken from another adapter.

A cluster has one APIService per group and version. KEDA and prometheus-adapter want the same ones;
overwriting theirs would take the metrics from every HPA that lives on them.
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

__all__ = ["AnothersApi", "Owner", "Service", "Standing", "api_service", "look", "register", "standings"]

Json = dict[str, Any]
_API_SERVICES = Resource("apiregistration.k8s.io/v1", "apiservices")
_TRIES = 5
_WITHOUT = {
    EXTERNAL: "use custom metrics (an Object metric of the KneePolicy)",
    CUSTOM: "use external metrics",
}


@dataclass(frozen=True)
class Service:
    """Where the adapter is reached."""

    namespace: str = "surgekit-system"
    name: str = "surgekit-adapter"
    port: int = 443


class Owner(StrEnum):
    NOBODY = "nobody"
    OURS = "ours"
    ANOTHER = "another"


@dataclass(frozen=True)
class Standing:
    """Whose an APIService is, and what that means."""

    group: str
    owner: Owner
    current: bool  # ours, with today's CA and port
    said: str


class AnothersApi(UserError):
    """An APIService belongs to another adapter; the message says whose it is and what to do."""


def look(group: str, found: Json | None, service: Service, ca_pem: bytes | None) -> Standing:
    """`found` is the APIService of `group` as the API server has it; without `ca_pem` any CA does. Pure."""
    name = _name(group)
    if found is None:
        return Standing(group, Owner.NOBODY, False, f"APIService {name} is not there")
    there = found["spec"].get("service")
    if there is None or (there["namespace"], there["name"]) != (service.namespace, service.name):
        whose = f"service {there['namespace']}/{there['name']}" if there else "the API server itself"
        return Standing(
            group,
            Owner.ANOTHER,
            False,
            f"APIService {name} belongs to {whose} and is left alone. Either {_WITHOUT[group]}, which is "
            f"another APIService; or set `via: scale` in the KneePolicies, which needs none; or remove "
            f"the other adapter and its APIService first",
        )
    spec = found["spec"]
    expected = _where(service, ca_pem or b"")
    if ca_pem is None:
        del expected["caBundle"]
    current = all(spec.get(key, False) == value for key, value in expected.items())
    data = "" if current else ", with another port or CA"
    return Standing(group, Owner.OURS, current, f"APIService {name} is ours{data}")


def standings(kube: Kube, groups: Sequence[str], service: Service, ca_pem: bytes | None) -> list[Standing]:
    """Whose they are; writes nothing."""
    return [look(group, _get(kube, group), service, ca_pem) for group in groups]


def register(kube: Kube, groups: Sequence[str], service: Service, ca_pem: bytes) -> list[Standing]:
    """Make or renew the APIServices of `groups`; what was found. Writes nothing if any is another's."""
    first: list[Standing] = standings(kube, groups, service, ca_pem)
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
    looked = [look(group, obj, service, ca_pem) for group, obj in found.items()]
    if others := [standing.said for standing in looked if standing.owner is Owner.ANOTHER]:
        raise AnothersApi("; ".join(others))
    for standing in looked:
        obj = found[standing.group]
        if obj is None:
            kube.create(_API_SERVICES.path(), api_service(standing.group, service, ca_pem))
        elif not standing.current:
            # With the version that was looked at: should somebody take it over meanwhile, this fails.
            metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            body = {"metadata": metadata, "spec": _where(service, ca_pem)}
            kube.patch(_API_SERVICES.path(name=_name(standing.group)), body)


def api_service(group: str, service: Service, ca_pem: bytes) -> Json:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": _name(group), "labels": {"app.kubernetes.io/part-of": "surgekit"}},
        "spec": {
            "group": group,
            "version": VERSIONS[group],
            # Low, as other adapters have it: nobody's `kubectl get` is to find these before its own.
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            **_where(service, ca_pem),
        },
    }


def _where(service: Service, ca_pem: bytes) -> Json:
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
