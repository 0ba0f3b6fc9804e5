"""Read ComboFuncs, KneePolicies, BurstFunctions and DistributedContainers, and the last decision of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cluster_view.facts import FunctionFacts, Told, Workload
from cluster_view.model import CurvePoint, Reference, Totals, Tracks
from cluster_view.status_values import conditions, mapping, number, quantity, records, strings, whole
from cluster_view.text import at_s, plain
from surgekit.kube import label_selector
from surgekit.kube.numbers import decimal

__all__ = ["READERS"]

Json = dict[str, Any]
_MOST_POINTS, _MOST_NAMED = 100, 4
# Limits change ten times a second; one sentence in this time says why.
_LIMITS_EVERY_S = 10.0


def _combo_func(obj: Json) -> FunctionFacts:
    spec, status, about = _parts(obj, "ComboFunc")
    sizes, plan = records(status.get("sizes")), mapping(status.get("plan"))
    mode = plain(spec.get("mode") or "enforce")
    told = None
    if at := plan.get("at"):
        told = Told(plain(at), "combofunc", about, mode, plain(_plan_sentence(plan)), at_s(at))
    return FunctionFacts(
        key=_key(about),
        **about,
        mode=mode,
        replicas={"ready": _total(sizes, "ready"), "desired": _total(sizes, "planned")},
        workload=(about["namespace"], "ComboFunc", about["name"]),
        conditions=conditions(status),
        told=told,
    )


def _plan_sentence(plan: Json) -> str:
    created = records(plan.get("created"))
    removed = plan.get("removed")
    counts = [whole(c.get("count")) or 0 for c in created]
    first = zip(created[:_MOST_NAMED], counts, strict=False)
    places = [f"{count} x {c.get('size')} on {c.get('node')}" for c, count in first]
    where = f" ({', '.join(places)}{', ...' if len(created) > _MOST_NAMED else ''})" if places else ""
    because = next((f"; {reason}" for reason in strings(plan.get("reasons"))), "")
    return (
        f"for {whole(plan.get('target')) or 0} requests at a time: keep {whole(plan.get('kept')) or 0}, "
        f"resize {len(records(plan.get('resized')))} in place, create {sum(counts)}{where}, "
        f"remove {len(removed) if isinstance(removed, list) else 0} containers{because}"
    )


def _knee_policy(obj: Json) -> FunctionFacts:
    spec, status, about = _parts(obj, "KneePolicy")
    mode = plain(spec.get("mode") or "shadow")
    there, wanted = whole(status.get("replicas")), whole(status.get("targetReplicas"))
    last, told = mapping(status.get("lastDecision")), None
    if last:
        reason = plain(last.get("reason"))
        sentence = plain(f"{_or_unknown(there)} replicas, {_or_unknown(wanted)} wanted: {reason}")
        more = wanted - there if mode == "shadow" and wanted is not None and there is not None else None
        # It decides in each interval, mostly the same with other numbers in its reason.
        mark = f"{mode} {wanted} {[c['reason'] for c in conditions(status)]}"
        told = Told(mark, "hpa_replacement", about, mode, sentence, at_s(last.get("at")), more)
    knees = [k for k in records(status.get("knownKnees")) if not k.get("inferred")]
    ready = whole(mapping(status.get("lastSample")).get("readyReplicas"))
    return FunctionFacts(
        key=_key(about),
        **about,
        mode=mode,
        replicas={"ready": ready, "desired": wanted},
        workload=_target(about["namespace"], spec.get("scaleTargetRef")),
        knee=whole(knees[-1].get("replicas")) if knees else None,
        conditions=conditions(status),
        curve=_curve(status),
        told=told,
    )


def _curve(status: Json) -> tuple[CurvePoint, ...] | None:
    """What was measured before this search, and in it. A later point replaces an earlier one."""
    search = mapping(status.get("search"))
    lists = (mapping(status.get("scaling")).get("evidence"), search.get("evidence"), search.get("points"))
    scores: dict[int, float] = {}
    for points in lists:
        for point in points[-_MOST_POINTS:] if isinstance(points, list) else ():
            if isinstance(point, list) and len(point) >= 2:
                replicas, score = whole(point[0]), number(point[1])
                if replicas is not None and score is not None:
                    scores[replicas] = score
    return tuple({"replicas": replicas, "score": scores[replicas]} for replicas in sorted(scores)) or None


def _burst_function(obj: Json) -> FunctionFacts:
    spec, status, about = _parts(obj, "BurstFunction")
    regular, emergency = mapping(status.get("regular")), mapping(status.get("emergency"))
    mode = plain(status.get("mode") or spec.get("mode") or "shadow")
    wanted, told = whole(regular.get("wanted")), None
    if wanted is not None:
        sentence = plain(f"{wanted} regular instances wanted: {plain(regular.get('reason'))}")
        mark = f"{mode} {wanted}"  # the reason has numbers that change with each status
        told = Told(mark, "burst_plane", about, mode, sentence, at_s(status.get("observedTime")))
    in_regular, in_emergency = (decimal(of.get("inFlight"), 0.0, 1e9) for of in (regular, emergency))
    tracks: Tracks | None = None
    if in_regular is not None and in_emergency is not None:
        tracks = {"regular": in_regular, "emergency": in_emergency}
    return FunctionFacts(
        key=_key(about),
        **about,
        mode=mode,
        replicas={"ready": whole(regular.get("ready")), "desired": wanted},
        workload=_target(about["namespace"], spec.get("targetRef")),
        tracks=tracks,
        conditions=conditions(status),
        told=told,
    )


def _distributed_container(obj: Json) -> FunctionFacts:
    spec, status, about = _parts(obj, "DistributedContainer")
    mode = plain(status.get("mode") or spec.get("mode") or "shadow")
    limit = mapping(status.get("limit"))
    cpu, memory = quantity(limit.get("cpu")), quantity(limit.get("memory"))
    totals: Totals | None = None if cpu is None or memory is None else {"cpu": cpu, "memory": memory}
    pods = whole(status.get("pods"))
    return FunctionFacts(
        key=_key(about),
        **about,
        mode=mode,
        replicas={"ready": pods, "desired": pods},
        workload=None,
        selector=label_selector.read("spec.selector", spec.get("selector")),
        limits=totals,
        conditions=conditions(status),
        told=_limit_change(status, about, mode),
    )


def _limit_change(status: Json, about: Reference, mode: str) -> Told | None:
    """Of the container whose limit changed last."""
    changed = [(at, c) for c in records(status.get("containers")) if (at := at_s(c.get("changedTime")))]
    if not changed:
        return None
    at, last = max(changed, key=lambda pair: pair[0])
    cpu, memory = whole(last.get("cpuMillicores")), whole(last.get("memoryMiB"))
    sentence = (
        f"{last.get('pod')}/{last.get('container')} {'gets' if mode == 'enforce' else 'would get'} "
        f"{_or_unknown(cpu)}m CPU and {_or_unknown(memory)}Mi: {last.get('reason')}"
    )
    return Told(str(at // _LIMITS_EVERY_S), "limit_allocator", about, mode, plain(sentence), at)


# By kind. They raise only if the object's metadata, or what says which pods are its, makes no sense.
READERS: Mapping[str, Callable[[Json], FunctionFacts]] = {
    "ComboFunc": _combo_func,
    "KneePolicy": _knee_policy,
    "BurstFunction": _burst_function,
    "DistributedContainer": _distributed_container,
}


def _parts(obj: Json, kind: str) -> tuple[Json, Json, Reference]:
    meta = obj["metadata"]
    about: Reference = {"kind": kind, "namespace": str(meta["namespace"]), "name": str(meta["name"])}
    return mapping(obj.get("spec")), mapping(obj.get("status")), about


def _key(about: Reference) -> str:
    return f"{about['kind']}/{about['namespace']}/{about['name']}"


def _target(namespace: str, reference: object) -> Workload:
    of = mapping(reference)
    return namespace, plain(of.get("kind")), plain(of.get("name"))


def _total(sizes: Iterable[Json], key: str) -> int | None:
    counts = [count for size in sizes if (count := whole(size.get(key))) is not None]
    return sum(counts) if counts else None


def _or_unknown(value: int | None) -> str:
    return "?" if value is None else str(value)
