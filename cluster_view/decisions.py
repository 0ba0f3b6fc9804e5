"""Read the decisions that are told by NodePlans, by Events and by the extender."""

from __future__ import annotations

from collections import Counter
from typing import Any

from cluster_model.placement_words import sentences
from cluster_view.facts import PlanFacts, SpeedFacts, Told
from cluster_view.model import ExplainedNode, Explanation, Reference
from cluster_view.status_values import conditions, mapping, number, records, whole
from cluster_view.text import at_s, iso, plain

__all__ = ["explanation", "placement_told", "placement_why", "read_event", "read_plan", "speed_told"]

Json = dict[str, Any]
_REPORTERS = {
    "surgekit.dev/extender": "scheduler_extender",
    "surgekit.dev/probe": "node_speed_probe",
    "surgekit.dev/combofunc": "combofunc",
    "surgekit.dev/balancer": "function_gateway",
    "surgekit.dev/kneescale": "hpa_replacement",
    "surgekit.dev/adapter": "hpa_replacement",
    "surgekit.dev/node-planner": "cluster_autoscaler_hook",
    "surgekit.dev/limit-allocator": "limit_allocator",
    "surgekit.dev/burst-controller": "burst_plane",
}
# Their statuses say these, with the reasons.
_TOLD_BY_STATUS = {"KneePolicy": ("Rescaled",), "ComboFunc": ("Planned",)}
_MOST_NODES, _MOST_KINDS = 1000, 3
_DOLLARS = "USD"  # other currencies are not converted


def read_plan(obj: Json) -> PlanFacts:
    name = plain(obj["metadata"]["name"])
    status = mapping(obj.get("status"))
    nodes = records(status.get("nodes"))[:_MOST_NODES]
    plan = plain(status.get("plan"))
    sign = "$" if plain(status.get("currency")) == _DOLLARS else ""
    examples = {plain(k.get("id")): plain(k.get("example")) for k in records(status.get("kinds"))}
    price_of_class, why = {}, {}
    for node in nodes:
        price = number(node.get("pricePerHour"))
        if price and sign:
            price_of_class[plain(node.get("instanceClass"))] = price
        why[plain(node.get("claim"))] = f"rented for {_pods_of(node, examples)} (plan {plan})"
    return PlanFacts(name, price_of_class, why, _plan_told(name, status, nodes, sign))


def _pods_of(node: Json, examples: dict[str, str]) -> str:
    counts = [(plain(kind), n) for kind, of in mapping(node.get("pods")).items() if (n := whole(of))]
    named = ", ".join(f"{n} like {examples.get(kind) or kind}" for kind, n in counts[:_MOST_KINDS])
    return f"{sum(n for _, n in counts)} pods: {named}" if counts else "no pod any more"


def _plan_told(name: str, status: Json, nodes: list[Json], sign: str) -> Told | None:
    mode, phase, plan = (plain(status.get(key)) for key in ("mode", "phase", "plan"))
    served = next((c for c in conditions(status) if c["type"] == "Served"), None)
    if nodes and plan:
        classes = Counter(plain(node.get("instanceClass")) for node in nodes)
        which = ", ".join(f"{n} x {of}" for of, n in classes.most_common(_MOST_KINDS))
        pods = sum(whole(n) or 0 for node in nodes for n in mapping(node.get("pods")).values())
        cost, bound = number(status.get("costPerHour")), number(status.get("lowerBoundPerHour"))
        verb = "would rent" if mode == "shadow" else "rents"
        sentence = f"{verb} {len(nodes)} nodes for {pods} pods: {which}"
        if cost is not None:
            sentence += f", at {sign}{cost:.4f} an hour"
        if bound is not None:
            sentence += f"; no choice costs less than {sign}{bound:.4f}"
    elif served and served["message"]:
        sentence = served["message"]
    else:
        return None
    failed = f"; {served['message']}" if served and served["status"] == "False" and nodes else ""
    mark = f"{phase} {plan} {served['reason'] if served else ''}"
    about: Reference = {"kind": "NodePlan", "namespace": "", "name": name}
    at = at_s(status.get("observedTime"))
    return Told(mark, "cluster_autoscaler_hook", about, mode, plain(sentence + failed), at)


def read_event(obj: Json) -> Told | None:
    """None unless one of our parts says that it posted the Event."""
    part = _REPORTERS.get(plain(obj.get("reportingController")))
    reason, regarding = plain(obj.get("reason")), obj.get("regarding")
    if part is None or not isinstance(regarding, dict):
        return None
    about: Reference = {
        "kind": plain(regarding.get("kind")),
        "namespace": plain(regarding.get("namespace")),
        "name": plain(regarding.get("name")),
    }
    if reason in _TOLD_BY_STATUS.get(about["kind"], ()):
        return None
    at = at_s(obj.get("eventTime")) or at_s(obj["metadata"].get("creationTimestamp"))
    return Told(str(obj["metadata"]["uid"]), part, about, "", plain(f"{reason}: {obj.get('note')}"), at)


def speed_told(before: SpeedFacts | None, after: SpeedFacts) -> Told | None:
    """Told when a node is measured first, and when its speed changes much."""
    if not after.measured or before is None:
        return None
    if before.measured and 0.75 < after.creation_s / before.creation_s < 1.33:
        return None
    was = f"before {before.creation_s:.2g} s" if before.measured else "the first that was measured"
    sentence = f"creates a container in {after.creation_s:.2g} s ({after.samples} samples), {was}"
    about: Reference = {"kind": "Node", "namespace": "", "name": after.node}
    return Told("", "node_speed_probe", about, "", plain(sentence), after.measured_s)


def placement_told(said: Json) -> Told:
    """The extender's decision about one pod; raises if it is not what the extender answers."""
    pod, mode = said["pod"], plain(said["mode"])
    about: Reference = {"kind": "Pod", "namespace": plain(pod["namespace"]), "name": plain(pod["name"])}
    sentence = "; ".join(placement_why(said))
    return Told("", "scheduler_extender", about, mode, plain(sentence), float(said["decided_at"]))


def placement_why(said: Json) -> list[str]:
    return [plain(sentence) for sentence in sentences(said)]


def explanation(said: Json) -> Explanation:
    """The extender's answer, as the page draws it."""
    candidates = said["candidates"]
    best = candidates[0]["cost"] if candidates else 0.0
    nodes: list[ExplainedNode] = [
        {
            "name": plain(c["node"]),
            "rank": rank,
            "score": c["score"],
            "cost": c["cost"],
            "terms": _terms(c, float(said["pod"]["concurrency"])),
            "lost_by": c["cost"] - best,
        }
        for rank, c in enumerate(candidates, 1)
    ]
    return {
        "decided_at": iso(said["decided_at"]),
        "mode": plain(said["mode"]),
        "reasons": [*placement_why(said), *map(plain, said["reasons"])],
        "nodes": nodes,
    }


def _terms(candidate: Json, concurrency: float) -> dict[str, float]:
    """What the cost is made of: (S_np + lambda * B_np) / Q_p, eq. (11), with S_np in three parts."""
    pull_s = candidate["image_pull_s"]
    creation_s = candidate["scaling_s"] - pull_s
    alone_s = min(candidate["tau_create_s"], creation_s)
    room = candidate["cost"] - candidate["scaling_s"] / concurrency
    return {
        "creation alone": alone_s / concurrency,
        "containers beside it": (creation_s - alone_s) / concurrency,
        "image pull": pull_s / concurrency,
        "price of the room": room,
    }
