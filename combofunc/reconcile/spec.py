"""Reads a ComboFunc object. The CRD's schema refuses most errors; the others are refused here. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from combofunc.labels import FUNCTION_LABEL, MAX_CONCURRENCY, SIZE_LABEL
from combofunc.planner.model import Size
from combofunc.pods.pod_template import read_template, sized_hash
from combofunc.pods.spec_fields import Fields, SpecError, fields_of
from surgekit.kube.api_path import Resource
from surgekit.process.modes import Mode

__all__ = [
    "COMBO_FUNCS", "MAX_SIZES", "MAX_TARGET", "PATH", "Collector", "ComboFunc", "SpecError", "TargetFrom",
    "read",
]  # fmt: skip

Json = dict[str, Any]
COMBO_FUNCS = Resource("surgekit.dev/v1alpha1", "combofuncs")
PATH = COMBO_FUNCS.path()
# The CRD's bounds. A larger target is a mistake: Kubernetes supports 150,000 pods.
MAX_SIZES, MAX_TARGET = 64, 100_000


class TargetFrom(StrEnum):
    """The owner of the target."""

    SPEC = "Spec"
    COLLECTOR = "Collector"


@dataclass(frozen=True, slots=True)
class Collector:
    query: str | None = None  # PromQL; None: the load balancer's metrics
    window_s: float = 60.0
    headroom: float = 1.0


@dataclass(frozen=True, slots=True)
class ComboFunc:
    """Exactly one of `replicas`, `target` and the collector sets the target."""

    namespace: str
    name: str
    uid: str
    generation: int
    template: Json
    template_hash: str  # without cpu and memory of the sized container
    container: str  # name of the sized container
    sizes: tuple[Size, ...]
    replicas: Mapping[str, int] | None  # fixed number for each size (fig. 10a)
    target: int | None  # None with `replicas` or a collector
    target_from: TargetFrom
    collector: Collector
    ignored_target: int | None  # set in the spec although the collector owns the target
    in_place: bool
    price_weight: float | None  # None: the controller's setting
    drain_s: float
    keep_warm_s: float  # how long containers stay after the target fell
    mode: Mode
    paused: bool

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def status_path(self) -> str:
        return COMBO_FUNCS.path(self.namespace, self.name, "status")

    @property
    def selector(self) -> str:
        """Selects its pods, for `scale` and lists."""
        return f"{FUNCTION_LABEL}={self.name}"


def read(obj: Json) -> ComboFunc:
    """Raises SpecError that names every wrong field."""
    metadata = obj["metadata"]
    with fields_of(obj) as spec:
        template, names = read_template(spec, (FUNCTION_LABEL, SIZE_LABEL))
        container = spec.text("container", names[0] if names else "-")
        if names and container not in names:
            spec.wrong("container", f"must be one of the template's containers ({', '.join(names)})")
        sizes, replicas = _sizes(spec)
        target_from = spec.word("targetFrom", TargetFrom, TargetFrom.SPEC)
        target = spec.whole("targetConcurrency", 0, MAX_TARGET) if "targetConcurrency" in spec else None
        _one_owner(spec, replicas, target, target_from)
        collected = target_from is TargetFrom.COLLECTOR
        return ComboFunc(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata.get("uid", ""),
            generation=metadata.get("generation", 0),
            template=template,
            template_hash="" if spec.problems else sized_hash(template, container),
            container=container,
            sizes=sizes,
            replicas=replicas,
            target=None if collected else target,
            target_from=target_from,
            collector=_collector(spec.part("collector")),
            ignored_target=target if collected else None,
            in_place=spec.flag("inPlace", True),
            price_weight=spec.number("priceWeight", 0, 1000) if "priceWeight" in spec else None,
            drain_s=spec.duration_s("drain", 0, 3600, "30s"),
            keep_warm_s=spec.duration_s("keepWarm", 0, 3600, "5m"),
            mode=_mode(spec),
            paused=spec.flag("paused", False),
        )


def _sizes(spec: Fields) -> tuple[tuple[Size, ...], Mapping[str, int] | None]:
    sizes: list[Size] = []
    replicas: dict[str, int] = {}
    for size in spec.parts("sizes", MAX_SIZES):
        name = size.name("name")
        if name in (s.name for s in sizes):
            size.wrong("name", "must differ from the sizes before")
        concurrency = size.whole("concurrency", 1, MAX_CONCURRENCY)
        sizes.append(Size(name, size.cpu_millicores("cpu"), size.memory_bytes("memory"), concurrency))
        if "replicas" in size:
            replicas[name] = size.whole("replicas", 0, MAX_TARGET)
    if replicas and len(replicas) < len(sizes):
        spec.problems.append("spec.sizes: set replicas for every size (0 for none), or for none")
    if sum(s.concurrency * replicas.get(s.name, 0) for s in sizes) > MAX_TARGET:
        spec.problems.append(
            f"spec.sizes: the sum of replicas times concurrency must be at most {MAX_TARGET}"
        )
    return tuple(sizes), replicas or None


def _one_owner(
    spec: Fields, replicas: Mapping[str, int] | None, target: int | None, target_from: TargetFrom
) -> None:
    if replicas and target is not None:
        spec.wrong("targetConcurrency", "must not be set together with the sizes' replicas")
    if replicas and target_from is TargetFrom.COLLECTOR:
        spec.wrong("targetFrom", "must not be Collector together with the sizes' replicas")
    if not replicas and target is None and target_from is TargetFrom.SPEC:
        spec.wrong(
            "targetConcurrency", "must be set, or use targetFrom: Collector, or replicas for every size"
        )


def _collector(fields: Fields) -> Collector:
    return Collector(
        fields.text("query") if "query" in fields else None,
        fields.duration_s("window", 1, 3600, "60s"),
        fields.number("headroom", 1, 10, 1),
    )


def _mode(spec: Fields) -> Mode:
    mode = spec.word("mode", Mode, Mode.ENFORCE)
    if mode is Mode.OFF:
        spec.wrong("mode", "must be shadow or enforce (paused: true stops it)")
    return mode
