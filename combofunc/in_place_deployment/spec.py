"""Reads an InPlaceDeployment object. The CRD's schema refuses most errors; the others are refused here."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from combofunc.labels import DEPLOYMENT_LABEL
from combofunc.pods.pod_template import read_template, resizable_hash
from combofunc.pods.spec_fields import Fields, SpecError, fields_of
from surgekit.kube.api_path import Resource

__all__ = [
    "IN_PLACE_DEPLOYMENTS",
    "MAX_REPLICAS",
    "PATH",
    "InPlaceDeployment",
    "SpecError",
    "read",
]

Json = dict[str, Any]
IN_PLACE_DEPLOYMENTS = Resource("surgekit.dev/v1alpha1", "inplacedeployments")
PATH = IN_PLACE_DEPLOYMENTS.path()
MAX_REPLICAS = 100_000
_PODS = re.compile(r"(\d{1,6})|(\d{1,2}|100)%", re.ASCII)  # the CRD's pattern


@dataclass(frozen=True, slots=True)
class InPlaceDeployment:
    namespace: str
    name: str
    uid: str
    generation: int
    replicas: int
    selector: str  # selects its pods, for `scale`
    template: Json
    template_hash: str  # equal for templates between which pods can be resized in place
    max_unavailable: int  # pods; at least one of the two is above 0 while there are replicas
    max_surge: int
    drain_s: float
    paused: bool

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def status_path(self) -> str:
        return IN_PLACE_DEPLOYMENTS.path(self.namespace, self.name, "status")


def read(obj: Json) -> InPlaceDeployment:
    """Raises SpecError that names every wrong field."""
    metadata = obj["metadata"]
    with fields_of(obj) as spec:
        template, _ = read_template(spec, (DEPLOYMENT_LABEL,))
        replicas = spec.whole("replicas", 0, MAX_REPLICAS, 1)
        max_unavailable, max_surge = _rolling(spec.part("strategy").part("rollingUpdate"), replicas)
        return InPlaceDeployment(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata.get("uid", ""),
            generation=metadata.get("generation", 0),
            replicas=replicas,
            selector=_selector(spec) or f"{DEPLOYMENT_LABEL}={metadata['name']}",
            template=template,
            template_hash="" if spec.problems else resizable_hash(template),
            max_unavailable=max_unavailable,
            max_surge=max_surge,
            drain_s=spec.duration_s("drain", 0, 3600, "30s"),
            paused=spec.flag("paused", False),
        )


def _selector(spec: Fields) -> str:
    """Empty if the spec has none."""
    if "selector" not in spec:
        return ""
    selector = spec.part("selector")
    wanted = selector.part("matchLabels").of
    labels = spec.part("template").part("metadata").part("labels").of
    if not wanted:
        selector.wrong("matchLabels", "must have a label")
    elif not wanted.items() <= labels.items():
        selector.wrong("matchLabels", "must be among template.metadata.labels")
    return ",".join(f"{key}={value}" for key, value in sorted(wanted.items()))


def _rolling(rolling: Fields, replicas: int) -> tuple[int, int]:
    """(maxUnavailable, maxSurge) in pods. A share is rounded down and up, as for a Deployment."""
    unavailable, surge = (_pods(rolling, key) for key in ("maxUnavailable", "maxSurge"))
    if unavailable == surge == (0, False):
        rolling.wrong("maxUnavailable", "must not be 0 together with maxSurge")
    max_unavailable = math.floor(unavailable[0] * replicas / 100) if unavailable[1] else unavailable[0]
    max_surge = math.ceil(surge[0] * replicas / 100) if surge[1] else surge[0]
    # Both may round to 0 for few pods; then one may be unavailable, as for a Deployment.
    return (max_unavailable, max_surge) if max_unavailable or max_surge else (1, 0)


def _pods(rolling: Fields, key: str) -> tuple[int, bool]:
    """The number, and whether it is a percentage. 0 % is read as 0 pods."""
    value = rolling.of.get(key, "25%")
    found = _PODS.fullmatch(str(value)) if isinstance(value, int | str) else None
    if not found or isinstance(value, bool):
        rolling.wrong(key, "must be a number of pods such as 1 or a share such as 25%")
        return 1, False
    pods, percent = found.groups()
    return (int(pods), False) if pods else (int(percent), int(percent) > 0)
