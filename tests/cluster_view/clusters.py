"""Clusters to look at: a small one with everything in it, a large one, and one whose names are hostile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from cluster_view.model import (
    Change,
    CurvePoint,
    Decision,
    Difference,
    Explanation,
    Function,
    Head,
    Node,
    Pod,
    PodPhase,
    Snapshot,
)

__all__ = ["HOSTILE", "change_of", "hostile", "large", "made_explanation", "made_node", "made_pod", "small"]

GIB = 2.0**30
START = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
HOSTILE = '<img src=x onerror="document.title=1">\u202e&amp;"\'`${1}javascript:alert(1)'

_PHASES: tuple[PodPhase, ...] = ("Ready", "Creating", "Terminating", "Failed")
_TYPES = (("m7.large", 2, 8, 0.1008), ("m7.xlarge", 4, 16, 0.2016), ("c7.2xlarge", 8, 16, 0.357))


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


def made_node(name: str, kind: int = 1, **changed: object) -> Node:
    instance_type, cores, memory, price = _TYPES[kind]
    node: Node = {
        "name": name,
        "ready": True,
        "schedulable": True,
        "instance_type": instance_type,
        "zone": "eu-west-1a",
        "usd_per_hour": price,
        "creation_s": 0.8,
        "relative_speed": 1.0,
        "speed_age_s": 12.0,
        "cpu": {"allocatable": cores, "requested": 0.0},
        "memory": {"allocatable": memory * GIB, "requested": 0.0},
        "pods": 0,
        "creating": 0,
        "rented_by": "surgekit (FCMA)",
        "why": [f"{instance_type} was the cheapest way to place 14 waiting pods: ${price} an hour."],
    }
    node.update(changed)  # type: ignore[typeddict-item]  # a test names what it changes
    return node


def made_pod(key: str, node: str | None, phase: PodPhase = "Ready", **changed: object) -> Pod:
    pod: Pod = {
        "key": key,
        "node": node,
        "phase": phase,
        "cpu": 0.25,
        "memory": 0.5 * GIB,
        "function": None,
        "created_at": at(-30),
        "ready_after_s": 1.4 if phase == "Ready" else None,
        "why": [],
    }
    pod.update(changed)  # type: ignore[typeddict-item]  # a test names what it changes
    return pod


def made_function(key: str, **changed: object) -> Function:
    kind, namespace, name = key.split("/", 2)
    function: Function = {
        "key": key,
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "mode": "enforce",
        "replicas": {"ready": 6, "desired": 8},
        "sizes": [],
        "knee": None,
        "limits": None,
        "tracks": None,
        "conditions": [],
        "curve": None,
        "decisions": [],
    }
    function.update(changed)  # type: ignore[typeddict-item]  # a test names what it changes
    return function


def made_explanation(pod: str, nodes: list[str]) -> Explanation:
    rows = []
    for rank, name in enumerate(nodes, start=1):
        terms = {
            "creation": 0.6 + 0.22 * rank,
            "image pull": 0.5 * (rank % 3 == 0),
            "room": 0.4 - 0.02 * rank,
        }
        rows.append((sum(terms.values()), name, terms))
    rows.sort(key=lambda row: row[0])
    return {
        "decided_at": at(-31),
        "mode": "enforce",
        "reasons": [f"{rows[0][1]} would have {pod} running soonest."],
        "nodes": [
            {
                "name": name,
                "rank": rank,
                "score": 11 - rank,
                "cost": cost,
                "terms": terms,
                "lost_by": cost - rows[0][0],
            }
            for rank, (cost, name, terms) in enumerate(rows, start=1)
        ],
    }


def change_of(snapshot: Snapshot, seconds: float, **parts: object) -> Change:
    """Only what is named changes."""
    change: Change = {
        "at": at(seconds),
        "head": snapshot["head"],
        "nodes": {},
        "pods": {},
        "functions": {},
        "decisions": [],
    }
    change.update(parts)  # type: ignore[typeddict-item]  # a test names what it changes
    return change


def small(nodes: int = 18, pods: int = 150, seed: int = 7) -> Snapshot:
    snapshot = _filled(nodes, pods, Random(seed))
    functions = [
        made_function(
            "ComboFunc/shop/thumbnails",
            sizes=[
                {"cpu": 0.5, "memory": 0.5 * GIB, "count": 9},
                {"cpu": 1.0, "memory": GIB, "count": 4},
                {"cpu": 2.0, "memory": 1.5 * GIB, "count": 1},
            ],
            replicas={"ready": 11, "desired": 14},
            decisions=[
                {"at": at(-4), "sentence": "The target is 52: create 3 of 0.5 cores, resize 2 to 1 core."},
                {"at": at(-95), "sentence": "The target is 40: keep what runs."},
            ],
        ),
        made_function(
            "KneePolicy/shop/checkout",
            replicas={"ready": 9, "desired": 9},
            knee=9,
            curve=_curve(9),
            decisions=[
                {"at": at(-61), "sentence": "The knee is at 9: a tenth replica adds 0.4 % of throughput."}
            ],
            conditions=[
                {"type": "Ready", "status": "True", "reason": "KneeFound", "message": "after 7 samples"}
            ],
        ),
        made_function("BurstFunction/media/transcode", mode="shadow", tracks={"regular": 12, "emergency": 3}),
        made_function("DistributedContainer/media/search", limits={"cpu": 6.4, "memory": 9.5 * GIB}),
    ]
    snapshot["functions"] = {function["key"]: function for function in functions}
    for index, pod in enumerate(snapshot["pods"].values()):
        if pod["key"].startswith("shop/thumbnails"):
            pod["function"] = functions[index % 2]["key"]
    snapshot["decisions"] = _decisions(snapshot)
    return snapshot


def large(nodes: int = 1_000, pods: int = 10_000) -> Snapshot:
    return _filled(nodes, pods, Random(11))


def hostile() -> Snapshot:
    """Every text that a tenant could write is markup, quotes, and what else gets out of where it is shown."""
    snapshot = _filled(3, 4, Random(3))
    node = made_node(HOSTILE, instance_type=HOSTILE, zone=HOSTILE, rented_by=HOSTILE, why=[HOSTILE])
    key = f"{HOSTILE}/../../{HOSTILE}?a=b#c"
    function = made_function(
        f"{HOSTILE}/{HOSTILE}/{HOSTILE}",
        kind=HOSTILE,
        namespace=HOSTILE,
        name=HOSTILE,
        mode=HOSTILE,
        conditions=[{"type": HOSTILE, "status": HOSTILE, "reason": HOSTILE, "message": HOSTILE * 50}],
        decisions=[{"at": HOSTILE, "sentence": HOSTILE}],
        sizes=[{"cpu": -1.0, "memory": 0.0, "count": 3}],
        curve=[{"replicas": 0, "score": -1.0}],
    )
    pod = made_pod(key, HOSTILE, why=[HOSTILE], function=function["key"], created_at=HOSTILE)
    shared = made_pod("__proto__/constructor", HOSTILE, "Creating")
    snapshot["cluster"] = HOSTILE
    snapshot["nodes"] |= {
        HOSTILE: node,
        "__proto__": made_node("__proto__", cpu={"allocatable": 0.0, "requested": 9.0}),
    }
    snapshot["pods"] |= {key: pod, shared["key"]: shared}
    snapshot["functions"] = {function["key"]: function}
    snapshot["decisions"] = [
        {
            "at": HOSTILE,
            "part": HOSTILE,
            "object": {"kind": HOSTILE, "namespace": HOSTILE, "name": HOSTILE},
            "mode": HOSTILE,
            "sentence": HOSTILE * 20,
            "would_differ": {"seconds": 1e308, "usd_per_hour": -0.0},
        }
    ]
    return snapshot


def _filled(nodes: int, pods: int, random: Random) -> Snapshot:
    rows = {}
    for number in range(nodes):
        speed = round(random.choice([0.45, 0.7, 0.9, 1.0, 1.0, 1.1, 1.4, 1.8]), 2)
        node = made_node(
            f"node-{number}",
            random.randrange(len(_TYPES)),
            relative_speed=speed,
            creation_s=round(0.8 / speed, 2),
        )
        rows[node["name"]] = node
    names = list(rows)
    placed = {}
    functions = ("shop/thumbnails", "shop/checkout", "media/transcode", "media/search")
    for number in range(pods):
        node = rows[random.choice(names)]
        phase = random.choices(_PHASES, [90, 7, 2, 1])[0]
        cpu, memory = random.choice([(0.1, 0.25), (0.25, 0.5), (0.5, 0.5), (0.25, 1.5), (1.0, 1.0)])
        if node["cpu"]["requested"] + cpu > node["cpu"]["allocatable"]:
            cpu, memory = 0.01, 0.05
        pod = made_pod(
            f"{random.choice(functions)}-{number:05}",
            node["name"],
            phase,
            cpu=cpu,
            memory=memory * GIB,
            created_at=at(-random.random() * (4 if phase == "Creating" else 600)),
            why=[f"{node['name']} would have it running soonest: 1.1 s, with one other pod created there."],
        )
        placed[pod["key"]] = pod
        node["cpu"]["requested"] += cpu
        node["memory"]["requested"] += memory * GIB
        node["pods"] += 1
        node["creating"] += phase == "Creating"
    waiting = made_pod(
        "shop/report-00001", None, "Pending", created_at=at(-9), why=["No node has 8 cores free."]
    )
    placed[waiting["key"]] = waiting
    head: Head = {
        "nodes": nodes,
        "pods": len(placed),
        "usd_per_hour": sum(node["usd_per_hour"] or 0 for node in rows.values()),
        "requests_per_s": 1_284.0,
        "cold_starts_last_minute": None,
    }
    return {
        "at": at(0),
        "cluster": "fixture",
        "head": head,
        "nodes": rows,
        "pods": placed,
        "functions": {},
        "decisions": [],
    }


def _curve(knee: int) -> list[CurvePoint]:
    return [
        {"replicas": n, "score": round(100 * min(n, knee + (n - knee) * 0.12) / knee, 1)}
        for n in (1, 4, 7, 9, 11, 16)
    ]


def _decisions(snapshot: Snapshot) -> list[Decision]:
    made: list[tuple[str, str, str, str, str, Difference | None]] = [
        (
            "combofunc",
            "ComboFunc",
            "shop/thumbnails",
            "enforce",
            "The target is 52: create 3 of 0.5 cores, resize 2 to 1 core.",
            None,
        ),
        (
            "scheduler_extender",
            "Pod",
            next(key for key in snapshot["pods"] if key.startswith("shop")),
            "shadow",
            "node-4 would have been chosen; the scheduler chose node-11.",
            {"seconds": -1.7, "usd_per_hour": None},
        ),
        (
            "cluster_autoscaler_hook",
            "Node",
            "/node-3",
            "shadow",
            "Two m7.large would have been rented; one c7.2xlarge was.",
            {"seconds": None, "usd_per_hour": -0.155},
        ),
        (
            "hpa_replacement",
            "KneePolicy",
            "shop/checkout",
            "enforce",
            "The knee is at 9: a tenth replica adds 0.4 % of throughput.",
            None,
        ),
        (
            "burst_plane",
            "BurstFunction",
            "media/transcode",
            "shadow",
            "3 requests would have gone to emergency instances; they waited in the queue.",
            {"seconds": -0.84, "usd_per_hour": 0.012},
        ),
        (
            "limit_allocator",
            "DistributedContainer",
            "media/search",
            "enforce",
            "CPU limit of 4 containers raised to 1.6 cores each.",
            None,
        ),
    ]
    decisions: list[Decision] = []
    for number, (part, kind, key, mode, sentence, difference) in enumerate(made * 3):
        namespace, name = key.split("/", 1)
        decisions.append(
            {
                "at": at(-2 - 11 * number),
                "part": part,
                "object": {"kind": kind, "namespace": namespace, "name": name},
                "mode": mode,
                "sentence": sentence,
                "would_differ": difference,
            }
        )
    return decisions
